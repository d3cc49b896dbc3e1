"""A private PgBouncer in transaction mode before a server: what many installations put between us and the database."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from .home import Home, free_port
from .server import Server

PATIENCE = 30.0
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])  # Debian puts it where only root looks


class PoolerFailed(Exception):
    """PgBouncer is not installed or did not start; the message ends with its log."""


class PgBouncer:
    """`with PgBouncer(server) as pooler: connect(pooler.dsn())`. `options` are settings as in `pgbouncer.ini`."""

    def __init__(self, server: Server, *, options: Mapping[str, object] | None = None) -> None:
        program = shutil.which("pgbouncer", path=PATH)
        if program is None:
            raise PoolerFailed("pgbouncer is not installed: tools/debian_packages.sh brings it")
        self.server = server
        self.port = free_port()
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._home = Home()
        self._configure(options or {})

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def directory(self) -> Path:
        return self._home.directory

    @property
    def pid(self) -> int:
        if self._process is None:
            raise PoolerFailed("the pooler is not running")
        return self._process.pid

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def log(self) -> str:
        return self._home.log()

    def start(self) -> None:
        """Accepts connections on return."""
        starts = self._starts()
        self._process = self._home.launch([self._program, self.directory / "pgbouncer.ini"])
        until = time.monotonic() + PATIENCE
        while self._starts() == starts or not self._listens():
            if self._process.poll() is not None or time.monotonic() > until:
                raise PoolerFailed(f"pgbouncer did not start\n{self.log()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """Cuts every client and every connection to the server."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE)
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop at once and remove everything."""
        process, self._process = self._process, None
        self._home.remove(process)

    def _starts(self) -> int:
        return self.log().count("process up")

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _configure(self, options: Mapping[str, object]) -> None:
        (self.directory / "users").write_text('"postgres" ""\n')
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": self.directory / "users",
            "admin_users": "postgres",
            "pool_mode": "transaction",
            "max_client_conn": 500,
            "default_pool_size": 10,
            **options,
        }
        lines = ["[databases]", f"* = host=127.0.0.1 port={self.server.port}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        (self.directory / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
