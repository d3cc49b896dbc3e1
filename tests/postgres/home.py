"""A directory for one server process on 127.0.0.1: it disappears with its owner, and so does whatever lives in it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import watchdog
from .binaries import unprivileged

Word = str | Path
PORTS = range(15_000, 32_000)  # below the ports of outgoing connections, so that a restart finds its own one free


class Home:
    """Belongs to the unprivileged user who runs what lives here; guarded by a watchdog. What is said goes to a log."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="windlass-pg-"))
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", watchdog.__file__, self.directory, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        self._identity = unprivileged()
        if self._identity:
            os.chown(self.directory, self._identity["user"], self._identity["group"])

    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def launch(self, words: Sequence[Word]) -> subprocess.Popen[bytes]:
        """In a session of its own, for no key at the terminal is meant for it; without pipes that it could inherit."""
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=_environment(),
                start_new_session=True,
                **self._identity,
            )

    def remove(self, process: subprocess.Popen[bytes] | None) -> None:
        """End `process` at once, then everything else, then the directory. Twice is no harm."""
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.send_signal(signal.SIGCONT)  # a test may have stopped it
            try:
                process.wait(watchdog.PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._watchdog.communicate()


def free_port() -> int:
    while True:
        port = secrets.choice(PORTS)  # not `random`: tests seed it, and two of them would agree
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def _environment() -> dict[str, str]:
    """Without settings of the person who runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
