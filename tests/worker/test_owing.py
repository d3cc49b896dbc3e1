"""A worker that drains leaves nothing undone that ended jobs owe to those that wait for them."""

from __future__ import annotations

import pytest

from windlass.clock import SECOND
from windlass.core.dependencies import INLINE
from worker.stage import Stage, on_stage

MORE = INLINE + 30


@pytest.fixture
def small_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were thousands of times as many."""
    for module in ("memory.leases", "sqlite.leases", "ops.dependencies"):
        monkeypatch.setattr(f"windlass.drivers.{module}.SWEPT", 10)
    for module in ("memory.leases", "ops.dependencies"):
        monkeypatch.setattr(f"windlass.drivers.{module}.BITES", 2)


async def drains_all(stage: Stage, parents: int) -> None:
    ran: list[int] = []

    @stage.app.task
    async def parent() -> None: ...

    @stage.app.task
    async def child(n: int) -> None:
        ran.append(n)

    before = [await parent.enqueue() for _ in range(parents)]
    await stage.app.enqueue_many([child.using(after=before).job(n) for n in range(MORE)])
    await stage.drain()
    assert len(ran) == MORE


@pytest.mark.usefixtures("small_bites")
def test_jobs_that_wait_for_two_parents_run_in_one_drain_however_many_they_are(url: str) -> None:
    """A whole sweep told them of the one parent, and there was nothing to run yet."""
    on_stage(url, lambda stage: drains_all(stage, 2))


def test_who_distrusts_the_clock_pays_all_the_same(url: str) -> None:
    """To tell those who wait that a job has ended is no judgement by the clock."""

    async def play(stage: Stage) -> None:
        stage.store.remeasure = lambda: 5 * SECOND  # type: ignore[attr-defined]
        await drains_all(stage, 1)

    on_stage(url, play)
