"""The capacity answer on a terminal: two cells of a table, or a paragraph for each queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.admin.capacity import CapacityView, SizedQueue, time_in_words
from windlass.cli.output import Output, Part
from windlass.clock import SECOND
from windlass.wording import in_words, plural, rate_in_words

TONES = {"empty": "dim", "drains": "green", "grows": "bold red", "stopped": "yellow", "unknown": "dim"}


def drains(found: CapacityView) -> Part:
    text = {"empty": "", "stopped": "no", "unknown": "?"}.get(found.verdict)
    if text is None:
        never = f"never, {rate_in_words(found.short)} short" if found.short else "never"
        text = never if found.drain is None else time_in_words(round(found.drain * SECOND))
    return text, TONES[found.verdict]


def needs(found: CapacityView, *, in_time: bool) -> Part:
    """To keep up; `in_time`: or to drain in the time asked for, whichever is more."""
    wanted = [found.keep_up, found.within] if in_time else [found.keep_up]
    most = max((need for need in wanted if need is not None), key=lambda need: need.slots, default=None)
    if most is None or not most.slots:
        return ""
    if not most.allowed:
        return f"a wider limit {found.limit or ''}".rstrip(), "yellow"
    if most.workers is None:
        return plural(most.slots, "slot"), "bold red"
    if most.workers > found.workers:
        return f"{plural(most.workers, 'worker')}, has {found.workers}", "bold red"
    return plural(most.workers, "worker"), "green"


def show_capacity(queues: Sequence[SizedQueue], out: Output) -> None:
    for number, queue in enumerate(queues):
        if number:
            out.line()
        found = queue.capacity
        out.line((queue.name, "bold"), "  ", (found.text, TONES[found.verdict]))
        for name, text in _facts(found):
            out.line("  ", (name.ljust(11), "dim"), text)


def _facts(found: CapacityView) -> Iterator[tuple[str, str]]:
    yield "waiting", plural(found.waiting, "job")
    if found.arrivals is not None and found.steady is not None and found.finished is not None:
        yield "arrivals", f"{rate_in_words(found.arrivals)}, {rate_in_words(found.steady)} in the middling minute"
        yield "finished", rate_in_words(found.finished)
    if found.service:
        how = "as seen while jobs waited" if found.proven else "by slots alone: none waited long enough to show it"
        yield "possible", f"{rate_in_words(found.service)}, {how}" + (f"; limit {found.limit}" if found.limit else "")
    if found.run is not None:
        yield "a run", f"takes {in_words(round(found.run * SECOND))} on average"
    yield "slots", f"{found.slots:.3g} of {plural(found.workers, 'worker')}"
    if found.needs:
        yield "needs", found.needs
    yield "rests on", found.rests_on
