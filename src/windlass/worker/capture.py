"""What a handler says through the standard `logging` also goes to the log of its run.

Records are seen when they are made, not by a handler on the root logger: that would keep `logging.basicConfig` from doing
anything later, and the first warning of a program without any configuration from being printed. So whatever the program's
levels let through is seen, wherever else it goes, and nothing of the program's logging changes.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from windlass.context import running_now
from windlass.telemetry.jsonlog import JOB, About

_lock = threading.Lock()
_workers = 0


class _Capturing:
    """A factory around the usual one. Whoever still calls it when it is not in place any more, a thread or what a library
    has put around it, gets what that one makes."""

    def __init__(self, usual: Callable[..., logging.LogRecord]) -> None:
        self.usual: Final = usual

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self.usual(*args, **kwargs)
        running = running_now() if _workers and _placed is self else None
        if running is not None and not record.name.startswith("windlass."):  # what a worker says is not the run's
            setattr(record, JOB, About(running.job, running.scrub))
            try:
                running.write_log(record.levelname, _text(record))
            except Exception:  # a message that cannot be made is reported by whoever prints it
                return record
        return record


_placed: _Capturing | None = None


@contextmanager
def captured() -> Iterator[None]:
    """While a worker runs. Several in one process share what is put in place."""
    global _workers, _placed
    with _lock:
        _workers += 1
        placed = _placed
        if placed is None:
            placed = _placed = _Capturing(logging.getLogRecordFactory())
            logging.setLogRecordFactory(placed)
    try:
        yield
    finally:
        with _lock:
            _workers -= 1
            if _workers == 0 and logging.getLogRecordFactory() is placed:  # else somebody has put theirs around it
                logging.setLogRecordFactory(placed.usual)
                _placed = None


def _text(record: logging.LogRecord) -> str:
    text = f"{record.name}: {record.getMessage()}"
    if record.exc_info and record.exc_info[0] is not None:
        text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
    return text
