"""Awaiting something from blocking code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

from windlass.errors import WindlassError

T = TypeVar("T")


class WouldHang(WindlassError, RuntimeError):
    """What was to be waited for could not come, or only by stopping everything else: a handler's own job, an event loop
    that is blocked. The message says what to write instead."""


def check_no_loop(what: str, instead: str) -> None:
    """Refuse to wait where an event loop runs: what is waited for may need that loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise WouldHang(f"{what} would hold up the event loop that runs here, and all that is done in it; write {instead}")


def apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await something from blocking code without touching the caller's event loop, should it have one. It knows of the job
    and of the transaction that it is called in: what would wait for that job, or for the lock of that
    transaction, is refused."""
    answers: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(asyncio.run(work()))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=copy_context().run, args=(run,), name="windlass-apart")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return answers[0]
