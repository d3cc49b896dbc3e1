"""What the benchmark of pages and lists asks for, on small stores."""

from __future__ import annotations

import asyncio

import pages
import pages_asked
import pytest
from pages import measure, store
from pages_asked import ASKED, unasked
from pages_page import Timing, written
from report import this_machine

from windlass.web.api import overview
from windlass.web.route import Route
from windlass.web.routes import ROUTES

from .conftest import BENCH


def test_every_page_and_everything_that_is_read_is_measured() -> None:
    assert unasked() == set()
    assert {route.path for route in ROUTES if route.method == "GET"} == ASKED.keys(), "a line is left of a route that went"


def test_a_new_route_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_asked, "ROUTES", (*ROUTES, Route("GET", "/api/new", "read", overview.show)))
    assert unasked() == {"/api/new"}
    monkeypatch.setattr("sys.argv", ["pages.py"])
    with pytest.raises(SystemExit, match="/api/new"):
        pages.main()


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def test_everything_answers_on_a_store_that_was_filled(kind: str) -> None:
    with store(kind, 5_000, None, None) as url:
        found = asyncio.run(measure(url, times=1))
    assert {one.path for one in found} == ASKED.keys()
    assert all(one.median > 0 and one.worst >= one.median for one in found)


def test_what_is_too_slow_is_marked() -> None:
    fast, slow = Timing("/a", "/a", 12.0, 20.0, 11.0, 5), Timing("/b", "/b?c=d", 301.0, 302.0, 11.0, 5)
    text = written(
        this_machine(BENCH, ""), {"SQLite": [fast, slow], "PostgreSQL": [fast]}, {"SQLite": (0.5, 0.6)}, 1_000, 3
    )
    assert "| `/a` | 12 ms | 20 ms | 11 ms | 12 ms | 20 ms | 11 ms |" in text
    assert "| `/b?c=d` | **301 ms** | 302 ms | 11 ms |  | |  |" in text
    assert "1 of 3 are over it" in text
