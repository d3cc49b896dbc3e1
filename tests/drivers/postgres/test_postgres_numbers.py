"""Job numbers are 64 bits wide everywhere: in handles, cursors, positions and the ids of runs."""

from __future__ import annotations

import asyncio
import random
import re

import psycopg
import pytest

from windlass.clock import LAST_INSTANT, SECOND
from windlass.core.alterations import Replay
from windlass.core.changes import Ack, Fail
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.values import Claim, JobQuery, Renewal
from windlass.types import Claimed, NewJob

NOW = 1_800_000_000_000_000
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-([0-9a-f]{12,16})")


@pytest.mark.parametrize("start", [2**31 - 2, 2**48 - 2, 2**53 - 5])
@pytest.mark.parametrize("limited", [False, True])
def test_jobs_with_large_numbers_live_as_others_do(empty_store: tuple[str, str], start: int, limited: bool) -> None:
    asyncio.run(live(*empty_store, start, limited=limited))


async def live(dsn: str, schema: str, start: int, *, limited: bool) -> None:
    driver = PostgresDriver(dsn, schema=schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select setval(%s, %s)", (f"{schema}.jobs_seq", start))
        if limited:  # the claim of several statements
            connection.execute(f"insert into {schema}.limits (key, max_used) values ('k', 1)".encode())
    try:
        await driver.enqueue([NewJob(id=f"job-{n}", type="work", queue="ab"[n % 2]) for n in range(8)], now=NOW)
        seqs = list(range(start + 8, start, -1))
        first = await driver.find(JobQuery(limit=3))
        rest = await driver.find(JobQuery(limit=8, before=first.cursor))
        assert [job.seq for job in first.jobs + rest.jobs] == seqs
        assert [job.position for job in first.jobs] == [100 * seq for seq in seqs[:3]]
        taken = []
        for queues in (("a",), ("a", "b")):
            wish = Claim(queues=queues, limit=4, lease_for=SECOND, worker_id="w", token=f"token-{len(queues)}")
            taken += await driver.claim(wish, now=NOW)
        assert sorted(job.handle[0] for job in taken) == seqs[::-1]
        await check_runs(driver, taken)
        extended = await driver.extend([Renewal(job.handle, job.token) for job in taken], lease_for=SECOND, now=NOW + 1)
        assert {one.answer for one in extended} == {"applied"}
        ends = [Ack(handle=job.handle, token=job.token, at=NOW + 2) for job in taken]
        assert set(await driver.settle(ends, now=NOW + 2)) == {"applied"}
    finally:
        await driver.close()


async def check_runs(driver: PostgresDriver, taken: list[Claimed]) -> None:
    """The id in hand is the id in the store, no two are the same, and the job's number can be read from it."""
    told = {job.id: job for job in taken}
    assert len({job.run_id for job in told.values()}) == len(taken)
    for job_id, job in told.items():
        [run] = await driver.runs(job_id)
        assert run.run_id == job.run_id
        found = UUID.fullmatch(run.run_id)
        assert found is not None
        assert int(found[1], 16) == job.handle[0]


def test_the_server_reads_every_microsecond_as_it_was_written(empty_store: tuple[str, str]) -> None:
    dsn, schema = empty_store
    seed = random.Random(9)
    edges = [0, 1, 2**31 * SECOND, 2**32 * SECOND, 4_102_444_800 * SECOND, LAST_INSTANT]  # among them the start of 2100
    instants = [seed.randrange(end) for end in (LAST_INSTANT, 2**32 * SECOND) for _ in range(20_000)]
    instants += [edge + step for edge in edges for step in range(-2_000, 2_000)]
    with psycopg.connect(dsn) as connection:
        asked = f"select us, {schema}.micros({schema}.at(us)) from unnest(%s::bigint[]) as given (us)".encode()
        assert [(us, read) for us, read in connection.execute(asked, (instants,)) if us != read] == []


def test_a_number_that_a_hand_has_used_is_passed_over_by_a_job_that_is_brought_back(empty_store: tuple[str, str]) -> None:
    async def go(dsn: str, schema: str) -> None:
        driver = PostgresDriver(dsn, schema=schema)
        await driver.enqueue(
            [NewJob(id="first", type="work", retry_mode="new_job", crash_policy="fail", dedupe_key="one")], now=NOW
        )
        wish = Claim(queues=("default",), limit=1, lease_for=SECOND, worker_id="w", token="t")
        [job] = await driver.claim(wish, now=NOW)
        end = Fail(handle=job.handle, token=job.token, at=NOW, kind="rejected", run_status="failed", reason="no")
        assert await driver.settle([end], now=NOW) == ["applied"]
        with psycopg.connect(dsn, autocommit=True) as connection:
            by_hand = (
                f"insert into {schema}.jobs (seq, id, type, queue) select seq + 1, 'by hand', 'x', 'x' from {schema}.jobs"
            )
            connection.execute(by_hand.encode())
        assert await driver.alter([Replay("first", "second")], now=NOW) == ["applied"]
        await driver.close()

    asyncio.run(go(*empty_store))
