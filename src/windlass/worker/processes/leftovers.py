"""What a run leaves behind in its child, and how the next one is kept from it.

Timers, the working directory and the ear for SIGTERM are put back to what they were when the app had been imported. What
goes on by itself, threads and processes, cannot be undone: such a child gets no other job. Everything else that a process
has, the variables of modules above all, is kept on purpose: it is why a child is used again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Final

TIMERS: Final = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
IDLE: Final = ("windlass-", "asyncio_")  # threads that wait for work: our own, and the pool of the event loop


class Surroundings:
    """As the import of the app has left them."""

    def __init__(self) -> None:
        self._threads = frozenset(threading.enumerate())
        self._timers = [timer for timer in TIMERS if signal.getitimer(timer)[0] == 0]
        self._ear = signal.getsignal(signal.SIGTERM)
        self._is_childless = not _has_children()
        try:
            self._cwd: str | None = os.getcwd()
        except OSError:  # it is not there any more
            self._cwd = None

    def restored(self) -> bool:
        """Put back what can be. False: something goes on that the next job should not have beside it."""
        for timer in self._timers:
            signal.setitimer(timer, 0)
        if self._ear is not None and signal.getsignal(signal.SIGTERM) is not self._ear:
            signal.signal(signal.SIGTERM, self._ear)
        return self._is_back() and not self._has_threads() and not (self._is_childless and _has_children())

    def _is_back(self) -> bool:
        try:
            if self._cwd is not None:
                os.chdir(self._cwd)
        except OSError:
            return False
        return True

    def _has_threads(self) -> bool:
        return any(one not in self._threads and not one.name.startswith(IDLE) for one in threading.enumerate())


def _has_children() -> bool:
    """Running, or ended and not waited for."""
    if sys.platform == "darwin":  # which cannot look without taking it from who waits
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
