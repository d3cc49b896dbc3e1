"""Is the fleet big enough? The answer through the service, on every store: from real samples, workers and limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from stories import teller
from windlass.admin import Admin
from windlass.admin.capacity import CapacityView
from windlass.client import Client
from windlass.clock import SECOND, ManualClock
from windlass.config import Settings
from windlass.core.alterations import PutQueue, SetPaused
from windlass.core.duties import SampleQueues
from windlass.core.sampling import MINUTE
from windlass.core.settle import Execution, Succeeded, settle
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Claim
from windlass.errors import InvalidInput
from windlass.records import WorkerInfo
from windlass.types import NewJob


class Shop:
    """A queue to which so many jobs come each minute, and a worker that ends so many of them, in two seconds each."""

    def __init__(self, driver: Driver) -> None:
        self.clock = ManualClock()
        self.client = Client("memory://", Settings(), driver=driver, clock=self.clock)
        self.admin = Admin(self.client)
        self.jobs = 0

    async def minute(self, *, come: int, end: int, queue: str = "mail", beat: bool = True) -> None:
        driver, now = self.client.driver, self.clock.now
        self.clock.advance(-now() % MINUTE)
        if come:
            names = [f"{queue}-{self.jobs + n}" for n in range(come)]
            await driver.enqueue([NewJob(id=name, type="t", queue=queue) for name in names], now=now())
            self.jobs += come
        wish = Claim(queues=(queue,), limit=end, lease_for=60 * SECOND, worker_id="w1", token=f"t{now()}")
        got = await driver.claim(wish, now=now()) if end else []
        began = now()
        self.clock.advance(2 * SECOND)
        changes = [settle(job, Succeeded(), Execution(now(), began, f"link-{job.id}")) for job in got]
        assert set(await driver.settle(changes, now=now())) <= {"applied"}
        self.clock.advance(58 * SECOND)
        assert await driver.maintain(SampleQueues(keep=7 * 86_400 * SECOND), epoch=None, now=now())
        if beat:
            await self.beat()

    async def beat(self, name: str = "w1", slots: int = 4) -> None:
        worker = WorkerInfo(
            id=name, hostname="h", pid=1, pool_size=slots, version="1", queues=("mail",), types=("t",), wakeups="poll",
            running=1, started_at=self.clock.now(),
        )  # fmt: skip
        await self.client.driver.beat(worker, now=self.clock.now())

    async def ask(self, queue: str = "mail", within: str = "10m") -> CapacityView:
        found = await self.admin.capacity(within)
        assert msgspec.json.encode(found)
        return next(one.capacity for one in found.queues if one.name == queue)


Story = Callable[[Shop], Awaitable[None]]


@pytest.fixture
def tell(any_driver: Callable[[], Driver]) -> Callable[[Story], None]:
    return teller(lambda: Shop(any_driver()))


def test_a_queue_that_grows_says_by_how_much_and_what_it_would_take(tell: Callable[[Story], None]) -> None:
    async def story(shop: Shop) -> None:
        for _ in range(5):
            await shop.minute(come=120, end=60)
        found = await shop.ask()
        assert (found.verdict, found.waiting, found.short) == ("grows", 300, 1.0)
        assert found.text == "does not drain: arrivals exceed what is finished by 1/s"
        assert (found.arrivals, found.steady, found.finished, found.service, found.proven) == (2.0, 2.0, 1.0, 1.0, True)
        assert found.run is not None
        assert 2 <= found.run < 5, "the bucket of two seconds"
        assert found.keep_up is not None
        assert found.within is not None
        assert (found.keep_up.workers, found.workers, found.slots) == (3, 1, 4.0)
        assert "to keep up: 3 workers" in found.needs
        assert "(1 there); to drain within 10 min: 3 workers" in found.needs
        assert found.rests_on == "5 samples, the last now; 300 runs"

    tell(story)


def test_a_bulk_drains_at_the_pace_that_was_seen(tell: Callable[[Story], None]) -> None:
    async def story(shop: Shop) -> None:
        await shop.minute(come=600, end=0)
        for _ in range(4):
            await shop.minute(come=0, end=60)
        found = await shop.ask()
        assert (found.verdict, found.drain, found.steady) == ("drains", 360.0, 0.0)
        assert found.text == "drains in 6 min"
        assert (await shop.ask(within="1m")).within.rate == 6.0  # type: ignore[union-attr]

    tell(story)


def test_it_is_said_when_nobody_knows_yet_or_nobody_comes(tell: Callable[[Story], None]) -> None:
    async def story(shop: Shop) -> None:
        await shop.minute(come=5, end=0)
        found = await shop.ask()
        assert (found.verdict, found.text) == ("unknown", "not enough history yet")
        assert found.rests_on == "1 sample of the last minutes; a worker that leads takes one each minute"
        for _ in range(3):
            await shop.minute(come=0, end=0)
        assert (await shop.ask()).text == "not enough history yet: nothing has finished in the last hour"
        await shop.client.driver.alter([SetPaused("mail", True)], now=shop.clock.now())
        assert (await shop.ask()).text == "does not drain: it is paused"
        await shop.client.driver.alter([SetPaused("mail", False)], now=shop.clock.now())
        shop.clock.advance(2 * MINUTE)
        assert (await shop.ask()).text == "does not drain: no living worker serves it"
        with pytest.raises(InvalidInput, match="within"):
            await shop.admin.capacity("0s")

    tell(story)


def test_runs_of_the_last_hour_tell_how_long_one_takes_when_none_ran_lately(tell: Callable[[Story], None]) -> None:
    async def story(shop: Shop) -> None:
        await shop.client.driver.alter([PutQueue("mail")], now=shop.clock.now())  # so it is sampled when idle
        await shop.minute(come=20, end=20)
        for _ in range(15):
            await shop.minute(come=0, end=0)
        await shop.client.driver.enqueue([NewJob(id="late", type="t", queue="mail")], now=shop.clock.now())
        found = await shop.ask()
        assert (found.verdict, found.runs, found.proven) == ("drains", 20, False)
        assert found.text.endswith("at best")

    tell(story)


def test_a_limit_of_the_queue_bounds_the_answer(tell: Callable[[Story], None]) -> None:
    async def story(shop: Shop) -> None:
        for _ in range(4):
            await shop.minute(come=120, end=60)
        await shop.admin.set_limit("queue:mail", rate="30/m")
        found = await shop.ask()
        assert (found.service, found.bound, found.limit) == (0.5, "limit", "queue:mail")
        assert "to keep up: more than the limit queue:mail allows" in found.needs

    tell(story)
