"""What a handler says through the standard `logging` also goes to the log of its run.

Records are seen when they are made, not by a handler on the root logger: that would keep `logging.basicConfig` from doing
anything later, and the first warning of a program without any configuration from being printed. So whatever the program's
levels let through is seen, wherever else it goes, and nothing of the program's logging changes.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from windlass.context import running_now
from windlass.telemetry.jsonlog import JOB, About

_lock = threading.Lock()
_usual: list[Any] = []  # the factory that was there before; empty while ours is not in place
_workers = 0


@contextmanager
def captured() -> Iterator[None]:
    """While a worker runs. Several in one process share what is put in place."""
    global _workers
    with _lock:
        _workers += 1
        if not _usual:
            _usual.append(logging.getLogRecordFactory())
            logging.setLogRecordFactory(_record)
    try:
        yield
    finally:
        with _lock:
            _workers -= 1
            if _workers == 0 and logging.getLogRecordFactory() is _record:  # else somebody has put theirs around it
                logging.setLogRecordFactory(_usual.pop())


def _record(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record: logging.LogRecord = _usual[0](*args, **kwargs)
    running = running_now() if _workers else None
    if running is not None and not record.name.startswith("windlass."):  # what a worker says is not the run's
        setattr(record, JOB, About(running.job, running.scrub))
        try:
            running.write_log(record.levelname, _text(record))
        except Exception:  # a message that cannot be made is reported by whoever prints it
            return record
    return record


def _text(record: logging.LogRecord) -> str:
    text = f"{record.name}: {record.getMessage()}"
    if record.exc_info and record.exc_info[0] is not None:
        text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
    return text
