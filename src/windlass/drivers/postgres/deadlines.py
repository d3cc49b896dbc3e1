"""Ends calls whose time is over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from windlass.clock import ticking
from windlass.drivers.postgres.link import Link

if TYPE_CHECKING:
    from windlass.drivers.postgres.lane import Lane

log: Final = logging.getLogger("windlass.postgres")
LOOK_EVERY: Final = 0.05
LOOKS: Final = 4  # in vain, before the watch sleeps until somebody wakes it


class Watch:
    """Aborts calls whose time is over. One thread for all lanes of a driver, asleep while nothing is under way."""

    def __init__(self) -> None:
        self._until: dict[Link, float] = {}
        self._lanes: list[Lane] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._asleep = False
        self._closed = False

    def begin(self, link: Link, until: float) -> None:
        with self._changed:
            self._until[link] = until
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="windlass-deadlines", daemon=True)
                thread.start()
                self._thread = thread
            elif self._asleep:
                self._changed.notify()

    def end(self, link: Link) -> None:
        """From here on its deadline touches nobody: what was to be aborted for it is aborted by now."""
        with self._changed:
            self._until.pop(link, None)

    @contextmanager
    def within(self, link: Link, seconds: float) -> Iterator[None]:
        self.begin(link, ticking() + seconds)
        try:
            yield
        finally:
            self.end(link)

    def add(self, lane: Lane) -> None:
        self._lanes.append(lane)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        in_vain = 0
        while True:
            with self._changed:
                if self._closed:
                    return
                in_vain = 0 if self._until else in_vain + 1
                self._asleep = in_vain > LOOKS  # not after each call: to be woken for the next would cost it time
                self._changed.wait(None if self._asleep else LOOK_EVERY)
                self._asleep = False
            try:
                self._look()
            except Exception:  # without it nothing would ever end again that hangs
                log.exception("looking for calls whose time is over has failed; going on")
                threading.Event().wait(LOOK_EVERY)

    def _look(self) -> None:
        now = ticking()
        with self._changed:  # a call that has ended meanwhile must not be cut: its connection may serve the next one
            for link, until in list(self._until.items()):
                if until <= now:
                    link.abort()
        for lane in self._lanes:
            lane.refuse_overdue(now)
