"""Job Scheduler: how many jobs run at once, of the queue, over all, of a type, of a resource."""

from __future__ import annotations

import pytest

from windlass.core.settle import Succeeded

from .desk import QUEUE, Desk
from .place import Place, run


@pytest.fixture
def desk(any_place: Place) -> Desk:
    return Desk(any_place)


async def freed(desk: Desk) -> Desk:
    """Without the preset's single worker, so that another limit is the one that counts."""
    await desk.app.limits.remove(f"queue:{QUEUE}")
    return desk


async def dispatched(desk: Desk) -> list[str]:
    return [job.id for job in await desk.dispatch(10)]


def test_one_job_runs_at_a_time_however_many_dispatchers_there_are(desk: Desk) -> None:
    """JS-160: the preset's single worker, as a limit of the queue; a person may raise it."""

    async def main() -> None:
        made = [await desk.enqueue() for _ in range(4)]
        [first] = await desk.dispatch(10)
        assert (first.id, await dispatched(desk)) == (made[0], [])
        await desk.end(first, Succeeded())
        assert await dispatched(desk) == [made[1]]
        await desk.app.limits.set(f"queue:{QUEUE}", 2)
        assert await dispatched(desk) == [made[2]]

    run(main)


def test_so_many_jobs_run_over_all(desk: Desk) -> None:
    """JS-161: counted by what is leased, whoever leased it."""

    async def main() -> None:
        await (await freed(desk)).app.limits.set("global", 2)
        made = [await desk.enqueue() for _ in range(4)]
        first, second = await desk.dispatch(10)
        assert ([first.id, second.id], await dispatched(desk)) == (made[:2], [])
        await desk.end(second, Succeeded())
        assert await dispatched(desk) == [made[2]]

    run(main)


def test_so_many_jobs_of_a_type_run(desk: Desk) -> None:
    """JS-162: jobs of other types go past those that wait."""

    async def main() -> None:
        await (await freed(desk)).app.limits.set("type:render", 1)
        first, second, story = [await desk.enqueue(kind) for kind in ("render", "render", "story")]
        running = await desk.dispatch(10)
        assert [job.id for job in running] == [first, story]
        await desk.end(running[0], Succeeded())
        assert await dispatched(desk) == [second]

    run(main)


def test_so_many_jobs_of_a_resource_run(desk: Desk) -> None:
    """JS-163: a job's tags name the resources; it waits until all of them are free, and takes none before."""

    async def main() -> None:
        await freed(desk)
        for tag in ("gpu", "disk"):
            await desk.app.limits.set(f"tag:{tag}", 1)
        on_gpu, on_both, on_disk, plain = [
            await desk.enqueue(tags=tags) for tags in (("gpu",), ("gpu", "disk"), ("disk",), ())
        ]
        running = await desk.dispatch(10)
        assert [job.id for job in running] == [on_gpu, on_disk, plain]
        await desk.end(running[0], Succeeded())
        assert await dispatched(desk) == [], "the disk is still taken"
        await desk.end(running[1], Succeeded())
        assert await dispatched(desk) == [on_both]

    run(main)
