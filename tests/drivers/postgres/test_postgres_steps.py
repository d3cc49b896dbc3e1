"""The statements of PostgreSQL keep their promises whoever comes between them: every interleaving of short programs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from postgres.programs import (
    LATER,
    LEASE,
    NOW,
    alter,
    check,
    claim,
    claimed,
    enqueue,
    held,
    ids,
    new,
    settle,
    sweep,
    wanted,
    whole,
    wish,
)
from postgres.stepping import Stage, transaction
from windlass.core.alterations import Cancel, PutGroup, PutLimit
from windlass.core.changes import Answer
from windlass.core.recovery import recover
from windlass.core.settle import Execution, Failed, Succeeded
from windlass.drivers.postgres import leases, settlement
from windlass.drivers.statement import Op
from windlass.drivers.values import Renewal

# -------------------------------------------------------------------------------------------------------- claim and claim


@pytest.mark.parametrize("queues", [("a",), ("a", "b", "c")])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_two_claims_share_the_jobs_and_forget_none(stage: Stage, queues: tuple[str, ...], limit: int) -> None:
    enqueue(stage, *(new(queue=queues[n % len(queues)]) for n in range(4)))
    one, two = wish("one", *queues, limit=limit), wish("two", *queues, limit=limit)
    for outcome in stage.every(lambda: {"one": held(one), "two": claim(two)}):
        got = ids(outcome["one"][0]) + ids(outcome["two"])
        assert len(got) == len(set(got)), outcome
        assert len(queues) > 1 or len(got) == min(4, 2 * limit), outcome
        assert not outcome.waited("two"), outcome
        check(stage, outcome)
        left = stage.do(leases.claim(wish("three", *queues), NOW))
        assert len(got) + len(left) == 4, outcome


def test_a_claim_that_promotes_does_not_keep_others_from_what_is_ready(stage: Stage) -> None:
    enqueue(stage, *(new() for _ in range(4)), *(new(run_at=NOW + 1) for _ in range(2)))
    one, two = wish("one", limit=2), wish("two", limit=2)
    for outcome in stage.every(lambda: {"one": whole(one, NOW + 1), "two": claim(two, NOW + 1)}):
        assert [name for name in ("one", "two") if outcome.waited(name)] == [], outcome
        got = ids(outcome["one"]) + ids(outcome["two"])
        assert len(got) == len(set(got)) == 4, outcome
        check(stage, outcome)


def test_a_sweep_does_not_keep_a_claim_from_what_is_ready(stage: Stage) -> None:
    enqueue(stage, *(new() for _ in range(2)))
    claimed(stage)
    enqueue(stage, *(new() for _ in range(2)))
    one = wish("one", limit=2)
    for outcome in stage.every(lambda: {"one": claim(one, LATER), "sweep": sweep()}):
        assert len(outcome["one"]) == 2, outcome
        check(stage, outcome)
        assert stage.ask("select count(*)::int from windlass.jobs where lost = 1") == [(2,)], outcome


@pytest.mark.parametrize("most", [1, 2])
def test_two_claims_never_hold_more_permits_than_there_are(stage: Stage, most: int) -> None:
    alter(stage, PutLimit("k", most))
    enqueue(stage, *(new(limit_keys=("k",)) for _ in range(3)))
    one, two = wish("one", limit=2), wish("two", limit=2)
    for outcome in stage.every(lambda: {"one": whole(one), "two": whole(two)}):
        got = ids(outcome["one"]) + ids(outcome["two"])
        assert len(got) == len(set(got)) == most, outcome
        check(stage, outcome)


def test_two_claims_beside_a_limit_share_what_needs_no_permit(stage: Stage) -> None:
    alter(stage, PutLimit("k", 1))
    enqueue(stage, *(new() for _ in range(4)))
    one, two = wish("one", limit=2), wish("two", limit=2)
    for outcome in stage.every(lambda: {"one": whole(one), "two": whole(two)}):
        got = ids(outcome["one"]) + ids(outcome["two"])
        assert len(got) == len(set(got)) == 4, outcome
        assert [name for name in ("one", "two") if outcome.waited(name)] == [], outcome
        check(stage, outcome)


def test_claims_that_meet_limits_in_another_order_do_not_wait_in_a_ring(stage: Stage) -> None:
    alter(stage, PutLimit("k1", 0), PutLimit("k2", 0))
    enqueue(stage, new(queue="a", limit_keys=("k2",)), new(queue="a", limit_keys=("k1",)), new(queue="a"))
    enqueue(stage, new(queue="b", limit_keys=("k1",)), new(queue="b", limit_keys=("k2",)), new(queue="b"))
    one, two = wish("one", "a", limit=1), wish("two", "b", limit=1)
    for outcome in stage.some(lambda: {"one": whole(one), "two": whole(two)}, rounds=30, seed=1):
        assert len(outcome["one"] + outcome["two"]) >= 1, outcome
        check(stage, outcome)


def test_a_claim_that_takes_back_does_not_wait_in_a_ring_with_a_settlement(stage: Stage) -> None:
    alter(stage, PutLimit("k1", 5), PutLimit("k2", 5))
    enqueue(stage, new(limit_keys=("k2",)))
    claimed(stage, limit=1)
    enqueue(stage, new(queue="b", limit_keys=("k1",)), new(queue="b", limit_keys=("k2",)))
    jobs = claimed(stage, "b", now=NOW + 10)
    enqueue(stage, new(limit_keys=("k1",)))
    one = wish("one")
    for outcome in stage.every(lambda: {"one": whole(one, LATER), "two": settle(jobs, now=LATER)}):
        assert outcome["two"] == ["applied"] * 2, outcome
        outcome["one"]
        check(stage, outcome)


# ------------------------------------------------------------------------------------------- claims, settlements, people


def test_a_job_is_claimed_or_cancelled(stage: Stage) -> None:
    [job] = enqueue(stage, new())
    one = wish("one")
    for outcome in stage.every(lambda: {"one": held(one), "two": wanted(Cancel(job))}):
        answer = outcome["two"]
        assert (ids(outcome["one"][0]), answer) in (([job], ["requested"]), ([], ["applied"])), outcome
        check(stage, outcome)


def test_a_claim_with_permits_and_a_cancel_agree(stage: Stage) -> None:
    alter(stage, PutLimit("k", 1))
    jobs = enqueue(stage, new(limit_keys=("k",)), new(limit_keys=("k",)))
    one = wish("one", limit=1)
    for outcome in stage.every(lambda: {"one": whole(one), "two": wanted(Cancel(jobs[0]))}):
        assert ids(outcome["one"]) == [jobs[0 if outcome["two"] == ["requested"] else 1]], outcome
        check(stage, outcome)


@pytest.mark.parametrize("outcome_of", [Succeeded(), Succeeded(b"1"), Failed("no")])
def test_a_lease_is_settled_or_expired(stage: Stage, outcome_of: Any) -> None:
    alter(stage, PutLimit("k", 2))
    enqueue(stage, new(limit_keys=("k",)), new())
    jobs = claimed(stage)
    for outcome in stage.every(lambda: {"one": settle(jobs, outcome_of, now=LATER - 1), "two": sweep()}):
        expired, _ = outcome["two"]
        assert Counter(outcome["one"])["applied"] == 2 - expired, outcome
        check(stage, outcome)


def test_a_lease_is_extended_or_expired(stage: Stage) -> None:
    enqueue(stage, new(), new())
    jobs = claimed(stage)
    renewals = [Renewal(job.handle, job.token) for job in jobs[:1]]
    for outcome in stage.every(lambda: {"one": leases.extend(renewals, LEASE, LATER - 1), "two": sweep()}):
        answer, expired = outcome["one"][0].answer, outcome["two"][0]
        held = stage.ask("select count(*)::int from windlass.jobs where state = 'running'")[0][0]
        assert (answer, expired, held) in (("applied", 1, 1), ("not_inflight", 2, 0), ("applied", 2, 0)), outcome
        assert answer != "applied" or held or outcome["one"][0].expires_at == LATER, outcome
        check(stage, outcome)


@pytest.mark.parametrize("end", [Failed("no"), Succeeded(b"x")])
def test_an_extension_never_waits(stage: Stage, end: Any) -> None:
    enqueue(stage, new(), new(), new())
    jobs = claimed(stage)
    renewals = [Renewal(job.handle, job.token) for job in jobs]
    for outcome in stage.every(lambda: {"one": settle(jobs[:2], end), "two": leases.extend(renewals, LEASE, NOW + 1)}):
        assert outcome["one"] == ["applied"] * 2, outcome
        assert outcome["two"][2].answer == "applied", outcome
        assert outcome["two"][2].expires_at == LATER + 1, outcome
        assert not outcome.waited("two"), outcome
        check(stage, outcome)


def test_the_last_two_members_end_their_group_once(stage: Stage) -> None:
    alter(stage, PutGroup("g", 2))
    enqueue(stage, new(group_id="g"), new(group_id="g"))
    first, second = claimed(stage)
    for outcome in stage.every(lambda: {"one": settle([first]), "two": settle([second], Succeeded(b"x"))}):
        assert outcome["one"] == outcome["two"] == ["applied"], outcome
        assert stage.ask("select remaining, succeeded, finished_at is not null from windlass.groups") == [(0, 2, True)]
        check(stage, outcome)


def test_a_member_that_is_cancelled_and_one_that_succeeds_end_their_group_once(stage: Stage) -> None:
    alter(stage, PutGroup("g", 2))
    enqueue(stage, new(group_id="g"), new(group_id="g"))
    [first] = claimed(stage, limit=1)
    [(second,)] = stage.ask("select id from windlass.jobs where state = 'queued'")
    for outcome in stage.every(lambda: {"one": settle([first]), "two": wanted(Cancel(second))}):
        assert outcome["one"] == outcome["two"] == ["applied"], outcome
        assert stage.ask("select remaining, finished_at is not null from windlass.groups") == [(0, True)], outcome
        check(stage, outcome)


def test_two_permits_given_back_at_once_let_two_jobs_through(stage: Stage) -> None:
    alter(stage, PutLimit("k", 2))
    enqueue(stage, *(new(limit_keys=("k",)) for _ in range(4)))
    first, second = claimed(stage)
    for outcome in stage.every(lambda: {"one": settle([first]), "two": settle([second])}):
        check(stage, outcome)
        assert stage.ask("select used from windlass.limits") == [(0,)]
        assert len(stage.do(leases.claim(wish("next"), NOW))) == 2, outcome


def test_a_permit_given_back_while_others_claim_is_not_lost(stage: Stage) -> None:
    alter(stage, PutLimit("k", 1))
    enqueue(stage, *(new(limit_keys=("k",)) for _ in range(3)))
    jobs = claimed(stage)
    two = wish("two")
    for outcome in stage.every(lambda: {"one": settle(jobs), "two": whole(two)}):
        assert outcome["one"] == ["applied"], outcome
        check(stage, outcome)


def test_two_sweeps_at_once_take_back_once(stage: Stage) -> None:
    alter(stage, PutLimit("k", 2))
    enqueue(stage, new(), new(limit_keys=("k",)), new(limit_keys=("k",)))
    claimed(stage)
    for outcome in stage.every(lambda: {"one": sweep(), "two": sweep()}):
        assert outcome["one"][0] + outcome["two"][0] == 3, outcome
        assert stage.ask("select distinct lost::int, state from windlass.jobs") == [(1, "queued")], outcome
        check(stage, outcome)


def test_a_lapsed_job_is_recovered_once_whoever_decides(stage: Stage) -> None:
    alter(stage, PutGroup("g", 1))
    enqueue(stage, new(crash_policy="fail", group_id="g"), new(crash_policy="fail", retry_mode="new_job", max_attempts=3))
    claimed(stage)
    _, _, undecided = stage.do(leases.expire(LATER, 10))
    assert len(undecided) == 2

    def decided(who: str) -> Op[list[Answer]]:
        units = [recover(job, Execution(at=LATER, child_id=f"{who}-{job.id}")) for job in undecided]
        return (yield from transaction(settlement.settle(units, LATER)))

    for outcome in stage.every(lambda: {"one": decided("one"), "two": decided("two")}):
        answers = Counter(outcome["one"] + outcome["two"])
        assert answers == {"applied": 2, "repeated": 2}, outcome
        check(stage, outcome)
