"""A row that somebody holds keeps nobody from the others: what an enqueue holds of a worker's jobs, what a settlement waits
for, how a new limit counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from postgres.calling import Line, ack, line, retry, timed
from postgres.programs import NOW, alter, check, claimed, enqueue, new, one_stage, settle, stage
from postgres.server import Server
from postgres.stepping import Stage, transaction
from windlass.core.changes import PutLimit
from windlass.core.settle import Failed, Succeeded
from windlass.drivers.postgres import keys, leases, settlement
from windlass.drivers.postgres.arrays import Ints
from windlass.drivers.postgres.link import BEGIN, COMMIT, ROLLBACK, Link, drive
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.protocol import Enqueued, Renewal
from windlass.drivers.statement import Op, Statement
from windlass.errors import StoreError
from windlass.types import NewJob

__all__ = ["one_stage", "stage"]

PROMPT = 0.5


def ask_for(*jobs: NewJob) -> Op[list[Enqueued]]:
    return (yield from transaction(keys.enqueue(jobs, NOW)))


# ------------------------------------------------------------------------------------------------- enqueues and workers


@pytest.mark.parametrize("how", ["ignore", "touch", "replace"])
@pytest.mark.parametrize("end", [Succeeded(), Succeeded(b"1"), Failed("no")])
def test_an_enqueue_never_keeps_a_worker_from_its_running_job(stage: Stage, how: Any, end: Any) -> None:
    """However long the transaction lasts in which it happens."""
    alter(stage, PutLimit("k", 5))
    enqueue(stage, new(dedupe_key="d", limit_keys=("k",)))
    jobs = claimed(stage)
    again = new(dedupe_key="d", on_duplicate=how)
    for outcome in stage.every(lambda: {"caller": ask_for(again), "worker": settle(jobs, end)}):
        assert outcome["worker"] == ["applied"], outcome
        assert not outcome.waited("worker"), outcome
        outcome["caller"]
        check(stage, outcome)


@pytest.mark.parametrize("how", ["touch", "replace"])
def test_an_enqueue_never_keeps_a_lease_from_being_renewed(stage: Stage, how: Any) -> None:
    enqueue(stage, new(dedupe_key="d"))
    jobs = claimed(stage)
    again = new(dedupe_key="d", on_duplicate=how)
    renewals = [Renewal(job.handle, job.token) for job in jobs]
    for outcome in stage.every(lambda: {"caller": ask_for(again), "worker": leases.extend(renewals, 9, NOW)}):
        assert [answer.expires_at for answer in outcome["worker"]] == [NOW + 9], outcome


# ---------------------------------------------------------------------------------------------------------- settlements


@pytest.mark.parametrize("end", [ack, retry])
def test_a_settlement_does_not_keep_others_of_its_batch_waiting_for_a_row_that_is_held(
    postgres_server: Server, end: Any
) -> None:
    async def play(tried: Line) -> None:
        jobs = await tried.claimed(3)

        async def running() -> set[str]:
            return {job.id for job in await tried.direct.get([job.id for job in jobs]) if job and job.state == "running"}

        with Link(tried.direct.place).open() as locker, locker.transaction():
            locker.execute(f"select from {tried.schema}.jobs where id = '{jobs[1].id}' for update".encode())
            batch = asyncio.create_task(tried.driver.settle([end(job, tried.now()) for job in jobs], now=tried.now()))
            async with asyncio.timeout(PROMPT):
                while await running() != {jobs[1].id}:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.01)
            assert not batch.done()
        assert await batch == ["applied"] * 3
        assert await running() == set()

    with line(postgres_server, 5) as tried:
        asyncio.run(play(tried))


@pytest.mark.parametrize("end", [ack, retry])
def test_a_settlement_does_not_keep_other_settlements_waiting_for_a_row_that_is_held(
    postgres_server: Server, end: Any
) -> None:
    async def play(tried: Line) -> None:
        held, *others = await tried.claimed(3)
        with Link(tried.direct.place).open() as locker, locker.transaction():
            locker.execute(f"select from {tried.schema}.jobs where id = '{held.id}' for update".encode())
            stuck = asyncio.create_task(tried.driver.settle([end(held, tried.now())], now=tried.now()))
            await asyncio.sleep(0.1)
            for job in others:
                took, answers = await timed(tried.driver.settle([ack(job, tried.now())], now=tried.now()))
                assert answers == ["applied"]
                assert took < PROMPT
            assert not stuck.done()
        assert await stuck == ["applied"]

    with line(postgres_server, 5) as tried:
        asyncio.run(play(tried))


def test_a_settlement_of_a_row_that_is_held_ends_in_time(postgres_server: Server) -> None:
    async def play(tried: Line) -> None:
        [job] = await tried.claimed()
        with Link(tried.direct.place).open() as locker, locker.transaction():
            locker.execute(f"select from {tried.schema}.jobs where id = '{job.id}' for update".encode())
            took, answer = await timed(tried.driver.settle([ack(job, tried.now())], now=tried.now()))
            assert isinstance(answer, StoreError)
            assert took < 1 + 2 * PROMPT
        assert await tried.driver.settle([ack(job, tried.now())], now=tried.now()) == ["applied"]

    with line(postgres_server, 1) as tried:
        asyncio.run(play(tried))


def test_what_comes_for_a_job_after_a_change_that_was_passed_over_is_passed_over_too(stage: Stage) -> None:
    """The row is held when the first of two is tried, and free when the second is."""
    enqueue(stage, new())
    [job] = claimed(stage)
    units = [retry(job, NOW), ack(job, NOW)]
    somebody = Link(stage.place)
    try:
        somebody.execute(BEGIN)
        somebody.execute(SQL.lock_guards(seqs=Ints([job.handle[0]])))
        looks = 0

        def execute(statement: Statement) -> list[Any]:
            nonlocal looks
            rows = stage.own.execute(statement)
            looks += statement.sql == SQL.guards(seqs=Ints([])).sql
            if looks == 1 and somebody.connection is not None:
                somebody.execute(ROLLBACK)
            return rows

        stage.own.execute(BEGIN)
        assert drive(settlement.settle_free(units, NOW), execute) == [None, None]
        stage.own.execute(COMMIT)
    finally:
        somebody.close()
