"""When to try again and how long to wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.clock import LONGEST, SECOND
from windlass.errors import InvalidInput
from windlass.policies import (
    DEFAULT_RETRY,
    HARMONYK_BACKOFF,
    LONGEST_DELAY,
    Backoff,
    Exponential,
    Fixed,
    Jitter,
    JobStatus,
    Linear,
    Retry,
    Rule,
    Table,
    backoff_delay_ms,
    can_retry,
    error_types,
    exponential,
    fixed,
    jittered,
    linear,
    qualified_name,
    rule,
    table,
)

MICROS = st.integers(0, LONGEST_DELAY)
FACTORS = st.floats(1, 1e6, allow_nan=False, allow_infinity=False)
BACKOFFS: st.SearchStrategy[Backoff] = st.one_of(
    st.builds(Fixed, MICROS),
    st.builds(Linear, MICROS, MICROS, MICROS),
    st.builds(Exponential, MICROS, MICROS, FACTORS),
    st.builds(Table, st.lists(MICROS, min_size=1, max_size=8).map(tuple)),
)
RULES = st.builds(Rule, st.lists(st.text(max_size=20), max_size=3).map(tuple), st.booleans(), st.none() | BACKOFFS)


def seconds(backoff: Backoff, attempts: range) -> list[float]:
    return [backoff.delay(n) / SECOND for n in attempts]


# ------------------------------------------------------------------------------------------------------------ backoff


def test_a_fixed_pause_is_the_same_before_every_retry() -> None:
    assert seconds(fixed("5s"), range(1, 4)) == [5, 5, 5]


def test_a_linear_backoff_grows_by_its_step_up_to_the_cap() -> None:
    assert seconds(linear("1s", "2s", cap="6s"), range(6)) == [1, 1, 3, 5, 6, 6]


def test_an_exponential_backoff_starts_at_its_base_and_multiplies_up_to_the_cap() -> None:
    assert seconds(exponential("10s"), range(6)) == [10, 10, 20, 40, 80, 160]
    assert seconds(exponential("1s", cap="30s", factor=3), range(1, 6)) == [1, 3, 9, 27, 30]
    assert seconds(exponential("200ms", cap="5s"), range(1, 8)) == [0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]


def test_a_table_gives_one_pause_per_attempt_and_repeats_the_last() -> None:
    assert seconds(table("3s", "1s", "7s"), range(6)) == [3, 3, 1, 7, 7, 7]


@pytest.mark.parametrize(
    ("attempts", "delay_ms"),
    [(0, 1_000), (1, 1_000), (2, 2_000), (3, 4_000), (4, 8_000), (5, 16_000), (6, 32_000), (7, 60_000), (8, 60_000),
     (9, 60_000), (10, 60_000)],
)  # fmt: skip
def test_the_delays_of_spec_004_are_kept_to_the_letter(attempts: int, delay_ms: int) -> None:
    assert backoff_delay_ms(attempts) == delay_ms
    assert HARMONYK_BACKOFF.delay(attempts) == delay_ms * 1_000


def test_a_negative_attempt_waits_like_the_first() -> None:
    assert backoff_delay_ms(-3) == 1_000


@pytest.mark.parametrize("attempt", [64, 310, 1_000, 1_025, 10**6])
@pytest.mark.parametrize("factor", [1.0, 2.0, 10.0, 1e300])
def test_a_very_late_attempt_waits_for_the_cap_and_never_overflows(attempt: int, factor: float) -> None:
    assert exponential("1s", cap="1h", factor=factor).delay(attempt) == (SECOND if factor == 1 else 3_600 * SECOND)


def test_no_pause_stays_no_pause_however_late_the_attempt() -> None:
    assert exponential(0, cap="1h").delay(5_000) == 0
    assert linear(0, 0).delay(5_000) == 0


def test_without_a_cap_no_delay_is_longer_than_a_year() -> None:
    assert exponential("1s").delay(1_000) == LONGEST_DELAY
    assert linear("1s", "100d").delay(1_000) == LONGEST_DELAY
    assert Fixed(LONGEST_DELAY * 2).delay(1) == LONGEST_DELAY


@given(BACKOFFS, st.integers(-5, 5_000))
def test_every_delay_is_a_whole_number_between_zero_and_a_year(backoff: Backoff, attempt: int) -> None:
    delay = backoff.delay(attempt)
    assert type(delay) is int
    assert 0 <= delay <= LONGEST_DELAY


@given(st.one_of(st.builds(Linear, MICROS, MICROS, MICROS), st.builds(Exponential, MICROS, MICROS, FACTORS)))
def test_a_growing_backoff_never_shrinks(backoff: Backoff) -> None:
    delays = [backoff.delay(n) for n in range(0, 400, 7)]
    assert delays == sorted(delays)


@pytest.mark.parametrize("factor", [0.5, 0, -1, float("nan"), float("inf"), "x", None, True, 10**400, 2**14_000], ids=repr)
def test_a_factor_that_would_shrink_or_cannot_be_stored_is_refused(factor: Any) -> None:
    with pytest.raises(InvalidInput, match="factor"):
        exponential("1s", factor=factor)


def test_bad_pauses_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="pauses"):
        table()
    with pytest.raises(InvalidInput, match="pause"):
        fixed(-1)
    with pytest.raises(InvalidInput, match="step"):
        linear("1s", "soon")
    with pytest.raises(InvalidInput, match="base"):
        exponential(timedelta(seconds=-1))


@pytest.mark.parametrize("bad", [-1, LONGEST + 1, 10**400, 1.5, True, "1s", None])
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (Fixed, "pause"), (lambda bad: Linear(bad, 0), "first"), (lambda bad: Linear(0, bad), "step"),
        (lambda bad: Linear(0, 0, bad), "cap"), (Exponential, "base"), (lambda bad: Exponential(0, bad), "cap"),
        (lambda bad: Table((0, bad)), "pauses"),
    ],
)  # fmt: skip
def test_a_pause_that_no_time_can_be_added_to_is_refused(kind: Callable[[Any], Backoff], field: str, bad: Any) -> None:
    with pytest.raises(InvalidInput, match=field):
        kind(bad)


@given(st.sampled_from([Fixed(LONGEST), Linear(LONGEST, LONGEST, LONGEST), Exponential(LONGEST, LONGEST, 1e300)]), MICROS)
def test_the_longest_pause_can_be_spread(backoff: Backoff, attempt: int) -> None:
    for jitter in get_args(Jitter):
        assert 0 <= jittered(backoff.delay(attempt), jitter, 0.999) <= LONGEST


def test_what_python_does_not_write_out_is_refused_in_few_words() -> None:
    endless: Any = 10**5000
    for make, field in (
        (lambda: Retry(max_attempts=-endless), "max_attempts"), (lambda: Retry(max_attempts=endless), "max_attempts"),
        (lambda: Retry(max_retries=-endless), "max_retries"), (lambda: Retry(max_retries=endless), "max_retries"),
        (lambda: Retry(backoff=endless), "backoff"), (lambda: Retry(rules=endless), "rules"),
        (lambda: Retry(jitter=endless), "jitter"), (lambda: rule(endless), "rule"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=f"^{field}: .*, got a number of 16610 bits$"):
            make()


# ------------------------------------------------------------------------------------------------------------- jitter

ROLLS = st.floats(0, 1, exclude_max=True)


@given(MICROS, ROLLS)
def test_no_jitter_leaves_the_delay_alone(delay: int, roll: float) -> None:
    assert jittered(delay, "none", roll) == delay


@given(MICROS, ROLLS)
def test_full_jitter_stays_between_zero_and_the_delay(delay: int, roll: float) -> None:
    assert 0 <= jittered(delay, "full", roll) <= delay


@given(MICROS, ROLLS)
def test_equal_jitter_stays_between_half_and_the_whole_delay(delay: int, roll: float) -> None:
    assert delay // 2 <= jittered(delay, "equal", roll) <= delay


@given(MICROS, st.sampled_from(["none", "full", "equal"]), ROLLS, ROLLS)
def test_jitter_is_a_rising_function_of_the_roll_alone(delay: int, jitter: Jitter, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert jittered(delay, jitter, low) <= jittered(delay, jitter, high)


def test_jitter_reaches_both_ends_of_its_range() -> None:
    assert [jittered(1_000, "full", roll) for roll in (0.0, 0.5, 0.9999)] == [0, 500, 999]
    assert [jittered(1_000, "equal", roll) for roll in (0.0, 0.5, 0.9999)] == [500, 750, 999]
    assert jittered(1, "equal", 0.0) == 0


# -------------------------------------------------------------------------------------------------------------- rules


class Outer:
    class Broken(ConnectionError):
        pass


def test_an_exception_is_known_by_the_qualified_names_of_its_class_and_its_bases() -> None:
    assert error_types(Outer.Broken()) == (
        f"{__name__}.Outer.Broken",
        "builtins.ConnectionError",
        "builtins.OSError",
        "builtins.Exception",
        "builtins.BaseException",
    )


def test_a_rule_matches_the_class_itself_and_every_subclass() -> None:
    broken = error_types(Outer.Broken())
    assert rule(Outer.Broken).matches(broken)
    assert rule(OSError).matches(broken)
    assert rule("builtins.ConnectionError").matches(broken)
    assert not rule(ValueError).matches(broken)
    assert not rule(Outer.Broken).matches(error_types(OSError()))


def test_a_class_of_the_same_name_elsewhere_does_not_match() -> None:
    assert not rule("elsewhere.Outer.Broken").matches(error_types(Outer.Broken()))
    assert not rule("Broken").matches(error_types(Outer.Broken()))


def test_the_first_rule_that_matches_decides() -> None:
    lenient, strict = rule(OSError, backoff=fixed("1s")), rule(Outer.Broken, dead=True)
    names = error_types(Outer.Broken())
    assert Retry(rules=(lenient, strict)).rule_for(names) is lenient
    assert Retry(rules=(strict, lenient)).rule_for(names) is strict
    assert Retry(rules=(strict, lenient)).rule_for(error_types(OSError())) is lenient
    assert Retry(rules=(strict, lenient)).rule_for(error_types(ValueError())) is None
    assert Retry().rule_for(names) is None


def test_a_rule_names_at_least_one_exception() -> None:
    with pytest.raises(InvalidInput, match="rule"):
        rule(dead=True)


def test_a_qualified_name_carries_module_and_nesting() -> None:
    assert qualified_name(ValueError) == "builtins.ValueError"
    assert qualified_name(Outer.Broken) == f"{__name__}.Outer.Broken"


# -------------------------------------------------------------------------------------------------------------- Retry


@pytest.mark.parametrize(
    ("said", "executions"),
    [({}, 6), ({"max_attempts": 1}, 1), ({"max_attempts": 3}, 3), ({"max_attempts": 0}, 0), ({"max_retries": 0}, 1),
     ({"max_retries": 3}, 4), ({"max_retries": 5}, 6)],
)  # fmt: skip
def test_max_attempts_counts_executions_and_max_retries_counts_what_follows_the_first(
    said: dict[str, int], executions: int
) -> None:
    assert Retry(**said).executions == executions  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "field"),
    [({"max_attempts": 1, "max_retries": 1}, "retry"), ({"max_attempts": -1}, "max_attempts"),
     ({"max_retries": -1}, "max_retries"), ({"jitter": "some"}, "jitter")],
)  # fmt: skip
def test_a_policy_that_contradicts_itself_is_refused_by_field(said: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Retry(**said)
    assert refused.value.field == field


@given(
    st.one_of(
        st.fixed_dictionaries({"max_attempts": st.none() | st.integers(0, 2**31)}),
        st.fixed_dictionaries({"max_retries": st.none() | st.integers(0, 2**31)}),
    ),
    BACKOFFS,
    st.sampled_from(["none", "full", "equal"]),
    st.lists(RULES, max_size=3).map(tuple),
    st.booleans(),
)
def test_a_policy_survives_being_stored(
    maximum: dict[str, int | None], backoff: Backoff, jitter: Jitter, rules: tuple[Rule, ...], count_lost: bool
) -> None:
    policy = Retry(**maximum, backoff=backoff, jitter=jitter, rules=rules, count_lost=count_lost)
    assert Retry.decode(policy.encode()) == policy


def test_a_stored_policy_names_its_backoff_even_when_it_is_the_default() -> None:
    """The default may change with a release; the job that was stored before must not."""
    text = DEFAULT_RETRY.encode()
    assert "table" in text
    assert "jitter" not in text
    assert Retry.decode(text) == DEFAULT_RETRY


# ----------------------------------------------------------------------------------------------------------- Harmonyk


@pytest.mark.parametrize("attempts", [2, 3, 4])
@pytest.mark.parametrize("status", ["queued", "running", "success", "failed"])
def test_can_retry_is_true_for_queued_and_failed_below_the_maximum_only(status: JobStatus, attempts: int) -> None:
    assert can_retry(status, attempts, 3) is (status in ("queued", "failed") and attempts < 3)


def test_can_retry_allows_five_attempts_unless_told() -> None:
    assert can_retry("failed", 4)
    assert not can_retry("failed", 5)


def test_can_retry_refuses_a_word_it_does_not_know() -> None:
    with pytest.raises(InvalidInput, match="status"):
        can_retry("done", 0)  # type: ignore[arg-type]
