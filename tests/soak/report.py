"""What a soak has seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from .flatness import FEWEST, Line, line_of, settled
from .stage import Sample

SPEED = "jobs a second"
ENOUGH = 0.8  # of what is offered; where less is done, what waits grows, and rows with it
LEFT_OUT = ("second", "ended", "cancelled", "taken over")  # they grow, and should


@dataclass
class Seen:
    """Of one store."""

    store: str
    samples: list[Sample] = field(default_factory=list)
    kills: int = 0

    def lines(self) -> list[Line]:
        seconds = [sample["second"] for sample in self.samples]
        names = [name for name in self.samples[-1] if name not in LEFT_OUT] if self.samples else []
        return [line_of(name, seconds, [sample[name] for sample in self.samples]) for name in names]


@dataclass
class Soak:
    version: str
    date: str
    minutes: float
    haste: float
    rate: float  # jobs a second that were offered to each store
    seen: list[Seen]
    problems: list[str] = field(default_factory=list)

    def failures(self) -> list[str]:
        found = list(self.problems)
        for seen in self.seen:
            kept = len(seen.samples) - settled(len(seen.samples))
            if kept < FEWEST:
                found.append(f"{seen.store}: {kept} samples are too few to tell anything")
                continue
            [speed] = [line.mean for line in seen.lines() if line.name == SPEED] or [0.0]
            if speed < ENOUGH * self.rate:
                found.append(
                    f"{seen.store}: it did {speed:.1f} jobs a second of {self.rate:g}, so that more and more waits"
                )
            if seen.kills == 0:
                found.append(f"{seen.store}: nobody was killed")
            found += [f"{seen.store}: {line.told()}" for line in seen.lines() if not line.is_flat]
        return found


def as_json(soak: Soak) -> str:
    return (
        json.dumps({"flat": not soak.failures(), "failures": soak.failures(), **vars(soak)}, default=vars, indent=1) + "\n"
    )


def as_markdown(soak: Soak) -> str:
    return "\n".join([*_head(soak), *(line for seen in soak.seen for line in _store(seen))]) + "\n"


def _head(soak: Soak) -> Iterator[str]:
    failures = soak.failures()
    yield from ("# Soak", "")
    yield (
        f"Windlass {soak.version}, {soak.date}: {soak.minutes:g} minutes of a steady mixed load, finished jobs removed, "
        f"workers killed on the way. Housekeeping came {soak.haste:g} times as often as it does otherwise."
    )
    yield ""
    yield "**Flat.**" if not failures else f"**NOT FLAT: {failures[0]}{_and_more(len(failures) - 1)}.**"
    yield ""
    yield from (f"- {failure}" for failure in failures)


def _and_more(count: int) -> str:
    return f"; and {count} more" if count else ""


def _store(seen: Seen) -> Iterator[str]:
    yield from ("", f"## {seen.store}", "")
    if not seen.samples:
        return
    last = seen.samples[-1]
    yield (
        f"{last['ended']:,.0f} jobs ended in {last['second']:,.0f} s, after {last['taken over']:,.0f} were taken over by a "
        f"new one; {last['cancelled']:,.0f} others were cancelled; {seen.kills} workers were killed."
    )
    yield ""
    yield "A straight line through the last two thirds of the samples:"
    yield ""
    yield "| | mean | change | room | flat |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for line in seen.lines():
        verdict = "yes" if line.is_flat else "**no**"
        yield f"| {line.name} | {line.mean:,.1f} | {line.change:+,.1f} | {line.room:,.1f} | {verdict} |"
