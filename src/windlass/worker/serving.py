"""Runs a worker in the foreground of a process: a signal stops it, a second one interrupts its handlers."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from windlass.worker.stats import Stats
from windlass.worker.worker import Worker

SWITCH_AFTER: Final = 0.0002
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
log: Final = logging.getLogger("windlass.worker")


async def serve(worker: Worker, *, drain: bool = False) -> Stats:
    with stopped_by_signals(worker), short_turns():
        return await worker.run(drain=drain)


@contextmanager
def short_turns() -> Iterator[None]:
    """This process is ours: by default the thread that writes to the store waits up to 5 ms for its turn while handlers
    run, and a drain loses a sixth of its speed."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_AFTER)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


@contextmanager
def stopped_by_signals(worker: Worker) -> Iterator[None]:
    """SIGTERM and SIGINT: stop claiming and finish within the grace. Again: interrupt and hand back at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        log.info(
            "%s: %s", name, "interrupting what still runs" if worker.stopping else "finishing what runs; again to force"
        )
        worker.stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number.name)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
