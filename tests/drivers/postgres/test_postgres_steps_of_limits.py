"""Limits of every kind between two connections, statement by statement: nothing is overdrawn, no permit is lost, nobody is
forgotten."""

from __future__ import annotations

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
    held,
    new,
    settle,
    sweep,
    wanted,
    whole,
    wish,
)
from postgres.stepping import Stage, transaction
from windlass.clock import SECOND
from windlass.core.alterations import Alteration, PauseLimit, PutLimit, PutQueue, RemoveLimit
from windlass.core.duties import RecountLimits
from windlass.core.limits import LOOK_AGAIN
from windlass.core.settle import Failed, Succeeded
from windlass.drivers.ops import duties
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.limits import hold_claims_for_new
from windlass.drivers.postgres.linking import enqueue as enqueue_op
from windlass.drivers.statement import Op, Statement

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("type:work", {}), ("org:o", {"org_id": "o"}), ("tag:t", {"tags": ("t",)}), ("queue:default", {}), ("global", {}),
]  # fmt: skip


def used(stage: Stage, key: str) -> int:
    [(count,)] = stage.ask(f"select used::int from windlass.limits where key = '{key}'")
    return int(count)


@pytest.mark.parametrize(("key", "fields"), KINDS)
def test_two_claims_never_overdraw_a_limit_of_any_kind(stage: Stage, key: str, fields: dict[str, Any]) -> None:
    alter(stage, PutLimit(key, 1))
    enqueue(stage, new(**fields), new(**fields))
    one, two = wish("one", limit=2), wish("two", limit=2)
    for outcome in stage.every(lambda: {"one": whole(one), "two": whole(two)}):
        assert len(outcome["one"] + outcome["two"]) == 1, outcome
        assert used(stage, key) == 1, outcome
        check(stage, outcome)


@pytest.mark.parametrize(("key", "fields"), [KINDS[0], KINDS[3]])
@pytest.mark.parametrize("end", [Succeeded(), Failed("no")])
def test_a_permit_that_is_given_back_is_taken_or_left(stage: Stage, key: str, fields: dict[str, Any], end: Any) -> None:
    alter(stage, PutLimit(key, 1))
    enqueue(stage, new(**fields), new(**fields))
    jobs = claimed(stage, limit=2)
    one = wish("one", limit=1)
    for outcome in stage.every(lambda: {"claim": whole(one), "worker": settle(jobs, end)}):
        assert outcome["worker"] == ["applied"], outcome
        assert used(stage, key) == len(outcome["claim"]) <= 1, outcome
        check(stage, outcome)
        assert len(stage.do(claim(wish("next", limit=1)))) == 1 - len(outcome["claim"]), outcome


@pytest.mark.parametrize(("key", "fields"), [KINDS[0], KINDS[3]])
def test_a_claim_and_a_sweep_that_frees_a_permit_agree(stage: Stage, key: str, fields: dict[str, Any]) -> None:
    alter(stage, PutLimit(key, 1))
    enqueue(stage, new(**fields), new(**fields))
    claimed(stage, limit=2)
    one = wish("one", limit=1)
    for outcome in stage.some(lambda: {"claim": whole(one, LATER), "sweep": sweep()}, rounds=60, seed=8):
        outcome["sweep"]
        assert used(stage, key) == len(outcome["claim"]) <= 1, outcome
        check(stage, outcome)


@pytest.mark.parametrize(("key", "fields"), KINDS)
@pytest.mark.parametrize("known", [False, True])
def test_a_new_limit_and_a_claim_count_alike(stage: Stage, key: str, fields: dict[str, Any], known: bool) -> None:
    """By the one statement, as where nobody knows of a limit, and by the transaction."""
    alter(stage, *([PutLimit("key:other", 5)] if known else []))
    enqueue(stage, new(**fields), new(**fields))
    one = wish("one", limit=1)
    for outcome in stage.every(lambda: {"claim": whole(one) if known else held(one), "person": wanted(PutLimit(key, 1))}):
        assert outcome["person"] == ["applied"], outcome
        got = outcome["claim"] if known else outcome["claim"][0]
        assert used(stage, key) == len(got), outcome
        check(stage, outcome)


@pytest.mark.parametrize(("key", "fields"), KINDS)
@pytest.mark.parametrize("end", [Succeeded(), Failed("no")])
def test_a_new_limit_and_an_end_count_alike(stage: Stage, key: str, fields: dict[str, Any], end: Any) -> None:
    """The worker knows of no limit: what the row holds when it is settled goes back."""
    enqueue(stage, new(**fields))
    jobs = claimed(stage)
    for outcome in stage.every(lambda: {"worker": settle(jobs, end), "person": wanted(PutLimit(key, 1))}):
        assert (outcome["worker"], outcome["person"]) == (["applied"], ["applied"]), outcome
        assert used(stage, key) == 0, outcome
        check(stage, outcome)


def test_a_new_limit_and_a_sweep_count_alike(stage: Stage) -> None:
    enqueue(stage, new())
    claimed(stage)
    for outcome in stage.every(lambda: {"sweep": sweep(), "person": wanted(PutLimit("type:work", 1))}):
        assert (outcome["sweep"][0], outcome["person"]) == (1, ["applied"]), outcome
        assert used(stage, "type:work") == 0, outcome
        check(stage, outcome)


