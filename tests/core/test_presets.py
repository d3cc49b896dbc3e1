"""Each source system as one set of choices."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from windlass.clock import SECOND
from windlass.core.admission import check_job
from windlass.core.uniqueness import Scope
from windlass.errors import InvalidInput
from windlass.policies import HARMONYK_BACKOFF, Retry
from windlass.presets import PRESETS, AckMode, KeyScope, Preset, preset
from windlass.words import SYSTEMS

from .make import new

EXPECTED = {  # retry mode, crash policy, key scope, on_duplicate, on_unknown, positions, max_running, ack, max_lost
    "taskharbor": ("same_job", "requeue", "queue", "ignore", "dead", "tail", None, "batched", 0),
    "orchestrator": ("same_job", "requeue", "type", "touch", "dead", "tail", None, "batched", 3),
    "scheduler": ("new_job", "fail", "type", "ignore", "wait", "dense", 1, "sync", 0),
    "harmonyk": ("same_job", "requeue", "type", "ignore", "wait", "tail", None, "batched", 3),
}


def test_every_source_system_has_a_preset_of_its_own_name() -> None:
    assert tuple(PRESETS) == SYSTEMS
    assert all(found.name == name for name, found in PRESETS.items())


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_preset_is_the_set_of_choices_its_system_made(name: str) -> None:
    p = preset(name)
    found = (
        p.retry_mode, p.crash_policy, p.idempotency_scope, p.on_duplicate, p.on_unknown, p.positions, p.max_running,
        p.ack, p.max_lost,
    )  # fmt: skip
    assert found == EXPECTED[name]


@pytest.mark.parametrize(
    ("name", "counts"),
    [("taskharbor", {None: 25, 0: 25, 1: 1, 3: 3, 5: 5}), ("orchestrator", {None: 4, 0: 4, 1: 2, 3: 4, 5: 6}),
     ("scheduler", {None: 4, 0: 4, 1: 2, 3: 4, 5: 6}), ("harmonyk", {None: 6, 0: 6, 1: 2, 3: 4, 5: 6})],
)  # fmt: skip
def test_the_maximum_of_a_source_system_becomes_executions_in_all(name: str, counts: dict[int | None, int]) -> None:
    p = preset(name)
    assert {n: p.executions(n) for n in counts} == counts
    assert {n: p.retry(n).executions for n in counts} == counts
    assert p.executions() == p.retry().executions == counts[None]


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_number_means_for_ever_and_none_means_never(name: str) -> None:
    assert all(preset(name).executions(n) >= 1 for n in (None, 0, 1, 2, 100))
    with pytest.raises(InvalidInput, match="maximum"):
        preset(name).executions(-1)


@pytest.mark.parametrize(
    ("name", "jitter", "seconds"),
    [("taskharbor", "equal", [0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]), ("orchestrator", "full", [1, 2, 4, 8, 16, 32, 64]),
     ("scheduler", "none", [10, 20, 40, 80, 160, 320, 640]), ("harmonyk", "none", [1, 2, 4, 8, 16, 32, 60])],
)  # fmt: skip
def test_a_preset_waits_as_its_system_does(name: str, jitter: str, seconds: list[float]) -> None:
    policy = preset(name).retry(3)
    assert policy.jitter == jitter
    assert [policy.backoff.delay(n) / SECOND for n in range(1, 8)] == seconds


def test_caps_are_those_of_the_systems() -> None:
    assert preset("taskharbor").backoff.delay(1_000) == 5 * SECOND
    assert preset("orchestrator").backoff.delay(1_000) == 3_600 * SECOND
    assert preset("harmonyk").backoff is HARMONYK_BACKOFF


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_policy_of_a_preset_can_be_stored_in_a_row_that_is_let_in(name: str) -> None:
    p = preset(name)
    policy = p.retry()
    assert Retry.decode(policy.encode()) == policy
    check_job(
        new(
            retry_mode=p.retry_mode, crash_policy=p.crash_policy, max_attempts=policy.executions,
            retry_policy=policy.encode(), max_lost=p.max_lost, on_unknown=p.on_unknown, on_duplicate=p.on_duplicate,
        )
    )  # fmt: skip


@pytest.mark.parametrize("p", PRESETS.values(), ids=lambda p: p.name)
def test_what_must_never_run_twice_is_acknowledged_at_once_and_dense_positions_need_it(p: Preset) -> None:
    never_twice = p.retry_mode == "new_job"
    assert (p.crash_policy == "fail") is never_twice
    assert (p.ack == "sync") is never_twice
    assert (p.positions == "dense") is never_twice


def test_the_words_of_presets_are_those_of_the_core() -> None:
    assert get_args(KeyScope) == get_args(Scope)
    assert get_args(AckMode) == ("batched", "sync")


def test_a_preset_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        preset("harmonyk").max_lost = 9  # type: ignore[misc]
    assert msgspec.structs.replace(preset("harmonyk"), max_lost=9).max_lost == 9


@pytest.mark.parametrize(
    ("name", "hint"), [("taskharbour", "did you mean 'taskharbor'?"), ("Harmonyk", "did you mean 'harmonyk'?")]
)
def test_an_unknown_preset_is_refused_with_the_nearest_name(name: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        preset(name)
    assert refused.value.field == "preset"
    assert hint in str(refused.value)
    assert "taskharbor, orchestrator, scheduler, harmonyk" in str(refused.value)


def test_a_name_like_no_other_is_refused_without_a_guess() -> None:
    with pytest.raises(InvalidInput) as refused:
        preset("zzz")
    assert "did you mean" not in str(refused.value)
