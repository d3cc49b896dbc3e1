"""The model of several databases: placements add up, the simulation agrees with them, and the page shows what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import shards
from hypothesis import given
from hypothesis import strategies as st
from shards import RESULTS, SHARDS, Trial, by_hash, by_load, measured, row, simulate, split, table, verdict, zipf

PAGE = Path(__file__).parent.parent.parent / "docs" / "operations" / "performance.md"
QUICK = Trial(seconds=5.0, bulk=100)
RATE = 1_000.0


@given(st.integers(1, 300), st.floats(0, 2), st.integers(1, 16))
def test_every_job_has_one_place(orgs: int, skew: float, number: int) -> None:
    shares = zipf(orgs, skew)
    for place in (by_hash, by_load):
        loads = place(shares, number)
        assert len(loads) == number
        assert sum(loads) == pytest.approx(1.0)
        assert max(loads) >= max(shares) * (1 - 1e-9), "an org lives in one place"
        assert max(loads) >= 1 / number - 1e-9


def test_a_new_shard_takes_only_what_becomes_its_own() -> None:
    before = [max(range(4), key=lambda shard, org=org: shards._hash(org, shard)) for org in range(500)]  # type: ignore[misc]
    after = [max(range(5), key=lambda shard, org=org: shards._hash(org, shard)) for org in range(500)]  # type: ignore[misc]
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert moved
    assert {new for _, new in moved} == {4}


def test_a_shard_keeps_up_below_its_rate_and_falls_behind_above_it() -> None:
    behind, waits = simulate([0.5, 0.25], 1.8 * RATE, RATE, QUICK)
    assert max(behind) < 0.05 * RATE
    assert waits[1] < waits[0]
    behind, _ = simulate([0.5, 0.25], 2.4 * RATE, RATE, Trial(seconds=20.0, bulk=10))
    assert behind[0] == pytest.approx(0.2 * RATE, rel=0.2)
    assert behind[1] < 0.01 * RATE


def test_the_same_seed_tells_the_same_story() -> None:
    first, again, other = (simulate([1.0], 900.0, RATE, Trial(5.0, 100, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_one_hot_org_bounds_the_whole_and_splitting_it_helps() -> None:
    shares = zipf(1_000, 1.0)
    eight, sixteen = (row(shares, number, RATE, QUICK) for number in (8, 16))
    assert eight.by_load == pytest.approx(sixteen.by_load) == pytest.approx(1 / shares[0])
    assert sixteen.idle > 0.4
    assert "7.5 × one database is the end, reached with 8 shards" in verdict([eight, sixteen])
    assert row(split(shares, 4), 16, RATE, QUICK).by_load == pytest.approx(15.0, rel=0.01)
    alike = [row(zipf(1_000, 0.6), number, RATE, QUICK) for number in (1, 16)]
    assert alike[-1].by_load == pytest.approx(16, rel=0.01)
    assert "bounds nothing" in verdict(alike)


def test_the_rate_of_one_database_is_what_was_measured_last() -> None:
    known = measured(RESULTS.read_text())
    assert (known.rate > 1_000, 1 < known.server_us < 1_000, 1 < known.worker_us < 1_000, known.cores >= 1) == (True,) * 4
    with pytest.raises(SystemExit, match="RESULTS-postgres"):
        measured("nothing of the kind, on 2 cores")


def test_the_page_shows_what_the_model_says() -> None:
    shown = re.search(r"<!-- shards: begin -->\n(.*?)\n<!-- shards: end -->", PAGE.read_text(), re.S)
    assert shown is not None
    assert shown[1] == table(row(zipf(1_000, 1.0), number, RATE, QUICK) for number in SHARDS)
