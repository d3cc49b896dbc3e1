"""The port of a worker: `/metrics`, `/livez`, `/readyz`. A hundred lines instead of a web server in every worker.

It listens on the loopback interface unless another address is given, because it asks for no token and shows the names of
queues and tasks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from windlass import __version__
from windlass.errors import InvalidInput
from windlass.telemetry import families as of
from windlass.telemetry.exposition import MEDIA_TYPE, histograms, page, plain
from windlass.telemetry.measures import Measures
from windlass.worker.worker import Worker

LOOPBACK: Final = "127.0.0.1"
PATIENCE: Final = 5.0  # seconds for a request
AT_ONCE: Final = 16
HEAD: Final = 8_192
log: Final = logging.getLogger("windlass.worker")


def place_of(text: str, *, offset: int = 0) -> tuple[str, int]:
    """`9187` or `0.0.0.0:9187`. `offset`: of one of several processes; 0 stays any port that is free."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port[:6]) + offset > 65_535:
        raise InvalidInput("metrics", f"must be a port such as 9187, or an address such as 0.0.0.0:9187, got {text!r:.80}")
    return host.strip("[]") or LOOPBACK, int(port) + offset if int(port) else 0


def scrape(worker: Worker) -> str:
    return page(_families(worker))


def _families(worker: Worker) -> Iterator[str]:
    stats, measures = worker.stats, worker.measures or Measures()
    yield from plain(of.INFO, [((worker.id, __version__), 1)])
    for family, number in (
        (of.CAPACITY, worker.size), (of.HOLDINGS, worker.holding), (of.STUCK, stats.stuck),
        (of.REACHABLE, worker.reachable), (of.STOPPING, worker.stopping), (of.CLAIMED, stats.claimed),
        (of.RESCUED, measures.rescued), (of.SWEPT, stats.recovered), (of.LOST, stats.leases_lost),
        (of.LATE, stats.settled_late), (of.ERRORS, stats.store_errors),
    ):  # fmt: skip
        yield from plain(family, [((), number)])
    yield from plain(of.SETTLED, sorted(measures.ended.items()))
    yield from histograms(of.WAIT, sorted(measures.waits.items(), key=lambda item: item[0]))
    yield from histograms(of.RUN, sorted(measures.runs.items(), key=lambda item: item[0]))
    yield from histograms(of.CLAIM, [((), measures.claims)])
    yield from histograms(of.SETTLE, [((), measures.settles)])


class Probe:
    """The listening port. `port` is its number."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._room = asyncio.Semaphore(AT_ONCE)
        self.port = 0

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[Probe]:
        try:
            server = await asyncio.start_server(self._answer, host, port, limit=HEAD)
        except OSError as error:
            raise InvalidInput("metrics", f"{host}:{port} cannot be listened on: {error.strerror or error}") from None
        self.port = server.sockets[0].getsockname()[1]
        log.info("metrics at http://%s:%d/metrics", f"[{host}]" if ":" in host else host, self.port)
        try:
            yield self
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._room, asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = self._said(head.split(b"\r\n", 1)[0].decode("latin-1").split(" "))
                said = body.encode()
                lines = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(said)}\r\n"
                hidden = head.startswith(b"HEAD ")
                writer.write(
                    f"{lines}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode() + (b"" if hidden else said)
                )
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked is gone, or asks for what nobody should
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _said(self, request: list[str]) -> tuple[str, str, str]:
        text = "text/plain; charset=utf-8"
        if len(request) != 3 or request[0] not in ("GET", "HEAD"):
            return "405 Method Not Allowed", text, "only GET\n"
        match request[1].partition("?")[0]:
            case "/metrics":
                return "200 OK", MEDIA_TYPE, scrape(self._worker)
            case "/livez":
                return "200 OK", text, "ok\n"
            case "/readyz":
                why = self._not_ready()
                return ("503 Service Unavailable", text, f"{why}\n") if why else ("200 OK", text, "ok\n")
        return "404 Not Found", text, "there are /metrics, /livez and /readyz\n"

    def _not_ready(self) -> str | None:
        if not self._worker.started.is_set():
            return "the worker has not begun"
        if self._worker.stopping:
            return "the worker is stopping"
        return None if self._worker.reachable else "the store cannot be written"
