"""Time in one place: durations, instants, and clocks that never run backwards."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import clock
from windlass.clock import (
    LONGEST,
    SECOND,
    AnchoredClock,
    ManualClock,
    StoreClock,
    SystemClock,
    duration,
    from_nanoseconds,
    instant,
    moment,
)
from windlass.errors import InvalidInput


@pytest.mark.parametrize(
    ("written", "micros"),
    [("5m", 300 * SECOND), ("1h30m", 5_400 * SECOND), ("250ms", 250_000), ("7us", 7), ("2d", 172_800 * SECOND),
     ("1w", 604_800 * SECOND), ("1.5s", 1_500_000), (" 30s ", 30 * SECOND), ("0s", 0), (0, 0), (5, 5 * SECOND),
     (0.25, 250_000), (timedelta(minutes=2), 120 * SECOND), (timedelta(microseconds=1), 1)],
)  # fmt: skip
def test_a_duration_is_read_as_people_write_it(written: timedelta | float | str, micros: int) -> None:
    assert duration(written) == micros


@pytest.mark.parametrize(
    "written",
    ["", "5", "m5", "5 m", "5m!", "-5m", "1h-30m", "five", "1.5.5s", "5M", "5min", -1, -0.5, timedelta(seconds=-1),
     float("nan"), float("inf"), float("-inf"), 1e305, -1e305, 10**400, timedelta.max, "9999999w",
     "9" * 400 + "s", "9" * 5_000, LONGEST],
)  # fmt: skip
def test_what_is_no_duration_is_refused_by_the_name_of_its_field(written: timedelta | float | str) -> None:
    with pytest.raises(InvalidInput) as refused:
        duration(written, field="delay")
    assert refused.value.field == "delay"


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_too_long_to_be_written_out_is_refused_in_few_words(sign: int) -> None:
    with pytest.raises(InvalidInput, match="a number of 16610 bits"):
        duration(sign * 10**5_000)


@pytest.mark.parametrize("written", [None, True, b"5m", [5]])
def test_other_types_are_no_durations(written: object) -> None:
    with pytest.raises(InvalidInput, match="not a duration"):
        duration(written)  # type: ignore[arg-type]


def test_the_longest_duration_is_a_thousand_years() -> None:
    assert duration(timedelta(days=365_000)) == LONGEST
    with pytest.raises(InvalidInput, match="thousand years"):
        duration(timedelta(days=365_000, microseconds=1))


@given(st.integers(0, LONGEST).map(lambda us: timedelta(microseconds=us)))
def test_a_timedelta_loses_nothing(value: timedelta) -> None:
    assert timedelta(microseconds=duration(value)) == value


@given(st.datetimes(timezones=st.timezones()))
def test_an_aware_datetime_comes_back_as_the_same_instant(value: datetime) -> None:
    try:
        utc = value.astimezone(UTC)
    except OverflowError:  # the first and last hours of the calendar do not exist in every zone
        return
    assert moment(instant(value)) == utc
    assert moment(instant(value)).tzinfo is UTC


def test_the_same_instant_in_two_zones_is_stored_once() -> None:
    there = datetime(2030, 6, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert instant(there) == instant(datetime(2030, 6, 1, 10, tzinfo=UTC))


def test_an_instant_before_1970_is_negative_and_exact() -> None:
    assert instant(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1


@pytest.mark.parametrize("value", ["2030-01-01", 5, None, date(2030, 1, 1), 2**14_000], ids=range(5))
def test_what_is_no_datetime_is_refused_by_the_name_of_its_field(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^since: must be a datetime"):
        instant(value, field="since")


def test_a_naive_datetime_is_refused_because_nobody_knows_its_hour() -> None:
    naive = datetime(2030, 1, 1)  # noqa: DTZ001
    with pytest.raises(InvalidInput, match="no time zone"):
        instant(naive)
    with pytest.raises(InvalidInput, match="no time zone"):
        ManualClock(naive)


@given(st.integers(-(10**18), 2 * 10**18))
def test_nothing_runs_early_because_a_not_before_time_rounds_up_and_now_rounds_down(nanos: int) -> None:
    due, now = from_nanoseconds(nanos, not_before=True), from_nanoseconds(nanos, not_before=False)
    assert due * 1_000 >= nanos >= now * 1_000
    assert due * 1_000 - nanos < 1_000
    assert nanos - now * 1_000 < 1_000


@pytest.mark.parametrize(("nanos", "due", "now"), [(1_000, 1, 1), (1_001, 2, 1), (1_999, 2, 1), (0, 0, 0)])
def test_nanoseconds_round_only_when_they_must(nanos: int, due: int, now: int) -> None:
    assert from_nanoseconds(nanos, not_before=True) == due
    assert from_nanoseconds(nanos, not_before=False) == now


def test_a_manual_clock_moves_only_when_told() -> None:
    manual = ManualClock()
    start = manual.now()
    assert moment(start) == datetime(2030, 1, 1, tzinfo=UTC)
    assert manual.now() == start
    assert manual.advance(7) == start + 7
    assert manual.advance("1s") == start + 7 + SECOND
    assert manual.advance(timedelta(milliseconds=1)) == start + 7 + SECOND + 1_000
    assert manual.now() == start + 7 + SECOND + 1_000


def test_a_manual_clock_starts_where_it_is_put() -> None:
    assert ManualClock(5).now() == 5
    assert ManualClock(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)).now() == SECOND


def test_the_system_clock_holds_still_while_the_wall_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([5_000_999, 3_000_000, 5_001_000])
    monkeypatch.setattr("windlass.clock.time", SimpleNamespace(time_ns=lambda: next(readings)))
    system = SystemClock()
    assert [system.now() for _ in range(3)] == [5_000, 5_000, 5_001]


def test_two_processes_with_one_anchor_agree_whatever_their_wall_clocks_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "since_boot", lambda: 700)
    monkeypatch.setattr(clock, "wall", lambda: pytest.fail("an anchored clock must not read the wall clock"))
    assert AnchoredClock(utc=10_000, boot=500).now() == AnchoredClock(utc=10_100, boot=600).now() == 10_200


@given(st.lists(st.tuples(st.integers(-10_000, 10_000), st.integers(0, 1_000)), min_size=1))
def test_an_anchored_clock_never_runs_backwards_whatever_anchor_it_adopts(moves: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        boot = 1_000
        anchored = AnchoredClock(utc=1_000_000, boot=boot)
        last = 0
        for step, elapsed in moves:
            boot += elapsed
            patch.setattr(clock, "since_boot", lambda boot=boot: boot)
            anchored.move_to(utc=1_000_000 + step, boot=1_000)
            assert anchored.now() >= last
            last = anchored.now()


def test_adopting_an_anchor_says_by_how_much_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "since_boot", lambda: 100)
    anchored = AnchoredClock(utc=1_000, boot=100)
    assert anchored.move_to(utc=1_000, boot=100) == 0
    assert anchored.move_to(utc=3_500, boot=100) == 2_500
    assert anchored.now() == 3_500
    assert anchored.move_to(utc=3_000, boot=100) == -500
    assert anchored.now() == 3_500


def test_a_slow_answer_of_the_server_does_not_make_its_clock_less_well_known() -> None:
    clock = StoreClock()
    clock.adopt([(100.0, 100.001, 500 * SECOND)])
    assert clock.adopt([(110.0, 110.2, 510 * SECOND)]) == 0  # half of it is 100 ms off; it may as well agree
    assert clock._ahead == 500 * SECOND - round(100.0005 * SECOND)
    assert clock.adopt([(120.0, 120.2, 521 * SECOND)]) == pytest.approx(900_000, abs=1_000), "the server's clock was moved"
