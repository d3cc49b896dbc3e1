"""One table: what each source system calls a state of ours.

Four systems grew four vocabularies for the same life of a job. The row in the store is one and the same; a face only
renames it, and never shows a word outside the vocabulary it has always had. Where that leaves two different endings
under one word (a cancelled job is `dlq` in TaskHarbor), a flag says which one it is: a face renames, it never hides.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final, Literal, get_args

from msgspec import Struct

from windlass.errors import InvalidInput
from windlass.types import LABELS, TERMINAL, DeadKind, Label, RunStatus, State

System = Literal["taskharbor", "orchestrator", "scheduler", "harmonyk"]
Flag = Literal["superseded", "cancelled", "skipped"]

SYSTEMS: Final[tuple[System, ...]] = get_args(System)
DEAD_KINDS: Final[tuple[DeadKind, ...]] = get_args(DeadKind)


class Words(Struct, frozen=True):
    """A job in one system's own words."""

    state: str
    run: str | None = None  # the Scheduler's JobRun; the other systems have no second word
    flag: Flag | None = None


# Blocked and parked read as ready: no source system knows predecessors or permits, and nobody has begun the job.
_STATES: Final[dict[System, dict[Label, str]]] = {
    "taskharbor": {
        "queued": "ready", "scheduled": "scheduled", "blocked": "ready", "parked": "ready", "claimed": "inflight",
        "running": "inflight", "succeeded": "done", "dead": "dlq", "cancelled": "dlq",
    },
    "orchestrator": {
        "queued": "pending", "scheduled": "pending", "blocked": "pending", "parked": "pending", "claimed": "claimed",
        "running": "running", "succeeded": "completed", "dead": "dead_letter", "cancelled": "failed",
    },
    # A finished job stays RUNNING there: its outcome is the word of its run.
    "scheduler": {
        "queued": "QUEUED", "scheduled": "QUEUED", "blocked": "QUEUED", "parked": "QUEUED", "claimed": "RUNNING",
        "running": "RUNNING", "succeeded": "RUNNING", "dead": "RUNNING", "cancelled": "CANCELLED",
    },
    "harmonyk": {
        "queued": "queued", "scheduled": "queued", "blocked": "queued", "parked": "queued", "claimed": "running",
        "running": "running", "succeeded": "success", "dead": "failed", "cancelled": "failed",
    },
}  # fmt: skip

# The Orchestrator alone has two words for dead. Lost reads as dead_letter: the job used up what it was allowed.
_DEAD: Final[dict[tuple[System, DeadKind], str]] = {
    ("orchestrator", "rejected"): "failed",
    ("orchestrator", "superseded"): "failed",
}

_STATE_OF: Final[dict[Label, State]] = {
    "queued": "queued", "scheduled": "queued", "blocked": "queued", "parked": "queued", "claimed": "running",
    "running": "running", "succeeded": "succeeded", "dead": "dead", "cancelled": "cancelled",
}  # fmt: skip

_RUNS: Final[dict[RunStatus, str]] = {"completed": "COMPLETED", "failed": "FAILED", "skipped": "SKIPPED"}
_USUAL_RUN: Final[dict[Label, RunStatus]] = {"succeeded": "completed", "dead": "failed"}


def words_of(label: Label, dead_kind: DeadKind | None, system: System, run: RunStatus | None = None) -> Words:
    """What `system` calls a job with this label. `run` is the status of its last run where the caller knows it: a job
    may be cancelled with a skipped run or without any, and a snoozed link of a chain is dead without having failed."""
    _check_system(system)
    word = _STATES[system][label]
    if label == "dead" and dead_kind is not None:
        word = _DEAD.get((system, dead_kind), word)
    finished = label in TERMINAL
    return Words(
        word,
        _run_word(label, run) if system == "scheduler" and finished else None,
        _flag(label, dead_kind, run, system) if finished else None,
    )


def _run_word(label: Label, run: RunStatus | None) -> str | None:
    known = _USUAL_RUN.get(label) if run is None else run
    return None if known is None else _RUNS[known]


def _flag(label: Label, dead_kind: DeadKind | None, run: RunStatus | None, system: System) -> Flag | None:
    if dead_kind == "superseded":
        return "superseded"
    if system == "scheduler":  # it has words of its own for the rest: CANCELLED and SKIPPED
        return None
    if label == "cancelled":
        return "cancelled"
    return "skipped" if run == "skipped" else None


def states_of(word: str, system: System) -> frozenset[State]:
    """The states a word may stand for, for filters. The Scheduler's run words are accepted too. A word that the system
    does not have is refused, so that a typing error never reads as "no such jobs"."""
    _check_system(system)
    found = _REVERSE[system].get(word)
    if found is None:
        known = vocabulary(system)
        raise InvalidInput(
            "word", f"{word!r} is not a word of {system}{did_you_mean(word, known)}; use one of {_listed(known)}"
        )
    return found


def vocabulary(system: System) -> tuple[str, ...]:
    """Every word the system may show, in the order of a job's life."""
    _check_system(system)
    return tuple(_REVERSE[system])


def did_you_mean(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word.lower(), [k.lower() for k in known], n=1)
    return f" (did you mean {next(k for k in known if k.lower() == near[0])!r}?)" if near else ""


def _check_system(system: str) -> None:
    if system not in SYSTEMS:
        raise InvalidInput(
            "system", f"{system!r} has no words here{did_you_mean(system, SYSTEMS)}; use one of {_listed(SYSTEMS)}"
        )


def _listed(words: Collection[str]) -> str:
    return ", ".join(words)


def _reversed(system: System) -> dict[str, frozenset[State]]:
    found: dict[str, set[State]] = {}
    for label in LABELS:
        kinds = DEAD_KINDS if label == "dead" else (None,)
        for words in (words_of(label, kind, system) for kind in kinds):
            found.setdefault(words.state, set()).add(_STATE_OF[label])
    if system == "scheduler":
        found |= {"COMPLETED": {"succeeded"}, "FAILED": {"dead"}, "SKIPPED": set(TERMINAL)}
    return {word: frozenset(states) for word, states in found.items()}


_REVERSE: Final = {system: _reversed(system) for system in SYSTEMS}
