"""How answers look: one JSON object, a table on a terminal, plain aligned text in a pipe. Notes go to stderr.

rich is imported only where a terminal is there to see it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

    from windlass.admin.views import JobView

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
UNREACHABLE: Final = 4
STUCK: Final = 75
EXIT_CODES: Final = "Exit codes: 0 ok, 1 failed, 2 usage, 3 refused (wrong state …), 4 store unreachable, 75 slots stuck."

Part: TypeAlias = str | tuple[str, str]  # text, or text and its style

STYLES: Final = {
    "queued": "cyan", "scheduled": "blue", "blocked": "yellow", "parked": "yellow", "claimed": "yellow",
    "running": "bold yellow", "succeeded": "green", "dead": "bold red", "cancelled": "magenta", "enqueued": "cyan",
    "due": "cyan", "waits": "blue", "started": "yellow", "progress": "yellow", "failed": "red", "lost": "red",
    "skipped": "magenta", "superseded": "magenta", "cancel requested": "magenta", "ok": "green", "warning": "yellow",
    "problem": "bold red", "replayed": "cyan",
}  # fmt: skip


class Output:
    def __init__(self, *, json: bool = False) -> None:
        self.json: Final = json
        self.tty: Final = not json and sys.stdout.isatty()

    # ---------------------------------------------------------------------------------------------------------- answers

    def emit(self, answer: Any = None, /, **fields: Any) -> None:
        """The one JSON object of a command: the fields of a value, and those given by name."""
        whole = {"v": 1, **({} if answer is None else msgspec.to_builtins(answer, builtin_types=(datetime,))), **fields}
        text = _json(whole, sys.stdout.encoding or "utf-8")
        sys.stdout.write((msgspec.json.format(text) if sys.stdout.isatty() else text) + "\n")

    def line(self, *parts: Part) -> None:
        if not self.tty:
            sys.stdout.write("".join(_text(part) for part in parts).rstrip() + "\n")
            return
        from rich.text import Text

        self._console.print(Text.assemble(*((_text(part), _style(part)) for part in parts)), soft_wrap=True)

    def text(self, text: str) -> None:
        """As it is, unless a terminal would obey it."""
        if self.tty:
            text = "".join(c if c.isprintable() or c in "\n\t" else "·" for c in text)
        sys.stdout.write(text)
        sys.stdout.flush()

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[Part]]) -> None:
        """Only the last column gives way where a terminal is narrow: the first ones are what people copy."""
        if self.tty:
            self._rich_table(headers, rows)
            return
        texts = [[_text(part) for part in row] for row in (headers, *rows)]
        widths = [max(len(row[place]) for row in texts) for place in range(len(headers))]
        for row in texts:
            self.line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))

    def _rich_table(self, headers: Sequence[str], rows: Sequence[Sequence[Part]]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for place, header in enumerate(headers):
            widest = max(len(header), *(len(_text(row[place])) for row in rows))
            table.add_column(header, no_wrap=True, min_width=widest if place < len(headers) - 1 else None)
        for row in rows:
            table.add_row(*(Text(_text(part), _style(part)) for part in row))
        self._console.print(table)

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(highlight=False)

    # ------------------------------------------------------------------------------------------------------------ notes

    def note(self, text: str) -> None:
        with suppress(BrokenPipeError):  # nobody listens; what was to be done is done all the same
            sys.stderr.write(_text(text) + "\n")

    def fail(self, message: str, hint: str | None, code: int) -> int:
        """What happened in one line, what to type next in another."""
        if self.json:
            with suppress(OSError):  # of a full disk nothing can be said on it
                self.emit(error={"message": message, "next": hint, "exit_code": code})
                sys.stdout.flush()
                return code
        self.note(f"error: {message}")
        if hint:
            self.note(f"  try: {hint}")
        return code


def _json(whole: Any, encoding: str) -> str:
    """In ASCII where what is said cannot be written otherwise: not in this encoding, or in none (an odd byte of a path)."""
    try:
        text = msgspec.json.encode(whole).decode()
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(whole), separators=(",", ":"))
    return text


def _text(part: Part) -> str:
    """Much of what is shown was written by handlers and callers: none of it may steer a terminal."""
    text = part if isinstance(part, str) else part[0]
    return text if text.isprintable() else "".join(c if c.isprintable() else "·" for c in text)


def _style(part: Part) -> str:
    return "" if isinstance(part, str) else part[1]


def state_of(job: JobView) -> Part:
    """The label, or the words of another system, coloured by what it really is."""
    if job.words is None:
        return job.label, STYLES[job.label]
    word = job.words.state if job.words.run is None else f"{job.words.state}/{job.words.run}"
    return word if job.words.flag is None else f"{word} ({job.words.flag})", STYLES[job.label]


def one_line(text: str | None, most: int = 120) -> str:
    """The beginning of what a handler said."""
    flat = (text or "").strip().split("\n", 1)[0]
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def local(at: datetime) -> str:
    """In the reader's own time zone, to the millisecond."""
    return at.astimezone().isoformat(sep=" ", timespec="milliseconds")[:23]
