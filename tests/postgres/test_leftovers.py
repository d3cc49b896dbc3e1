"""Whatever happens to a test process, its servers do not outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .server import Server
from .watchdog import alive, inhabitants

OWNER = """
import os, signal, sys, time
from postgres.server import Server
server = Server()
server.start()
watched = server
{deed}
print(watched.directory, watched.pid, flush=True)
time.sleep(60)
"""
DEEDS = {
    "running": "",
    "forked": "os.fork() or time.sleep(60)",  # the child holds everything open that its parent had
    "stopped": "os.kill(server.pid, signal.SIGSTOP)",
    "pooled": "from postgres.pgbouncer import PgBouncer; watched = PgBouncer(server); watched.start()",
}


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


def test_a_closed_server_leaves_neither_process_nor_directory() -> None:
    with Server() as server:
        pid, directory = server.pid, server.directory
        assert alive(pid)
        assert pid in inhabitants(directory)
    assert not alive(pid)
    assert not directory.exists()
    assert list(inhabitants(directory)) == []
    server.close()  # once more is no harm


@pytest.mark.parametrize("deed", ["running", "forked", "stopped", pytest.param("pooled", marks=pytest.mark.full)])
def test_a_killed_owner_leaves_neither_process_nor_directory(deed: str) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(deed=DEEDS[deed])],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
        start_new_session=True,
    )
    try:
        assert owner.stdout is not None
        directory, pid = owner.stdout.readline().split()
        assert alive(int(pid))
        assert Path(directory).is_dir()
        owner.kill()
        os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)  # dead, but its process group keeps its number
        until(lambda: not alive(int(pid)) and not Path(directory).exists())
        until(lambda: not list(inhabitants(Path(directory))))  # the watchdog itself has left, too
    finally:
        os.killpg(owner.pid, signal.SIGKILL)  # with a forked child, if there is one
        owner.communicate()
