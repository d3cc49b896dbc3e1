"""The place of a job, changed by whoever holds it."""

from __future__ import annotations

import asyncio

import pytest

from client.conftest import Place
from windlass import JobHandle, JobNotFound, Windlass
from windlass.core.queries import InOrder
from windlass.errors import Refused


@pytest.fixture
def app(place: Place) -> Windlass:
    app = place.app()

    @app.task
    async def note(n: int) -> None: ...

    return app


async def jobs(app: Windlass, count: int, **options: int) -> list[JobHandle[None]]:
    return [await app.tasks["note"].using(**options).enqueue(n) for n in range(count)]  # type: ignore[arg-type]


async def order(app: Windlass, *known: JobHandle[None]) -> list[int]:
    ids = [job.id for job in known]
    return [ids.index(job.id) for job in await app.client.driver.read(InOrder(queue="default"))]


def test_a_job_goes_beside_another(app: Windlass) -> None:
    async def main() -> None:
        known = a, b, c, d = await jobs(app, 4)
        await d.move_beside(b, "before")
        assert await order(app, *known) == [0, 3, 1, 2]
        await a.move_beside(c.id, "after")
        assert await order(app, *known) == [3, 1, 2, 0]
        await b.swap(a)
        assert await order(app, *known) == [3, 0, 2, 1]
        await c.set_priority(9)
        assert await order(app, *known) == [2, 3, 0, 1]
        await d.move_beside(c, "before", take_priority=True)
        assert ((await d.fetch()).priority, await order(app, *known)) == (9, [3, 2, 0, 1])

    asyncio.run(main())


def test_blocking_code_changes_the_order_too(app: Windlass) -> None:
    known = a, b, c = [app.tasks["note"].enqueue_sync(n) for n in range(3)]
    a.move_sync("bottom")
    b.move_beside_sync(a, "after")
    assert asyncio.run(order(app, *known)) == [2, 0, 1]
    c.swap_sync(b)
    a.set_priority_sync(-1)
    assert asyncio.run(order(app, *known)) == [1, 2, 0]


def test_a_refusal_says_who_stands_in_the_way_and_what_to_do(app: Windlass) -> None:
    async def main() -> None:
        [urgent] = await jobs(app, 1, priority=5)
        await app.tick(limit=1)
        [first, second, other] = [*(await jobs(app, 2)), *(await jobs(app, 1, priority=5))]
        with pytest.raises(Refused, match=f"job '{urgent.id}' is succeeded; only queued jobs have a place"):
            await first.move_beside(urgent, "after")
        with pytest.raises(Refused, match="it is succeeded; only queued"):
            await urgent.swap(first)
        with pytest.raises(Refused, match="it is succeeded; only queued"):
            await urgent.set_priority(1)
        with pytest.raises(Refused, match=r"its priority is 0, and that of job .* is 5; .*take_priority=True"):
            await first.move_beside(other, "after")
        with pytest.raises(JobNotFound, match="nobody"):
            await first.swap("nobody")
        with pytest.raises(JobNotFound, match="nobody"):
            await app.job("nobody").swap(first)
        elsewhere = await app.tasks["note"].using(queue="b").enqueue(1)
        with pytest.raises(Refused, match=r"in the queue 'default', and job .* in 'b'"):
            await first.swap(elsewhere)
        assert await order(app, first, second, other) == [2, 0, 1]

    asyncio.run(main())
