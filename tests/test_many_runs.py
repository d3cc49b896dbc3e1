"""A job that was tried again and again: every edge shows its newest runs, and says how many came before them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import httpx2
import pytest
from msgspec.structs import replace

from cli.conftest import Cli, cli  # noqa: F401 - a fixture
from test_admin import NEVER_TWICE, Place, on_a_place
from web.conftest import Desk, on_a_desk
from windlass import Retry as RetryPolicy
from windlass import Windlass, fixed
from windlass.admin.views import RunView
from windlass.client import Client
from windlass.core.alterations import Cancel
from windlass.core.changes import Retry
from windlass.core.history import RUNS_LIMIT
from windlass.core.settle import Execution, Failed, Released, settle
from windlass.demo.check import compare
from windlass.django.past import past_of
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.paging import every_run
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim
from windlass.errors import InvalidInput
from windlass.handles import JobHandle
from windlass.testing.simulator.store import Store, run_now
from windlass.testing.simulator.world import DAWN, World
from windlass.types import Job, Micros, NewJob

MORE = 7
ALL = RUNS_LIMIT + MORE
NO_DELAY = RetryPolicy(max_attempts=2 * ALL, backoff=fixed(0))


async def tried(client: Client, job_id: str, times: int = ALL, *, kind: str = "t") -> None:
    await executed(client.driver, job_id, times, kind=kind, now=client.now())


async def executed(driver: Driver, job_id: str, times: int = ALL, *, kind: str = "t", now: Micros) -> None:
    """Enqueued, and executed so many times."""
    await driver.enqueue([NewJob(id=job_id, type=kind, max_attempts=0)], now=now)
    for attempt in range(1, times + 1):
        claim = Claim(queues=("default",), limit=1, lease_for=10**9, worker_id="w", token=f"{job_id} {attempt}")
        [job] = await driver.claim(claim, now=now)
        change = Retry(handle=job.handle, token=job.token, at=now, run_at=None, attempts=attempt, error="boom")
        assert await driver.settle([change], now=now) == ["applied"]


@on_a_place
async def test_a_job_is_shown_with_its_newest_runs_and_the_number_of_the_others(place: Place) -> None:
    await tried(place.client, "often")
    shown = await place.admin.job("often")
    assert (shown.job.runs, len(shown.runs), shown.earlier_runs) == (ALL, RUNS_LIMIT, MORE)
    assert (shown.runs[0].attempt, shown.runs[-1].attempt) == (MORE + 1, ALL)
    assert next(entry.attempt for entry in shown.timeline if entry.attempt is not None) == MORE + 1
    await place.put("once")
    assert (await place.admin.job("once")).earlier_runs == 0


@on_a_place
async def test_a_handle_answers_with_as_many_runs_as_asked_for(place: Place) -> None:
    await tried(place.client, "often")
    handle = JobHandle[None](place.client, "often", None)
    assert [run.attempt_no for run in await handle.runs()] == list(range(MORE + 1, ALL + 1))
    assert [run.attempt_no for run in await handle.runs(limit=2)] == [ALL - 1, ALL]
    with pytest.raises(InvalidInput, match="limit"):
        await handle.runs(limit=0)


@on_a_place
async def test_of_a_chain_the_newest_runs_of_all_links_are_at_hand(place: Place) -> None:
    first = await place.put("first", max_attempts=5, **NEVER_TWICE)
    for _ in range(3):
        job = await place.claim()
        await place.end(job, Failed("boom"))
        place.clock.advance(10**9)
    handle = JobHandle[None](place.client, first, None)
    runs = await handle.runs()
    assert len({run.job_id for run in runs}) == len(runs) == 3
    assert await handle.runs(limit=2) == runs[1:]


@on_a_place
async def test_a_chain_that_a_hand_has_closed_to_a_ring_is_walked_once(place: Place) -> None:
    driver, asked = cast("MemoryDriver", place.client.driver), list[str]()
    get = driver.get

    async def counted(ids: Sequence[str]) -> list[Job | None]:
        asked.extend(ids)
        assert len(asked) < 10, "it goes round and round"
        return await get(ids)

    for job_id, other in (("a", "b"), ("b", "a")):
        await place.put(job_id)
        [job] = await get([job_id])
        driver._tables.put(replace(cast("Job", job), superseded_by=other))
    driver.get = counted  # type: ignore[method-assign]
    assert [job.id for job in await place.client.links("a")] == ["a", "b"]
    assert await JobHandle[None](place.client, "b", None).runs() == []


@on_a_place
async def test_a_run_that_is_too_old_to_be_shown_is_found_by_its_number(place: Place) -> None:
    await tried(place.client, "often")
    assert (await place.admin.logs("often", run=3)).run == 3
    for wrong in (0, -1, ALL + 1, 10**30):
        with pytest.raises(InvalidInput, match=f"has no run {wrong}; it has 1 to 1,007"):
            await place.admin.logs("often", run=wrong)


@on_a_desk
async def test_the_page_and_the_api_say_how_many_runs_came_before(desk: Desk, client: httpx2.AsyncClient) -> None:
    await tried(desk.app.client, "often", kind=desk.add.name)
    answer = (await client.get("/api/jobs/often/runs")).json()
    assert (len(answer["runs"]), answer["earlier"]) == (RUNS_LIMIT, MORE)
    page = (await client.get("/jobs/often")).text
    assert f"{ALL - 50} older runs" in page.replace(",", "")
    assert f"of waiting in the newest {RUNS_LIMIT}" in page


def test_the_command_says_how_many_runs_came_before(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    async def store() -> None:
        async with Windlass(f"sqlite:///{tmp_path / 'windlass.db'}") as app:
            await tried(app.client, "often")

    asyncio.run(store())
    shown = cli("jobs", "show", "often")
    assert shown.code == 0, shown.err
    assert f"{MORE} earlier runs are not shown" in shown.out
    assert cli("jobs", "show", "often", "--json").json["earlier_runs"] == MORE


@on_a_place
async def test_whoever_needs_every_run_walks_all_pages_first_to_last(place: Place) -> None:
    await tried(place.client, "often")
    await place.put("never")
    for job_id, times in (("often", ALL), ("never", 0), ("nobody", 0)):
        found = await every_run(place.client.driver, job_id)
        assert [run.attempt_no for run in found] == list(range(1, times + 1))


def test_the_demo_s_check_knows_also_the_oldest_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Windlass("memory://") as app:
            await tried(app.client, "often")
            [oldest] = await app.client.driver.runs("often", before=2)
            (tmp_path / "log").write_text(f"start mail often {oldest.run_id} 1")
            verdict = await compare(app.client, ["often"], tmp_path / "log")
            assert (verdict.runs, verdict.problems) == (ALL, ["often is still queued"])

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_simulator_judges_a_job_by_all_of_its_runs(kind: str, tmp_path: Path) -> None:
    sqlite = kind == "sqlite"
    driver = SqliteDriver(tmp_path / "jobs.db", inline=True, durability="relaxed") if sqlite else MemoryDriver()
    store = Store(World(1), driver)
    run_now(executed(driver, "often", now=DAWN))
    run_now(driver.alter([Cancel("often", "enough")], now=DAWN))
    store.checker.check_all()
    run_now(driver.close())
    assert store.world.history.violation is None


@on_a_place
async def test_of_a_result_of_django_the_first_run_is_found_and_those_between_are_counted(place: Place) -> None:
    await tried(place.client, "often")
    past = await past_of(place.client, await place.client.links("often"))
    assert past.first is not None
    assert past.last is not None
    assert (past.first.attempt_no, past.last.attempt_no, len(past.newest), past.earlier) == (1, ALL, RUNS_LIMIT, MORE)


@on_a_place
async def test_runs_that_were_handed_back_are_no_attempts_of_a_result_of_django(place: Place) -> None:
    await place.put("patient")
    for _ in range(3):
        await place.end(await place.claim(), Released())
    past = await past_of(place.client, await place.client.links("patient"))
    assert (len(past.newest), past.begun, past.earlier, past.first, past.last) == (3, [], 0, None, None)


# ------------------------------------------------------------------------------------------------- pages of older runs


async def chained(client: Client) -> list[tuple[str, int]]:
    """A chain with more links, of one run each, than a page has runs."""
    driver, now, found = client.driver, client.now(), list[tuple[str, int]]()
    never_twice = NewJob(id="first", type="t", max_attempts=2 * ALL, retry_policy=NO_DELAY.encode(), **NEVER_TWICE)
    await driver.enqueue([never_twice], now=now)
    for number in range(ALL + 1):
        claim = Claim(queues=("default",), limit=1, lease_for=10**9, worker_id="w", token=f"chained {number}")
        [job] = await driver.claim(claim, now=now)
        found.append((job.id, job.executions))
        change = settle(job, Failed("boom"), Execution(now, None, client.ids.job(now)))
        assert await driver.settle([change], now=now) == ["applied"]
    return found


def numbered(runs: Sequence[RunView]) -> list[tuple[str, int]]:
    return [(run.job_id, run.attempt) for run in runs]


@on_a_place
async def test_page_after_page_every_run_of_a_chain_is_shown_once(place: Place) -> None:
    everything = await chained(place.client)
    page = await place.admin.runs("first", limit=400)
    assert (page.runs, page.earlier) == ((await place.admin.job("first")).runs[-400:], ALL + 1 - 400)
    found = numbered(page.runs)
    while page.earlier:
        oldest = page.runs[0]
        page = await place.admin.runs(oldest.job_id, before=oldest.attempt, limit=400)
        found = numbered(page.runs) + found
        assert page.earlier == len(everything) - len(found)
        assert {(entry.job_id, entry.attempt) for entry in page.timeline} == set(numbered(page.runs))
    assert found == everything
    first = await place.admin.runs("first", before=1)
    assert (first.runs, first.timeline, first.earlier) == ((), (), 0)
    for wrong in (0, -1, 2**63):
        with pytest.raises(InvalidInput, match="before"):
            await place.admin.runs("first", before=wrong)


@on_a_place
async def test_executions_of_which_no_run_is_kept_are_not_promised_for_ever(place: Place) -> None:
    """A hand may have written that there were some."""
    policy = RetryPolicy(max_attempts=3, backoff=fixed(0)).encode()
    await place.put("first", max_attempts=3, retry_policy=policy, **NEVER_TWICE)
    await place.fail()
    last = await place.fail()
    tables = cast("MemoryDriver", place.client.driver)._tables
    tables.runs[tables.find("first").seq].clear()  # type: ignore[union-attr]
    for asked, before in (("first", None), (last, None), (last, 1)):
        page = await place.admin.runs(asked, before=before)
        assert (numbered(page.runs), page.earlier) == ([] if before else [(last, 1)], 0)


@on_a_desk
async def test_the_api_leads_to_older_runs(desk: Desk, client: httpx2.AsyncClient) -> None:
    await tried(desk.app.client, "often", kind=desk.add.name)
    newest = (await client.get("/api/jobs/often/runs", params={"limit": 10**6})).json()
    assert (len(newest["runs"]), newest["earlier"]) == (RUNS_LIMIT, MORE)
    older = (await client.get("/api/jobs/often/runs", params={"before": newest["runs"][0]["attempt"], "limit": 2})).json()
    assert ([run["attempt"] for run in older["runs"]], older["earlier"]) == ([MORE - 1, MORE], MORE - 2)
    for wrong in ({"before": 0}, {"limit": 0}, {"before": "x"}, {"after": 1}):
        assert (await client.get("/api/jobs/often/runs", params=wrong)).status_code == 400
    assert (await client.get("/api/jobs/often/runs", params={"before": 2**63})).status_code == 422


@on_a_desk
async def test_the_page_leads_to_older_runs_and_their_logs(desk: Desk, client: httpx2.AsyncClient) -> None:
    await tried(desk.app.client, "often", kind=desk.add.name)
    newest = (await client.get("/jobs/often")).text
    assert f'href="/jobs/often?before={ALL - 49}"' in newest
    older = (await client.get("/jobs/often?before=60&run=3")).text
    assert "Run 59<" in older
    assert "Run 60<" not in older
    assert "in runs 10 to 59" in older
    assert "<p>run 3<" in older.replace("\n", "")
    assert 'href="/jobs/often?before=10"' in older
    oldest = (await client.get("/jobs/often?before=10")).text
    assert "Run 1<" in oldest
    assert "older run" not in oldest
    assert "none before run 1" in (await client.get("/jobs/often?before=1")).text


@on_a_desk
async def test_a_link_shows_its_run_also_with_a_thousand_links_behind_it(desk: Desk, client: httpx2.AsyncClient) -> None:
    await chained(desk.app.client)
    page = (await client.get("/jobs/first")).text
    assert "Run 1<" in page
    assert "none yet" not in page
    assert "older run" not in page
