"""`windlass top`: how things are, live in a terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from windlass.admin.overview import Dashboard, Latencies, QueueTrend, TrendPoint
from windlass.cli.output import Part, one_line
from windlass.cli.session import Common, Flag, opened
from windlass.clock import SECOND
from windlass.core.trends import Span
from windlass.errors import InvalidInput
from windlass.wording import age, are, in_words, plural, relative

if TYPE_CHECKING:
    from rich.console import Group

BLOCKS: Final = "▁▂▃▄▅▆▇█"
QUEUES: Final = 20
SHORTEST: Final = 0.2


async def top(
    *, span: Span = "1h", interval: float = 2.0, once: Flag = False, common: Common = Common()
) -> None:  # fmt: skip
    """How things are: depth, throughput, failures and waits, queues that need somebody, what fails, what comes next.

    Live until q or Ctrl-C. In a pipe, or with --once, it is shown once.

    Args:
        span: 1h, 6h, 24h or 7d
        interval: seconds between looks
        once: show it and end
    """
    if not SHORTEST <= interval <= 3_600:
        raise InvalidInput("interval", f"must be between {SHORTEST} and 3600 seconds, got {interval}")
    async with opened(common) as admin:
        found = await admin.dashboard(span)
        if common.json:
            common.out.emit(found)
        elif once or not common.out.tty:
            for line in lines(found):
                common.out.line(*line)
        else:
            await _live(lambda: admin.dashboard(span), found, interval)


async def _live(look: Any, found: Dashboard, interval: float) -> None:
    from rich.live import Live

    with _keys() as pressed, Live(screened(found), screen=True, auto_refresh=False, transient=True) as live:
        live.refresh()
        while not await _is_over(pressed, interval):
            live.update(screened(await look()), refresh=True)


async def _is_over(pressed: asyncio.Event, interval: float) -> bool:
    try:
        await asyncio.wait_for(pressed.wait(), interval)
    except TimeoutError:
        return False
    return True


@contextmanager
def _keys() -> Iterator[asyncio.Event]:
    """Set when q is typed. The terminal is as it was afterwards."""
    import termios
    import tty

    over, loop = asyncio.Event(), asyncio.get_running_loop()
    if not sys.stdin.isatty():
        yield over
        return
    before = termios.tcgetattr(sys.stdin)

    def typed() -> None:
        keys = os.read(sys.stdin.fileno(), 64)
        if not keys or set(keys) & set(b"qQ\x03\x04"):
            over.set()

    tty.setcbreak(sys.stdin)
    loop.add_reader(sys.stdin, typed)
    try:
        yield over
    finally:
        loop.remove_reader(sys.stdin)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def screened(found: Dashboard) -> Group:
    from rich.console import Group
    from rich.text import Text

    def styled(line: Sequence[Part]) -> Text:
        return Text.assemble(*((_plain(part), "" if isinstance(part, str) else part[1]) for part in line), no_wrap=True)

    return Group(*map(styled, lines(found)), Text("q to end", "dim"))


def _plain(part: Part) -> str:
    text = part if isinstance(part, str) else part[0]
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "·" for letter in text)


# ------------------------------------------------------------------------------------------------------------------ lines


def lines(found: Dashboard) -> Iterator[tuple[Part, ...]]:
    yield from _head(found)
    yield ("",)
    yield from _queues(found)
    if found.failures:
        yield ("",)
        more = "" if found.failures_complete else ", at least"
        yield ((f"FAILURES in {found.span}{more}", "bold"),)
        for group in found.failures[:5]:
            again = f", {group.retrying:,} to be tried again" if group.retrying else ""
            yield (
                f"  {group.jobs:>6,}  ", (one_line(group.error, 70) or "–", "red"),
                f"  {one_line(', '.join(group.types), 30)}, {relative(group.last_at, found.at)}{again}",
            )  # fmt: skip
    if found.upcoming:
        yield ("",)
        yield (("NEXT", "bold"),)
        for soon in found.upcoming:
            yield (f"  {relative(soon.at, found.at):>12}  {one_line(soon.name, 40)}  ", (soon.words, "dim"))


def _head(found: Dashboard) -> Iterator[tuple[Part, ...]]:
    troubled = sum(bool(queue.problems) for queue in found.queues)
    well = f"{are(len(found.queues), 'queue')} in order" if found.queues else "no queue has jobs yet"
    said: Part = (
        (
            f"{troubled} of {plural(len(found.queues), 'queue')} {'needs' if troubled == 1 else 'need'} attention",
            "bold yellow",
        )
        if troubled
        else (well, "green")
    )
    counted = "now" if found.sampled_at is None else f"{age(found.sampled_at, found.at)} ago"
    yield (said, (f"   {found.at:%Y-%m-%d %H:%M:%S} UTC, counted {counted}, last {found.span}", "dim"))
    labels = found.counts.labels
    numbers = [f"{label} {labels[label].jobs:,}" for label in labels if labels[label].jobs]
    yield ("jobs      ", "  ".join(numbers) or "none")
    slots, oldest = found.slots, found.oldest
    yield (
        f"slots     {slots.busy:,} of {slots.total:,} busy, {plural(slots.workers, 'worker')}",
        f"; oldest due {in_words(round(oldest * SECOND))}" if oldest else "",
    )  # fmt: skip
    rates = [None if one.rates is None else sum(one.rates.values()) for one in found.series]
    whole = found.whole
    yield ("ended     ", f"{spark(rates)}  {rate_of(whole)}")
    failed = "–" if whole.failed is None else f"{whole.failed:.1%}"
    peak = "" if found.peak_failed is None else f", at most {found.peak_failed[1]:.0%} at {found.peak_failed[0]:%H:%M}"
    yield ("failed    ", (spark([one.failed for one in found.series]), "red"), f"  {failed}{peak}")
    yield ("wait p95  ", f"{spark([one.wait.p95 if one.wait else None for one in found.series])}  {latency(whole.wait)}")
    yield ("run p95   ", f"{spark([one.run.p95 if one.run else None for one in found.series])}  {latency(whole.run)}")


def _queues(found: Dashboard) -> Iterator[tuple[Part, ...]]:
    if not found.queues:
        return
    width = min(max(5, *(len(queue.name) for queue in found.queues[:QUEUES])), 30)
    head = f"{'QUEUE':{width}}  {'DUE':>8}  {'RUNNING':>8}  {'DEAD':>8}  {'OLDEST':>8}  {'PER S':>8}  DEPTH"
    yield ((head, "bold"),)
    for queue in found.queues[:QUEUES]:
        yield _queue(queue, width)
        for problem in queue.problems:
            yield (" " * (width + 2), (problem.text, "yellow"))
    if len(found.queues) > QUEUES:
        yield ((f"and {len(found.queues) - QUEUES} more", "dim"),)


def _queue(queue: QueueTrend, width: int) -> tuple[Part, ...]:
    counts, oldest = queue.counts, "–" if queue.oldest is None else in_words(round(queue.oldest * SECOND))
    per_second = "–" if queue.rate is None else f"{queue.rate:.3g}"
    return (
        f"{one_line(queue.name, width):{width}}  {counts.get('queued', 0):>8,}  {queue.running:>8,}  ",
        f"{counts.get('dead', 0):>8,}  {oldest:>8}  {per_second:>8}  {spark(queue.depth)}",
    )  # fmt: skip


def spark(values: Sequence[float | int | None]) -> str:
    """A line of blocks from zero to the largest; where nothing is known, nothing is drawn."""
    most = max((value for value in values if value is not None), default=0)
    return "".join(
        " " if value is None else BLOCKS[min(int(value / most * len(BLOCKS)), len(BLOCKS) - 1) if most else 0]
        for value in values
    )


def rate_of(whole: TrendPoint) -> str:
    return "–" if whole.rates is None else f"{sum(whole.rates.values()):.3g}/s"


def latency(found: Latencies | None) -> str:
    return "–" if found is None else in_words(round(found.p95 * SECOND))
