"""Copies of a process that a handler has forked, and that came out of the handler as well: as one does whose `sys.exit()`
was taken for a failure of the job, or whose exec has failed. It shares the event loop's ears and the files of the first
one, and is no second worker: it ends as a program would, and the job is the other one's.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

_forks = 0  # between the first process of this program and this one


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


def generation() -> int:
    """Of this process: a number, since to ask for its own id is a system call."""
    return _forks


def end_if_copy(of: int, error: BaseException | None) -> None:
    """`of`: the generation of the process that has called the handler."""
    if of != _forks:
        end_as_copy(error)


def end_as_copy(error: BaseException | None) -> NoReturn:
    code = 0
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        code = error.code or 0
    elif error is not None:
        code = 1
        traceback.print_exception(error)
    with suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF)
