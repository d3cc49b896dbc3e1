"""A row that somebody holds keeps nobody from the others: what an enqueue holds of a worker's jobs, what a settlement waits
for, how a new limit counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from postgres.calling import Line, ack, line, retry, timed
from postgres.calling import new as job_of
from postgres.programs import NOW, alter, check, claimed, enqueue, held, new, settle, sweep, wanted, whole, wish
from postgres.server import Server
from postgres.stepping import Stage, transaction
from windlass.core.alterations import Alteration, Cancel, Delete, PauseLimit, PutGroup, PutLimit, PutQueue
from windlass.core.changes import Settlement
from windlass.core.duties import Done, Prune
from windlass.core.settle import Failed, Succeeded
from windlass.drivers.postgres import deleting, keys, leases, limits, settlement
from windlass.drivers.postgres.arrays import Ints
from windlass.drivers.postgres.link import BEGIN, COMMIT, ROLLBACK, Link, drive
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op, Statement
from windlass.drivers.values import Enqueued, Renewal, RowsHeld
from windlass.errors import StoreBusy, StoreError
from windlass.types import NewJob

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


@pytest.mark.parametrize("end", [ack, retry])
def test_a_settlement_that_gives_up_waiting_for_a_row_tells_what_became_of_the_others(
    postgres_server: Server, end: Any
) -> None:
    async def play(tried: Line) -> None:
        jobs = await tried.claimed(3)
        with Link(tried.direct.place).open() as locker, locker.transaction():
            locker.execute(f"select from {tried.schema}.jobs where id = '{jobs[1].id}' for update".encode())
            with pytest.raises(RowsHeld) as told:
                await tried.driver.settle([end(job, tried.now()) for job in jobs], now=tried.now())
            assert told.value.answers == ["applied", None, "applied"]
            assert told.value.retryable

    with line(postgres_server, 1) as tried:
        asyncio.run(play(tried))


def test_what_a_settlement_brings_back_is_told_of_although_it_gives_up_waiting_for_another_row(
    postgres_server: Server,
) -> None:
    """Nobody settles those again that were stored, so nobody else would tell."""

    async def play(tried: Line) -> None:
        back, stuck = await tried.claimed(2)
        while await tried.direct.wait(timeout=0.3):
            pass
        heard = asyncio.create_task(tried.direct.wait(timeout=3))
        with Link(tried.direct.place).open() as locker, locker.transaction():
            locker.execute(f"select from {tried.schema}.jobs where id = '{stuck.id}' for update".encode())
            with pytest.raises(RowsHeld):
                await tried.driver.settle([retry(back, tried.now()), ack(stuck, tried.now())], now=tried.now())
            assert await heard

    with line(postgres_server, 1) as tried:
        asyncio.run(play(tried))


def test_a_row_of_somebody_else_that_refers_to_a_job_keeps_nobody_from_its_lease_and_its_end(
    postgres_server: Server,
) -> None:
    """A table of the application's with a foreign key to the jobs, written in a transaction that stays open: often that of
    the very handler."""

    async def play(tried: Line) -> None:
        acked, failed, lapsing, cancelled = await tried.claimed(4)
        with Link(tried.direct.place).open() as theirs:
            theirs.execute(f"create table orders (job bigint references {tried.schema}.jobs (seq))".encode())
            with theirs.transaction():
                for job in (acked, failed, lapsing, cancelled):
                    theirs.execute(f"insert into orders values ({job.handle[0]})".encode())
                now = tried.now()
                beats = [Renewal(job.handle, job.token) for job in (acked, failed)]
                later = now + 2 * 3_600_000_000
                told = await tried.driver.extend(beats, lease_for=2 * 3_600_000_000, now=now)
                assert [(one.answer, one.expires_at) for one in told] == [("applied", later)] * 2
                assert await tried.driver.alter([Cancel(cancelled.id)], now=now) == ["requested"]
                assert await tried.driver.settle([ack(acked, now), retry(failed, now)], now=now) == ["applied"] * 2
                back, undecided = await tried.driver.expire(now=lapsing.lease_expires_at, limit=10)
                assert (back, [job.id for job in undecided]) == (1, [cancelled.id])

    with line(postgres_server, 1) as tried:
        asyncio.run(play(tried))


def test_retention_does_not_wait_for_who_refers_to_a_job(postgres_server: Server) -> None:
    """What is left out goes with a later bite; waited for, it would keep all others for as long."""

    async def play(tried: Line) -> None:
        jobs = await tried.claimed(3)
        assert await tried.driver.settle([ack(job, tried.now()) for job in jobs], now=tried.now()) == ["applied"] * 3
        everything = Prune(succeeded=0)
        with Link(tried.direct.place).open() as theirs:
            table = f"create table bills (job bigint references {tried.schema}.jobs (seq) on delete cascade)"
            theirs.execute(table.encode())
            with theirs.transaction():
                theirs.execute(f"insert into bills values ({jobs[1].handle[0]})".encode())
                took, done = await timed(tried.driver.maintain(everything, epoch=None, now=tried.now()))
                assert (done, took < PROMPT) == (Done(2), True)
        assert await tried.driver.maintain(everything, epoch=None, now=tried.now()) == Done(1)

    with line(postgres_server, 2) as tried:
        asyncio.run(play(tried))


def test_what_somebody_holds_keeps_nothing_behind_it_from_being_pruned(postgres_server: Server) -> None:
    """However much of it there is: the sweep comes to its end without it, and the next one looks again."""

    async def play(tried: Line) -> None:
        jobs = await tried.claimed(7)
        assert await tried.driver.settle([ack(job, tried.now()) for job in jobs], now=tried.now()) == ["applied"] * 7

        async def swept() -> list[Done | None]:
            bites: list[Done | None] = []
            while len(bites) < 9 and (not bites or (bites[-1] is not None and bites[-1].more)):
                bites.append(await tried.driver.maintain(Prune(succeeded=0, limit=2), epoch=None, now=tried.now()))
            return bites

        with Link(tried.direct.place).open() as locker, locker.transaction():
            oldest = f"(select seq from {tried.schema}.jobs order by finished_at, seq limit 4)"
            locker.execute(f"select from {tried.schema}.jobs where seq in {oldest} for key share".encode())
            assert await swept() == [Done(0, more=True)] * 2 + [Done(2, more=True), Done(1)]
        assert await swept() == [Done(2, more=True)] * 2 + [Done(0)]

    with line(postgres_server, 2) as tried:
        asyncio.run(play(tried))


def test_a_group_that_somebody_holds_keeps_retention_from_nothing_else(postgres_server: Server) -> None:
    async def play(tried: Line) -> None:
        now = tried.now()
        member, other = job_of(group_id="g"), job_of()
        await tried.driver.alter([PutGroup("g", 1)], now=now)
        await tried.driver.enqueue([member, other], now=now)
        assert await tried.driver.alter([Cancel(member.id), Cancel(other.id)], now=now) == ["applied"] * 2
        with Link(tried.direct.place).open() as locker, locker.transaction():
            locker.execute(f"select from {tried.schema}.groups for no key update".encode())
            assert await tried.driver.maintain(Prune(cancelled=0), epoch=None, now=now) == Done(1)
        assert await tried.driver.maintain(Prune(cancelled=0), epoch=None, now=now) == Done(1)

    with line(postgres_server, 2) as tried:
        asyncio.run(play(tried))


@pytest.mark.parametrize("lock", ["key share", "no key update"])
def test_a_deletion_waits_for_nobody_who_holds_the_row(postgres_server: Server, lock: str) -> None:
    """Not as long as the store's patience lasts, while it holds rows that others share."""

    async def play(tried: Line) -> None:
        held, free = await tried.claimed(2)
        assert (
            await tried.driver.settle([ack(job, tried.now()) for job in (held, free)], now=tried.now()) == ["applied"] * 2
        )
        deletions = [Delete(held.id), Delete(free.id)]
        with Link(tried.direct.place).open() as locker, locker.transaction():
            locker.execute(f"select from {tried.schema}.jobs where id = '{held.id}' for {lock}".encode())
            assert await tried.driver.alter(deletions, now=tried.now()) == ["busy", "applied"]
        assert await tried.driver.alter(deletions, now=tried.now()) == ["applied", "not_found"]

    with line(postgres_server, 5) as tried:
        asyncio.run(play(tried))


