"""`app.hold`: a queue for oneself, as long as the block lasts."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from client.conftest import Place
from windlass import HoldLost, ResourceBusy, Windlass
from windlass.core.acting import By
from windlass.core.alterations import Acquire, AlterAnswer, Alteration, Grant, ReleaseHold
from windlass.core.changes import Ack
from windlass.core.queries import AllHolds
from windlass.drivers.values import Claim, JobQuery
from windlass.errors import InvalidInput, StoreUnreachable
from windlass.types import Hold, NewJob


@pytest.fixture
def app(place: Place) -> Windlass:
    app = place.app()
    app.queue("gpu")

    @app.task(queue="gpu")
    async def train(n: int) -> int:
        return n

    return app


async def holds(app: Windlass) -> list[Hold]:
    return await app.client.driver.read(AllHolds())


async def claim(app: Windlass, worker: str = "w") -> list[Any]:
    wish = Claim(queues=("gpu",), limit=10, lease_for=30_000_000, worker_id=worker, token=f"of {worker}")
    return await app.client.driver.claim(wish, now=app.client.now())


def test_nothing_starts_while_the_block_lasts(app: Windlass) -> None:
    async def main() -> None:
        job = await app.tasks["train"].enqueue(1)
        async with app.hold("gpu", by="api-7") as hold:
            [row] = await holds(app)
            assert (row.hold_id, row.by, row.status) == (hold.id, "api-7", "ACTIVE")
            assert row.granted_at == row.expires_at - 300_000_000 == app.client.now()
            assert (await app.tick()).claimed == 0
            assert not hold.lost
        assert [row.status for row in await holds(app)] == ["RELEASED"]
        assert (await app.tick()).claimed == 1
        assert await job.result(timeout=5) == 1

    asyncio.run(main())


def test_blocking_code_holds_a_queue_with_a_plain_with(app: Windlass) -> None:
    app.tasks["train"].enqueue_sync(1)
    with app.hold("gpu", by="script", expires_in="30s") as hold:
        assert [row.status for row in asyncio.run(holds(app))] == ["ACTIVE"]
        assert asyncio.run(claim(app)) == []
        hold.check()
    assert [row.status for row in asyncio.run(holds(app))] == ["RELEASED"]
    assert len(asyncio.run(claim(app))) == 1


def test_a_body_that_fails_gives_the_queue_back(app: Windlass) -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with app.hold("gpu", by="api"):
                raise ZeroDivisionError
        with pytest.raises(asyncio.CancelledError):
            async with app.hold("gpu", by="api"):
                raise asyncio.CancelledError
        assert [row.status for row in await holds(app)] == ["RELEASED", "RELEASED"]

    asyncio.run(main())
    with pytest.raises(ZeroDivisionError), app.hold("gpu", by="api"):
        raise ZeroDivisionError
    assert {row.status for row in asyncio.run(holds(app))} == {"RELEASED"}


def test_a_program_that_ends_gives_back_the_queue_that_one_of_its_tasks_holds(app: Windlass) -> None:
    """All its tasks are cancelled then, in any order: also the one that renews, before the body."""

    async def main() -> None:
        held = asyncio.Event()

        async def body() -> None:
            async with app.hold("gpu", by="api", expires_in="1h"):
                held.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(body())
        await held.wait()
        [renewing] = [one for one in asyncio.all_tasks() if one.get_name().startswith("windlass-hold")]
        for one in (renewing, task):
            one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [row.status for row in await holds(app)] == ["RELEASED"]

    asyncio.run(main())


class Refusals:
    """Listens to what a store answers to changes, and knows how often one of a kind was put off."""

    def __init__(self, app: Windlass) -> None:
        self._alter = app.client.driver.alter
        self._heard = asyncio.Condition()
        self._times: Counter[type[Alteration]] = Counter()
        app.client.driver.alter = self._listened  # type: ignore[method-assign]

    async def _listened(self, changes: Sequence[Alteration], *, now: int, by: By | None = None) -> list[AlterAnswer]:
        answers = await self._alter(changes, now=now, by=by)
        async with self._heard:
            self._times.update(type(one) for one, said in zip(changes, answers, strict=True) if said != "applied")
            self._heard.notify_all()
        return answers

    async def of(self, kind: type[Alteration], times: int) -> None:
        async with self._heard:
            await self._heard.wait_for(lambda: self._times[kind] >= times)


def test_the_second_waits_for_the_first_and_for_running_jobs(app: Windlass) -> None:
    async def main() -> None:
        story: list[str] = []
        refusals = Refusals(app)

        async def second() -> None:
            async with app.hold("gpu", by="second"):
                story.append("second")

        await app.tasks["train"].enqueue(1)
        [job] = await claim(app)
        first = app.hold("gpu", by="first")
        entering = asyncio.ensure_future(first.__aenter__())
        await refusals.of(Grant, times=2)
        assert not entering.done(), "granted beside a running job"
        assert [row.granted_at for row in await holds(app)] == [None]
        await app.client.driver.settle([Ack(handle=job.handle, token=job.token, at=app.client.now())], now=app.client.now())
        await entering
        waiting = asyncio.ensure_future(second())
        await refusals.of(Acquire, times=2)
        story.append("first")
        await first.__aexit__(None, None, None)
        await waiting
        assert story == ["first", "second"]

    asyncio.run(asyncio.wait_for(main(), 60))


def test_who_does_not_wait_is_told_why(app: Windlass) -> None:
    async def main() -> None:
        async with app.hold("gpu", by="night-shift"):
            with pytest.raises(ResourceBusy, match="night-shift holds it"):
                await app.hold("gpu", by="api", wait=0).__aenter__()
        await app.tasks["train"].enqueue(1)
        await claim(app)
        with pytest.raises(ResourceBusy, match="jobs of it are running"):
            await app.hold("gpu", by="api", wait="20ms").__aenter__()
        assert [row.status for row in await holds(app)] == ["RELEASED", "RELEASED"]

    asyncio.run(main())
    with pytest.raises(ResourceBusy), app.hold("gpu", by="api", wait=0):
        pass


def test_a_waiter_that_is_cancelled_leaves_the_queue_open(app: Windlass) -> None:
    async def main() -> None:
        await app.tasks["train"].enqueue(1)
        await claim(app)
        entering = asyncio.ensure_future(app.hold("gpu", by="api").__aenter__())
        await asyncio.sleep(0.05)
        entering.cancel()
        await asyncio.wait([entering])
        assert [row.status for row in await holds(app)] == ["RELEASED"]

    asyncio.run(main())


def test_a_job_whose_worker_is_dead_keeps_nobody_waiting(place: Place) -> None:
    """Its lease has lapsed. Recovering it is for the workers that come later, also where that takes a decision."""
    app = place.app()
    app.queue("gpu", preset="scheduler")

    @app.task(queue="gpu")
    async def train() -> None: ...

    async def main() -> None:
        await train.enqueue()
        await claim(app)
        place.clock.advance("31s")
        async with app.hold("gpu", by="api", wait="5s"):
            assert await claim(app, "other") == []
        assert (await app.tick()).recovered == 1
        [first, *others] = (await app.client.driver.find(JobQuery(superseded=True))).jobs[::-1]
        assert (first.state, first.superseded_by) == ("dead", others[0].id)

    asyncio.run(main())


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_hold_that_is_lost_ends_the_body(app: Windlass, goes_on: bool) -> None:
    """At once; a body that does not heed the interruption is told at its end."""
    reached: list[bool] = []

    async def work() -> None:
        async with app.hold("gpu", by="api", expires_in="60ms") as hold:
            await app.client.driver.alter([ReleaseHold(hold.id, by="ada")], now=app.client.now())
            try:
                await asyncio.sleep(10)
                reached.append(True)
            except asyncio.CancelledError:
                reached.append(not hold.lost)
                if not goes_on:
                    raise

    async def main() -> None:
        with pytest.raises(HoldLost, match="'api' on queue 'gpu' was lost"):
            await work()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(main())
    assert reached == [False]


@pytest.mark.usefixtures("quiet")
def test_a_lost_hold_does_not_hide_that_somebody_else_cancels(app: Windlass) -> None:
    async def main() -> None:
        async def work() -> None:
            async with app.hold("gpu", by="api", expires_in="60ms") as hold:
                await app.client.driver.alter([ReleaseHold(hold.id)], now=app.client.now())
                try:
                    await asyncio.sleep(10)
                finally:
                    task.cancel()
                    await asyncio.sleep(0)

        task = asyncio.ensure_future(work())
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())


@pytest.mark.usefixtures("quiet")
def test_blocking_code_learns_that_its_hold_is_lost(app: Windlass) -> None:
    def work() -> None:
        with app.hold("gpu", by="api", expires_in="60ms") as hold:
            asyncio.run(_release(app, hold.id))
            for _ in range(500):
                if hold.lost:
                    break
                threading.Event().wait(0.01)
            with pytest.raises(HoldLost):
                hold.check()

    with pytest.raises(HoldLost):
        work()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("blocking", [False, True])
def test_whatever_ends_the_renewals_ends_the_body(app: Windlass, blocking: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """No refusal and no error of the store: a body that went on would end beside the next holder's."""
    usual = app.client.driver.alter

    async def alter(changes: Any, *, now: int) -> Any:
        if type(changes[0]).__name__ == "Renew":
            raise RuntimeError("nobody has thought of this")
        return await usual(changes, now=now)

    monkeypatch.setattr(app.client.driver, "alter", alter)

    async def work() -> None:
        async with app.hold("gpu", by="api", expires_in="60ms"):
            await asyncio.sleep(10)

    def block() -> None:
        with app.hold("gpu", by="api", expires_in="60ms") as hold:
            for _ in range(500):
                if hold.lost:
                    break
                threading.Event().wait(0.01)

    with pytest.raises(HoldLost) as caught:
        block() if blocking else asyncio.run(work())
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.usefixtures("quiet")
def test_renewals_that_somebody_cancels_end_the_body(app: Windlass) -> None:
    async def work() -> None:
        async with app.hold("gpu", by="api", expires_in="1m"):
            await asyncio.sleep(0)  # they begin
            for task in asyncio.all_tasks():
                if task.get_name() == "windlass-hold gpu":
                    task.cancel()
            await asyncio.sleep(10)

    with pytest.raises(HoldLost):
        asyncio.run(work())


