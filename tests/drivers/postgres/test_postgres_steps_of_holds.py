"""Holds beside claims, renewals and each other, statement by statement on real connections."""

from __future__ import annotations

from typing import Any

import pytest

from postgres.programs import LATER, LEASE, NOW, alter, check, claimed, enqueue, held, ids, new, wanted, whole, wish
from postgres.stepping import Outcome, Stage, transaction
from windlass.core.alterations import Acquire, AlterAnswer, Grant, PutLimit, PutQueue, ReleaseHold, Renew
from windlass.core.settle import Execution, Failed
from windlass.core.settle import settle as decide
from windlass.drivers.ops import people
from windlass.drivers.postgres import dialect, leases, settlement
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.statement import Op
from windlass.drivers.values import Renewal
from windlass.types import Claimed

TERM = 60_000_000


@pytest.fixture(autouse=True)
def _one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A side that stands still does so for ever here: to look again and again would only make the tests longer."""
    monkeypatch.setattr(dialect, "PAUSES", (0.001,))


def take(hold: str = "h", now: int = NOW) -> Op[list[str]]:
    """As the client does it: ask for the queue, then for the grant."""
    [acquired] = yield from wanted(Acquire(hold, "default", "api", TERM), now=now)
    if acquired != "applied":
        return [acquired]
    return [acquired, *(yield from wanted(Grant(hold, TERM), now=now))]


def ask_for(hold: str) -> Op[list[AlterAnswer]]:
    return (yield from wanted(Acquire(hold, "default", "api", TERM), now=NOW + 1))


def running(stage: Stage, now: int) -> int:
    """Valid leases of the queue."""
    valid = "state = 'running' and queue = 'default' and lease_expires_at > windlass.at($1)"
    return int(stage.ask(f"select count(*)::int from windlass.jobs where {valid}", now)[0][0])


def assert_apart(stage: Stage, outcome: Outcome, now: int = NOW) -> None:
    granted = stage.ask("select from windlass.reservations where status = 'ACTIVE' and granted_at is not null")
    assert not granted or running(stage, now) == 0, outcome
    check(stage, outcome)


def granted(stage: Stage) -> list[AlterAnswer]:
    return stage.do(people.alter(DIALECT, [Grant("h", TERM)], NOW))


@pytest.mark.parametrize("queues", [("default",), ("default", "other")])
def test_a_hold_is_never_granted_beside_the_lease_of_a_claim_in_one_statement(
    stage: Stage, queues: tuple[str, ...]
) -> None:
    enqueue(stage, new(), new(queue="other"))
    both = set()
    for outcome in stage.every(lambda: {"claim": held(wish("w", *queues)), "hold": take()}):
        taken = [job for job in outcome["claim"][0] if job.queue == "default"]
        granted = outcome["hold"] == ["applied", "applied"]
        assert not (taken and granted), outcome
        both.add((bool(taken), granted))
        assert_apart(stage, outcome)
    assert {(True, False), (False, True)} <= both, "each of them must come first in some order"


@pytest.mark.parametrize("limited", [False, True])
def test_a_hold_is_never_granted_beside_the_lease_of_a_claim_in_a_transaction(stage: Stage, limited: bool) -> None:
    """That promotes, or takes permits, and looks for holds statements before it leases."""
    if limited:
        alter(stage, PutLimit("k", 5))
    enqueue(stage, new(limit_keys=("k",) if limited else ()), new(run_at=NOW))
    both = set()
    for outcome in stage.some(lambda: {"claim": whole(wish("w")), "hold": take()}, rounds=150, seed=4):
        granted = outcome["hold"] == ["applied", "applied"]
        assert not (outcome["claim"] and granted), outcome
        both.add((bool(outcome["claim"]), granted))
        assert_apart(stage, outcome)
    assert {(True, False), (False, True)} <= both


def test_two_claims_and_a_hold(stage: Stage) -> None:
    enqueue(stage, *(new() for _ in range(4)))

    def programs() -> dict[str, Any]:
        return {"one": held(wish("w", limit=1)), "two": held(wish("v", limit=1)), "hold": take()}

    for outcome in stage.some(programs, rounds=120, seed=6):
        taken = [*outcome["one"][0], *outcome["two"][0]]
        assert not (taken and outcome["hold"] == ["applied", "applied"]), outcome
        assert_apart(stage, outcome)


def test_a_waiting_hold_is_granted_once_the_claim_has_ended(stage: Stage) -> None:
    """Whatever the order was, the queue is quiet in the end, and then it is granted."""
    enqueue(stage, new())
    for outcome in stage.every(lambda: {"claim": held(wish("w")), "hold": take()}):
        if outcome["claim"][0]:
            assert granted(stage) == ["requested"], outcome
            stage.run("update windlass.jobs set lease_expires_at = windlass.at(1) where state = 'running'")
        assert granted(stage) == ["applied"], outcome


def test_of_two_who_want_a_queue_one_gets_it(stage: Stage) -> None:
    for stale in (False, True):
        stage.clear()
        if stale:
            alter(stage, Acquire("old", "default", "dead", 1))
        for outcome in stage.every(lambda: {"one": ask_for("h1"), "two": ask_for("h2")}):
            answers = sorted([outcome["one"][0], outcome["two"][0]])
            assert answers == ["applied", "busy"], outcome
            assert stage.ask("select count(*)::int from windlass.reservations where status = 'ACTIVE'") == [(1,)], outcome
            assert stage.ask("select count(*)::int from windlass.audit") == [(int(stale),)], outcome


def test_a_hold_is_renewed_or_expires_and_never_both(stage: Stage) -> None:
    """Its holder's clock says that there is time left, the claim's that it is over."""
    enqueue(stage, new())
    alter(stage, Acquire("h", "default", "api", TERM))
    alter(stage, Grant("h", TERM))
    over = NOW + TERM
    seen = set()
    for outcome in stage.every(
        lambda: {"renew": wanted(Renew("h", TERM), now=over - 1), "claim": whole(wish("w"), now=over)}
    ):
        renewed = outcome["renew"] == ["applied"]
        assert renewed or outcome["renew"] == ["wrong_state"], outcome
        assert not (renewed and outcome["claim"]), outcome
        assert stage.ask("select status from windlass.reservations") == [("ACTIVE" if renewed else "EXPIRED",)], outcome
        assert stage.ask("select count(*)::int from windlass.audit") == [(int(not renewed),)], outcome
        seen.add(renewed)
        check(stage, outcome)
    assert seen == {True, False}


def test_a_stale_hold_is_ended_by_one_of_two_claims_and_noted_once(stage: Stage) -> None:
    enqueue(stage, new(), new())
    alter(stage, Acquire("h", "default", "api", TERM))
    over = NOW + TERM
    for outcome in stage.some(
        lambda: {"one": whole(wish("w", limit=1), now=over), "two": whole(wish("v", limit=1), now=over)}, rounds=60, seed=8
    ):
        assert outcome["one"] or outcome["two"], outcome
        assert stage.ask("select count(*)::int from windlass.audit") == [(1,)], outcome
        check(stage, outcome)


def extend(job: Claimed, now: int) -> Op[Any]:
    return (yield from leases.extend([Renewal(job.handle, job.token)], LEASE, now))


@pytest.mark.parametrize("fields", [{}, {"max_lost": 1}])
def test_a_lease_is_extended_late_or_the_hold_is_granted_and_never_both(stage: Stage, fields: dict[str, Any]) -> None:
    """The heartbeat was sent in time and arrives after the lease has lapsed by the clock of whoever wants the queue."""
    enqueue(stage, new(**fields))
    [job] = claimed(stage)
    alter(stage, Acquire("h", "default", "api", 10 * TERM))
    seen = set()
    for outcome in stage.every(lambda: {"extend": extend(job, LATER - 1), "grant": wanted(Grant("h", TERM), now=LATER)}):
        extended, granted = outcome["extend"][0].expires_at == LATER - 1 + LEASE, outcome["grant"] == ["applied"]
        assert not (extended and granted), outcome
        seen.add((extended, granted))
        check(stage, outcome)
    assert {(True, False), (False, True)} <= seen


def test_a_job_that_ends_or_comes_back_while_the_queue_is_taken(stage: Stage) -> None:
    """A settlement lets the grant through or not yet; what returns to the queue stays there."""
    enqueue(stage, new())
    [job] = claimed(stage)
    alter(stage, Acquire("h", "default", "api", TERM))

    def fails() -> Op[Any]:
        return (yield from transaction(settlement.settle([decide(job, Failed("no"), Execution(at=NOW))], NOW)))

    for outcome in stage.every(lambda: {"settle": fails(), "grant": wanted(Grant("h", TERM))}):
        assert outcome["settle"] == ["applied"], outcome
        assert granted(stage) == ["applied"], outcome
        assert ids(stage.do(leases.claim(wish("w"), NOW))) == [], outcome
        check(stage, outcome)


def test_a_release_and_a_claim(stage: Stage) -> None:
    enqueue(stage, new())
    alter(stage, PutQueue("default"), Acquire("h", "default", "api", TERM))
    alter(stage, Grant("h", TERM))
    for outcome in stage.every(lambda: {"release": wanted(ReleaseHold("h")), "claim": held(wish("w"))}):
        assert outcome["release"] == ["applied"], outcome
        assert stage.ask("select count(*)::int from windlass.audit") == [(0,)], outcome
        check(stage, outcome)