def test_a_foreign_key_that_is_looked_at_late_keeps_only_what_it_refers_to(postgres_server: Server) -> None:
    """At the commit nobody knows any more which row it was, and all of them would stay: Django makes them so."""

    async def play(tried: Line) -> None:
        kept, gone, deleted = await tried.claimed(3)
        ends = [ack(job, tried.now()) for job in (kept, gone, deleted)]
        assert await tried.driver.settle(ends, now=tried.now()) == ["applied"] * 3
        with Link(tried.direct.place).open() as theirs:
            rule = "deferrable initially deferred"
            theirs.execute(f"create table notes (job text references {tried.schema}.jobs (id) {rule})".encode())
            theirs.execute(f"insert into notes values ('{kept.id}')".encode())
        deletions = [Delete(kept.id), Delete(deleted.id)]
        assert await tried.driver.alter(deletions, now=tried.now()) == ["referred", "applied"]
        done = await tried.driver.maintain(Prune(succeeded=0), epoch=None, now=tried.now())
        assert done is not None
        assert (done.rows, "notes" in done.refused) == (1, True)

    with line(postgres_server, 2) as tried:
        asyncio.run(play(tried))


def test_what_would_go_with_a_job_and_is_held_keeps_no_other_from_being_pruned(postgres_server: Server) -> None:
    async def play(tried: Line) -> None:
        jobs = await tried.claimed(5)
        assert await tried.driver.settle([ack(job, tried.now()) for job in jobs], now=tried.now()) == ["applied"] * 5
        with Link(tried.direct.place).open() as theirs:
            key = f"references {tried.schema}.jobs (seq) on delete cascade"
            theirs.execute(f"create table parcels (job bigint {key}, note text)".encode())
            theirs.execute(f"insert into parcels values ({jobs[2].handle[0]})".encode())
            with theirs.transaction():
                theirs.execute(b"update parcels set note = 'x'")
                assert await tried.driver.maintain(Prune(succeeded=0), epoch=None, now=tried.now()) == Done(4)
        assert await tried.driver.maintain(Prune(succeeded=0), epoch=None, now=tried.now()) == Done(1)

    with line(postgres_server, 5) as tried:
        asyncio.run(play(tried))


