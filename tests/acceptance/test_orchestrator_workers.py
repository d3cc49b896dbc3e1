"""Task Orchestrator: its workers, who leads them, and what becomes of a dead one's tasks."""

from __future__ import annotations

import asyncio
import re
from random import Random

import pytest

from windlass.admin import Admin
from windlass.clock import SECOND
from windlass.core.duties import RemoveDeadWorkers
from windlass.types import Micros
from windlass.worker.recovering import recover_lapsed

from .orchestra import QUEUE, TERM, Orchestra
from .place import Place, run

WORKER_TIMEOUT: Micros = 60 * SECOND


@pytest.fixture
def orchestra(any_place: Place) -> Orchestra:
    return Orchestra(any_place)


# ------------------------------------------------------------------------------------------------------------ leadership


def test_one_leads_and_extends_its_lease_while_the_others_are_refused(orchestra: Orchestra) -> None:
    """TO-041, TO-042, TO-044, TO-045, TO-046, TO-047, TO-048, TO-049: thirty seconds from now, in one conditional write."""

    async def main() -> None:
        for worker in ("a", "b"):
            await orchestra.beat(worker)
        assert [await orchestra.acquire("a"), await orchestra.acquire("b")] == [True, False]
        orchestra.place.clock.advance(TERM - 1)
        assert [await orchestra.acquire("b"), await orchestra.acquire("a")] == [False, True]
        [leader] = [row for row in (await Admin(orchestra.app.client).workers()).workers if row.is_leader]
        assert leader.id == "a"
        orchestra.place.clock.advance(TERM - 1)
        assert not await orchestra.acquire("b"), "the lease was extended from the moment of asking"
        orchestra.place.clock.advance(1)
        assert [await orchestra.acquire("b"), await orchestra.acquire("a")] == [True, False]

    run(main)


def test_there_are_never_two_leaders_whatever_lapses_and_returns(orchestra: Orchestra) -> None:
    """TO-044, TO-046, TO-047: a leader that returns after its lease has passed to another is not one any more, and what it
    does as one is refused."""

    async def main() -> None:
        random = Random(11)
        workers = ["a", "b", "c"]
        for worker in workers:
            await orchestra.beat(worker)
        epochs: dict[str, int] = {}
        for _ in range(60):
            worker = random.choice(workers)
            answer = await orchestra.driver.lead(worker, lease_for=TERM, now=orchestra.now)
            if answer.worker_id == worker:
                epochs[worker] = answer.epoch
            assert len(await orchestra.leaders()) <= 1
            for other, epoch in epochs.items():
                duty = RemoveDeadWorkers(silent_for=10_000 * SECOND)
                done = await orchestra.driver.maintain(duty, epoch=epoch, now=orchestra.now)
                assert (done is not None) == (answer.epoch == epoch and answer.worker_id == other)
            orchestra.place.clock.advance(random.choice([1, TERM // 2, TERM]))

    run(main)


# ----------------------------------------------------------------------------------------------------------- dead workers


def test_tasks_of_a_silent_worker_are_pending_again(orchestra: Orchestra) -> None:
    """TO-038, TO-050, TO-051, TO-053, TO-060: the leader removes it, and anybody may claim what it held; a worker that
    beats keeps its own."""

    async def main() -> None:
        await orchestra.beat("dead")
        await orchestra.beat("alive")
        lost, kept = await orchestra.enqueue(), await orchestra.enqueue()
        assert [job.id for job in await orchestra.claim("dead", 1, lease=3_600 * SECOND)] == [lost]
        assert [job.id for job in await orchestra.claim("alive", 1, lease=3_600 * SECOND)] == [kept]
        orchestra.place.clock.advance(WORKER_TIMEOUT - 1)
        await orchestra.beat("alive")
        orchestra.place.clock.advance(1)
        assert await orchestra.acquire("alive")
        done = await orchestra.driver.maintain(RemoveDeadWorkers(silent_for=WORKER_TIMEOUT), epoch=1, now=orchestra.now)
        assert done is not None
        assert done.rows == 1
        await recover_lapsed(orchestra.app.client)
        assert [await orchestra.word(lost), await orchestra.word(kept)] == ["pending", "running"]
        assert [job.id for job in await orchestra.claim("alive")] == [lost]

    run(main)


def test_the_worker_timeout_is_a_setting(place: Place) -> None:
    """TO-052: sixty seconds unless said."""
    assert place.app().client.settings.worker_timeout == WORKER_TIMEOUT
    assert place.app(worker_timeout="5m").client.settings.worker_timeout == 300 * SECOND


def test_a_worker_registers_itself_and_leaves(orchestra: Orchestra) -> None:
    """TO-035, TO-036, TO-037, TO-039, TO-040, TO-053: host, process and a random part name it; its pool and version are
    told."""
    app = orchestra.app

    @app.task(queue=QUEUE)
    async def nothing() -> None: ...

    async def main() -> None:
        async with app.running(concurrency=3) as worker, asyncio.timeout(30):
            while not (seen := (await Admin(app.client).workers()).workers):  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # its first beat comes when it comes
        [view] = seen
        assert view.id == worker.id
        assert re.fullmatch(r".+:\d+:[0-9a-f]{8}", view.id)
        assert (view.pool_size, bool(view.hostname), bool(view.version)) == (3, True, True)
        assert (await Admin(app.client).workers()).workers == ()

    run(main)
