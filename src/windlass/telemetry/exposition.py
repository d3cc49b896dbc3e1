"""The text format that Prometheus reads, written by hand: a page of code against a dependency with global state.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from windlass.telemetry.families import BOUNDS, Family

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Sample = tuple[tuple[str, ...], float]  # the values of the family's labels, and the number


class Histogram:
    """How many observations fell at or below each bound, and their sum."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)  # of each bucket alone; the last has no bound
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds


def plain(family: Family, samples: Iterable[Sample]) -> Iterator[str]:
    yield from _head(family)
    for values, number in samples:
        yield _line(family.name, zip(family.labels, values, strict=True), number)


def histograms(family: Family, samples: Iterable[tuple[tuple[str, ...], Histogram]]) -> Iterator[str]:
    yield from _head(family)
    for values, histogram in samples:
        labels, below = list(zip(family.labels, values, strict=True)), 0
        for bound, count in zip((*BOUNDS, None), histogram.counts, strict=True):
            below += count
            shown = "+Inf" if bound is None else f"{bound:g}"
            yield _line(f"{family.name}_bucket", [*labels, ("le", shown)], below)
        yield _line(f"{family.name}_sum", labels, histogram.sum)
        yield _line(f"{family.name}_count", labels, below)


def page(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _head(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.says}"
    yield f"# TYPE {family.name} {family.kind}"


def _line(name: str, labels: Iterable[tuple[str, str]], number: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    value = f"{int(number)}" if number == int(number) else repr(float(number))
    return f"{name}{{{shown}}} {value}" if shown else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