@pytest.mark.parametrize(
    "change", [PutLimit("type:work", 2), PutLimit("type:work", 0), PutLimit("type:work"), RemoveLimit("type:work")]
)
def test_a_limit_that_changes_while_others_claim_forgets_nobody(stage: Stage, change: Alteration) -> None:
    alter(stage, PutLimit("type:work", 1))
    enqueue(stage, new(), new(), new())
    one = wish("one")
    for outcome in stage.every(lambda: {"claim": whole(one), "person": wanted(change)}):
        assert outcome["person"] == ["applied"], outcome
        assert 0 <= len(outcome["claim"]) <= 3, outcome
        most = change.max_used if isinstance(change, PutLimit) and change.max_used is not None else 3
        if most == 0:  # lowered below what runs, which goes on
            most = len(outcome["claim"])
        else:
            check(stage, outcome)
        assert len(outcome["claim"]) + len(stage.do(claim(wish("next")))) == most, outcome


@pytest.mark.parametrize("change", [PutLimit("type:work", 2), PutLimit("type:work", 0), RemoveLimit("type:work")])
def test_a_limit_that_changes_while_a_job_ends_loses_no_permit(stage: Stage, change: Alteration) -> None:
    alter(stage, PutLimit("type:work", 1))
    enqueue(stage, new(), new(), new())
    jobs = claimed(stage)
    for outcome in stage.every(lambda: {"worker": settle(jobs), "person": wanted(change)}):
        assert (outcome["worker"], outcome["person"]) == (["applied"], ["applied"]), outcome
        check(stage, outcome)
        most = 0 if getattr(change, "max_used", 9) == 0 else 2
        assert len(stage.do(claim(wish("next")))) == most, outcome


def test_a_pause_and_a_claim_agree(stage: Stage) -> None:
    enqueue(stage, new(), new())
    one = wish("one", limit=1)
    for outcome in stage.every(lambda: {"claim": held(one), "person": wanted(PauseLimit("type:work", True))}):
        assert (len(outcome["claim"][0]), outcome["person"]) in ((0, ["applied"]), (1, ["applied"])), outcome
        check(stage, outcome)
        assert stage.do(claim(wish("next"))) == [], outcome


def test_two_claims_share_the_tokens_there_are(stage: Stage) -> None:
    alter(stage, PutLimit("key:api", per_second=1.0, burst=1))
    enqueue(stage, *(new(limit_keys=("key:api",)) for _ in range(3)))
    claimed(stage)
    one, two = wish("one"), wish("two")
    for outcome in stage.every(lambda: {"one": whole(one, NOW + SECOND), "two": whole(two, NOW + SECOND)}):
        assert len(outcome["one"] + outcome["two"]) == 1, outcome
        check(stage, outcome)
        assert len(stage.do(claim(wish("next"), NOW + 2 * SECOND))) == 1, outcome


def test_two_claims_of_a_fair_queue_charge_both(stage: Stage) -> None:
    alter(stage, PutQueue("default", order="fair"))
    enqueue(stage, *(new(org_id=org) for org in "aabb"))
    one, two = wish("one", limit=2), wish("two", limit=2)
    for outcome in stage.some(lambda: {"one": whole(one), "two": whole(two)}, rounds=60, seed=3):
        got = [job.id for job in outcome["one"] + outcome["two"]]
        assert len(got) == len(set(got)) == 4, outcome
        assert stage.ask("select share, finish from windlass.shares order by share") == [("=a", 2.0), ("=b", 2.0)], outcome
        check(stage, outcome)


def test_a_job_that_comes_first_while_turns_are_given_takes_nobody_s_place_twice(stage: Stage) -> None:
    """How many jobs an org has turns out while they are read, and those of another are read once more."""
    alter(stage, PutQueue("default", order="fair"), PutLimit("type:work", 10))
    enqueue(stage, *(new(org_id=org) for org in "aaab"))
    one, urgent = wish("one", limit=4), new(org_id="a", priority=1)
    for outcome in stage.every(lambda: {"claim": whole(one), "person": transaction(enqueue_op([urgent], NOW))}):
        got = [job.id for job in outcome["claim"]]
        assert len(got) == len(set(got)) == used(stage, "type:work"), outcome
        assert stage.ask("select sum(finish)::int from windlass.shares") == [(len(got),)], outcome
        check(stage, outcome)


def test_a_queue_that_becomes_fair_and_a_permit_that_is_given_back_do_not_wait_in_a_ring(stage: Stage) -> None:
    alter(stage, PutLimit("key:k", 1))
    enqueue(stage, new(id="parks", limit_keys=("key:k",)), new(id="runs", priority=1, limit_keys=("key:k",)))
    [job] = claimed(stage)
    assert job.id == "runs"
    fair = PutQueue("default", order="fair")
    for outcome in stage.some(lambda: {"person": wanted(fair), "worker": settle([job])}, rounds=60, seed=5):
        assert (outcome["person"], outcome["worker"]) == (["applied"], ["applied"]), outcome
        stage.do(duties.maintain(DIALECT, RecountLimits(), None, NOW))
        assert [one.id for one in stage.do(claim(wish("next"), NOW + LOOK_AGAIN))] == ["parks"], outcome
        check(stage, outcome)


def test_who_makes_a_limit_waits_for_everything_else_as_long_as_ever(stage: Stage) -> None:
    """Only while it keeps everybody from claiming it is brief."""
    patience = Statement("select current_setting('lock_timeout')", ())

    def told() -> Op[tuple[object, object]]:
        before = yield patience
        yield from hold_claims_for_new(["k"])
        return before, (yield patience)

    before, after = stage.do(told())
    assert before == after
