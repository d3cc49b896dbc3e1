"""The state machine, as data. Code reads it, the docs draw it, tests enumerate it.

A state must change a rule to earn its name; what only looks different on a screen is a label (see eligibility).
"""

from __future__ import annotations

from typing import Final, Literal

from windlass.types import State

Cause = Literal["enqueue", "claim", "ack", "retry", "fail", "snooze", "release", "cancelled", "expire", "cancel", "replay"]

# (state before, what happened) -> the states it may lead to. What is not here does not happen.
MOVES: Final[dict[tuple[State | None, Cause], frozenset[State]]] = {
    (None, "enqueue"): frozenset({"queued"}),
    ("queued", "claim"): frozenset({"running"}),
    ("queued", "cancel"): frozenset({"cancelled"}),
    ("running", "ack"): frozenset({"succeeded"}),
    ("running", "retry"): frozenset({"queued"}),
    ("running", "fail"): frozenset({"dead"}),
    ("running", "snooze"): frozenset({"queued"}),
    ("running", "release"): frozenset({"queued"}),
    ("running", "cancelled"): frozenset({"cancelled"}),
    ("running", "expire"): frozenset({"queued"}),
    ("running", "cancel"): frozenset({"running"}),  # only asked for: the worker that holds the job ends it
    ("dead", "replay"): frozenset({"queued", "dead"}),  # new_job rows stay dead and are superseded by a manual child
}


def may_move(before: State | None, cause: Cause, after: State) -> bool:
    return after in MOVES.get((before, cause), ())
