"""A web application in the foreground of a process: on loopback, unless credentials guard it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from windlass.admin import Admin
from windlass.errors import InvalidInput, shown
from windlass.urls import is_loopback
from windlass.web.access import LOCAL, LOOPBACK, Access, is_closed

PARTING: Final = 3  # seconds that open requests and streams have when we stop
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Tls:
    certificate: str
    key: str

    def check(self) -> None:
        """Whoever is told an address may use it at once."""
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
        except OSError as error:
            why = error.strerror or getattr(error, "reason", None) or error
            raise InvalidInput("tls-cert", f"{self.certificate} with {self.key} cannot be used: {why}") from None


async def guarded(admin: Admin, host: str, names: Sequence[str] = ()) -> Access:
    """Who may come in at this address. On loopback everybody, until somebody makes a token; elsewhere tokens only."""
    made = await admin.tokens()
    if not is_loopback(host) and not any(token.state == "good" for token in made.tokens):
        raise InvalidInput(
            "host", f"{host} can be reached by others and no token guards this store; make one first: "
            "windlass tokens create NAME --scope admin, or stay on 127.0.0.1"
        )  # fmt: skip
    own = () if is_loopback(host) else (socket.gethostname().lower(), host if ":" not in host else f"[{host}]")
    anonymous = LOCAL if is_loopback(host) and not is_closed(made) else None  # also when that token is revoked later
    return Access(anonymous=anonymous, until_token=True, hosts=(*LOOPBACK, *own, *names))


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there. Port 0 is any that is free."""
    if not 0 <= port <= 65_535:
        raise InvalidInput("port", f"must be a whole number from 0 to 65,535, got {shown(port)}")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InvalidInput(
                "port", f"{port} of {host} is in use already; give another with --port, or --port 0 for any that is free"
            ) from None
        raise InvalidInput("host", f"cannot listen on {host}:{port}: {error.strerror or error}") from None


def address(listening: socket.socket, tls: Tls | None, base_path: str = "") -> str:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'http' if tls is None else 'https'}://{shown}:{port}/{base_path.strip('/')}".rstrip("/") + "/"


async def serve(web: ASGIApp, listening: socket.socket, stop: asyncio.Event, *, tls: Tls | None = None) -> None:
    """Answer until `stop`."""
    config = uvicorn.Config(
        web, lifespan="off", log_config=None, access_log=False, server_header=False, ws="none", timeout_keep_alive=20,
        timeout_graceful_shutdown=PARTING, ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key, h11_max_incomplete_event_size=64 << 10,
    )  # fmt: skip
    server = _Server(config)
    serving = asyncio.create_task(server.serve([listening]), name="windlass-web")
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    server.should_exit = True
    await serving


class _Server(uvicorn.Server):
    """Signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def stopped_by_signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
