"""The file that a driver works on, and whose turn it is in this process to write to it.

SQLite lets those who wait for its write lock look again every now and then, in no order: under many transactions at once
somebody goes away empty-handed while others come twice. Within a process they queue here instead, so that only one of
them at a time waits for other processes.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final, NamedTuple

from windlass.clock import since_boot
from windlass.drivers.sqlite.files import Identity
from windlass.types import Micros

BREATH: Final[Micros] = 700  # in which whoever waits for the file has looked once (library.py: BETWEEN_LOOKS)


class Turns:
    """First come, first served; but short work goes before long."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._changed: Final = threading.Condition(self._lock)
        self._queue: Final[deque[object]] = deque()  # the first of them writes, the others wait
        self._given = 0
        self._began: Micros = 0  # the present stretch of writing
        self._let_go: Micros = 0

    def take(self, patience: float, *, ahead: bool = False) -> bool:
        """Wait for the turn; False when one and the same other has kept it for longer than `patience` seconds."""
        me = object()
        with self._lock:
            if not self._queue:
                self._queue.append(me)
                self._note_start()
                return True
            if patience <= 0:
                return False
            self._queue.insert(1 if ahead else len(self._queue), me)
            try:
                while self._queue[0] is not me:
                    given = self._given
                    if not self._changed.wait_for(lambda: self._given != given, patience):  # noqa: B023
                        self._queue.remove(me)
                        return False
            except BaseException:  # an interrupt: whoever comes next must not wait for this one
                self._queue.remove(me)
                self._tell()
                raise
        return True

    def give(self) -> None:
        """Pass the turn on. To be called by the holder, from any thread."""
        with self._lock:
            self._queue.popleft()
            self._let_go = since_boot()
            self._tell()

    def stretch(self) -> Micros:
        """How long this process has been writing without a pause that others could have used."""
        return self._let_go - self._began

    def _note_start(self) -> None:
        now = since_boot()
        if now - self._let_go >= BREATH:
            self._began = now

    def _tell(self) -> None:
        self._given += 1
        if self._queue:
            self._changed.notify_all()


class Place(NamedTuple):
    """`busy_s`: how long it is waited for whoever writes, this process or another."""

    path: str
    identity: Identity
    busy_s: float
    turns: Turns