async def _release(app: Windlass, hold_id: str) -> None:
    await app.client.driver.alter([ReleaseHold(hold_id)], now=app.client.now())


def test_a_hold_is_renewed_for_as_long_as_it_takes(place: Place, app: Windlass) -> None:
    async def main() -> None:
        async with app.hold("gpu", by="api", expires_in="2s"):
            granted = (await holds(app))[0].expires_at
            for _ in range(1_000):
                place.clock.advance(1)
                await asyncio.sleep(0.01)
                if (await holds(app))[0].expires_at >= granted + 3:
                    break
            else:
                raise AssertionError("never renewed")
            assert (await holds(app))[0].granted_at == granted - 2_000_000

    asyncio.run(main())


@pytest.mark.usefixtures("quiet")
def test_a_store_that_does_not_answer_costs_the_hold_only_when_its_time_is_over(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        driver = app.client.driver
        usual, calls = driver.alter, 0

        async def alter(changes: Any, *, now: int) -> Any:
            nonlocal calls
            if type(changes[0]).__name__ == "Renew":
                calls += 1
                if calls == 1 or broken:
                    raise StoreUnreachable("here", "no answer")
            return await usual(changes, now=now)

        monkeypatch.setattr(driver, "alter", alter)
        monkeypatch.setattr("windlass.holds.AGAIN", 0.01)
        broken = False
        async with app.hold("gpu", by="api", expires_in="2s"), asyncio.timeout(20):
            while calls < 3:  # noqa: ASYNC110 - nothing tells of a renewal
                await asyncio.sleep(0.01)
        broken = True
        with pytest.raises(HoldLost):
            async with app.hold("gpu", by="api", expires_in="90ms"):
                await asyncio.sleep(10)

    asyncio.run(main())


def test_a_dead_holder_is_followed_when_its_time_is_over(place: Place, app: Windlass) -> None:
    async def main() -> None:
        await app.client.ready()
        await app.client.driver.alter([Acquire("dead", "gpu", "gone", 60_000_000)], now=app.client.now())
        with pytest.raises(ResourceBusy):
            await app.hold("gpu", by="next", wait=0).__aenter__()
        place.clock.advance("60s")
        async with app.hold("gpu", by="next", wait=0):
            assert [row.status for row in await holds(app)] == ["EXPIRED", "ACTIVE"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queue": "gpuu"}, "there is no queue 'gpuu' in this store; did you mean 'gpu'?"),
        ({"queue": ""}, "queue: must not be empty"),
        ({"by": " "}, "by: must not be empty"),
        ({"by": 7}, "by: must be text"),
        ({"expires_in": 0}, "expires_in: must be more than zero"),
        ({"expires_in": "-5m"}, "expires_in: '-5m' is not a duration"),
        ({"expires_in": -1}, "expires_in: must not be negative"),
        ({"wait": -1}, "wait: must not be negative"),
        ({"wait": "soon"}, "wait: 'soon' is not a duration"),
    ],
)
def test_nonsense_is_refused_and_nothing_is_held(app: Windlass, arguments: dict[str, Any], message: str) -> None:
    async def main() -> None:
        await app.tasks["train"].enqueue(1)
        with pytest.raises(InvalidInput) as refused:
            async with app.hold(**{"queue": "gpu", "by": "api", **arguments}):
                raise AssertionError("held")
        assert message.split("; did")[0] in str(refused.value)
        assert await holds(app) == []

    asyncio.run(main())


