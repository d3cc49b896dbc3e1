"""`windlass bench`: how fast a store is on this machine."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from windlass import __version__
from windlass.cli.output import Part as Cell
from windlass.cli.session import Common
from windlass.errors import InvalidInput

FEWEST: Final = 10
MOST: Final = 10_000_000
UNKNOWN: Final = "-"


async def bench(store: str | None = None, /, *, jobs: int = 20_000, common: Common = Common()) -> None:
    """How fast a store is on this machine: a short set of measurements, with a table at the end.

    Enqueues one at a time by 1 and by 10 callers, and many in a call; drains with async and with blocking handlers that do
    nothing; and looks how soon an idle worker begins. Everything runs here: on PostgreSQL the way to the server is part of
    it.

    Jobs that are in the store are not touched. A SQLite URL names a disk: a file of its own is made beside the one named.
    On PostgreSQL a schema of its own is made, which takes the right to create one. Both are removed at the end, also
    after Ctrl-C. $WINDLASS_URL is not looked at, so that nobody loads a server by mistake.

    Args:
        store: URL of the store; else a SQLite file in the temporary directory
        jobs: how many are drained; the other parts have as many or fewer
    """
    if not FEWEST <= jobs <= MOST:
        raise InvalidInput("jobs", f"must be between {FEWEST} and {MOST:,}, got {jobs}")
    from windlass.bench import measured, parts_of, place_for

    parts = parts_of(jobs)
    figures = []
    with _ended_by_sigterm(), place_for(store or common.store) as place, _display(len(parts), common) as show:
        show.say(f"On {place.told}; Ctrl-C ends it and cleans up.")
        for part in parts:
            show.begin(f"{part.what}: {part.jobs:,} jobs")
            figures.append(await measured(place, part))
            show.end()
    if common.json:
        common.out.emit(
            store=place.told, jobs=jobs, cores=os.cpu_count(), python=platform.python_version(), windlass=__version__,
            parts=figures,
        )  # fmt: skip
        return
    common.out.table(("what", "jobs", "jobs/s", "CPU µs/job", "p50 ms", "p99 ms"), [_row(one) for one in figures])
    common.out.line(f"{os.cpu_count()} cores, Python {platform.python_version()}, Windlass {__version__}. CPU is this")
    common.out.line("process's. Other programs were running, too: run it twice before you believe a difference.")


def _row(one: Any) -> list[Cell]:
    def told(value: float | None, digits: int) -> str:
        return UNKNOWN if value is None else f"{value:,.{digits}f}"

    return [
        one.what, f"{one.jobs:,}", (told(one.per_second, 0), "bold"), told(one.cpu_us, 1), told(one.p50_ms, 2),
        told(one.p99_ms, 2),
    ]  # fmt: skip


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """As by Ctrl-C: whatever was made is removed on the way out."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a command runs in a task"
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


# --------------------------------------------------------------------------------------------------------------- progress


class Display(Protocol):
    def say(self, text: str) -> None: ...
    def begin(self, text: str) -> None: ...
    def end(self) -> None: ...


class Lines:
    """For a pipe or a log, on stderr."""

    def __init__(self, common: Common) -> None:
        self.say = common.out.note

    def begin(self, text: str) -> None:
        self.say(f"  {text}")

    def end(self) -> None:
        pass


class Bar:
    """For a terminal."""

    def __init__(self, progress: Any, parts: int) -> None:
        self._progress = progress
        self._bar = progress.add_task("", total=parts)

    def say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False)

    def begin(self, text: str) -> None:
        self._progress.update(self._bar, description=text)

    def end(self) -> None:
        self._progress.advance(self._bar)


@contextmanager
def _display(parts: int, common: Common) -> Iterator[Display]:
    if common.json or not sys.stderr.isatty():
        yield Lines(common)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(20), TextColumn("{task.description:60}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bar(progress, parts)
