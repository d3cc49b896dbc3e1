"""What charts and texts of the pages are computed from: scales, ticks, gaps, spans of time, values, tracebacks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from windlass.admin.overview import TrendPoint
from windlass.admin.views import RunView
from windlass.ids import Ids
from windlass.web.pages.bars import bars
from windlass.web.pages.charts import Series, levels, lined, spark, spark_bars, stacked, steps, time_steps
from windlass.web.pages.formats import duration, part, percent, query, rate, relative, short_id, size, slug, span
from windlass.web.pages.loglines import log_lines
from windlass.web.pages.overview import sampled
from windlass.web.pages.payloads import brief, error_name, error_text, frames, scalar

NB = "\u00a0"
NOON = datetime(2026, 3, 27, 12, tzinfo=UTC)
TIMES = [NOON + timedelta(minutes=minute) for minute in range(60)]


@pytest.mark.parametrize(
    ("top", "last"), [(0, 1), (0.4, 0.4), (3, 3), (7, 7.5), (412, 600), (1234, 1500), (99_999, 100_000)]
)
def test_a_scale_is_round_and_holds_its_top(top: float, last: float) -> None:
    found = steps(top)
    assert found[0] == 0
    assert found[-1] >= top
    assert found[-1] == pytest.approx(last)
    assert len(found) <= 5


def test_a_scale_of_jobs_has_no_halves() -> None:
    assert steps(1, whole=True) == [0, 1]
    assert steps(3, whole=True) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("top", "step"), [(90, 50), (2_600, 1_000), (25_000, 10_000), (80_000, 30_000), (500_000, 300_000)]
)
def test_a_scale_of_time_is_round_in_seconds_and_minutes(top: float, step: float) -> None:
    assert time_steps(top)[1] == step
    assert time_steps(top)[-1] >= top


def test_a_gap_stays_a_gap() -> None:
    values = tuple(None if 20 <= minute < 30 else 1.0 for minute in range(60))
    [drawn] = lined("x", "x", TIMES, [Series("a", "p50", values)], UTC, "ms").drawn
    assert len(drawn.lines) == 2
    [area] = stacked("x", "x", TIMES, [Series("a", "is-dead", values)], UTC, "/s").drawn
    assert len(area.areas) == 2


def test_a_value_that_stands_alone_is_seen() -> None:
    """The only minute that was sampled."""
    values = tuple(5.0 if minute == 30 else None for minute in range(60))
    [line] = lined("x", "x", TIMES, [Series("a", "p50", values)], UTC, "ms").drawn
    left, right = (float(spot.split(",")[0]) for spot in line.lines[0].split())
    assert right - left == pytest.approx(600 / 59, rel=0.01)
    [area] = stacked("x", "x", TIMES, [Series("a", "is-dead", values)], UTC, "/s").drawn
    assert area.areas[0].count(",") == 4
    nothing = stacked("x", "x", TIMES, [Series("a", "is-dead", (None,) * 60)], UTC, "/s")
    assert nothing.is_empty
    assert not lined("x", "x", TIMES, [Series("a", "p50", values)], UTC, "ms").is_empty


def test_areas_stand_upon_each_other() -> None:
    one = Series("a", "is-succeeded", (1.0,) * 60)
    made = stacked("x", "x", TIMES, [one, Series("b", "is-dead", (2.0,) * 60)], UTC, "/s")
    assert [text for _, text in made.grid] == ["0", "1", "2", "3"]
    assert made.rows[0] == ("12:00", ("1/s", "2/s"))
    assert len(made.rows) <= 12


def test_a_spark_leaves_out_what_is_not_sampled_yet() -> None:
    assert levels([None, 1, None, 2, None, None]) == [0, 1, 0, 2]
    assert spark([1]) is None
    assert [bar.tone for bar in spark_bars([0, 3], ["is-dead", "is-dead"])] == ["zero", "is-dead"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0049, "4.9 ms"),
        (0.184, "184 ms"),
        (0.9993, "999 ms"),
        (0.9996, "1 s"),
        (2.6, "2.6 s"),
        (44, "44 s"),
        (372, "6 min 12 s"),
        (1_100, "18 min"),
        (200_000, "2 d"),
    ],
)
def test_a_duration_reads_as_people_say_it(seconds: float, text: str) -> None:
    assert duration(seconds).replace(NB, " ") == text


def test_a_wait_has_two_units_and_the_past_has_one() -> None:
    assert relative(NOON + timedelta(seconds=134), NOON).replace(NB, " ") == "in 2 min 14 s"
    assert relative(NOON - timedelta(seconds=134), NOON).replace(NB, " ") == "2 min ago"
    assert relative(NOON, NOON) == "now"
    assert span(59.6).replace(NB, " ") == "1 min"


def test_numbers_are_short_and_missing_ones_are_a_dash() -> None:
    assert (rate(412), rate(0.4), rate(0.01), rate(None)) == ("412/s", "0.4/s", "0.6/min", "–")
    assert (percent(0.018), percent(0.3), percent(None)) == ("1.8%", "30%", "–")
    assert size(1_400_000).replace(NB, " ") == "1.4 MB"


def test_a_name_is_one_part_of_a_path_and_one_id() -> None:
    assert part("a/b?c#d") == "a%2Fb%3Fc%23d"
    assert part("..") == "%2E%2E"
    assert slug("mail") == "mail"
    assert slug('"><x>') != slug('"><y>')
    assert query({"a": "x y", "b": None, "c": ""}) == "?a=x+y"
    assert short_id("019d2f1b-57a1-7c3e-8a2b-0123456789ab") == "019d2f1b…456789ab"
    assert short_id("nightly-report") == "nightly-report"
    ids = Ids()
    assert len({short_id(ids.job(1_700_000_000_000_000)) for _ in range(200)}) == 200, "they begin alike"


def test_values_are_exact_and_rows_are_brief() -> None:
    assert scalar(9_223_372_036_854_775_809) == "9223372036854775809"
    assert brief({"a": 1, "b": "x", "c": [1, 2]}) == 'a=1, b="x", c=[2]'
    assert len(brief({"a": "x" * 500})) <= 120


def test_a_traceback_tells_own_frames_from_library_frames() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/v/site-packages/windlass/worker/slots.py", line 1, in run\n    call()\n'
        '  File "/srv/shop/tasks.py", line 2, in pay\n    raise Broken\nshop.Broken: no\n'
    )
    assert [kind for kind, _ in frames(text)] == ["lib", "own", "err"]
    assert (error_name("shop.Broken: no money"), error_text("shop.Broken: no money")) == ("Broken", "no money")


def test_a_log_line_says_when_and_how_bad() -> None:
    [line, plain] = log_lines("2026-03-27T14:27:21.082000Z WARNING shop: slow\n  a second line", 10)
    assert (line.at, line.level, line.text, line.tone) == ("14:27:21.082", "warning", "shop: slow", "is-blocked")
    assert (plain.at, plain.text) == ("", "  a second line")


def test_a_job_that_waits_is_drawn_with_its_next_run() -> None:
    made = bars(NOON, [], NOON + timedelta(minutes=5), NOON + timedelta(minutes=10))
    assert made.now is not None
    assert made.next is not None
    assert made.now < made.next <= 100


def test_a_run_that_began_before_its_job_stays_within_the_picture() -> None:
    """By the clock of its worker, which lags behind."""
    run = RunView(
        job_id="j", attempt=1, run_id="r", worker_id="w", status=None, claimed_at=NOON - timedelta(seconds=5),
        started_at=None,
        finished_at=None, waited=None, took=None, error=None, traceback=None, exit_code=None, cpu=None, peak_rss=None,
        artifacts=(), log_path=None,
    )  # fmt: skip
    made = bars(NOON, [run], NOON + timedelta(seconds=5), None)
    assert [(bar.x, bar.tone) for bar in made.bars] == [(0, "is-running")]
    assert made.now is not None
    assert made.bars[0].width == pytest.approx(made.now)


def test_a_young_store_is_drawn_over_the_whole_width() -> None:
    """From its first sample on, at least five points wide. A gap later on stays; without samples it is all of the span."""

    def series(*has: int) -> list[TrendPoint]:
        rates = {"completed": 1.0}
        return [
            TrendPoint(
                at=at, depth=None, oldest=None, rates=rates if place in has else None, failed=None, wait=None, run=None
            )
            for place, at in enumerate(TIMES)
        ]

    assert [one.at for one in sampled(series(50, 52, 59))] == TIMES[50:]
    assert len(sampled(series(59))) == 5
    assert len(sampled(series(0))) == 60
    assert len(sampled(series())) == 60


def test_a_quarter_is_written_as_one() -> None:
    """Beside its line: 0.2 stood at the height of 0.25."""
    drawn = lined("x", "x", TIMES, [Series("a", "is-succeeded", (0.7,) * 60)], UTC, "/s")
    assert [text for _, text in drawn.grid] == ["0", "0.25", "0.5", "0.75"]


@pytest.mark.parametrize("days", [1, 7, 30])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_what_stands_below_a_chart_fits_on_a_phone(days: int, zone: str) -> None:
    step = timedelta(hours=1) if days < 30 else timedelta(days=1)
    times = [NOON.replace(hour=0) + step * place for place in range(timedelta(days=days) // step + 1)]
    values = tuple(1.0 for _ in times)
    told = stacked("x", "x", times, [Series("a", "is-accent", values)], ZoneInfo(zone), "", height=152).times
    assert 2 <= len(told) <= 5
    assert all(later[0] - earlier[0] >= 14 for earlier, later in pairwise(told)), "percent of 300 px, for `28 Mar`"


@pytest.mark.parametrize("seconds", [9, 48, 60, 601, 5_000, 90_000, 10 * 86_400, 400 * 86_400])
@pytest.mark.parametrize("late", [0, 0.4, 7])
def test_times_below_the_runs_of_a_job_stand_apart(seconds: int, late: float) -> None:
    begin = NOON + timedelta(seconds=late)
    drawn = bars(begin, [], begin + timedelta(seconds=seconds), None)
    places = [x for x, _ in drawn.ticks]
    assert 1 <= len(places) <= 6
    assert all(later - earlier >= 16 for earlier, later in pairwise(places)), "percent of 300 px, for `12:00:10`"
    assert all(8 <= x <= 92 for x in places) or len(places) <= 3
    assert drawn.days == (seconds >= 10 * 86_400), "the hours of days say nothing"
