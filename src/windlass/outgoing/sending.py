"""One request, kept within bounds: no redirect is followed, no proxy or environment is asked, a name is resolved once, and
the connection goes to the very address that was judged. A receiver gets so much time and is listened to for so long.

httpcore2 (of the extra `server`) is imported when something is to be sent.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote, urlsplit

from windlass import __version__
from windlass.clock import SECOND, instant, since_boot
from windlass.config import Settings, pieces
from windlass.core.webhooks import RESPONSE_MOST, Answer
from windlass.errors import InvalidInput
from windlass.outgoing.addresses import Networks
from windlass.redaction import redact_text
from windlass.types import Micros

if TYPE_CHECKING:
    import httpcore2

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
READ_MOST: Final = 4 * RESPONSE_MOST + 4_096  # bytes of an answer that are read: a character has at most four; and what a
# secret needs that begins before the end of what is kept, because half of it would not be known for one
PORTS: Final = {"https": 443, "http": 80}


class Forbidden(InvalidInput):
    """A request must not go there."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__("url", problem)


async def resolve(host: str, port: int) -> Sequence[str]:
    """Every address of a name. A numeral in whatever notation is one as well: the system's own reading of it counts. In a
    thread of its own: a name server that keeps silent must not take those that others wait for."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Any]] = loop.create_future()

    def tell(found: list[Any] | None, error: Exception | None) -> None:
        if answer.done():  # nobody waits any more
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(found or [])

    def ask() -> None:
        found, failure = None, None
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            failure = error
        with suppress(RuntimeError):  # that loop is gone
            loop.call_soon_threadsafe(tell, found, failure)

    threading.Thread(target=ask, name="windlass-resolve", daemon=True).start()
    return list(dict.fromkeys(str(entry[4][0]) for entry in await answer))


class Sends(Protocol):
    """What deliveries need of a sender."""

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> Answer: ...


class Sender:
    """`networks` may be called besides public ones, there also by plain http and at any port. Elsewhere it is https, at one
    of these ports."""

    def __init__(
        self, networks: Networks | None = None, *, ports: Sequence[int] = (443,), timeout: Micros = 20 * SECOND,
        resolve: Resolve = resolve, tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self.timeout: Final = timeout
        self._networks = networks or Networks()
        self._ports = tuple(ports)
        self._resolve = resolve
        self._tls = tls
        self._is_ready = False

    @classmethod
    def from_settings(cls, settings: Settings) -> Sender:
        ports = tuple(int(port) for port in pieces(settings.webhook_ports))
        return cls(Networks(settings.webhook_networks), ports=ports, timeout=settings.webhook_timeout)

    async def check(self, url: str) -> Sequence[str]:
        """The addresses behind a URL, all of which may be called. `Forbidden` when one of them may not, `OSError` when
        there is none."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or PORTS[parts.scheme]
        return await self.addresses(host, port, secure=parts.scheme == "https")

    async def addresses(self, host: str, port: int, *, secure: bool) -> Sequence[str]:
        found = await self._resolve(host.removesuffix("."), port)  # a dot ends a name, and hides a numeral
        if not found:
            raise OSError(f"{host} has no address")
        if not self._networks.allow(found):
            raise Forbidden(f"{host} leads to an address that is not of the public internet (setting webhook_networks)")
        if not self._networks.list_all(found):
            if not secure:
                raise Forbidden("must begin with https://: what is sent to the public internet is not for everybody's eyes")
            if port not in self._ports:
                raise Forbidden(f"port {port} is not one of {', '.join(map(str, self._ports))} (setting webhook_ports)")
        return found

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> Answer:
        """What came of it. Nothing is raised for what a receiver does or fails to do."""
        began = since_boot()
        try:
            async with asyncio.timeout(self.timeout / SECOND):
                return await self._post(url, headers, content, began)
        except TimeoutError:
            error = f"no whole answer within {self.timeout / SECOND:g} s"
        except Forbidden as forbidden:
            error = forbidden.problem
        except Exception as failure:  # of the network, of TLS, of HTTP: whatever a stranger can do wrong
            error = f"{type(failure).__name__}: {failure}"
        return Answer(took=since_boot() - began, error=error)

    async def _post(self, url: str, headers: Mapping[str, str], content: bytes, began: Micros) -> Answer:
        if self._tls is None or not self._is_ready:
            self._tls, self._is_ready = await asyncio.to_thread(_prepared, self._tls), True
        import httpcore2

        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode() if not (parts.hostname or "").isascii() else parts.hostname
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        address = httpcore2.URL(scheme=parts.scheme, host=host or "", port=parts.port, target=_quoted(target))
        sent = {
            "host": parts.netloc if parts.netloc.isascii() else f"{host}" + (f":{parts.port}" if parts.port else ""),
            "user-agent": f"windlass/{__version__}", "content-type": "application/json",
            "content-length": str(len(content)), "connection": "close", **headers,
        }  # fmt: skip
        opened: list[httpcore2.AsyncNetworkStream] = []
        try:
            pool = httpcore2.AsyncConnectionPool(
                ssl_context=self._tls, network_backend=guarded(self, opened, secure=parts.scheme == "https"), retries=0,
                max_keepalive_connections=0,
            )  # fmt: skip
            lines = [(name.encode(), value.encode()) for name, value in sent.items()]
            async with pool, pool.stream("POST", address, headers=lines, content=content) as response:
                said = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
                body = await _beginning(response)
        finally:
            for stream in opened:  # one whose time was over in the middle of a handshake is nobody else's to close
                with suppress(Exception):
                    await stream.aclose()
        text = redact_text(body.decode("utf-8", "replace"))
        error = "redirects are not followed" if 300 <= response.status < 400 else None
        return Answer(
            took=since_boot() - began, status=response.status, body=text, error=error and f"{error} ({response.status})",
            retry_after=pause_asked(said),
        )  # fmt: skip


