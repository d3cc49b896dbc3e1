"""What claims do beside each other and beside those who end, change or make jobs: whom they keep, what they overlook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from postgres.programs import (
    LATER,
    NOW,
    alter,
    check,
    claim,
    claimed,
    enqueue,
    ids,
    new,
    settle,
    settled,
    wanted,
    whole,
    wish,
)
from postgres.stepping import Stage, before, transaction
from windlass.core.alterations import Cancel, CancelGroup, PutGroup, PutLimit, PutQueue, Revoke
from windlass.core.changes import Ack, Retry, Settlement
from windlass.core.settle import Succeeded
from windlass.drivers.ops import people
from windlass.drivers.postgres import jobs, leases, linking, settlement
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.link import Link, drive
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op, Statement
from windlass.drivers.values import Claim

SEVERAL = [("default",), ("default", "b")]


@pytest.fixture
def other(stage: Stage) -> Iterator[Link]:
    """Somebody else, who sees what is committed and takes what nobody holds."""
    link = Link(stage.place)
    yield link
    link.close()


def free(other: Link) -> int:
    """How many jobs nobody holds."""
    query = "select count(*)::int from (select from windlass.jobs for update skip locked) as free"
    [(count,)] = other.execute(Statement(query, ()))
    return int(count)


@pytest.mark.parametrize("queues", SEVERAL)
def test_what_somebody_holds_that_is_due_keeps_no_claim_from_what_is_ready(stage: Stage, queues: tuple[str, ...]) -> None:
    [due] = enqueue(stage, new(run_at=NOW + 1))
    [ready] = enqueue(stage, new())
    one = wish("one", *queues)
    for outcome in stage.every(lambda: {"one": claim(one, NOW + 1), "two": wanted(Cancel(due), now=NOW + 1)}):
        assert ready in ids(outcome["one"]), outcome
        assert not outcome.waited("one"), outcome
        check(stage, outcome)


@pytest.mark.parametrize("queues", SEVERAL)
@pytest.mark.parametrize("key", ["k", "of nobody"])
def test_a_transaction_locks_no_job_before_limits_that_have_just_come(
    stage: Stage, other: Link, queues: tuple[str, ...], key: str
) -> None:
    """Also when they concern none of its jobs, which it cannot know before it has picked them."""
    alter(stage, PutLimit(key, 1))
    enqueue(stage, new(limit_keys=("k",)))

    def asked() -> Op[tuple[int, int]]:
        [row] = yield leases.claim_statement(wish("one", *queues), NOW, look=False)
        return row[0], free(other)

    assert stage.do(asked()) == (leases.LIMITED, 1)


def test_who_finds_the_first_of_several_queues_held_is_told_to_look_again(stage: Stage) -> None:
    """Whoever holds it may let go of it, or take it for good: then another stands first."""
    first, second = enqueue(stage, new(queue="a"), new(queue="b"))
    one, two = wish("one", "a", limit=1), wish("two", "a", "b", limit=1)

    holder = Link(stage.place)
    try:
        with holder.open() as connection, connection.transaction():
            assert ids(holder.run(leases.claim_at_once(one, NOW))[0]) == [first]
            assert stage.do(leases.claim_at_once(two, NOW)) == ([], leases.CONTENDED)
    finally:
        holder.close()
    assert ids(stage.do(leases.claim_at_once(two, NOW))[0]) == [second]


def test_a_lost_claim_is_known_by_its_token(stage: Stage) -> None:
    """And no more when its leases were taken away in the meantime."""

    def again(claim: Claim) -> list[str]:
        return ids(stage.do(leases.claimed_before(claim, NOW)))

    jobs = enqueue(stage, new(), new())
    one, two = wish("one", limit=1), wish("two", limit=1)
    for one_of_two in (one, two):
        stage.do(leases.claim_at_once(one_of_two, NOW))
    assert (again(one), again(two), again(wish("three"))) == (jobs[:1], jobs[1:], [])
    stage.do(people.alter(DIALECT, [Revoke("one")], NOW + 1))
    assert (again(one), again(two)) == ([], jobs[1:])


def test_a_lost_enqueue_is_known_by_its_ids(stage: Stage) -> None:
    """Others may be made at the same instant."""
    mine, others = [new(), new()], [new()]
    enqueue(stage, *others)
    assert stage.do(jobs.enqueued_before(mine, NOW)) == set()
    enqueue(stage, *mine)
    assert stage.do(jobs.enqueued_before(mine, NOW)) == {job.id for job in mine}
    assert stage.do(jobs.enqueued_before(mine, NOW + 1)) == set()


def test_a_settlement_keeps_no_claim_from_other_jobs(stage: Stage) -> None:
    enqueue(stage, new())
    running = claimed(stage)
    [ready] = enqueue(stage, new())
    one = wish("one")
    for outcome in stage.every(lambda: {"one": settle(running, Succeeded(b"x")), "two": claim(one)}):
        assert (outcome["one"], ids(outcome["two"])) == (["applied"], [ready]), outcome
        check(stage, outcome)


def test_a_settlement_that_others_wait_for_waits_for_no_other_job(stage: Stage) -> None:
    enqueue(stage, new())
    [parent] = claimed(stage)
    [_, apart] = enqueue(stage, new(after=(parent.id,)), new())
    for outcome in stage.every(lambda: {"one": settle([parent], Succeeded(b"x")), "two": wanted(Cancel(apart))}):
        assert (outcome["one"], outcome["two"]) == (["applied"], ["applied"]), outcome
        assert not outcome.waited("one"), outcome
        check(stage, outcome)


@pytest.mark.parametrize("members", [1, 2])
def test_a_cancel_and_the_cancel_of_its_group_do_not_wait_in_a_ring(stage: Stage, members: int) -> None:
    alter(stage, PutGroup("g", members))
    [first, *_] = enqueue(stage, *(new(group_id="g") for _ in range(members)))
    for outcome in stage.every(lambda: {"one": wanted(Cancel(first)), "two": wanted(CancelGroup("g"))}):
        assert [outcome.error(name) for name in ("one", "two")] == [None, None], outcome
        check(stage, outcome)


def test_a_failure_that_becomes_a_cancel_and_the_cancel_of_its_group_do_not_wait_in_a_ring(stage: Stage) -> None:
    """What ends as a wish to cancel says counts in its group, whatever its worker has sent."""
    alter(stage, PutGroup("g", 2))
    enqueue(stage, new(group_id="g"), new(group_id="g"))
    [job] = claimed(stage, limit=1)
    alter(stage, Cancel(job.id))
    failed = Retry(handle=job.handle, token=job.token, at=NOW, run_at=None, attempts=1, error="no")
    for outcome in stage.every(lambda: {"one": settled([failed], NOW), "two": wanted(CancelGroup("g"))}):
        assert outcome["one"] == ["applied"], outcome
        assert outcome.error("two") is None, outcome
        check(stage, outcome)


def test_who_revokes_among_other_things_does_not_wait_in_a_ring(stage: Stage) -> None:
    """Rows of the leases that are taken away are locked with those of the other changes, in one order."""
    enqueue(stage, new(), new())
    first, second = ids(claimed(stage))
    one, two = (Cancel(second), Revoke("first")), (Cancel(first), Cancel(second))
    for outcome in stage.every(lambda: {"one": wanted(*one), "two": wanted(*two)}):
        assert [outcome.error(name) for name in ("one", "two")] == [None, None], outcome
        check(stage, outcome)


def test_two_who_change_queues_in_another_order_do_not_wait_in_a_ring(stage: Stage) -> None:
    alter(stage, PutQueue("a"), PutQueue("b"))
    one, two = (
        (PutQueue("a", preset="x"), PutQueue("b", preset="x")),
        (PutQueue("b", preset="y"), PutQueue("a", preset="y")),
    )
    for outcome in stage.every(lambda: {"one": wanted(*one), "two": wanted(*two)}):
        assert outcome["one"] == outcome["two"] == ["applied"] * 2, outcome
        assert len(stage.ask("select distinct preset from windlass.queues")) == 1, outcome


def test_who_replaces_a_job_that_is_just_cancelled_leaves_it_as_it_was(stage: Stage) -> None:
    enqueue(stage, new(dedupe_key="d", payload=b'"old"'))
    [(job,)] = stage.ask("select id from windlass.jobs")

    def replaced() -> Op[object]:
        again = new(dedupe_key="d", payload=b'"new"', on_duplicate="replace")
        return (yield from transaction(linking.enqueue([again], NOW + 9)))

    for outcome in stage.every(lambda: {"one": replaced(), "two": wanted(Cancel(job), now=NOW + 5)}):
        assert outcome["two"] == ["applied"], outcome
        [(payload, changed)] = stage.ask(
            "select payload, windlass.micros(updated_at) from windlass.jobs where id = $1", job
        )
        assert bytes(payload) == b'"old"' or changed > NOW + 9, f"{outcome}: it was replaced after its end"
        check(stage, outcome)


def test_what_runs_again_is_what_ran_before(stage: Stage) -> None:
    """Who replaces a job that has begun to run since leaves it alone, though it waits for its next try by then."""
    enqueue(stage, new(dedupe_key="d", payload=b'"old"'))
    one = wish("one")

    def replaced() -> Op[object]:
        again = new(dedupe_key="d", payload=b'"new"', on_duplicate="replace")
        return (yield from transaction(linking.enqueue([again], NOW)))

    def tried() -> Op[list[bytes]]:
        taken = yield from claim(one)
        for job in taken:
            failed = Retry(handle=job.handle, token=job.token, at=NOW, run_at=None, attempts=1, error="no")
            yield from settled([failed], NOW)
        return [job.payload for job in taken]

    for outcome in stage.every(lambda: {"one": replaced(), "two": tried()}):
        kept = stage.ask("select payload from windlass.jobs where executions = 1")
        assert [bytes(payload) for (payload,) in kept] == outcome["two"], outcome
        check(stage, outcome)


def test_who_is_put_off_after_it_was_picked_is_not_taken_before_its_time(stage: Stage, other: Link) -> None:
    """A transaction picks without locks, and looks again at what it has locked."""
    alter(stage, PutLimit("of nobody", 1))
    [job] = enqueue(stage, new())

    def put_off() -> None:
        [taken] = drive(whole(wish("two")), other.execute)
        unit = Retry(handle=taken.handle, token=taken.token, at=NOW, run_at=NOW + 1, attempts=1, error="no")
        assert drive(settled([unit], NOW), other.execute) == ["applied"]

    assert stage.do(before(SQL.take, leases.claim(wish("one"), NOW), put_off)) == []
    assert ids(stage.do(leases.claim(wish("three"), NOW + 1))) == [job]


def test_what_is_to_be_cancelled_after_it_was_seen_to_have_lapsed_does_not_come_back(stage: Stage, other: Link) -> None:
    enqueue(stage, new())
    [job] = claimed(stage)

    def cancel() -> None:
        assert drive(wanted(Cancel(job.id)), other.execute) == ["requested"]

    count, _, undecided = stage.do(before(SQL.expire, leases.expire(LATER, 100), cancel))
    assert (count, ids(undecided)) == (0, [job.id])


def test_what_is_told_of_a_job_after_an_end_that_others_wait_for_is_left_with_it(stage: Stage) -> None:
    """To a transaction that may wait: it would come before that end."""
    enqueue(stage, new())
    [parent] = claimed(stage)
    enqueue(stage, new(after=(parent.id,)))
    told: dict[str, Any] = {"handle": parent.handle, "token": parent.token, "at": NOW}
    units: list[Settlement] = [Ack(**told), Retry(**told, run_at=None, attempts=1, error="no")]
    assert stage.do(settlement.settle_free(units, NOW)) == [None, None]
    assert stage.do(settlement.settle(units, NOW)) == ["applied", "not_inflight"]


def test_who_has_run_since_it_was_looked_at_is_not_replaced(stage: Stage, other: Link) -> None:
    """Though it waits for its next try by then."""
    enqueue(stage, new(dedupe_key="d", payload=b'"old"'))
    again = new(dedupe_key="d", payload=b'"new"', on_duplicate="replace")

    def tried() -> None:
        [taken] = drive(claim(wish("one")), other.execute)
        unit = Retry(handle=taken.handle, token=taken.token, at=NOW, run_at=None, attempts=1, error="no")
        assert drive(settled([unit], NOW), other.execute) == ["applied"]

    stage.do(before(SQL.lock_holders, linking.enqueue([again], NOW), tried))
    [(payload,)] = stage.ask("select payload from windlass.jobs")
    assert bytes(payload) == b'"old"'
