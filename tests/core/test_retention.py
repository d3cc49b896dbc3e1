"""Which finished jobs may go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.retention import prunable
from windlass.types import STATES, TERMINAL, Job, State

from .make import NOW, queued

KEEP = 100
OLD = NOW - KEEP
FRESH = OLD + 1
Rules = dict[State, int | None]


def ended(name: str, state: State = "succeeded", at: int = OLD, **fields: Any) -> Job:
    return queued(id=name, state=state, finished_at=at if state in TERMINAL else None, **{"seq": int(name), **fields})


def pruned(
    *jobs: Job, limit: int = 100, keep: int | None = KEEP, but: Rules | None = None, uncounted: tuple[int, ...] = ()
) -> list[str]:
    """What goes when every ending is kept for `keep`, `but` for those that have another rule."""
    rule: Rules = {"succeeded": keep, "cancelled": keep, "dead": keep, **(but or {})}
    return [job.id for chain in prunable(jobs, rule, NOW, limit, (), uncounted) for job in chain]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("at", [OLD - 1, OLD, FRESH])
def test_a_finished_job_goes_at_the_instant_its_time_is_over_and_an_unfinished_one_never(state: State, at: int) -> None:
    expected = ["1"] if state in TERMINAL and at <= OLD else []
    assert pruned(ended("1", state, at, created_at=0)) == expected


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_none_keeps_for_ever_and_each_ending_has_its_own_rule(state: State) -> None:
    jobs = [ended(str(n), s, at=0) for n, s in enumerate(sorted(TERMINAL))]
    kept = ended("1", state, at=0)
    assert pruned(kept, but={state: None}) == []
    assert pruned(*jobs, keep=None, but={state: KEEP}) == [job.id for job in jobs if job.state == state]


def test_zero_keeps_nothing() -> None:
    assert pruned(ended("1", at=NOW), keep=0) == ["1"]


def test_the_oldest_go_first_and_no_more_than_asked() -> None:
    jobs = [ended("1", at=OLD - 1), ended("2", at=OLD - 3), ended("3", at=OLD - 1), ended("4", at=OLD - 2)]
    assert pruned(*jobs) == ["2", "4", "1", "3"]
    assert pruned(*jobs, limit=2) == ["2", "4"]


def test_a_chain_goes_as_one_by_the_rule_and_date_of_its_last_link() -> None:
    first = ended("1", "dead", at=0, dead_kind="superseded", superseded_by="2")
    second = ended("2", "dead", at=0, dead_kind="superseded", superseded_by="3", retry_of="1")
    assert pruned(first, second, ended("3", at=OLD, retry_of="2"), limit=1) == ["3", "2", "1"]
    assert pruned(first, second, ended("3", at=FRESH, retry_of="2")) == []
    assert pruned(first, second, ended("3", at=OLD, retry_of="2"), but={"dead": None}) == ["3", "2", "1"]
    assert pruned(first, second, ended("3", at=OLD, retry_of="2"), but={"succeeded": None}) == []
    assert pruned(first, second, ended("3", "running", retry_of="2")) == []


def test_a_superseded_job_never_goes_without_its_successor() -> None:
    assert pruned(ended("1", "dead", at=0, dead_kind="superseded", superseded_by="2")) == []


def test_a_group_goes_only_as_a_whole() -> None:
    done = [ended("1", group_id="g"), ended("2", group_id="g")]
    assert pruned(*done) == ["1", "2"]
    assert pruned(*done, ended("3", at=FRESH, group_id="g")) == []
    assert pruned(*done, ended("3", "queued", group_id="g"), ended("4")) == ["4"]
    assert pruned(*done, ended("3", at=FRESH, group_id="other")) == ["1", "2"]


def test_a_link_that_was_removed_by_hand_does_not_stop_the_rest() -> None:
    assert pruned(ended("3", retry_of="gone")) == ["3"]


@given(st.lists(st.tuples(st.sampled_from(STATES), st.integers(-3, 3), st.none() | st.sampled_from("gh"))))
def test_nothing_active_nothing_fresh_and_no_half_group_ever_goes(rows: list[tuple[State, int, str | None]]) -> None:
    jobs = [ended(str(n), s, OLD + at, group_id=group) for n, (s, at, group) in enumerate(rows)]
    gone = set(pruned(*jobs))
    left = [job for job in jobs if job.id not in gone]
    for job in jobs:
        if job.id in gone:
            assert job.state in TERMINAL
            assert (job.finished_at or 0) <= OLD
            assert job.group_id is None or all(other.group_id != job.group_id for other in left)


def test_an_uncounted_run_keeps_its_job_its_chain_and_its_group_and_takes_no_place_in_a_bite() -> None:
    first = ended("1", "dead", at=0, dead_kind="superseded", superseded_by="2")
    chain = (first, ended("2", at=OLD - 2, retry_of="1"))
    assert pruned(*chain, ended("3"), uncounted=(1,)) == ["3"]
    assert pruned(*chain, ended("3"), uncounted=(2,), limit=1) == ["3"]
    group = (ended("4", group_id="g"), ended("5", group_id="g"))
    assert pruned(*group, ended("6"), uncounted=(5,)) == ["6"]


def test_a_group_stays_whole_while_one_of_it_is_needed_or_uncounted() -> None:
    jobs = [ended("1", group_id="g"), ended("2", group_id="g"), ended("3")]
    keep: Rules = {"succeeded": KEEP}
    for fields in ({"needed": ("1",)}, {"uncounted": (2,)}, {"open_groups": ("g",)}):
        assert [chain[0].id for chain in prunable(jobs, keep, NOW, 9, **fields)] == ["3"]
    assert [chain[0].id for chain in prunable(jobs, keep, NOW, 9, needed=("3",))] == ["1", "2"]


def test_a_living_job_stays_whatever_is_said_of_its_state() -> None:
    assert pruned(ended("1", "queued"), but={"queued": 0}) == []
