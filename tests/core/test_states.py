"""The state machine as a table: complete, closed, and drawn as it is."""

from __future__ import annotations

from typing import get_args

import pytest

from windlass.core.changes import OUTCOME_OF, Settlement, effect_of
from windlass.core.settle import Execution, Failed, Released, Snoozed, Succeeded, WasCancelled, settle
from windlass.core.states import MOVES, Cause, may_move
from windlass.types import ACTIVE, STATES, TERMINAL, State

from .make import NOW, claimed

CAUSES: tuple[Cause, ...] = get_args(Cause)
BEFORE: tuple[State | None, ...] = (None, *STATES)

ALLOWED: dict[tuple[State | None, Cause], set[State]] = {
    (None, "enqueue"): {"queued"},
    ("queued", "claim"): {"running"},
    ("queued", "cancel"): {"cancelled"},
    ("running", "ack"): {"succeeded"},
    ("running", "retry"): {"queued"},
    ("running", "fail"): {"dead"},
    ("running", "snooze"): {"queued"},
    ("running", "release"): {"queued"},
    ("running", "cancelled"): {"cancelled"},
    ("running", "expire"): {"queued"},
    ("running", "cancel"): {"running"},
    ("dead", "replay"): {"queued", "dead"},
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("cause", CAUSES)
def test_every_pair_of_state_and_cause_leads_where_the_rules_say_and_nowhere_else(
    before: State | None, cause: Cause
) -> None:
    allowed = ALLOWED.get((before, cause), set())
    assert {after for after in STATES if may_move(before, cause, after)} == allowed


def test_every_state_is_either_active_or_terminal() -> None:
    assert frozenset(STATES) == ACTIVE | TERMINAL
    assert not ACTIVE & TERMINAL


def test_success_and_cancellation_are_final() -> None:
    assert not [key for key in MOVES if key[0] in ("succeeded", "cancelled")]


def test_the_only_way_out_of_dead_is_a_replay() -> None:
    assert [cause for before, cause in MOVES if before == "dead"] == ["replay"]


def test_every_state_can_be_reached_and_every_cause_is_used() -> None:
    assert {after for afters in MOVES.values() for after in afters} == set(STATES)
    assert {cause for _, cause in MOVES} == set(CAUSES)


def test_nothing_starts_running_but_by_a_claim() -> None:
    started = {(before, cause) for (before, cause), afters in MOVES.items() if "running" in afters}
    assert started == {("queued", "claim"), ("running", "cancel")}


def test_every_settlement_is_a_move_of_the_table() -> None:
    run = Execution(NOW)
    job = claimed(max_attempts=2)
    changes: list[Settlement] = [
        settle(job, outcome, run) for outcome in (Succeeded(), Failed("x"), Snoozed(1), Released(), WasCancelled())
    ]
    changes.append(settle(claimed(max_attempts=1), Failed("x"), run))
    assert {OUTCOME_OF[type(c)] for c in changes} == set(OUTCOME_OF.values()) - {"expire"}
    for change in changes:
        effect = effect_of(change)
        assert OUTCOME_OF[type(change)] == effect.outcome
        assert may_move("running", effect.outcome, effect.state)
