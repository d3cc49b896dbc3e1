"""Charts as numbers: scales, ticks, stacks and points, ready to be printed as SVG attributes. Nothing here is HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Final

import msgspec
from msgspec import Struct

from windlass.web.pages.formats import NB, duration, number

WIDTH: Final = 600
ROOM: Final = 14  # above the highest grid line
ROWS: Final = 12  # of the table beside a chart
_GUTTER: Final = ((3_600_000, 3_600_000, "h"), (60_000, 60_000, "min"), (0, 1_000, "s"))  # steps from, unit
_STEPS: Final = (60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400)

Values = Sequence[float | None]


class Series(Struct, frozen=True):
    name: str
    tone: str  # a class of the style sheet
    values: tuple[float | None, ...]


class Drawn(Struct, frozen=True):
    tone: str
    areas: tuple[str, ...]  # path data, one for each stretch without a gap
    lines: tuple[str, ...]  # points


class Chart(Struct, frozen=True):
    id: str
    label: str
    unit: str
    height: int
    drawn: tuple[Drawn, ...]
    grid: tuple[tuple[float, str], ...]  # y and what it stands for
    times: tuple[tuple[float, str], ...]  # x in percent
    xs: str  # JSON, for the script
    series: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def is_empty(self) -> bool:
        return not any(one.areas or one.lines for one in self.drawn)


TIMES: Final = (
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    *(1000 * s for s in (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1200, 1800)),
)


def time_steps(top: float, most: int = 3) -> list[float]:
    """The same for milliseconds: seconds and minutes are round by other numbers."""
    step = next((one for one in TIMES if one * most >= top), None)
    if top <= 0 or step is None:
        return [hours * 3_600_000.0 for hours in steps(top / 3_600_000, most)]
    return [float(step * n) for n in range(math.ceil(top / step) + 1)]


def steps(top: float, most: int = 3, *, whole: bool = False) -> list[float]:
    """Round values from zero to at least `top`, in at most `most` steps."""
    if whole and top <= most:
        return [float(n) for n in range(max(math.ceil(top), 1) + 1)]
    if top <= 0:
        return [0.0, 1.0]
    raw = top / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * power for unit in (1, 2, 2.5, 5, 10) if unit * power >= raw * 0.9999)
    return [step * n for n in range(math.ceil(top / step - 1e-9) + 1)]


def stacked(name: str, label: str, times: Sequence[datetime], series: Sequence[Series], zone: tzinfo, unit: str,
            height: int = 208) -> Chart:  # fmt: skip
    """Areas upon each other, the first at the bottom with a line on top of it."""
    below = [0.0] * len(times)
    tops: list[list[float | None]] = []
    for one in series:
        top = [None if value is None else base + value for base, value in zip(below, one.values, strict=True)]
        tops.append(top)
        below = [base if value is None else value for base, value in zip(below, top, strict=True)]
    grid = steps(max(below, default=0.0), whole=not unit)
    plot = height - 24
    drawn, floor = list[Drawn](), [0.0] * len(times)
    for place, (one, top) in enumerate(zip(series, tops, strict=True)):
        areas = tuple(_area(stretch, top, floor, grid[-1], plot, len(times)) for stretch in _stretches(top))
        lines = (
            tuple(_points(stretch, top, grid[-1], plot, len(times)) for stretch in _stretches(top)) if place == 0 else ()
        )
        if any(one.values):
            drawn.append(Drawn(one.tone, areas, lines))
        floor = [base if value is None else value for base, value in zip(floor, top, strict=True)]
    return _chart(name, label, times, series, zone, unit, height, drawn, grid)


def lined(name: str, label: str, times: Sequence[datetime], series: Sequence[Series], zone: tzinfo, unit: str,
          height: int = 208) -> Chart:  # fmt: skip
    """Lines, the last one on top."""
    found = [value for one in series for value in one.values if value is not None]
    top = max(found, default=0.0)
    grid, plot = time_steps(top) if unit == "ms" else steps(top), height - 24
    drawn = [
        Drawn(one.tone, (), tuple(_points(part, one.values, grid[-1], plot, len(times)) for part in _stretches(one.values)))
        for one in series
    ]
    return _chart(name, label, times, series, zone, unit, height, drawn, grid)


def _chart(name: str, label: str, times: Sequence[datetime], series: Sequence[Series], zone: tzinfo, unit: str,
           height: int, drawn: Sequence[Drawn], grid: Sequence[float]) -> Chart:  # fmt: skip
    local = [at.astimezone(zone) for at in times]
    days = len({at.date() for at in local}) > 2
    words = [f"{at:%-d %b %H:%M}" if days else f"{at:%H:%M}" for at in local]
    every = max(math.ceil(len(times) / ROWS), 1)
    plot = height - 24
    return Chart(
        id=name,
        label=label,
        unit=unit,
        height=height,
        drawn=tuple(drawn),
        grid=tuple((round(_y(value, grid[-1], plot), 1), tick(value, grid[1], unit)) for value in grid),
        times=_ticks(local, days=days),
        xs=msgspec.json.encode(words).decode(),
        series=msgspec.json.encode(
            [{"name": one.name, "class": one.tone, "values": one.values} for one in series]
        ).decode(),
        head=tuple(one.name for one in series),
        rows=tuple(
            (words[place], tuple(told(one.values[place], unit) for one in series)) for place in range(0, len(times), every)
        ),
    )


def told(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return duration(value / 1000) if unit == "ms" else f"{_plain(value)}{unit}"


def tick(value: float, step: float, unit: str) -> str:
    """Exact and short, as it stands in the gutter: times in the unit of their step, so `90 s` and not `1 min 30 s`."""
    if unit != "ms" or not value:
        return _plain(value)
    if value < 1000:
        return duration(value / 1000)
    size, word = next((size, word) for least, size, word in _GUTTER if step >= least)
    return f"{value / size:g}{NB}{word}"


def _plain(value: float) -> str:
    """A quarter is 0.25: rounded to one digit it would stand at the wrong height."""
    return f"{value:,.2f}".rstrip("0") if value % 1 and round(value, 2) % 1 else number(round(value))


def _y(value: float, top: float, plot: int) -> float:
    return plot - value / top * (plot - ROOM) if top else plot


def _x(place: int, count: int) -> float:
    return place / max(count - 1, 1) * WIDTH


def _spots(stretch: range, count: int) -> list[tuple[float, int]]:
    """Where each value stands. One that stands alone is as wide as the step that it stands for: it would not be seen."""
    if len(stretch) > 1:
        return [(_x(place, count), place) for place in stretch]
    x, half = _x(stretch[0], count), WIDTH / max(count - 1, 1) / 2
    return [(max(x - half, 0), stretch[0]), (min(x + half, WIDTH), stretch[0])]


def _at(x: float, value: float, top: float, plot: int) -> str:
    return f"{x:.4g},{_y(value, top, plot):.4g}"


def _stretches(values: Values) -> list[range]:
    """Where there is something, without gaps."""
    found, start = list[range](), None
    for place, value in enumerate([*values, None]):
        if value is None and start is not None:
            found.append(range(start, place))
            start = None
        elif value is not None and start is None:
            start = place
    return found


def _points(stretch: range, values: Values, top: float, plot: int, count: int) -> str:
    return " ".join(_at(x, values[place] or 0, top, plot) for x, place in _spots(stretch, count))


def _area(stretch: range, tops: Values, floor: Sequence[float], top: float, plot: int, count: int) -> str:
    spots = _spots(stretch, count)
    over = " ".join(_at(x, tops[place] or 0, top, plot) for x, place in spots)
    under = " ".join(_at(x, floor[place], top, plot) for x, place in reversed(spots))
    return f"M{over} L{under}Z"


def _ticks(times: Sequence[datetime], *, days: bool) -> tuple[tuple[float, str], ...]:
    """About four round times, those too near to the edge left out."""
    if len(times) < 2:
        return ()
    room = (times[-1] - times[0]).total_seconds()
    step = next((one for one in _STEPS if room / one <= 5), _STEPS[-1])
    found = list[tuple[float, str]]()
    for place, at in enumerate(times):
        since = at.hour * 3600 + at.minute * 60 + at.second
        before = times[place - 1] if place else None
        passed = before is not None and (since // step != _since(before) // step or at.date() != before.date())
        if passed and (step <= 86400 or at.toordinal() * 86400 % step == 0):
            share = place / (len(times) - 1) * 100
            if 3 <= share <= 97:
                found.append((round(share, 1), f"{at:%-d %b}" if days and step >= 86400 else f"{at:%H:%M}"))
    return tuple(found)


def _since(at: datetime) -> int:
    return at.hour * 3600 + at.minute * 60 + at.second


class Spark(Struct, frozen=True):
    fill: str
    stroke: str


def spark(values: Sequence[float], width: int = 96, height: int = 24) -> Spark | None:
    """A level over time, from zero; None when there is nothing to draw."""
    if len(values) < 2:
        return None
    top = max(*values, 1e-9)
    points = " ".join(
        f"{place / (len(values) - 1) * width:.4g},{height - value / top * (height - 2):.4g}"
        for place, value in enumerate(values)
    )
    return Spark(f"0,{height} {points} {width},{height}", points)


class SparkBar(Struct, frozen=True):
    x: float
    y: float
    width: float
    height: float
    tone: str


def spark_bars(values: Sequence[float], tones: Sequence[str], width: int = 96, height: int = 24) -> list[SparkBar]:
    """Events over time. An empty one is a hairline."""
    if not values:
        return []
    top, each = max(*values, 1e-9), width / len(values)
    made = list[SparkBar]()
    for place, (value, tone) in enumerate(zip(values, tones, strict=True)):
        tall = max(value / top * (height - 1), 1.0)
        bar = SparkBar(
            round(place * each, 1), round(height - tall, 1), round(each - 1, 1), round(tall, 1), tone if value else "zero"
        )
        made.append(bar)
    return made


def levels(values: Sequence[float | None]) -> list[float]:
    """What a sparkline draws: without the parts at the end that are not sampled yet."""
    last = max((place for place, value in enumerate(values) if value is not None), default=-1)
    return [value or 0 for value in values[: last + 1]]


FILTERS: Final = {"spark": spark, "spark_bars": spark_bars, "levels": levels}
