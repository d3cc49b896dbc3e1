"""Who hears SIGTERM. A child does not: its line tells it to stop, and whoever stops a whole service means the worker, which
lets its jobs finish. A copy of it that a handler forks does, since whoever ends a helper, be it the handler or the worker,
does it by this signal."""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

_before: Final = threading.local()  # the signals that were blocked when this thread began to fork


def deaf(number: int, frame: object) -> None:
    """Not SIG_IGN, which a program that a child starts would inherit."""


def let_copies_hear() -> None:
    """From now on. A signal that comes before a copy can hear it is kept until it does."""
    os.register_at_fork(before=_hold, after_in_parent=_go_on, after_in_child=_hear_again)


def _hold() -> None:
    _before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _go_on() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _before.mask)


def _hear_again() -> None:
    if signal.getsignal(signal.SIGTERM) is deaf:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _go_on()
