"""Opening a connection without waiting longer than one may.

libpq counts its own timeout in whole seconds, and cannot be interrupted. Here a connection is opened in small steps, so
that whoever waits can give up at any moment; what was begun is gone on with by the next who asks. Hosts and their addresses
are tried in turn, each for `connect_timeout` seconds: one that does not answer must not hide the next.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

import psycopg
from psycopg import conninfo, pq

from windlass.clock import ticking
from windlass.drivers.postgres.faults import Overdue

LOOK_EVERY: Final = 0.05


class Opening:
    def __init__(self, parameters: dict[str, Any]) -> None:
        self._left: Final = _ways(parameters)
        self._patience: Final = float(parameters.get("connect_timeout") or 0) or float("inf")
        self._errors: list[str] = []
        self._pgconn: pq.abc.PGconn | None = None
        self._until = 0.0

    def go_on(self, given_up: Callable[[], bool]) -> psycopg.Connection[Any]:
        """The connection; `Overdue` when the caller gave up, after which this may be called again."""
        while True:
            if self._pgconn is None:
                self._begin()
            pgconn, error = self._poll(given_up)
            if pgconn is not None:
                pgconn.nonblocking = 1
                return psycopg.Connection(pgconn)
            self._errors.append(error)
            self._drop()

    def _begin(self) -> None:
        way = next(self._left, None)
        if way is None:
            raise psycopg.OperationalError("; ".join(dict.fromkeys(self._errors)) or "no host to connect to")
        self._until = ticking() + self._patience
        self._pgconn = pq.PGconn.connect_start(conninfo.make_conninfo("", **way).encode())

    def _poll(self, given_up: Callable[[], bool]) -> tuple[pq.abc.PGconn | None, str]:
        """Until it is open, or why it cannot be."""
        pgconn = self._pgconn
        assert pgconn is not None
        while pgconn.status != pq.ConnStatus.BAD:
            if ticking() > self._until:
                return None, "connection timeout expired"
            if given_up():
                raise Overdue
            wanted = pgconn.connect_poll()
            if wanted == pq.PollingStatus.OK:
                self._pgconn = None
                return pgconn, ""
            if wanted == pq.PollingStatus.FAILED:
                break
            poll = select.poll()
            poll.register(pgconn.socket, select.POLLIN if wanted == pq.PollingStatus.READING else select.POLLOUT)
            poll.poll(LOOK_EVERY * 1000)
        return None, f"connection failed: {pgconn.get_error_message()}"

    def _drop(self) -> None:
        if self._pgconn is not None:
            self._pgconn.finish()
            self._pgconn = None

    close = _drop


def _ways(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One set of parameters for each address of each host."""
    hosts = str(parameters.get("host") or "").split(",")
    addresses = str(parameters.get("hostaddr") or "").split(",")
    ports = str(parameters.get("port") or "").split(",")
    ways = []
    for place in range(max(len(hosts), len(addresses))):
        way = {
            **parameters, "host": hosts[place % len(hosts)], "hostaddr": addresses[place % len(addresses)],
            "port": ports[place % len(ports)],
        }  # fmt: skip
        ways.append({name: value for name, value in way.items() if value not in ("", None)})
    if parameters.get("load_balance_hosts") == "random":
        Random().shuffle(ways)  # noqa: S311 - spreads clients over servers, nothing more
    for way in ways:
        host = str(way.get("host", ""))
        if not host or host.startswith(("/", "@")) or "hostaddr" in way:  # libpq's default, a socket, or said already
            yield way
        else:
            yield from ({**way, "hostaddr": address} for address in _resolved(host, way.get("port")))


def _resolved(host: str, port: Any) -> list[str]:
    """Without this libpq would never come to the second address of a name whose first one does not answer."""
    try:
        found = socket.getaddrinfo(host, int(port or 5432), type=socket.SOCK_STREAM)
    except OSError as error:
        raise psycopg.OperationalError(f"failed to resolve host {host!r}: {error}") from None
    return list(dict.fromkeys(str(address[4][0]) for address in found))