def test_a_queue_that_was_only_used_is_known_too(place: Place) -> None:
    app = place.app()

    @app.task(queue="used")
    async def work() -> None: ...

    async def main() -> None:
        with pytest.raises(InvalidInput, match="there is no queue 'used'"):
            await app.hold("used", by="api").__aenter__()
        await work.enqueue()
        async with app.hold("used", by="api"):
            pass

    asyncio.run(main())


@pytest.fixture
def quiet() -> Any:
    logger = logging.getLogger("windlass.holds")
    before, logger.disabled = logger.disabled, True
    yield
    logger.disabled = before


def test_a_lapsed_job_that_nobody_here_can_decide_about_keeps_no_queue_from_being_held(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer version may have written its policy. It is for that one's workers to recover it."""
    app.queue("other")

    async def main() -> None:
        client, driver = app.client, app.client.driver
        await driver.enqueue([NewJob(id="odd", type="x", queue="other", crash_policy="fail")], now=client.now())
        wish = Claim(queues=("other",), limit=1, lease_for=1, worker_id="gone", token="of the dead")
        assert len(await driver.claim(wish, now=client.now() - 10)) == 1
        real = driver.expire

        async def newer(*, now: int, limit: int) -> Any:
            taken_back, undecided = await real(now=now, limit=limit)
            return taken_back, [replace(job, retry_policy='{"backoff":{"type":"quantum"}}') for job in undecided]

        monkeypatch.setattr(driver, "expire", newer)
        await app.tasks["train"].enqueue(1)
        [running] = await claim(app)
        held = asyncio.create_task(app.hold("gpu", by="api", wait="5s").acquire())
        while not await holds(app):  # noqa: ASYNC110 - the store tells nobody
            await asyncio.sleep(0)
        ends = Ack(handle=running.handle, token=running.token, at=client.now())
        assert await driver.settle([ends], now=client.now()) == ["applied"]
        await held

    asyncio.run(main())
