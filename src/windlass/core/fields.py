"""Checks of single values. The error names the field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeGuard

from windlass.clock import LAST_INSTANT
from windlass.errors import InvalidInput, InvalidLeaseDuration, shown

NAME_LIMIT: Final = 200
# PostgreSQL keeps no entry of more than 2,704 bytes in an index: a key with its scope, and four names, are entries of one.
NAME_BYTES: Final = 512
KIND_ROOM: Final = len("queue:")  # of what a limit's key is of, before its name
KEY_LIMIT: Final = 1_000
LARGEST: Final = 2**63 - 1
LATEST: Final = LAST_INSTANT // 2  # of `now` and of a lease: their sum must still be an instant
BATCH_LIMIT: Final = 10_000


def check_name(field: str, value: object) -> None:
    """A name that people read: any printable text, `service:nextjs` and `a/b` included."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, got {type(value).__name__}")
    problem = _problem(value)
    if problem is not None:
        raise InvalidInput(field, problem)


def check_limit_key(field: str, value: object) -> None:
    """A name with its kind before it: whatever has a name can have a limit."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, got {type(value).__name__}")
    problem = _problem(value, KIND_ROOM)
    if problem is not None:
        raise InvalidInput(field, problem)


@lru_cache(maxsize=4096)  # a queue sees the same few names a million times
def _problem(value: str, room: int = 0) -> str | None:
    if not value.strip():
        return "must not be empty"
    if len(value) > NAME_LIMIT + room:
        return f"is {len(value)} characters long, the limit is {NAME_LIMIT + room}"
    if bytes_of(value) > NAME_BYTES + room:
        return f"takes {bytes_of(value)} bytes as UTF-8, the limit is {NAME_BYTES + room}"
    if not value.isprintable():
        return f"{value!r} holds characters that cannot be printed"
    return None


def check_id(value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput("id", "must be text and not empty")
    if len(value) > NAME_LIMIT or bytes_of(value) > NAME_BYTES or not value.isprintable():
        raise InvalidInput(
            "id", f"must be printable text of at most {NAME_LIMIT} characters and {NAME_BYTES} bytes, got {value!r:.80}"
        )


def check_text(field: str, value: object, *, most: int = KEY_LIMIT, advice: str = "") -> None:
    """Any text that every store can keep: no lone surrogates, no NULs, not endless."""
    if not isinstance(value, str) or len(value) > most:
        raise InvalidInput(field, f"must be text of at most {most:,} characters{advice}")
    check_characters(field, value)


def bytes_of(value: str) -> int:
    """The length as UTF-8. Half a character, which other checks refuse, counts as the three bytes that it would take."""
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


def check_characters(field: str, value: object) -> None:
    """Check a text that is looked for: one that no store can hold is the name of nothing."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, got {shown(value)}")
    if "\x00" in value or (not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)):
        raise InvalidInput(field, "holds a NUL or half a character (a lone surrogate)")


def check_number(field: str, value: object, *, most: int = LARGEST) -> None:
    if type(value) is not int or not 0 <= value <= most:
        bound = "2**63 - 1" if most == LARGEST else f"{most:,}"
        raise InvalidInput(field, f"must be a whole number between 0 and {bound}, got {shown(value)}")


def is_number(value: object) -> TypeGuard[float]:
    """What is compared with bounds afterwards: nan and infinities pass none, and whole numbers may be beyond all floats."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_instant(field: str, value: object, *, first: int = 0) -> None:
    if type(value) is not int or not first <= value <= LAST_INSTANT:
        raise InvalidInput(
            field, f"must be a moment from 1970 on and before the year 9999, in microseconds since 1970, got {shown(value)}"
        )


def check_now(now: object) -> None:
    if type(now) is not int or not 0 <= now <= LATEST:
        raise InvalidInput("now", f"must be microseconds since 1970, got {shown(now)}")


def check_lease(lease_for: object) -> None:
    if type(lease_for) is not int or not 0 < lease_for <= LATEST:
        raise InvalidLeaseDuration(shown(lease_for))


def check_priority(priority: object) -> None:
    if type(priority) is not int or not -(2**31) <= priority < 2**31:
        raise InvalidInput("priority", f"must be a whole number of 32 bits, got {shown(priority)}")


def check_progress(progress: object) -> None:
    if progress is not None and not (is_number(progress) and 0 <= progress <= 1):
        raise InvalidInput("progress", f"must be between 0 and 1, got {shown(progress)}")


def check_limit(limit: object, field: str = "limit") -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= BATCH_LIMIT:
        raise InvalidInput(field, f"must be between 1 and {BATCH_LIMIT:,}, got {shown(limit)}")


def check_flag(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidInput(field, f"must be True or False, got {shown(value)}")


def check_one_of(field: str, value: object, known: frozenset[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise InvalidInput(field, f"must be one of {', '.join(sorted(known))}, got {shown(value)}")


def check_queues(queues: object) -> None:
    if not isinstance(queues, tuple | list) or not queues:
        raise InvalidInput("queues", f"give a non-empty sequence of queue names, got {shown(queues)}")
    for queue in queues:
        check_name("queue", queue)


def check_all(field: str, names: object) -> None:
    if not isinstance(names, tuple | list):  # a text is a sequence of characters
        raise InvalidInput(field, f"must be a sequence of names, got {shown(names)}")
    for name in names:
        check_name(field, name)


def check_once(field: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise InvalidInput(field, f"names one twice: {shown(Counter(names).most_common(1)[0][0])}")
