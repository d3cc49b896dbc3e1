"""What a roll-up counts, and what it makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from windlass.core import rows
from windlass.core.usage import HOUR, LATE, Bite, added, bite, hour_of, key_of, key_of_row, late_until, latest
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
