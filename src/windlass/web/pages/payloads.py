"""Stored values and tracebacks, prepared for reading: exact, bounded, and with what matters told apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from windlass.urls import HIDDEN

BRIEF: Final = 120  # characters of a payload in a row
SHOWN: Final = 200  # members of one list or object
DEEPEST: Final = 12
REDACTED: Final = HIDDEN
_FILE: Final = re.compile(r'^\s+File "(?P<path>[^"]+)", line \d+')
_LIBRARY: Final = re.compile(r"(site-packages|dist-packages|lib/python3|/windlass/|^windlass/|<frozen|<string>)")


def brief(payload: Any) -> str:
    """`order=88207, amount=12900`: a payload in one line."""
    if isinstance(payload, Mapping):
        return _cut(", ".join(f"{name}={scalar(one)}" for name, one in list(payload.items())[:6]))
    return "" if payload is None else _cut(scalar(payload))


def _cut(text: str) -> str:
    return text if len(text) <= BRIEF else f"{text[: BRIEF - 1]}…"


def scalar(value: Any) -> str:
    """As JSON says it. Python's numbers are exact, whatever their size."""
    if isinstance(value, Mapping):
        return f"{{{len(value)}}}"
    if isinstance(value, list | tuple):
        return f"[{len(value)}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return as_json(value[:BRIEF])
    return str(value)


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def kind_of(value: Any) -> str:
    """How a template writes it: `object`, `list`, `redacted`, or the class of a plain value."""
    if isinstance(value, Mapping):
        return "object"
    if isinstance(value, list | tuple):
        return "list"
    if value == REDACTED:
        return "redacted"
    if isinstance(value, str):
        return "s"
    return "b" if value is None or isinstance(value, bool) else "n"


def members(value: Any) -> list[tuple[str | None, Any]]:
    """The first ones of a list or object."""
    if isinstance(value, Mapping):
        return [(str(name), one) for name, one in list(value.items())[:SHOWN]]
    return [(None, one) for one in value[:SHOWN]] if isinstance(value, Sequence) else []


def frames(traceback: str) -> Iterator[tuple[str, str]]:
    """A traceback in pieces: `lib` for library frames, `own` for the program's, `err` for what it says at the end."""
    kind, piece = "lib", list[str]()
    for line in traceback.rstrip().splitlines():
        found = _FILE.match(line)
        if found is not None:
            now = "lib" if _LIBRARY.search(found["path"]) else "own"
        elif line[:1].isspace():
            now = kind
        else:
            now = "lib" if line.startswith(("Traceback", "During handling", "The above")) or not line else "err"
        if now != kind and piece:
            yield kind, "\n".join(piece)
            piece = []
        kind = now
        piece.append(line)
    if piece:
        yield kind, "\n".join(piece)


def error_name(error: str) -> str:
    """`ConnectTimeout` of `httpx.ConnectTimeout: it did not answer`."""
    head = error.strip().split("\n", 1)[0].split(":", 1)[0]
    return head.rsplit(".", 1)[-1] if re.fullmatch(r"[A-Za-z_][\w.]{0,120}", head) else head[:80]


def error_text(error: str) -> str:
    """What follows the name, on its first line."""
    line = error.strip().split("\n", 1)[0]
    return line.split(":", 1)[1].strip()[:300] if ":" in line else ""


FILTERS: Final = {
    "brief": brief, "scalar": scalar, "pretty": pretty, "kind_of": kind_of, "members": members, "frames": frames,
    "error_name": error_name, "error_text": error_text,
}  # fmt: skip
