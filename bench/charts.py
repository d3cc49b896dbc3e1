"""Lines → SVG, with nothing but text: small, readable on a light page and on a dark one.

A page's own theme does not reach into a picture, so the picture asks the reader's: `prefers-color-scheme`. The background
stays clear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

import msgspec

WIDTH: Final = 760
HEIGHT: Final = 360
LEFT: Final = 74
RIGHT: Final = 24
TOP: Final = 46
BOTTOM: Final = 56
LEGEND: Final = 20  # a line of it
TICKS: Final = 6
LEAST: Final = 0.001  # of an axis that goes by powers of ten
SHORT_LOG: Final = 1_000.0  # powers of ten alone would be too few marks below it
FEW: Final = 12  # points, each of which is marked
LETTER: Final = 7.2  # the width of one, about
GAP: Final = 44  # between two names of the legend
ROOM: Final = 1.05  # above the highest point

STYLE: Final = """
  text { font: 13px system-ui, sans-serif; fill: #1f2933; }
  .title { font-size: 15px; font-weight: 600; }
  .grid { stroke: #d5dae0; stroke-width: 1; }
  .axis { stroke: #7b8794; stroke-width: 1; }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
  .c0 { stroke: #1769c2; } .c1 { stroke: #c2410c; } .c2 { stroke: #15803d; } .c3 { stroke: #7e22ce; }
  .c4 { stroke: #a16207; } .c5 { stroke: #0e7490; }
  .dot { stroke-width: 5; stroke-linecap: round; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7eb; }
    .grid { stroke: #3b4754; }
    .axis { stroke: #9aa5b1; }
    .c0 { stroke: #6cb2ff; } .c1 { stroke: #ff9c66; } .c2 { stroke: #5fd48a; } .c3 { stroke: #cf9bff; }
    .c4 { stroke: #e8c15a; } .c5 { stroke: #57cde0; }
  }
"""
COLOURS: Final = 6

Points = Sequence[tuple[float, float]]


class Line(msgspec.Struct, frozen=True):
    name: str
    points: Points


class Axis(msgspec.Struct, frozen=True):
    """Values → places on the paper."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, value = (math.log10(v) for v in (self.low, self.high, max(value, self.low))) if self.log else (
            self.low, self.high, value,
        )  # fmt: skip
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            factors = (1, 2, 5) if self.high / self.low < SHORT_LOG else (1,)
            marks = [factor * 10.0**power for power in powers for factor in factors]
            return [mark for mark in marks if self.low * 0.9999 <= mark <= self.high * 1.0001]
        step = nice_step(self.high - self.low)
        first = math.ceil(self.low / step)
        return [step * number for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def nice_step(span: float) -> float:
    """1, 2 or 5 times a power of ten, about so many of which as there are ticks fill the span."""
    rough = span / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)


def told(value: float) -> str:
    """Short: 1,000,000 is 1M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def chart(title: str, x: str, y: str, lines: Sequence[Line], *, log: bool = False) -> str:
    """`log`: the x axis goes by powers of ten."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        raise ValueError(f"there is nothing to draw: {title}")
    rows = legend_rows([line.name for line in drawn])
    top = TOP + LEGEND * len(rows)
    across = axis_of([point[0] for line in drawn for point in line.points], LEFT, WIDTH - RIGHT, log=log)
    up = axis_of([0.0, *(point[1] * ROOM for line in drawn for point in line.points)], HEIGHT - BOTTOM, top)
    size, beside = f'width="{WIDTH}" height="{HEIGHT}"', f"translate(18 {(top + HEIGHT - BOTTOM) / 2:g}) rotate(-90)"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {size} role="img">',
        f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="24">{escape(title)}</text>', *legend(rows), *grid(across, up),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x)}</text>',
        f'<text transform="{beside}" text-anchor="middle">{escape(y)}</text>',
    ]  # fmt: skip
    for number, line in enumerate(drawn):
        parts += path(line, number, across, up, dots=len(line.points) <= FEW)
    return "\n".join([*parts, "</svg>", ""])


def axis_of(values: Sequence[float], start: float, end: float, *, log: bool = False) -> Axis:
    low, high = min(values), max(values)
    if log:
        low = max(low, LEAST)
        return Axis(low, high if high > low else low * 10, start, end, log=True)
    return Axis(low, high if high > low else low + 1, start, end)


def legend_rows(names: Sequence[str]) -> list[list[tuple[int, str, float]]]:
    """Number, name and place of each; as many in a row as there is room for."""
    rows: list[list[tuple[int, str, float]]] = [[]]
    place = float(LEFT)
    for number, name in enumerate(names):
        width = len(name) * LETTER + GAP
        if rows[-1] and place + width > WIDTH - RIGHT:
            rows.append([])
            place = float(LEFT)
        rows[-1].append((number, name, place))
        place += width
    return rows


def legend(rows: Sequence[Sequence[tuple[int, str, float]]]) -> list[str]:
    parts = []
    for place, row in enumerate(rows):
        y = TOP + LEGEND * place
        for number, name, x in row:
            parts += [
                f'<line class="line c{number % COLOURS}" x1="{x:g}" y1="{y - 4}" x2="{x + 18:g}" y2="{y - 4}"/>',
                f'<text x="{x + 24:g}" y="{y}">{escape(name)}</text>',
            ]
    return parts


def grid(across: Axis, up: Axis) -> list[str]:
    parts = []
    for value in up.ticks():
        y = up.at(value)
        parts += [
            f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>',
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{told(value)}</text>',
        ]
    for value in across.ticks():
        x = across.at(value)
        parts += [
            f'<line class="axis" x1="{x:.1f}" y1="{up.start}" x2="{x:.1f}" y2="{up.start + 5}"/>',
            f'<text x="{x:.1f}" y="{up.start + 20}" text-anchor="middle">{told(value)}</text>',
        ]
    return [*parts, f'<line class="axis" x1="{LEFT}" y1="{up.start}" x2="{WIDTH - RIGHT}" y2="{up.start}"/>']


def path(line: Line, number: int, across: Axis, up: Axis, *, dots: bool) -> list[str]:
    places = [(f"{across.at(x):.1f}", f"{up.at(y):.1f}") for x, y in line.points]
    colour = f"c{number % COLOURS}"
    parts = [f'<polyline class="line {colour}" points="{" ".join(f"{x},{y}" for x, y in places)}"/>']
    if dots:  # a line of no length with round ends is a dot
        parts += [f'<path class="dot {colour}" d="M{x} {y}h0"/>' for x, y in places]
    return parts
