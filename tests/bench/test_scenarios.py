"""What is measured under pressure, with tiny numbers: each command says what the plans ask of it, and leaves nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import measure
from grounds import Store, ground, tallied
from parts import options_of
from run import in_turn, sample
from scenario_plans import FULL, SERVER, Pressure, chart_plans, pressure_plans, short_plans
from server import private_server
from workers import APPS

TINY = Pressure(
    drains=60, apart=3, retries=20, rows=100, parked=20, queues=5, overtaken=3_000, rate=100, steady_seconds=2,
    held_seconds=2, burst=20, batches=20, latencies=5,
)  # fmt: skip
STORES: tuple[Store, ...] = ("sqlite", "postgres")
QUICK = {("sqlite", "urgent"), ("postgres", "--held")}


def one_of_each() -> Iterator[Any]:
    """Each takes seconds, so most of them wait for `make test-all`."""
    for store in STORES:
        for command in in_turn(pressure_plans(store, TINY), chart_plans(store, TINY, short=False)):
            marks = () if any((store, word) in QUICK for word in command) else (pytest.mark.full,)
            yield pytest.param(store, command, marks=marks, id=f"{store} {' '.join(command[1:])}")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with private_server() as url:
        yield url


@pytest.mark.parametrize(("store", "command"), list(one_of_each()))
def test_every_command_measures_what_the_plans_ask_of_it(
    store: Store, command: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    places = {SERVER: request.getfixturevalue("server")} if store == "postgres" else {}
    found = sample(command, tmp_path, places)
    plans, charts = pressure_plans(store, TINY), chart_plans(store, TINY, short=False)
    asked = {plan.quantity for plan in plans if command in (plan.ours, plan.base)}
    asked |= {quantity for one in charts for _, quantity, points in one.curves if command in dict(points).values()}
    untold = {"statements", "claim_first_ms", "claim_last_ms"} - found.figures.keys()  # where the server counts nothing
    assert asked - untold <= found.figures.keys()
    assert {what for one in charts for _, other, what in one.series if other == command} - {
        "claim_ms"
    } <= found.series.keys()
    assert all(math.isfinite(value) and value >= 0 for value in found.figures.values())
    assert list(tmp_path.iterdir()) == [], "files were left behind"


@pytest.mark.parametrize("store", STORES)
def test_pictures_cost_little_more_than_the_comparisons(store: Store) -> None:
    """In the short set: nothing but calls that enqueue."""
    plans, charts = short_plans(store, FULL), chart_plans(store, FULL, short=True)
    more = set(in_turn(plans, charts)) - set(in_turn(plans))
    assert {command[1] for command in more} == {"many"}


def test_a_claim_s_time_is_looked_at_where_a_transaction_is_held() -> None:
    [one] = [one for one in chart_plans("postgres", FULL, short=False) if one.file == "postgres-held"]
    assert [("--held" in command, what) for _, command, what in one.series] == [(False, "claim_ms"), (True, "claim_ms")]


def test_a_step_in_which_nothing_ended_is_a_step_of_nothing() -> None:
    assert tallied([(7, 30), (9, 10)]) == [(0.0, 300.0), (0.1, 0.0), (0.2, 100.0)]


def test_a_drain_that_lost_a_job_or_ran_one_twice_measures_nothing() -> None:
    name = APPS["async"][1].name
    with ground("sqlite") as there, pytest.raises(AssertionError, match="expected 3 of 3 runs"):
        there.check(name, jobs=3, runs=3)


@pytest.mark.parametrize("part", ["drain", "urgent", "one"])
def test_finished_jobs_are_removed_meanwhile_only_in_a_steady_stream(part: str) -> None:
    with pytest.raises(SystemExit, match="--keep goes with steady"):
        options_of([part, "--keep", "1s"])
    assert options_of(["steady", "--keep", "1s"]).keep == "1s"


def test_a_steady_stream_tells_how_large_the_store_is(tmp_path: Path) -> None:
    words = ["steady", "--rate", "100", "--seconds", "4", "--jobs", "0", "--keep", "1s", "--dir", str(tmp_path)]
    found = measure(options_of(words))
    sizes = found["series"]["store_mb"]
    assert len(sizes) >= 3
    assert 0 < found["store_middle_mb"] <= max(size for _, size in sizes)
    assert found["store_end_mb"] > 0
