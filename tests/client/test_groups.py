"""Groups and dependencies as a program uses them."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest

from windlass import Context, GroupNotFound, GroupRefused, JobDead, Parent, Reject, Retry, Windlass
from windlass.admin import Admin
from windlass.errors import DuplicateJob, InvalidInput
from windlass.groups import OpenGroup
from windlass.parents import parents_of

from .conftest import Place, rows


@pytest.fixture
def app(place: Place) -> Windlass:
    return place.app(lease="6s")


def tasks(app: Windlass, log: list[str]) -> tuple[Any, Any]:
    @app.task(retry=Retry(max_retries=0))
    async def step(name: str, ok: bool = True) -> str:
        log.append(name)
        if not ok:
            raise Reject(f"{name} cannot")
        return name.upper()

    @app.task(context=True)
    async def gather(ctx: Context) -> list[Any]:
        return [(parent.state, parent.result) for parent in await ctx.parents()]

    return step, gather


async def drain(app: Windlass) -> None:
    await app.worker().run(drain=True)


def test_a_sequence_runs_in_the_order_in_which_it_was_put_together(app: Windlass) -> None:
    log: list[str] = []
    step, _ = tasks(app, log)

    async def main() -> None:
        async with app.group("nightly", mode="sequential") as g:
            handles = [g.add(step.job(name)) for name in ("extract", "transform", "load")]
        assert await g.status() == "pending"
        assert [job.state for job in await g.members()] == ["queued"] * 3
        await drain(app)
        done = await g.wait()
        assert (done.status, done.succeeded, done.fraction) == ("completed", 3, 1.0)
        assert log == ["extract", "transform", "load"]
        assert [await handle.result() for handle in handles] == ["EXTRACT", "TRANSFORM", "LOAD"]
        assert (await app.group_by_id(g.id).fetch()).name == "nightly"

    asyncio.run(main())


def test_blocking_code_makes_groups_too(app: Windlass) -> None:
    step, _ = tasks(app, [])
    with app.group("nightly", id="tonight") as g:
        g.add(step.job("a"))
    asyncio.run(drain(app))
    assert g.id == "tonight"
    assert g.wait_sync("5s").status == "completed"


def test_an_exception_in_the_block_stores_nothing(app: Windlass) -> None:
    step, _ = tasks(app, [])

    async def fails_in(group: OpenGroup) -> None:
        async with group:
            group.add(step.job("a"))
            raise RuntimeError

    async def main() -> None:
        g = app.group("nightly")
        with pytest.raises(RuntimeError):
            await fails_in(g)
        assert await rows(app) == []
        with pytest.raises(GroupNotFound, match="windlass groups list"):
            await g.status()

    asyncio.run(main())


def test_a_finaliser_sees_how_all_members_ended(app: Windlass) -> None:
    step, gather = tasks(app, [])

    async def main() -> None:
        async with app.group("nightly", on_failure="continue") as g:
            last = g.finish_with(gather.job())
            g.add(step.job("a"))
            g.add(step.job("b", ok=False))
        await drain(app)
        assert await last.result() == [["succeeded", "A"], ["dead", None]]
        assert (await g.progress()).total == 2, "a finaliser is no member"

    asyncio.run(main())


def test_a_job_waits_for_those_it_names_and_reads_their_results(app: Windlass) -> None:
    step, gather = tasks(app, [])
    seen: list[Parent] = []

    @app.task(context=True)
    def threaded(ctx: Context) -> None:
        seen.extend(ctx.parents_sync())

    async def main() -> None:
        first = await step.enqueue("a")
        second = step.job("b")
        await app.enqueue_many([second, gather.using(after=[second, first.id]).job()])
        await threaded.using(after=(first,)).enqueue()
        assert {job.type: job.waiting_on for job in await rows(app)} == {"step": 0, "gather": 2, "threaded": 1}
        await drain(app)
        assert {job.state for job in await rows(app)} == {"succeeded"}
        assert [(parent.id, parent.type, parent.result) for parent in seen] == [(first.id, "step", "A")]
        [result] = [job.result for job in await rows(app) if job.type == "gather"]
        assert result == b'[["succeeded","A"],["succeeded","B"]]'

    asyncio.run(main())


def test_parents_whose_chain_a_hand_tied_to_itself_are_left_out(file_place: Place) -> None:
    """The handler that asks for them is answered."""
    app = file_place.app()
    step, gather = tasks(app, [])

    async def main() -> None:
        first, other = await step.enqueue("a", ok=False), await step.enqueue("b", ok=False)
        last = await gather.using(after=[first], on_failure="continue", delay="1h").enqueue()
        await drain(app)
        with sqlite3.connect(file_place.file) as conn:
            for job, following in ((first, other), (other, first)):
                conn.execute("update jobs set superseded_by = ? where id = ?", (following.id, job.id))
        async with asyncio.timeout(30):
            assert await parents_of(app.client.driver, last.id) == []
            with pytest.raises(JobDead, match=r"a cannot|b cannot"):
                await first.result()

    asyncio.run(main())


def test_the_page_of_a_group_is_made_where_a_hand_tied_a_chain_outside_to_itself(file_place: Place) -> None:
    app = file_place.app()
    step, gather = tasks(app, [])

    async def main() -> None:
        first, other = await step.enqueue("a", ok=False), await step.enqueue("b", ok=False)
        async with app.group("nightly") as g:
            member = g.add(gather.using(after=[first], on_failure="continue", delay="1h").job())
        await drain(app)
        with sqlite3.connect(file_place.file) as conn:
            for job, following in ((first, other), (other, first)):
                conn.execute("update jobs set superseded_by = ? where id = ?", (following.id, job.id))
        async with asyncio.timeout(30):
            page = await Admin(app.client, None).group(g.id)
        assert [job.id for job in page.members] == [member.id]

    asyncio.run(main())


def test_a_failure_cancels_what_waits_for_it_unless_it_says_continue(app: Windlass) -> None:
    step, gather = tasks(app, [])

    async def main() -> None:
        bad = await step.enqueue("bad", ok=False)
        meek = await step.using(after=[bad]).enqueue("meek")
        brave = await gather.using(after=[bad], on_failure="continue").enqueue()
        await drain(app)
        assert (await meek.fetch()).state == "cancelled"
        assert await brave.result() == [["dead", None]]

    asyncio.run(main())


def test_a_group_is_cancelled_and_retried_as_one(app: Windlass) -> None:
    log: list[str] = []
    fails = True

    @app.task(retry=Retry(max_retries=0))
    async def step(name: str) -> None:
        log.append(name)
        if fails and name == "b":
            raise Reject("no")

    async def main() -> None:
        nonlocal fails
        async with app.group("nightly", mode="sequential") as g:
            for name in "abc":
                g.add(step.job(name))
        with pytest.raises(GroupRefused, match="none of its members"):
            await g.retry()
        await drain(app)
        assert await g.status() == "partial"
        fails = False
        assert await g.retry() == 2
        assert await g.status() == "running"
        await drain(app)
        assert (log, await g.status()) == (["a", "b", "b", "c"], "completed")

        async with app.group("other") as other:
            other.add(step.job("x"))
        assert await other.cancel("enough") == "cancelled"
        assert await other.status() == "cancelled"
        assert await other.cancel() == "cancelled"

    asyncio.run(main())


def test_a_group_whose_members_were_deleted_is_not_retried(app: Windlass) -> None:
    step, _ = tasks(app, [])

    async def main() -> None:
        async with app.group("nightly", on_failure="continue") as g:
            gone = g.add(step.job("a", ok=False))
            g.add(step.job("b", ok=False))
        await drain(app)
        await gone.delete()
        before = await rows(app)
        with pytest.raises(GroupRefused, match="1 of its 2 members were deleted"):
            await g.retry()
        assert await rows(app) == before

    asyncio.run(main())


def test_bad_input_is_told_by_field_and_nothing_is_stored(app: Windlass) -> None:
    step, _ = tasks(app, [])

    async def main() -> None:
        bad: list[tuple[dict[str, Any], str]] = [
            ({"mode": "odd"}, "mode"), ({"on_failure": "odd"}, "on_failure"), ({"id": " "}, "id"),
        ]  # fmt: skip
        for options, field in bad:
            with pytest.raises(InvalidInput, match=field):
                app.group("nightly", **options)
        bad = [
            ({"after": "x"}, "after"), ({"after": [7]}, "after"), ({"on_failure": "stop"}, "on_failure"),
        ]  # fmt: skip
        for options, field in bad:
            with pytest.raises(InvalidInput, match=field):
                step.using(**options)
        with pytest.raises(InvalidInput, match=r"after.*'nobody'"):
            await step.using(after=["nobody"]).enqueue("a")
        with pytest.raises(InvalidInput, match="no members"):
            async with app.group("nightly"):
                pass
        with pytest.raises(InvalidInput, match=r"task\.job"):
            async with app.group("nightly") as g:
                g.add("a")  # type: ignore[arg-type]
        g = app.group("nightly")
        for _ in range(2):
            g.add(step.using(dedupe="same").job("a"))
        with pytest.raises(DuplicateJob):
            await g.__aexit__(None, None, None)
        assert await rows(app) == []
        async with app.group("nightly") as g:
            g.add(step.job("a"))
        with pytest.raises(InvalidInput, match="stored already"):
            g.add(step.job("b"))

    asyncio.run(main())


def test_a_group_joins_the_callers_own_transaction(file_place: Place) -> None:
    app = file_place.app(sqlite="stdlib")
    step, _ = tasks(app, [])
    app.open()
    with sqlite3.connect(file_place.file) as conn:
        conn.execute("begin immediate")
        with app.group("nightly", mode="sequential", conn=conn) as g:
            g.add(step.job("a"))
            g.add(step.job("b"))
        assert asyncio.run(rows(app)) == [], "nobody sees it before the commit"
    conn.close()
    assert [job.waiting_on for job in asyncio.run(rows(app))] == [0, 1]
    assert asyncio.run(g.status()) == "pending"


def test_a_group_is_part_of_a_handlers_transaction(app: Windlass) -> None:
    step, _ = tasks(app, [])

    @app.task(context=True)
    async def plan(ctx: Context) -> None:
        async with ctx.transaction():
            async with app.group("planned") as g:
                g.add(step.job("a"))
            with pytest.raises(InvalidInput, match="only enqueues join"):
                await g.cancel()

    async def main() -> None:
        await plan.enqueue()
        await drain(app)
        assert {job.type: job.state for job in await rows(app)} == {"plan": "succeeded", "step": "succeeded"}

    asyncio.run(main())
