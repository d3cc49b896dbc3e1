"""One private PostgreSQL cluster on 127.0.0.1: made, broken and removed by the test that asked for it."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, LiteralString, Self

import psycopg
from psycopg import sql

from .binaries import binaries, executable_folder, version_under_test
from .home import Home, Word, free_port

Mode = Literal["smart", "fast", "immediate"]
SIGNALS: Mapping[Mode, signal.Signals] = {
    "smart": signal.SIGTERM,  # waits until every client has left
    "fast": signal.SIGINT,  # ends the sessions
    "immediate": signal.SIGQUIT,  # as if the power failed: recovery at the next start
}
SMALL: Mapping[str, object] = {"shared_buffers": "32MB", "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
CARELESS: Mapping[str, object] = {"fsync": "off", "full_page_writes": "off"}
# Without fsync, synchronous_commit costs nothing measurable; turned off, an immediate stop would lose the latest commits.
PATIENCE = 60.0


class ServerFailed(Exception):
    """A server did not do what it was told; the message ends with its log."""


class Server:
    """`with Server("18") as server:` starts a fresh cluster; at the end its processes and its directory are gone.

    Killed hard, the owner leaves nothing either: a watchdog cleans up. Without `durable` a crash of the machine would
    lose data, a crash of the server does not. `options` are settings as in `postgresql.conf`.
    """

    def __init__(
        self, version: str | None = None, *, durable: bool = False, options: Mapping[str, object] | None = None
    ) -> None:
        self.version = version or version_under_test()
        installed = binaries(self.version)
        self.port = 0
        self.durable = durable
        self.options = dict(options or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._primary: Server | None = None
        self._home = Home()
        self._binaries = executable_folder(installed, self.directory / "software")

    @classmethod
    def standby_of(cls, primary: Server, *, options: Mapping[str, object] | None = None) -> Self:
        """A hot standby that streams from `primary` as soon as it is started."""
        standby = cls(primary.version, durable=primary.durable, options={**primary.options, **(options or {})})
        standby._primary = primary
        return standby

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
    def pid(self) -> int:
        """The postmaster's."""
        if self._process is None:
            raise ServerFailed("the server is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def directory(self) -> Path:
        return self._home.directory

    def log(self) -> str:
        return self._home.log()

    def start(self) -> None:
        """Ready for connections on return. The first start makes the cluster; later ones keep data and port."""
        if self.running:
            raise ServerFailed("the server is running already")
        if not self._data.exists():
            self._make_cluster()
        if self.port:
            self._launch()
        else:
            self._launch_on_a_free_port()

    def stop(self, mode: Mode = "fast") -> None:
        """Nothing of it runs on return; the data stay."""
        if self._process is None:
            return
        self._process.send_signal(SIGNALS[mode])
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise ServerFailed(f"no {mode} stop within {PATIENCE:.0f} s\n{self.log()}") from None
        self._process = None

    def restart(self, mode: Mode = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill_backend(self, pid: int) -> None:
        """SIGKILL to the process of one session: the server drops all sessions and recovers. See `until_ready`, to which a
        server that has not noticed yet would look ready: it has noticed when it has taken leave of the process."""
        os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + PATIENCE
        while Path(f"/proc/{pid}").exists():
            if time.monotonic() > until:
                raise ServerFailed(f"the server did not notice within {PATIENCE:.0f} s\n{self.log()}")
            time.sleep(0.001)

    def promote(self) -> None:
        """Turn a standby into a primary; it accepts writes on return."""
        [[done]] = self.execute("select pg_promote(true, 60)")
        if not done:
            raise ServerFailed(f"not promoted\n{self.log()}")

    def until_ready(self) -> None:
        """Wait until sessions can be opened again."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.execute("select 1")
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > until or not self.running:
                    raise ServerFailed(f"{error}\n{self.log()}") from None
            time.sleep(0.01)

    def execute(self, statement: LiteralString | sql.Composed, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """One statement in a session of its own, outside a transaction."""
        with psycopg.connect(self.dsn(database), autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def create_database(self, name: str | None = None, *, template: str | None = None) -> str:
        """The DSN of a new database: empty, or a copy of `template`, which nobody may be using meanwhile."""
        name = name or unique_name("db")
        source = template or "template0"
        self.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(source)))
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Gone even if somebody is still connected."""
        self.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def close(self) -> None:
        """Stop at once and remove everything."""
        process, self._process = self._process, None
        self._home.remove(process)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _make_cluster(self) -> None:
        if self._primary is None:
            trust = ("--no-sync", "--auth=trust", "--locale=C", "--encoding=UTF8", "--username=postgres")
            self._run("initdb", "-D", self._data, *trust)
        else:
            self._run("pg_basebackup", "-D", self._data, "-d", self._primary.dsn(), "-R", "-c", "fast", "--no-sync")

    def _run(self, program: str, *words: Word) -> None:
        if self._home.launch([self._binaries / program, *words]).wait() != 0:
            raise ServerFailed(f"{program} failed\n{self.log()}")

    def _launch_on_a_free_port(self) -> None:
        for _ in range(10):
            self.port = free_port()
            try:
                return self._launch()
            except ServerFailed:  # somebody may have taken the port between the look and the start
                if "could not create any TCP/IP sockets" not in self.log():
                    raise
        raise ServerFailed(f"ten ports were taken\n{self.log()}")

    def _launch(self) -> None:
        settings = {**SMALL, **({} if self.durable else CARELESS), **self.options, "port": self.port}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._process = self._home.launch([self._binaries / "postgres", "-D", self._data, *words])
        until = time.monotonic() + PATIENCE
        while self._state() not in ("ready", "standby"):
            if self._process.poll() is not None:
                self._process = None
                raise ServerFailed(f"the server did not start\n{self.log()}")
            if time.monotonic() > until:
                raise ServerFailed(f"the server is not ready after {PATIENCE:.0f} s\n{self.log()}")
            time.sleep(0.01)

    def _state(self) -> str:
        """What the server says of itself in its pid file: unlike a connection, this cannot be somebody else's server."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return ""
        return lines[7].strip() if len(lines) > 7 and lines[0] == str(self.pid) else ""


def unique_name(prefix: str) -> str:
    """A name for a database, schema or role that nobody else uses; never from `random`, which tests seed."""
    return f"{prefix}_{secrets.token_hex(6)}"
