"""What a roll-up counts, and what it makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from windlass.core import rows
from windlass.core.queries import UsageBy
from windlass.core.usage import (
    DAY,
    HOUR,
    LATE,
    Bite,
    added,
    bite,
    hour_of,
    key_of,
    key_of_row,
    late_until,
    latest,
    merged,
    spread,
    whole_days,
)
from windlass.records import Usage
from windlass.types import Run

from .make import NOW, running


def ended(**fields: Any) -> Run:
    run = rows.run_of(running(org_id="acme"), "run-1")
    return replace(run, **{"finished_at": NOW + 30, "status": "completed", "wait_us": 5, **fields})


def test_runs_of_one_hour_and_kind_add_up() -> None:
    first = added(None, ended(cpu_us=7, peak_rss=None))
    assert first == Usage(
        hour=hour_of(NOW), org_id="acme", queue="default", type="mail", outcome="completed", runs=1, run_us=30, wait_us=5,
        cpu_us=7, peak_rss=None,
    )  # fmt: skip
    second = added(first, ended(finished_at=NOW + 10, wait_us=None, peak_rss=9))
    assert (second.runs, second.run_us, second.wait_us, second.cpu_us, second.peak_rss) == (2, 40, 5, 7, 9)
    assert added(second, ended(peak_rss=3)).peak_rss == 9
    assert key_of_row(second) == key_of(ended())


def test_the_hour_is_that_of_the_end_and_no_org_is_the_empty_one() -> None:
    edge = hour_of(NOW) + HOUR
    assert [key_of(ended(finished_at=at, org_id=None))[:2] for at in (edge - 1, edge)] == [(edge - HOUR, ""), (edge, "")]


def test_a_run_that_ended_before_it_began_took_no_time() -> None:
    assert added(None, ended(finished_at=NOW - 5)).run_us == 0


@pytest.mark.parametrize(
    ("ends", "limit", "expected"),
    [
        ([], 1, Bite(99, False)),
        ([1, 2], 3, Bite(99, False)),
        ([1, 2], 2, Bite(2, True)),
        ([1, 2, 2, 2, 3], 2, Bite(2, True)),
        ([1, 2, 3], 1, Bite(1, True)),
    ],
)
def test_a_bite_ends_with_its_last_run_or_where_it_was_told(ends: list[int], limit: int, expected: Bite) -> None:
    assert bite(ends, limit, 99) == expected


def test_nothing_lies_between_what_a_roll_up_takes_and_what_is_late() -> None:
    """Also when the two disagree on the time by half a minute."""
    assert latest(NOW, NOW) == NOW - LATE
    assert latest(5, NOW) == 5
    assert latest(NOW, NOW) == late_until(NOW - LATE // 2)


@pytest.mark.parametrize(
    ("since", "until", "folded", "days"),
    [
        (0, 3 * DAY, 9 * DAY, (0, 3 * DAY)), (1, 3 * DAY + 5, 9 * DAY, (DAY, 3 * DAY)),
        (1, 3 * DAY, 2 * DAY + 5, (DAY, 2 * DAY)),
        (1, DAY + 5, 9 * DAY, (1, 1)), (5, 9, 9 * DAY, (5, 5)),
    ],
)  # fmt: skip
def test_whole_days_are_read_by_the_day(since: int, until: int, folded: int, days: tuple[int, int]) -> None:
    assert whole_days(since, until, folded) == days


ROW = Usage(hour=5 * HOUR, org_id="o", queue="q", type="t", outcome="failed", runs=2, run_us=3, wait_us=5, cpu_us=7)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ({}, {}), ({"step": 2 * HOUR}, {"hour": 4 * HOUR}), ({"by_org": True}, {"org_id": "o"}),
        ({"by_queue": True}, {"queue": "q"}), ({"by_type": True}, {"type": "t"}),
        ({"by_outcome": True}, {"outcome": "failed"}),
    ],
)  # fmt: skip
def test_what_is_not_asked_for_is_the_same_in_all_rows(asked: dict[str, Any], kept: dict[str, Any]) -> None:
    nothing = replace(ROW, hour=0, org_id="", queue="", type="", outcome="")
    assert spread(ROW, UsageBy(since=0, until=DAY, **asked)) == replace(nothing, **kept)


def test_rows_of_one_kind_add_up_and_the_largest_peak_stays() -> None:
    assert merged(None, ROW) is ROW
    twice = merged(ROW, ROW)
    assert twice == replace(ROW, runs=4, run_us=6, wait_us=10, cpu_us=14)
    assert [merged(replace(ROW, peak_rss=peak), replace(ROW, peak_rss=4)).peak_rss for peak in (None, 3, 9)] == [4, 4, 9]
