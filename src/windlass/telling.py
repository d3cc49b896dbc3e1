"""What the texts of errors say of bad values, and of what helps."""

from __future__ import annotations

from typing import Final

_ID: Final = 36  # of an id that we made


def shown(value: object) -> str:
    """A short text for a value; one that Python refuses to write out is described."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    try:
        return f"{value!r:.80}"
    except Exception:  # a number of thousands of digits, something within itself, a class that cannot show itself
        return a(type(value).__name__)


def a(noun: str) -> str:
    """`a list`, `an object`."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def in_part(job_id: str) -> str:
    return "" if len(job_id) >= _ID else "; an id is to be given whole"


def dead_job(job_id: str, reason: str, kind: str | None) -> str:
    """What refused its arguments once refuses them again, so the next step depends on why."""
    helps = (
        f"see what helps: windlass jobs show {job_id}"
        if kind == "rejected"
        else f"run it again with: windlass jobs retry {job_id}"
    )
    return f"job {job_id!r} is dead: {reason}; {helps}"


def why_it_waits(elsewhere: bool, command: str) -> str:
    """`elsewhere`: other processes see the store, so that a command can look into it."""
    if elsewhere:
        return f"see why: {command}"
    return "the store is in this process: let a worker run in it, or in a test drain() it"
