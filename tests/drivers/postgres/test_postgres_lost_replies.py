"""The connection breaks between a change and its answer: nothing is done twice, nothing is forgotten, nothing is guessed.

Each call is tried in both forms. Cut *before*, the server never got it; cut *after*, it did, and its answer was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal

import pytest

from postgres.calling import LEASE, Line, ack, line, new, retry, timed, wish
from postgres.proxy import COMMIT
from postgres.server import Server
from windlass.core.alterations import Replay, SetPaused
from windlass.core.changes import Fail
from windlass.drivers.values import Enqueued, Renewal
from windlass.errors import DuplicateId, DuplicateJob, OutcomeUnknown

Form = Literal["before", "after"]
Case = Callable[[Line, Callable[[bytes], Any]], Coroutine[Any, Any, None]]
PATIENT = 5.0


async def a_plain_enqueue_is_stored_once(tried: Line, cut: Callable[[bytes], Any]) -> None:
    jobs = [new() for _ in range(3)]
    cut(rb"insert into \S*jobs")
    answers = await tried.driver.enqueue(jobs, now=tried.now())
    assert answers == [Enqueued(job.id) for job in jobs]
    assert len(await tried.direct.claim(wish(), now=tried.now())) == 3


async def an_enqueue_with_keys_tells_duplicates_from_its_own(tried: Line, cut: Callable[[bytes], Any]) -> None:
    holder = new(dedupe_key="taken")
    await tried.direct.enqueue([holder], now=tried.now())
    fresh, duplicate, keyed = (
        new(dedupe_key="free"),
        new(dedupe_key="taken"),
        new(idempotency_key="once", idempotency_scope="s"),
    )
    cut(COMMIT)
    answers = await tried.driver.enqueue([fresh, duplicate, keyed], now=tried.now())
    assert answers == [Enqueued(fresh.id), Enqueued(holder.id, existed=True), Enqueued(keyed.id)]
    assert len(await tried.direct.claim(wish(), now=tried.now())) == 3


async def an_enqueue_of_duplicates_only_stores_nothing(tried: Line, cut: Callable[[bytes], Any]) -> None:
    holder = new(dedupe_key="taken")
    await tried.direct.enqueue([holder], now=tried.now())
    cut(COMMIT)
    answers = await tried.driver.enqueue([new(dedupe_key="taken")], now=tried.now())
    assert answers == [Enqueued(holder.id, existed=True)]


async def an_id_that_was_there_before_is_refused(tried: Line, cut: Callable[[bytes], Any]) -> None:
    await tried.direct.enqueue([new("mine")], now=tried.now() - 1)
    cut(rb"insert into \S*jobs")
    with pytest.raises(DuplicateId):
        await tried.driver.enqueue([new("mine"), new()], now=tried.now())
    assert len(await tried.direct.claim(wish(), now=tried.now())) == 1, "part of a refused batch is stored"


async def a_key_that_may_not_be_taken_twice_is_not_refused_to_its_owner(tried: Line, cut: Callable[[bytes], Any]) -> None:
    job = new(dedupe_key="mine", on_duplicate="raise")
    cut(COMMIT)
    assert await tried.driver.enqueue([job], now=tried.now()) == [Enqueued(job.id)]
    with pytest.raises(DuplicateJob):
        await tried.driver.enqueue([new(dedupe_key="mine", on_duplicate="raise")], now=tried.now())


async def claimed_jobs_are_adopted(tried: Line, cut: Callable[[bytes], Any]) -> None:
    await tried.direct.enqueue([new() for _ in range(5)], now=tried.now())
    cut(rb"skip locked")
    claim = wish(limit=3)
    jobs = await tried.driver.claim(claim, now=tried.now())
    assert [job.token for job in jobs] == [claim.token] * 3
    assert len(await tried.direct.claim(wish(), now=tried.now())) == 2, "some are leased to nobody"
    assert await tried.driver.settle([ack(job, tried.now()) for job in jobs], now=tried.now()) == ["applied"] * 3


async def a_batch_of_acks_is_repeated(tried: Line, cut: Callable[[bytes], Any]) -> None:
    jobs = await tried.claimed(3)
    cut(rb"update \S*jobs")
    answers = await tried.driver.settle([ack(job, tried.now()) for job in jobs], now=tried.now())
    assert set(answers) in ({"applied"}, {"repeated"})
    assert [job.state for job in await tried.direct.get([job.id for job in jobs]) if job] == ["succeeded"] * 3


async def a_mixed_settlement_is_repeated(tried: Line, cut: Callable[[bytes], Any]) -> None:
    jobs = await tried.claimed(2)
    cut(COMMIT)
    now = tried.now()
    answers = await tried.driver.settle([ack(jobs[0], now), retry(jobs[1], now)], now=now)
    assert set(answers) in ({"applied"}, {"repeated"})
    stored = await tried.direct.get([job.id for job in jobs])
    assert [(job.state, job.attempts) for job in stored if job] == [("succeeded", 0), ("queued", 1)]


async def a_renewal_is_repeated(tried: Line, cut: Callable[[bytes], Any]) -> None:
    [job] = await tried.claimed()
    cut(rb"update \S*jobs")
    now = tried.now() + 1
    [extended] = await tried.driver.extend([Renewal(job.handle, job.token)], lease_for=LEASE, now=now)
    assert (extended.answer, extended.expires_at) == ("applied", now + LEASE)


async def an_alteration_is_not_guessed(tried: Line, cut: Callable[[bytes], Any]) -> None:
    cut(COMMIT)
    _, answer = await timed(tried.driver.alter([SetPaused("default", True)], now=tried.now()))
    assert isinstance(answer, OutcomeUnknown)


async def an_alteration_that_did_not_come_to_its_commit_is_made_again(tried: Line, cut: Callable[[bytes], Any]) -> None:
    cut(rb"queues")
    assert await tried.driver.alter([SetPaused("default", True)], now=tried.now()) == ["applied"]


async def a_dead_job_that_was_nearly_back_is_brought_back(tried: Line, cut: Callable[[bytes], Any]) -> None:
    [job] = await tried.claimed()
    now = tried.now()
    failed = Fail(handle=job.handle, token=job.token, at=now, kind="rejected", run_status="failed", reason="no")
    assert await tried.direct.settle([failed], now=now) == ["applied"]
    cut(rb"update \S*jobs")
    assert await tried.driver.alter([Replay(job.id, "child")], now=now) == ["applied"]


async def a_sweep_is_repeated(tried: Line, cut: Callable[[bytes], Any]) -> None:
    await tried.claimed(2)
    cut(COMMIT)
    later = tried.now() + LEASE + 1
    count, undecided = await tried.driver.expire(now=later, limit=10)
    assert (count in (0, 2), undecided) == (True, [])
    assert len(await tried.direct.claim(wish(), now=later)) == 2


CASES: list[Case] = [
    a_plain_enqueue_is_stored_once, an_enqueue_with_keys_tells_duplicates_from_its_own,
    an_enqueue_of_duplicates_only_stores_nothing, an_id_that_was_there_before_is_refused,
    a_key_that_may_not_be_taken_twice_is_not_refused_to_its_owner, claimed_jobs_are_adopted, a_batch_of_acks_is_repeated,
    a_mixed_settlement_is_repeated, a_renewal_is_repeated, an_alteration_is_not_guessed,
    an_alteration_that_did_not_come_to_its_commit_is_made_again,
    a_dead_job_that_was_nearly_back_is_brought_back, a_sweep_is_repeated,
]  # fmt: skip


async def in_flight(case: Case, tried: Line, cut: Callable[[bytes], Any]) -> None:
    """With connections that are open, so that what can fly does."""
    await tried.driver.enqueue([new()], now=tried.now())
    [job] = await tried.driver.claim(wish(), now=tried.now())
    await tried.driver.settle([ack(job, tried.now())], now=tried.now())
    await case(tried, cut)


FLYING = [a_plain_enqueue_is_stored_once, an_id_that_was_there_before_is_refused, claimed_jobs_are_adopted]
FLYING.append(a_batch_of_acks_is_repeated)
PLAYS = [*CASES, *(partial(in_flight, case) for case in FLYING)]


@pytest.mark.parametrize("form", ["before", "after"])
@pytest.mark.parametrize("case", PLAYS, ids=lambda case: getattr(case, "__name__", "in_flight"))
def test_when_the_reply_is_lost(postgres_server: Server, case: Case, form: Form) -> None:
    with line(postgres_server, PATIENT) as tried:
        traps = []
        asyncio.run(case(tried, lambda pattern: traps.append(tried.proxy.trap(pattern, when=form))))
        assert [trap.sprung.is_set() for trap in traps] == [True], "the fault did not hit"


def test_a_claim_that_also_took_back_and_promoted_is_adopted(postgres_server: Server) -> None:
    """The long way, in a transaction."""

    async def play(tried: Line) -> None:
        await tried.direct.enqueue([new() for _ in range(2)], now=tried.now())
        await tried.direct.claim(wish(), now=tried.now())
        later = tried.now() + LEASE + 1
        await tried.direct.enqueue([new(run_at=later)], now=tried.now())
        trap = tried.proxy.cut_in_commit()
        jobs = await tried.driver.claim(wish(), now=later)
        assert trap.sprung.is_set()
        assert len(jobs) == 3
        assert await tried.driver.settle([ack(job, later) for job in jobs], now=later) == ["applied"] * 3

    with line(postgres_server, PATIENT) as tried:
        asyncio.run(play(tried))


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_conflict_is_tried_again_as_a_whole(postgres_server: Server, code: str) -> None:
    """The statement fails twice, on a connection that stays; then all of the transaction is made anew."""

    async def play(tried: Line) -> None:
        jobs = await tried.claimed(2)
        postgres_server.execute(f"create sequence {tried.schema}.hits")
        postgres_server.execute(
            f"create function {tried.schema}.conflict() returns trigger language plpgsql as $$ begin "
            f"if nextval('{tried.schema}.hits') <= 2 then raise 'in the way' using errcode = '{code}'; end if; "
            f"return new; end $$"
        )
        postgres_server.execute(
            f"create trigger conflict before update on {tried.schema}.jobs for each row "
            f"execute function {tried.schema}.conflict()"
        )
        before = tried.proxy.counts["accepted"]
        now = tried.now()
        answers = await tried.driver.settle([retry(jobs[0], now), retry(jobs[1], now)], now=now)
        assert answers == ["applied", "applied"]
        assert tried.proxy.counts["accepted"] - before <= 1, "a conflict is no reason to connect again"
        stored = await tried.direct.get([job.id for job in jobs])
        assert [job.attempts for job in stored if job] == [1, 1]

    with line(postgres_server, PATIENT) as tried:
        asyncio.run(play(tried))
