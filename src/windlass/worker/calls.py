"""Calling a handler: from the row to its arguments, and from its return value to an outcome.

Used in the worker's own process and in its children.
"""

from __future__ import annotations

from contextlib import suppress
from types import CoroutineType
from typing import Any, Final

from windlass.context import Running
from windlass.core.settle import Rejected, Succeeded
from windlass.errors import Undecodable
from windlass.signals import Reject
from windlass.tasks import Task
from windlass.worker.failure import describe

NOT_AWAITED: Final = (
    "it returned a coroutine that nobody awaits, so its work was not done: the function under @app.task is a plain "
    "wrapper around an async one; make the wrapper async as well"
)


def arguments_of(task: Task[..., Any], running: Running) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the handler is called with. Raises `Reject` when the stored payload does not fit it."""
    try:
        args, kwargs = task.arguments.decode(running.job.payload, running.job.codec)
    except Undecodable as error:
        raise Reject(str(error)) from None
    return ((running.context(), *args), kwargs) if task.takes_context else (args, kwargs)


def outcome_of_value(task: Task[..., Any], value: Any, limit: int) -> Succeeded | Rejected:
    """Never raises: a value may be of any class, and its methods may raise anything."""
    if type(value) is CoroutineType:  # nothing is asked of the value: a proxy for what is not there raises
        with suppress(BaseException):  # one that has begun may have words of its own
            value.close()
        return Rejected(NOT_AWAITED)
    try:
        return Succeeded(task.results.encode(value, limit=limit))
    except BaseException as error:
        # Its effects are done, so running it again would only repeat them.
        return Rejected(f"it succeeded, but its return value cannot be stored: {describe(error)}")
