"""How a process is asked to stop: told, then signalled, then killed, and nobody but its own group with it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from windlass.clock import SECOND
from windlass.config import Settings
from windlass.worker.holdings import Held
from windlass.worker.processes.nursery import Offspring


class Stopper:
    """What interrupts one job that runs in a process. Called again it changes nothing, but for a lease that is lost: then
    the end has to come before anybody else can have the job."""

    def __init__(self, held: Held, offspring: Offspring, settings: Settings, tell: Callable[[], None]) -> None:
        self._held = held
        self._offspring = offspring
        self._settings = settings
        self._tell = tell
        self._timer: asyncio.TimerHandle | None = None
        self._hurried = False

    def __call__(self) -> None:
        lost = self._held.why == "lost"
        if self._timer is not None and (self._hurried or not lost):
            return
        if self._timer is None:
            self._tell()
            self._offspring.signal(signal.SIGTERM)
        else:
            self._timer.cancel()
        self._hurried = lost
        patience = min(self._settings.kill_after, self._settings.silence // 6) if lost else self._settings.kill_after
        self._timer = asyncio.get_running_loop().call_later(patience / SECOND, self._offspring.signal, signal.SIGKILL)

    @property
    def called(self) -> bool:
        """It was asked to stop, whether or not it had ended by then: nobody can tell."""
        return self._timer is not None

    def stand_down(self) -> None:
        """It has ended."""
        if self._timer is not None:
            self._timer.cancel()
