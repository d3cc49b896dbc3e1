"""Turns any exception into a failure that can be stored, whatever its author did.

A handler may raise anything: SystemExit, a group of groups, an error whose text is endless or cannot be made. None of it
may harm the worker, and each of them must leave words that help.
"""

from __future__ import annotations

from typing import Final

from windlass.core.settle import Failed, Outcome, Rejected, Snoozed, WasCancelled
from windlass.policies import error_types
from windlass.signals import Cancel, Reject, RetryAfter, Signal, Snooze
from windlass.worker.frames import format_error

TEXT_LIMIT: Final = 4_000
TRACE_LIMIT: Final = 32_000
GROUP_DEPTH: Final = 5  # groups in groups that are spelled out
UNTELLABLE: Final = ("builtins.BaseException",)


def outcome_of(error: BaseException) -> Outcome:
    """What a raised exception means for the job. Never raises: whatever its author did, it is a failure at worst."""
    try:
        return _outcome_of(error)
    except BaseException as failed:
        return Failed(f"{_name(error)}: (it cannot be told: {_name(failed)})", UNTELLABLE)


def _outcome_of(error: BaseException) -> Outcome:
    error = _signal_in(error) or error
    match error:
        case Snooze():
            return Snoozed(error.delay)
        case Cancel():
            return WasCancelled(_bounded(error.reason))
        case Reject():
            return Rejected(_bounded(error.reason))
        case RetryAfter():
            return Failed(_bounded(error.reason), error_types(error), error.delay)
        case _:
            return Failed(describe(error), error_types(error))


def describe(error: BaseException, depth: int = 0) -> str:
    """`ValueError: what it says`, in one bounded line or few. Never raises."""
    try:
        return _described(error, depth)
    except BaseException as failed:  # a group may say of its parts what it likes
        return f"{_name(error)}: (it cannot be told: {_name(failed)})"


def _described(error: BaseException, depth: int) -> str:
    name = _name(error)
    text = _text(error)
    if isinstance(error, BaseExceptionGroup) and depth < GROUP_DEPTH:
        parts = "; ".join(describe(part, depth + 1) for part in error.exceptions[:5])
        more = f"; and {len(error.exceptions) - 5} more" if len(error.exceptions) > 5 else ""
        return _bounded(f"{name}: {text} [{parts}{more}]")
    return _bounded(f"{name}: {text}" if text else name)


def trace(error: BaseException) -> str | None:
    """The traceback, its end rather than its beginning when it is too long. None for signals: they are no accident."""
    try:
        if _signal_in(error) is not None:
            return None
        text = format_error(error)
    except BaseException as failed:  # an exception may break the very code that prints it
        return f"(no traceback: {_name(failed)} while formatting {_name(error)})"
    return text if len(text) <= TRACE_LIMIT else "…\n" + text[-TRACE_LIMIT:]


def _signal_in(error: BaseException) -> Signal | None:
    """A signal, also one that a task group has wrapped: it was raised in a child task, and nothing else went wrong."""
    for _ in range(GROUP_DEPTH):
        if not isinstance(error, BaseExceptionGroup) or len(error.exceptions) != 1:
            break
        error = error.exceptions[0]
    return error if isinstance(error, Signal) else None


def _name(error: BaseException) -> str:
    name: str = type.__getattribute__(type(error), "__qualname__")  # a metaclass may have ideas of its own
    return name


def _text(error: BaseException) -> str:
    try:
        return str.__str__(str(error))
    except BaseException as failed:
        return f"(its text cannot be made: {_name(failed)})"


def _bounded(text: object) -> str:
    """Of exactly `str`: a class derived from it may do anything when it is cut."""
    try:
        shown = str.__str__(text) if isinstance(text, str) else str.__str__(repr(text))
    except BaseException as failed:
        shown = f"(it cannot be shown: {_name(failed)})"
    return shown if len(shown) <= TEXT_LIMIT else shown[:TEXT_LIMIT] + "…"
