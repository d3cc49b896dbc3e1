"""Every state has a word in every source system, and no face shows a word it never had."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from windlass.core.eligibility import label_of
from windlass.errors import InvalidInput
from windlass.types import LABELS, STATES, DeadKind, Job, Label, RunStatus, State
from windlass.words import DEAD_KINDS, SYSTEMS, System, Words, did_you_mean, states_of, vocabulary, words_of

from .make import NOW, queued, running

RUNS: tuple[RunStatus | None, ...] = (None, *get_args(RunStatus))
CASES: list[tuple[Label, DeadKind | None]] = [
    *((label, None) for label in LABELS),
    *(("dead", kind) for kind in DEAD_KINDS),
]

VOCABULARIES: dict[System, set[str]] = {
    "taskharbor": {"ready", "scheduled", "inflight", "done", "dlq"},
    "orchestrator": {"pending", "claimed", "running", "completed", "failed", "dead_letter"},
    "scheduler": {"QUEUED", "RUNNING", "CANCELLED", "COMPLETED", "FAILED", "SKIPPED"},
    "harmonyk": {"queued", "running", "success", "failed"},
}

# The state map, row by row: label, dead kind, then a word (and flag) per system in the order of SYSTEMS.
MAP: list[tuple[Label, DeadKind | None, Words, Words, Words, Words]] = [
    ("queued", None, Words("ready"), Words("pending"), Words("QUEUED"), Words("queued")),
    ("scheduled", None, Words("scheduled"), Words("pending"), Words("QUEUED"), Words("queued")),
    ("blocked", None, Words("ready"), Words("pending"), Words("QUEUED"), Words("queued")),
    ("parked", None, Words("ready"), Words("pending"), Words("QUEUED"), Words("queued")),
    ("claimed", None, Words("inflight"), Words("claimed"), Words("RUNNING"), Words("running")),
    ("running", None, Words("inflight"), Words("running"), Words("RUNNING"), Words("running")),
    ("succeeded", None, Words("done"), Words("completed"), Words("RUNNING", "COMPLETED"), Words("success")),
    ("dead", "exhausted", Words("dlq"), Words("dead_letter"), Words("RUNNING", "FAILED"), Words("failed")),
    ("dead", "lost", Words("dlq"), Words("dead_letter"), Words("RUNNING", "FAILED"), Words("failed")),
    ("dead", "rejected", Words("dlq"), Words("failed"), Words("RUNNING", "FAILED"), Words("failed")),
    ("dead", "superseded", Words("dlq", None, "superseded"), Words("failed", None, "superseded"),
     Words("RUNNING", "FAILED", "superseded"), Words("failed", None, "superseded")),
    ("cancelled", None, Words("dlq", None, "cancelled"), Words("failed", None, "cancelled"), Words("CANCELLED"),
     Words("failed", None, "cancelled")),
]  # fmt: skip


@pytest.mark.parametrize("row", MAP, ids=lambda row: f"{row[0]}-{row[1]}")
def test_every_state_reads_as_the_state_map_says(
    row: tuple[Label, DeadKind | None, Words, Words, Words, Words],
) -> None:
    label, kind, *expected = row
    assert [words_of(label, kind, system) for system in SYSTEMS] == expected


def test_the_state_map_of_this_test_is_complete() -> None:
    assert {(label, kind) for label, kind, *_ in MAP} == {case for case in CASES if case != ("dead", None)}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_vocabulary_is_the_one_the_system_always_had(system: System) -> None:
    words = vocabulary(system)
    assert set(words) == VOCABULARIES[system]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_face_shows_a_word_outside_its_vocabulary_and_every_case_has_one(system: System) -> None:
    for (label, kind), run in product(CASES, RUNS):
        words = words_of(label, kind, system, run)
        assert words.state in vocabulary(system)
        assert words.run is None or words.run in vocabulary(system)
        assert (words.run is None) or system == "scheduler"


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_reverse_finds_every_job_that_shows_the_word(system: System) -> None:
    states: dict[Label, State] = {
        label_of(job, NOW): job.state
        for job in [
            queued(), queued(run_at=NOW + 1), queued(waiting_on=1), queued(parked_on="key:a"), running(started_at=None),
            running(), *(queued(state=s) for s in STATES),
        ]
    }  # fmt: skip
    for label, kind in CASES:
        words = words_of(label, kind, system)
        assert states[label] in states_of(words.state, system)
        if words.run is not None:
            assert states[label] in states_of(words.run, system)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_word_stands_for_some_state_and_every_state_has_a_word(system: System) -> None:
    found = [states_of(word, system) for word in vocabulary(system)]
    assert all(found)
    assert frozenset[State]().union(*found) == frozenset(STATES)


@pytest.mark.parametrize(
    ("system", "word", "states"),
    [
        ("taskharbor", "ready", {"queued"}),
        ("taskharbor", "dlq", {"dead", "cancelled"}),
        ("orchestrator", "failed", {"dead", "cancelled"}),
        ("orchestrator", "dead_letter", {"dead"}),
        ("orchestrator", "claimed", {"running"}),
        ("scheduler", "RUNNING", {"running", "succeeded", "dead"}),
        ("scheduler", "CANCELLED", {"cancelled"}),
        ("scheduler", "COMPLETED", {"succeeded"}),
        ("scheduler", "FAILED", {"dead"}),
        ("harmonyk", "failed", {"dead", "cancelled"}),
        ("harmonyk", "success", {"succeeded"}),
    ],
)
def test_a_word_stands_for_these_states_and_no_others(system: System, word: str, states: set[str]) -> None:
    assert states_of(word, system) == states


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_unknown_word_is_refused_with_the_known_ones(system: System) -> None:
    with pytest.raises(InvalidInput) as refused:
        states_of("no-such-word", system)
    assert refused.value.field == "word"
    assert all(word in str(refused.value) for word in vocabulary(system))


def test_words_are_not_guessed_but_suggested() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'RUNNING'"):
        states_of("running", "scheduler")
    with pytest.raises(InvalidInput, match="did you mean 'inflight'"):
        states_of("in-flight", "taskharbor")
    assert did_you_mean("zzz", ["queued"]) == ""


def test_an_unknown_system_is_refused() -> None:
    for call in (
        lambda: vocabulary("sidekiq"),  # type: ignore[arg-type]
        lambda: states_of("ready", "sidekiq"),  # type: ignore[arg-type]
        lambda: words_of("queued", None, "sidekiq"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput, match="system"):
            call()
    with pytest.raises(InvalidInput, match="did you mean 'harmonyk'"):
        vocabulary("harmonic")  # type: ignore[arg-type]


def test_a_finished_job_of_the_scheduler_stays_running_and_its_run_tells_how_it_ended() -> None:
    assert words_of("succeeded", None, "scheduler", "completed") == Words("RUNNING", "COMPLETED")
    assert words_of("succeeded", None, "scheduler", "skipped") == Words("RUNNING", "SKIPPED")
    assert words_of("cancelled", None, "scheduler", "skipped") == Words("CANCELLED", "SKIPPED")
    assert words_of("cancelled", None, "scheduler") == Words("CANCELLED", None)
    assert words_of("dead", "superseded", "scheduler", "skipped") == Words("RUNNING", "SKIPPED", "superseded")


def test_a_run_that_goes_on_has_no_word_yet_and_an_earlier_one_is_not_shown() -> None:
    for label in ("queued", "scheduled", "blocked", "parked", "claimed", "running"):
        assert words_of(label, None, "scheduler", "failed").run is None


def test_a_skipped_success_is_flagged_where_the_system_has_no_word_for_it() -> None:
    assert words_of("succeeded", None, "taskharbor", "skipped") == Words("done", None, "skipped")
    assert words_of("succeeded", None, "harmonyk", "skipped") == Words("success", None, "skipped")
    assert words_of("succeeded", None, "harmonyk", "completed") == Words("success")


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("job", [queued(), queued(run_at=NOW + 1), running(), running(started_at=None)])
def test_a_label_of_a_stored_job_goes_straight_in(system: System, job: Job) -> None:
    assert words_of(label_of(job, NOW), job.dead_kind, system).flag is None