async def _beginning(response: httpcore2.Response) -> bytes:
    """The rest is not read: it may have no end. What breaks off has said its status, which is what counts."""
    import httpcore2

    body = b""
    with suppress(httpcore2.NetworkError, httpcore2.ProtocolError):
        async for chunk in response.aiter_stream():
            body += chunk[: READ_MOST - len(body)]
            if len(body) >= READ_MOST:
                break
    return body


def _prepared(given: ssl.SSLContext | None) -> ssl.SSLContext:
    """Modules and certificates are read here, apart from the event loop, which others need meanwhile."""
    import httpcore2  # noqa: F401 - so that it is there

    return given or ssl.create_default_context()


def guarded(sender: Sender, opened: list[httpcore2.AsyncNetworkStream], *, secure: bool) -> httpcore2.AsyncNetworkBackend:
    """Connections to addresses that were judged: the name is resolved here, once, and what is connected to is what it
    resolved to. The certificate is still checked against the name. What is opened is noted."""
    import httpcore2

    plain = httpcore2.AnyIOBackend()

    class Guarded(httpcore2.AsyncNetworkBackend):
        async def connect_tcp(
            self, host: str, port: int, timeout: float | None = None, local_address: str | None = None,
            socket_options: Any = None,
        ) -> httpcore2.AsyncNetworkStream:  # fmt: skip
            failure: Exception = OSError(f"{host} has no address")
            for address in await sender.addresses(host, port, secure=secure):
                try:
                    stream = await plain.connect_tcp(address, port, timeout, local_address, socket_options)
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                    failure = error
                else:
                    opened.append(stream)
                    return stream
            raise failure

        async def connect_unix_socket(
            self, path: str, timeout: float | None = None, socket_options: Any = None
        ) -> httpcore2.AsyncNetworkStream:
            raise Forbidden("must not lead to a socket of this machine")

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(seconds)

    return Guarded()


def pause_asked(headers: Mapping[str, str]) -> Micros | None:
    """`Retry-After`, in seconds or as a date compared with the receiver's own `Date`: its clock need not be ours."""
    said = headers.get("retry-after", "").strip()
    if said.isascii() and said.isdecimal():
        return min(int(said[:12]), 10**9) * SECOND
    from email.utils import parsedate_to_datetime  # seldom needed, and with it comes much

    try:
        until = instant(parsedate_to_datetime(said))
        return max(until - instant(parsedate_to_datetime(headers["date"])), 0)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, InvalidInput):
        return None


def _quoted(target: str) -> bytes:
    """What a browser would send of a path that was typed with letters beyond ASCII."""
    return quote(target, safe="%/:?#[]@!$&'()*+,;=-._~").encode()