def test_a_bite_that_is_cut_off_is_told_as_what_may_pass(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is not asked to undo a part of it: it knows of none any more."""
    monkeypatch.setattr(deleting, "BRIEFLY", "0")  # for ever

    async def play(tried: Line) -> None:
        [job] = await tried.claimed()
        assert await tried.driver.settle([ack(job, tried.now())], now=tried.now()) == ["applied"]
        with Link(tried.direct.place).open() as theirs:
            key = f"references {tried.schema}.jobs (seq) on delete cascade"
            theirs.execute(f"create table boxes (job bigint {key}, note text)".encode())
            theirs.execute(f"insert into boxes values ({job.handle[0]})".encode())
            with theirs.transaction():
                theirs.execute(b"update boxes set note = 'x'")
                with pytest.raises(StoreError) as told:
                    await tried.driver.maintain(Prune(succeeded=0), epoch=None, now=tried.now())
                assert told.value.retryable

    with line(postgres_server, 1) as tried:
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
    units: list[Settlement] = [retry(job, NOW), ack(job, NOW)]
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


# ------------------------------------------------------------------------------------------------------------ new limits


def used(stage: Stage) -> list[Any]:
    """Permits in use as counted, and as they are."""
    running = "select count(*)::int from windlass.jobs where state = 'running' and limit_keys ? 'k'"
    return stage.ask(f"select used::int, ({running}) from windlass.limits where key = 'k'")


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes a limit waits for as long as a step takes: on a slow machine it would give up and begin anew, and no two
    courses of the same steps would be alike."""
    monkeypatch.setattr(limits, "BRIEFLY", 60_000)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("limited", [False, True])
def test_a_new_limit_counts_claims_that_are_under_way(stage: Stage, limited: bool) -> None:
    alter(stage, *([PutLimit("other", 5)] if limited else []))
    enqueue(stage, new(limit_keys=("k",)), new(limit_keys=("k",)))
    one = wish("one", limit=1)
    for outcome in stage.every(lambda: {"claim": whole(one) if limited else held(one), "person": wanted(PutLimit("k", 5))}):
        assert outcome["person"] == ["applied"], outcome
        outcome["claim"]
        [(counted, running)] = used(stage)
        assert counted == running, outcome
        check(stage, outcome)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("end", [Succeeded(), Failed("no")])
def test_a_new_limit_does_not_count_what_is_just_ending(stage: Stage, end: Any) -> None:
    enqueue(stage, new(limit_keys=("k",)), new(limit_keys=("k",)))
    jobs = claimed(stage, limit=1)
    for outcome in stage.every(lambda: {"worker": settle(jobs, end), "person": wanted(PutLimit("k", 5))}):
        assert (outcome["worker"], outcome["person"]) == (["applied"], ["applied"]), outcome
        assert used(stage) == [(0, 0)], outcome
        check(stage, outcome)


@pytest.mark.usefixtures("unhurried")
def test_a_new_limit_does_not_count_what_is_just_ending_beside_one_who_holds_permits(stage: Stage) -> None:
    """Plain successes with permits end by what was seen of them before their limits were held: a limit that was made
    between the look and the end would count the other one for ever."""
    alter(stage, PutLimit("other", 5))
    enqueue(stage, new(limit_keys=("other",)), new(limit_keys=("k",)))
    jobs = claimed(stage)
    for outcome in stage.every(lambda: {"worker": settle(jobs), "person": wanted(PutLimit("k", 5))}):
        assert (outcome["worker"], outcome["person"]) == (["applied"] * 2, ["applied"]), outcome
        assert used(stage) == [(0, 0)], outcome
        check(stage, outcome)


@pytest.mark.usefixtures("unhurried")
def test_a_new_limit_does_not_count_what_is_just_taken_back(stage: Stage) -> None:
    enqueue(stage, new(limit_keys=("k",)))
    claimed(stage)
    for outcome in stage.every(lambda: {"sweep": sweep(), "person": wanted(PutLimit("k", 5))}):
        assert (outcome["sweep"][0], outcome["person"]) == (1, ["applied"]), outcome
        assert used(stage) == [(0, 0)], outcome
        check(stage, outcome)


def test_two_who_make_limits_at_once_and_a_claim_do_not_wait_in_a_ring(stage: Stage) -> None:
    alter(stage, PutLimit("other", 5))
    enqueue(stage, new(limit_keys=("k", "other")), new(limit_keys=("l", "other")))
    one, wishes = wish("one"), [PutLimit("k", 2), PutLimit("other", 4), PutLimit("l", 3)]
    for outcome in stage.some(
        lambda: {"claim": whole(one), "one": wanted(*wishes), "two": wanted(*wishes[::-1])}, rounds=30, seed=7
    ):
        assert (outcome["one"], outcome["two"], len(outcome["claim"])) == (["applied"] * 3, ["applied"] * 3, 2), outcome
        check(stage, outcome)


def test_who_makes_a_limit_and_changes_another_does_not_wait_in_a_ring_with_a_sweep(stage: Stage) -> None:
    alter(stage, PutLimit("other", 5))
    enqueue(stage, new(limit_keys=("other",)))
    claimed(stage)
    for outcome in stage.every(lambda: {"sweep": sweep(), "person": wanted(PutLimit("k", 2), PutLimit("other", 4))}):
        assert (outcome["sweep"][0], outcome["person"]) == (1, ["applied"] * 2), outcome
        check(stage, outcome)


def test_people_who_make_a_limit_among_other_things_do_not_wait_in_a_ring_with_workers(stage: Stage) -> None:
    """Of rows that claims and settlements hold when they come to their runs."""
    alter(stage, PutGroup("g", 3), PutQueue("default"))
    enqueue(stage, new(id="a", group_id="g"))
    jobs = claimed(stage)
    enqueue(stage, new(id="b", group_id="g", run_at=NOW + 1))
    one = wish("one")
    wishes: list[Alteration] = [PutLimit("k", 2), Cancel("a"), Cancel("b"), PutQueue("default")]

    def programs() -> dict[str, Any]:
        ended, person = settle(jobs, Succeeded(b"1")), wanted(*wishes, now=NOW + 1)
        return {"claim": whole(one, NOW + 1), "settle": ended, "person": person}

    for outcome in stage.some(programs, rounds=60, seed=8):
        assert outcome["settle"] == ["applied"], outcome
        assert len(outcome["person"]) == 4, outcome
        outcome["claim"]
        check(stage, outcome)


def test_a_new_limit_gives_up_before_it_stops_everybody(postgres_server: Server) -> None:
    """Somebody has claimed and does not commit: whoever comes after the limit does not wait for long."""

    async def play(tried: Line) -> None:
        [mine] = await tried.claimed()
        await tried.direct.enqueue([job_of()], now=tried.now())
        with Link(tried.direct.place).open() as somebody, somebody.transaction():
            somebody.execute(f"delete from {tried.schema}.barrier where false".encode())
            limit = asyncio.create_task(timed(tried.driver.alter([PutLimit("k", 1)], now=tried.now())))
            await asyncio.sleep(0.1)
            took, answers = await timed(tried.driver.settle([retry(mine, tried.now())], now=tried.now()))
            assert answers == ["applied"]
            assert took < 1
            _, answer = await limit
            assert isinstance(answer, StoreBusy)
        assert await tried.driver.alter([PutLimit("k", 1)], now=tried.now()) == ["applied"]

    with line(postgres_server, 5) as tried:
        asyncio.run(play(tried))


@pytest.mark.parametrize("table", ["jobs", "runs"])
def test_limits_and_pauses_are_made_while_a_table_is_vacuumed(postgres_server: Server, table: str) -> None:
    """Which on a busy store is most of the time; by the lock that a vacuum has, and whoever makes an index meanwhile."""

    async def play(tried: Line) -> None:
        with Link(tried.direct.place).open() as somebody, somebody.transaction():
            somebody.execute(f"lock table {tried.schema}.{table} in share update exclusive mode".encode())
            changes: list[Alteration] = [PutLimit("k", 1), PauseLimit("type:work", True)]
            assert await tried.driver.alter(changes, now=tried.now()) == ["applied", "applied"]

    with line(postgres_server, 5) as tried:
        asyncio.run(play(tried))
