"""Pictures are text: well formed, within their frame, readable on a light page and on a dark one."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from charts import BOTTOM, HEIGHT, LEFT, RIGHT, WIDTH, Axis, Line, chart, legend_rows, nice_step, told
from processes import cdf

SVG = "{http://www.w3.org/2000/svg}"


def places(picture: str) -> list[tuple[float, float]]:
    found = ElementTree.fromstring(picture).findall(f"{SVG}polyline")  # noqa: S314  (our own text)
    return [(float(x), float(y)) for line in found for x, y in (pair.split(",") for pair in line.get("points", "").split())]


@pytest.mark.parametrize("log", [False, True])
def test_every_point_lies_within_the_frame(log: bool) -> None:
    picture = chart("title", "x", "y", [Line("a", [(1, 5), (10, 90), (1_000, 0)]), Line("b", [(3, 7)])], log=log)
    assert len(places(picture)) == 4
    for x, y in places(picture):
        assert LEFT <= x <= WIDTH - RIGHT
        assert 0 < y <= HEIGHT - BOTTOM


def test_the_highest_point_is_above_the_lowest() -> None:
    (_, low), (_, high) = places(chart("t", "x", "y", [Line("a", [(0, 10), (1, 20)])]))
    assert high < low, "up is less in SVG"


def test_what_is_written_is_text_not_markup() -> None:
    picture = chart("<script>", "a & b", "µs", [Line("x < y", [(0, 1), (1, 2)])])
    texts = [node.text for node in ElementTree.fromstring(picture).iter(f"{SVG}text")]  # noqa: S314  (our own text)
    assert {"<script>", "a & b", "x < y", "µs"} <= set(texts)


def test_it_has_colours_for_both_themes_and_no_background() -> None:
    picture = chart("t", "x", "y", [Line("a", [(0, 1), (1, 2)])])
    assert "prefers-color-scheme: dark" in picture
    assert "<rect" not in picture


def test_nothing_to_draw_is_no_picture() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        chart("t", "x", "y", [Line("a", [])])


@pytest.mark.parametrize(("span", "step"), [(10, 2), (33_000, 10_000), (1.05, 0.2), (600, 100), (0.6, 0.1)])
def test_ticks_are_round(span: float, step: float) -> None:
    assert nice_step(span) == pytest.approx(step)


def test_an_axis_of_powers_has_more_marks_when_it_is_short() -> None:
    assert Axis(1, 1e6, 0, 100, log=True).ticks() == [1, 10, 100, 1e3, 1e4, 1e5, 1e6]
    assert Axis(9, 80, 0, 100, log=True).ticks() == [10, 20, 50]


def test_names_that_do_not_fit_go_into_another_row() -> None:
    rows = legend_rows(["a name of some length"] * 5)
    assert [number for row in rows for number, _, _ in row] == [0, 1, 2, 3, 4]
    assert len(rows) == 2


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.5, "0.5"), (1_500, "1.5k"), (1_000_000, "1M")])
def test_numbers_are_short(value: float, text: str) -> None:
    assert told(value) == text


def test_shares_go_from_the_smallest_to_all() -> None:
    found = cdf([3.0, 1.0, 2.0, 4.0])
    assert found == [(1.0, 0.25), (2.0, 0.5), (3.0, 0.75), (4.0, 1.0)]
    assert len(cdf([float(n) for n in range(10_000)])) == 101
