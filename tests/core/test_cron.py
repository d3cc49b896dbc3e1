"""When a schedule's times are: what clocks do in spring and autumn, days that are rare, and what is no rule at all."""

from __future__ import annotations

import time
from datetime import datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.clock import SECOND, instant, moment
from windlass.core.cron import (
    ALIASES,
    END,
    LONGEST,
    check_rule,
    check_zone,
    due_times,
    next_after,
    times_after,
    times_until,
)
from windlass.errors import InvalidInput

NEW_YORK = "America/New_York"
HOUR = 3_600 * SECOND


def at(text: str, zone: str = "UTC", fold: int = 0) -> int:
    return instant(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold))


def shown(rule: str, zone: str, start: str, count: int) -> list[str]:
    times = islice(times_after(rule, zone, at(start, zone) - 1), count)
    return [moment(one).astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M%z") for one in times]


def test_a_rule_goes_on_to_the_end_of_the_calendar() -> None:
    """First, because it ends also where a rule would have no times: the others would look for one for ever."""
    for rule, pause in (("every 15m", HOUR // 4), ("0 * * * *", HOUR)):
        after = END - 3 * HOUR
        assert list(islice(times_after(rule, "UTC", after), 2)) == [after + pause, after + 2 * pause]


# ------------------------------------------------------------------------------------------------ spring and autumn

SPRING, AUTUMN = "2026-03-08T00:00", "2026-11-01T00:00"  # the days on which New York changes its clocks


@pytest.mark.parametrize(
    ("case", "rule", "start", "expected"),
    [
        ("a fixed time in the gap fires once, at its end", "30 2 * * *", SPRING, ["03-08 03:00-0400", "03-09 02:30-0400"]),
        ("a fixed time in the fold fires once", "30 1 * * *", AUTUMN, ["11-01 01:30-0400", "11-02 01:30-0500"]),
        ("a rhythm goes through both hours of the fold", "*/30 * * * *", "2026-11-01T01:00",
         ["11-01 01:00-0400", "11-01 01:30-0400", "11-01 01:00-0500", "11-01 01:30-0500", "11-01 02:00-0500"]),
        ("an hourly rule has 25 hours in autumn", "0 * * * *", "2026-11-01T00:00",
         ["11-01 00:00-0400", "11-01 01:00-0400", "11-01 01:00-0500", "11-01 02:00-0500"]),
        ("an hourly rule has 23 hours in spring", "0 * * * *", "2026-03-08T01:00",
         ["03-08 01:00-0500", "03-08 03:00-0400", "03-08 04:00-0400"]),
        ("every second hour makes up for nothing in the gap", "0 */2 * * *", SPRING,
         ["03-08 00:00-0500", "03-08 04:00-0400", "03-08 06:00-0400"]),
        ("with seconds the gap is the same", "0 30 2 * * *", SPRING, ["03-08 03:00-0400", "03-09 02:30-0400"]),
        ("with seconds the fold is the same", "0 30 1 * * *", AUTUMN, ["11-01 01:30-0400", "11-02 01:30-0500"]),
        ("several times in one gap are one", "0,30 2 * * *", SPRING, ["03-08 03:00-0400", "03-09 02:00-0400"]),
        ("the end of the gap and a time that falls on it are one", "30 2,3 * * *", SPRING,
         ["03-08 03:00-0400", "03-08 03:30-0400", "03-09 02:30-0400"]),
        ("a fixed hour under a rhythm of minutes", "*/30 2 * * *", SPRING, ["03-09 02:00-0400", "03-09 02:30-0400"]),
        ("seconds within the gap are one", "*/20 30 2 * * *", SPRING, ["03-08 03:00-0400", "03-09 02:30-0400"]),
    ],
)  # fmt: skip
def test_clocks_that_change(case: str, rule: str, start: str, expected: list[str]) -> None:
    assert shown(rule, NEW_YORK, start, len(expected)) == expected, case


@pytest.mark.parametrize(
    ("zone", "rule", "start", "expected"),
    [
        # the gap lies at midnight: the day begins at one
        (
            "Africa/Cairo",
            "*/30 0-1 * * *",
            "2026-04-24T00:00",
            ["04-24 01:00+0300", "04-24 01:30+0300", "04-25 00:00+0300"],
        ),
        ("Africa/Cairo", "0 0 * * *", "2026-04-23T12:00", ["04-24 01:00+0300", "04-25 00:00+0300"]),
        # clocks change by half an hour
        ("Australia/Lord_Howe", "0 */3 * * *", "2026-04-05T00:00", ["04-05 00:00+1100", "04-05 03:00+1030"]),
        (
            "Australia/Lord_Howe",
            "*/30 1 * * *",
            "2026-04-05T01:00",
            ["04-05 01:00+1100", "04-05 01:30+1100", "04-05 01:30+1030"],
        ),
    ],
)
def test_clocks_that_change_in_odd_places(zone: str, rule: str, start: str, expected: list[str]) -> None:
    assert shown(rule, zone, start, len(expected)) == expected


@pytest.mark.parametrize(
    ("case", "rule", "start", "expected"),
    [
        ("day of month and day of week are either", "0 0 13 * 5", "2026-01-01", ["01-02", "01-09", "01-13"]),
        ("0 is Sunday", "0 0 * * 0", "2026-01-01", ["01-04", "01-11"]),
        ("7 is Sunday too", "0 0 * * 7", "2026-01-01", ["01-04", "01-11"]),
        ("names in any case", "0 0 * jan mon-wed", "2026-01-01", ["01-05", "01-06", "01-07", "01-12"]),
        ("the last day", "0 0 L * *", "2026-01-01", ["01-31", "02-28", "03-31"]),
        ("the last Friday", "0 0 * * 5L", "2026-01-01", ["01-30", "02-27"]),
        ("the last working day", "0 0 LW * *", "2026-01-01", ["01-30", "02-27", "03-31"]),
        ("the second Monday", "0 0 * * MON#2", "2026-01-01", ["01-12", "02-09"]),
    ],
)
def test_days_that_rules_name(case: str, rule: str, start: str, expected: list[str]) -> None:
    assert [text[:5] for text in shown(rule, "UTC", start, len(expected))] == expected, case


def test_a_leap_day_comes_every_four_years_and_not_in_2100() -> None:
    years = [moment(one).year for one in islice(times_after("0 0 29 2 *", "UTC", at("2088-01-01")), 4)]
    assert years == [2088, 2092, 2096, 2104]


def test_six_fields_begin_with_the_second() -> None:
    assert next_after("15 0 12 * * *", "UTC", at("2026-01-01")) == at("2026-01-01T12:00:15")
    assert next_after("*/20 * * * * *", "UTC", at("2026-01-01T00:00:20")) == at("2026-01-01T00:00:40")


@pytest.mark.parametrize(("alias", "rule"), ALIASES.items())
def test_an_alias_is_its_rule(alias: str, rule: str) -> None:
    start = at("2026-05-05T05:05")
    assert next_after(alias, "UTC", start) == next_after(alias.upper(), "UTC", start) == next_after(rule, "UTC", start)


def test_the_next_time_is_never_the_instant_itself_nor_before_it() -> None:
    noon = at("2026-01-01T12:00")
    assert next_after("0 12 * * *", "UTC", noon - 1) == noon
    assert next_after("0 12 * * *", "UTC", noon) == noon + 24 * HOUR
    # the second 01:10 of that night: by the wall 01:30 is ahead, but it was fired an hour ago
    assert next_after("30 1 * * *", NEW_YORK, at("2026-11-01T01:10", NEW_YORK, fold=1)) == at("2026-11-02T01:30", NEW_YORK)


def test_an_interval_keeps_its_rhythm_whenever_one_looks() -> None:
    anchor = at("2026-01-01T00:00:07")
    for later in (0, 1, 10 * HOUR, 400 * 24 * HOUR):
        found = next_after("every 90m", "UTC", anchor + later, anchor)
        assert found is not None
        assert (found - anchor) % (90 * 60 * SECOND) == 0
        assert 0 < found - (anchor + later) <= 90 * 60 * SECOND
    assert next_after("@every 1h", NEW_YORK, anchor, anchor) == anchor + HOUR


def test_backwards_an_interval_begins_with_the_first_instant() -> None:
    assert list(times_until("every 1h", "UTC", 2 * HOUR)) == [2 * HOUR, HOUR, 0]


def test_backwards_a_time_is_met_that_the_wall_shows_later() -> None:
    """The second 01:10 of that night: by the wall 01:30 is ahead, but it was forty minutes ago."""
    before = times_until("30 1 * * *", NEW_YORK, at("2026-11-01T01:10", NEW_YORK, fold=1))
    assert next(before) == at("2026-11-01T01:30", NEW_YORK)


def test_every_second_is_met_on_both_sides_of_a_change_of_the_clocks() -> None:
    change = at("2026-03-08T03:00", NEW_YORK)
    expected = [change + n * SECOND for n in (1, 0, -1, -2)]
    assert list(islice(times_until("* * * * * *", NEW_YORK, change + SECOND), 4)) == expected
    assert list(islice(times_after("* * * * * *", NEW_YORK, change - 2 * SECOND - 1), 4)) == expected[::-1]


# ------------------------------------------------------------------------------------------------------ what is missed


def test_due_times_are_all_of_them_up_to_the_cap_and_then_the_latest() -> None:
    first, now = at("2026-01-01T01:00"), at("2026-01-01T09:30")
    every = [first + n * HOUR for n in range(9)]
    assert due_times("0 * * * *", "UTC", first, now, 100) == every
    assert due_times("0 * * * *", "UTC", first, now, 9) == every
    assert due_times("0 * * * *", "UTC", first, now, 3) == every[-3:]
    assert due_times("0 * * * *", "UTC", first, first, 3) == [first]
    assert due_times("0 * * * *", "UTC", first, first - 1, 3) == []
    assert due_times("every 1h", "UTC", first, now, 3, first - HOUR) == every[-3:]
    between = first + HOUR // 2  # no time of the rule, which was another when this one was planned
    assert [due_times("0 * * * *", "UTC", between, first + HOUR, cap) for cap in (2, 1)] == [
        [between, first + HOUR], [first + HOUR],
    ]  # fmt: skip


def test_a_year_of_seconds_is_looked_at_in_no_time() -> None:
    now = at("2027-01-01")
    began = time.perf_counter()
    found = due_times("* * * * * *", "Europe/Berlin", now - 365 * 24 * HOUR, now, 100)
    assert time.perf_counter() - began < 5
    assert found == [now - n * SECOND for n in range(100)][::-1]


RULES = [
    "30 2 * * *",
    "0,30 1,2,3 * * *",
    "*/15 * * * *",
    "0 */3 * * *",
    "0 30 1 * * *",
    "15 * * * 1-5",
    "0 2 L * *",
    "every 50m",
]


@settings(deadline=None)  # the first look at a zone reads its file
@given(
    rule=st.sampled_from(RULES),
    zone=st.sampled_from([NEW_YORK, "UTC", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kolkata"]),
    day=st.integers(0, 365),
    minute=st.integers(0, 1439),
)
def test_backwards_is_forwards_turned_round(rule: str, zone: str, day: int, minute: int) -> None:
    """Over every night of a year, those in which clocks change included."""
    start = at("2026-01-01") + day * 24 * HOUR + minute * 60 * SECOND
    end = start + 40 * 24 * HOUR
    forwards = []
    for one in times_after(rule, zone, start):
        if one > end:
            break
        forwards.append(one)
        if len(forwards) == 200:
            end = one
            break
    backwards = []
    for one in times_until(rule, zone, end):
        if one <= start:
            break
        backwards.append(one)
    assert backwards[::-1] == forwards
    assert all(a < b for a, b in pairwise(forwards))


# ------------------------------------------------------------------------------------------------------ what is no rule


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("0 0 30 2 *", "the day of month '30'"), ("0 0 31 2,4 *", "the day of month '31'"), ("0 0 30 2 */2", "'30'"),
        ("0-100000000 * * * *", "'0-100000000' is no minute"), ("* * 1-100000000 * *", "is no day of month"),
        ("*/0 * * * *", "'*/0' is no minute"), ("61 * * * *", "'61' is no minute"), ("* 24 * * *", "'24' is no hour"),
        ("* * * 13 *", "'13' is no month"), ("* * * * 8", "'8' is no day of week"), ("61 * * * * *", "is no second"),
        ("* * * * MON#6", "is no day of week"), ("* * * *", "has 4 fields"), ("* * * * * * *", "has 7 fields"),
        ("@dayly", "did you mean '@daily'?"), ("every 5", "is not a duration"), ("every 0s", "a second and a year"),
        ("every 400d", "a second and a year"), ("every 1ms", "a second and a year"), ("", "text such as"),
        ("   ", "text such as"), (None, "text such as"), (5, "text such as"), ("x" * 300, "at most 200"),
        ("5-1 * * * *", "is no minute"), ("a * * * *", "'A' is no minute"), ("1,,2 * * * *", "is no minute"),
        ("9" * 150 + " * * * *", "is no minute"), ("0 0 * * 5L/2", "is no day of week"), ("0 0 * * L", "is no day"),
        ("0 0 x * *", "'X' is no day of month"), ("0 9 * * \x01", "printable"),
        ("0 9 * * " + "1" * (LONGEST - 7), "printable"),
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused_at_once_and_by_name(rule: object, said: str) -> None:
    began = time.perf_counter()
    with pytest.raises(InvalidInput) as refused:
        check_rule(rule)
    assert refused.value.field == "cron"
    assert said in str(refused.value)
    assert time.perf_counter() - began < 5


def test_a_number_that_python_does_not_write_out_is_no_rule_and_no_zone() -> None:
    with pytest.raises(InvalidInput, match=r"^cron: .*, got a number of 16610 bits$"):
        check_rule(10**5000)
    with pytest.raises(InvalidInput, match=r"^timezone: .*, got a list$"):
        check_zone([10**5000])


@pytest.mark.parametrize(
    "rule", ["*/100000000 * * * *", "*/60 * * * *", "*/60 * * * * *", "0 */24 * * *", "0 0 */32 * *", "5-10/90 * * * *"]
)
def test_a_step_that_is_longer_than_its_field_is_refused(rule: str) -> None:
    with pytest.raises(InvalidInput, match="step"):
        check_rule(rule)


@pytest.mark.parametrize(
    "rule", ["*/59 * * * *", "0 */23 * * *", "every 1s", "every 366d", "00" + ",0" * ((LONGEST - 10) // 2) + " * * * *"]
)
def test_the_most_that_may_be_said_is_a_rule(rule: str) -> None:
    assert check_rule(rule) == rule


def test_spaces_do_not_matter() -> None:
    assert check_rule("  0\t9  * * *\n") == "0 9 * * *"


@pytest.mark.parametrize(
    "zone", ["Europe/Berln", "Mars/Base", "../../etc/passwd", "/etc/passwd", "", "x" * 500, "a\x00b", 5, None]
)
def test_an_unknown_zone_is_refused(zone: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_zone(zone)
    assert refused.value.field == "timezone"
    if zone == "Europe/Berln":
        assert "did you mean 'Europe/Berlin'?" in str(refused.value)


@given(st.text(alphabet="0123456789*/,-LW#SUNMOEF @every", max_size=40))
def test_nothing_typed_breaks_it(text: str) -> None:
    """It is a rule with times to come, or it is refused."""
    try:
        rule = check_rule(text)
    except InvalidInput:
        return
    first = next_after(rule, "Europe/Berlin", at("2026-01-01"))
    assert first is None or first > at("2026-01-01")


def test_a_daily_rule_keeps_its_time_on_the_wall() -> None:
    """For a year, in a zone whose clocks change by half an hour."""
    zone = ZoneInfo("Australia/Lord_Howe")
    year = islice(times_after("15 9 * * *", str(zone), at("2026-01-01")), 365)
    assert {moment(one).astimezone(zone).strftime("%H:%M") for one in year} == {"09:15"}


@pytest.mark.parametrize("zone", ["UTC", NEW_YORK, "Pacific/Kiritimati"])
@pytest.mark.parametrize("rule", ["0 9 * * *", "*/5 * * * *", "0 0 29 2 *", "every 15m"])
def test_the_end_of_the_calendar_is_the_end_of_a_rule_whichever_way_one_walks(rule: str, zone: str) -> None:
    """A clock that is wrong by millennia gets an answer, and the same one forward and backward."""
    beyond = at("9999-12-31T23:59:59")
    last = next(times_until(rule, zone, beyond))
    assert next_after(rule, zone, last - 1) == last
    assert [next_after(rule, zone, later) for later in (last, beyond, beyond + HOUR)] == [None, None, None]
    for cap in (3, 1):
        assert due_times(rule, zone, beyond, beyond + HOUR, cap) == [beyond]


@pytest.mark.parametrize("zone", ["UTC", NEW_YORK, "Pacific/Kiritimati"])
@pytest.mark.parametrize(("rule", "times"), [("0 9 * * *", 3), ("*/30 * * * *", 144), ("every 15m", 288)])
def test_the_beginning_of_time_is_the_first_of_a_rule_whichever_way_one_walks(rule: str, zone: str, times: int) -> None:
    """As a clock may stand that a test sets to nought."""
    end = 72 * HOUR
    forward = [one for one in islice(times_after(rule, zone, -1), 1_000) if one < end]
    assert len(forward) == times
    assert forward[0] >= 0
    assert [*times_until(rule, zone, end - 1)][::-1] == forward


def test_a_rule_walks_to_the_year_before_the_last() -> None:
    assert list(times_after("0 0 1 1 *", "UTC", at("8998-01-01"))) == [at("8999-01-01")]


def test_a_rule_that_names_no_day_has_no_times_wherever_it_comes_from() -> None:
    assert next_after("0 0 */29 2 MON#2", "UTC", at("2026-01-01")) is None


@pytest.mark.parametrize(
    ("rule", "same"),
    [
        ("5-5/2 * * * *", "5 * * * *"), ("1,5-5/2,9 * * * *", "1,5,9 * * * *"), ("05-5/59 7-7/3 * * *", "5 7 * * *"),
        ("0 0 3-3/4 * *", "0 0 3 * *"), ("0 0 1 MAR-MAR/2 *", "0 0 1 3 *"), ("0 0 1 MAR-3/2 *", "0 0 1 3 *"),
        ("0 0 * * MON-1/2", "0 0 * * MON"), ("7-7/2 0 0 * * *", "7 0 0 * * *"), ("0-0/5 * * * *", "0 * * * *"),
        ("5-6/2 * * * *", "5 * * * *"), ("5-7/2 * * * *", "5,7 * * * *"),
    ],
)  # fmt: skip
def test_a_step_within_a_range_of_one_leads_nowhere(rule: str, same: str) -> None:
    """As cron has it; not to the end of the field."""
    assert check_rule(rule) == rule
    start = at("2026-05-05T05:05")
    assert list(islice(times_after(rule, "UTC", start), 20)) == list(islice(times_after(same, "UTC", start), 20))
    assert list(islice(times_until(rule, "UTC", start), 20)) == list(islice(times_until(same, "UTC", start), 20))


@pytest.mark.parametrize(
    "rule", ["5-5/0 * * * *", "5-5/90 * * * *", "0 1-JAN/2 * * *", "0 0 L-L/2 * *", "A-A/2 * * * *", "60-60/2 * * * *"]
)
def test_a_range_of_one_is_still_a_range_of_its_field(rule: str) -> None:
    with pytest.raises(InvalidInput):
        check_rule(rule)
