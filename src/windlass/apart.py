"""Awaiting something from blocking code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await something from blocking code without touching the caller's event loop, should it have one."""
    answers: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(asyncio.run(work()))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="windlass-apart")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return answers[0]
