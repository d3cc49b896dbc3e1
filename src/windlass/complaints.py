"""Warnings about a store that fails again and again. Each is said once, and then seldom: whoever reads the log of a worker
should find in it what else happened meanwhile. What is not said as a warning is there with `--verbose`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from windlass.clock import SECOND, since_boot
from windlass.errors import StoreReplaced
from windlass.types import Micros

AGAIN: Final = 60 * SECOND
MOST: Final = 100  # different ones: what an error says may differ each time


class Complaints:
    def __init__(self, now: Callable[[], Micros] = since_boot) -> None:
        self._now = now
        self._said: dict[str, Micros] = {}

    def say(self, log: logging.Logger, what: str, error: BaseException) -> None:
        """`what` came of it: "nothing could be claimed"."""
        why = str(error) or "the store does not answer"
        key = why if isinstance(error, StoreReplaced) else f"{what}: {why}"  # of that one everything fails, until a restart
        now = self._now()
        since = self._said.get(key)
        if since is not None and now - since < AGAIN:
            log.debug("%s: %s", what, why)
            return
        if len(self._said) >= MOST:
            self._said.clear()
        self._said[key] = now
        log.warning("%s: %s", what, why)
