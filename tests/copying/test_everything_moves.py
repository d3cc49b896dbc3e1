"""Between any two kinds of stores, everything that the source holds is in the target, and the source takes nothing more."""

from __future__ import annotations

import asyncio

import pytest

from windlass.copy_errors import StoreMoved
from windlass.core.copying import TABLES
from windlass.core.queries import InOrder
from windlass.drivers.values import JobQuery

from .ends import Place, Places, copier, digests, filled

WAYS = [("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "sqlite"), ("postgres", "postgres")]


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_everything_that_a_store_holds_moves(places: Places, here: str, there: str) -> None:
    source, target = places.new(here), places.new(there)
    filled(source)
    with source.end() as left, target.end() as right:
        before = digests(left)
        assert [name for name, (rows, _) in before.items() if not rows] == [], "there is something of everything to move"
        report = copier(left, right).run()
        assert digests(right) == digests(left) == before
        assert {one.table: (one.rows, one.digest) for one in report.tables}.keys() == {table.name for table in TABLES}
        numbers = left.last_numbers(), right.last_numbers()
        assert numbers[0] == numbers[1]
    asyncio.run(told_alike(source, target))


async def told_alike(source: Place, target: Place) -> None:
    """Also in the words of a driver, and the target is a store like any other."""
    before, after = source.app(), target.app()
    async with before, after:
        old, new = before.client.driver, after.client.driver
        page = await old.find(JobQuery(superseded=True, limit=500))
        assert page.jobs == (await new.find(JobQuery(superseded=True, limit=500))).jobs
        assert len(page.jobs) > 25
        for job in page.jobs:
            assert await old.runs(job.id) == await new.runs(job.id)
        order = await old.read(InOrder(queue="fair", limit=50))
        assert len(order) > 10
        assert await new.read(InOrder(queue="fair", limit=50)) == order

        @before.task(name="more")
        async def more_before() -> None: ...

        @after.task(name="more")
        async def more_after() -> None: ...

        with pytest.raises(StoreMoved) as refused:
            await more_before.enqueue()
        assert refused.value.moved_to
        [stored] = await new.get([(await more_after.enqueue()).id])
        assert stored is not None
        assert stored.seq > max(job.seq for job in page.jobs), "numbers go on behind the highest that there ever was"
