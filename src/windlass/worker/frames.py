"""Tracebacks as the standard library writes them, each place of a program once: a storm of failures comes from few places,
and reading, parsing and underlining their source anew each time costs more than storing what happened."""

from __future__ import annotations

from traceback import format_exception, format_exception_only, format_tb
from types import CodeType, TracebackType
from typing import Final

DEEPEST: Final = 50  # frames, the last ones
REPEATED: Final = 3  # frames in a row that are alike: the standard library tells of more in a line of its own
MOST: Final = 1_000  # places that are remembered
HEAD: Final = "Traceback (most recent call last):\n"

# Code is equal where its bytes are, whatever file it stands in; and whoever makes frames by hand may give them any line.
_places: Final[dict[tuple[str, int | None, CodeType, int], str]] = {}


def format_error(error: BaseException) -> str:
    lines = _remembered(error)
    return "".join(format_exception(error, limit=-DEEPEST) if lines is None else lines)


def _remembered(error: BaseException) -> list[str] | None:
    """None for what is more than one error with its frames."""
    if error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        return None
    if isinstance(error, BaseExceptionGroup | SyntaxError) or error.__traceback__ is None:
        return None
    lines, last, alike = [HEAD], None, 0
    entry: TracebackType | None = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        place = (code.co_filename, entry.tb_lineno, code, entry.tb_lasti)
        alike = alike + 1 if place == last else 0
        if len(lines) > DEEPEST or alike >= REPEATED:
            return None
        text = _places.get(place)
        if text is None:
            [text] = format_tb(entry, limit=1)
            if len(_places) >= MOST:
                _places.clear()
            _places[place] = text
        lines.append(text)
        last, entry = place, entry.tb_next
    return lines + format_exception_only(error)
