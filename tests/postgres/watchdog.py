"""Ends what runs in a directory and removes it when its owner is gone, however the owner ended.

Run as a script of its own session: `watchdog.py DIRECTORY OWNER_PID`, with a pipe from the owner as standard input.
The end of the pipe is the order to clean up. A forked child of the owner may hold the pipe open, so the owner's pid is
looked at as well.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LOOK = 0.5  # seconds between two looks at the owner
PATIENCE = 8.0  # an immediate shutdown kills what did not leave after five seconds


def wait_for_the_end_of(owner: int) -> None:
    while os.getppid() == owner:
        readable, _, _ = select.select([0], [], [], LOOK)
        if readable and not os.read(0, 64):
            return


def alive(pid: int) -> bool:
    """A zombie is not: an orphan may have to wait for somebody to reap it."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self/stat").exists()


def inhabitants(directory: Path) -> Iterator[int]:
    """The server by its pid file; where there is a /proc, also whatever else was started with this directory."""
    for pid_file in directory.glob("*/postmaster.pid"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            yield int(pid_file.read_text().split()[0])
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(directory) in (process / "cmdline").read_bytes() and int(process.name) != os.getpid():
                yield int(process.name)


def end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGQUIT)  # the postmaster takes its children along
        os.kill(pid, signal.SIGCONT)  # a test may have stopped it
    until = time.monotonic() + PATIENCE
    while alive(pid):
        if time.monotonic() > until:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def clean_up(directory: Path) -> None:
    """Until nothing is left: a server that was about to start may appear only now."""
    while True:
        living = [pid for pid in inhabitants(directory) if alive(pid)]
        for pid in living:
            end(pid)
        shutil.rmtree(directory, ignore_errors=True)
        if not living and not directory.exists():
            return
        time.sleep(0.05)


if __name__ == "__main__":
    for word in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(word, signal.SIG_IGN)
    wait_for_the_end_of(int(sys.argv[2]))
    clean_up(Path(sys.argv[1]))
