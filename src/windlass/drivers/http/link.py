"""Requests to one server, from any thread and any event loop: a thread of ours has the loop on which its connections live.

A request has a deadline, attempts and pauses included. One that never left is sent again; one whose reply was lost is
sent again where that is harmless, and `Lost` where it is not.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ssl
import threading
from collections.abc import Coroutine
from random import SystemRandom
from typing import Any, Final, TypeVar

import httpx2
import msgspec

from windlass import __version__
from windlass.drivers.http.faults import error_of, problem_in
from windlass.drivers.http.place import Place
from windlass.errors import DriverClosed, StoreBusy, StoreUnreachable

T = TypeVar("T")
FIRST_PAUSE: Final = 0.05  # seconds between two attempts, doubled each time, less up to a half by chance
LONGEST_PAUSE: Final = 2.0
CONNECTIONS: Final = 32
PARTING: Final = 0.01  # seconds that closing connections have
KEPT: Final = 10.0  # seconds that an idle connection is kept: less than a server keeps it
UNSURE: Final = (200, 429, 502, 503, 504)  # statuses of answers after which the same may be asked again
_roll: Final = SystemRandom().random
_pause: Final = asyncio.sleep


async def paused(pause: float) -> float:
    """Between two attempts. Answers how long the next pause is."""
    await _pause(pause * (1 - _roll() / 2))
    return min(pause * 2, LONGEST_PAUSE)


class Lost(Exception):
    """The request may have been heard; no reply came."""


class Link:
    def __init__(self, place: Place, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._place = place
        self._transport = transport
        self._loop = asyncio.new_event_loop()
        self._client: httpx2.AsyncClient | None = None
        self._under_way: set[concurrent.futures.Future[Any]] = set()
        self._closing = asyncio.Event()
        self._is_closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="windlass-http", daemon=True)
        self._thread.start()

    def send(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Do it on our loop."""
        with self._lock:
            if self._is_closed:
                work.close()
                raise DriverClosed
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def close(self) -> None:
        """Blocking: what was sent before is answered. Waits end at once."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            under_way = list(self._under_way)
        self._loop.call_soon_threadsafe(self._closing.set)
        concurrent.futures.wait(under_way)
        asyncio.run_coroutine_threadsafe(self._part(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ------------------------------------------------------------------------------------------------------ on our loop

    async def ask(self, path: str, body: bytes | None, within: float, *, again: bool) -> bytes:
        """The answer to a request. `again`: to send it twice does no harm."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + within, FIRST_PAUSE
        is_lost, why = False, "it does not answer"
        while True:
            attempt = _Attempt()
            try:
                async with asyncio.timeout_at(deadline):
                    response = await self._request(path, body, attempt)
                if response.status_code < 300 and is_whole(response):
                    return response.content
                problem = problem_in(response.headers.get("content-type", ""), response.content)
                if response.status_code not in UNSURE or (problem and response.status_code != 429):
                    raise error_of(self._place.where, response.status_code, problem)
                attempt.was_sent = response.status_code != 429  # a proxy does not know either
                why = f"HTTP {response.status_code}" if response.status_code >= 300 else "the answer was cut"
                pause = max(pause, _seconds(response.headers.get("retry-after")))
            except httpx2.DecodingError as error:  # whoever compressed it, or changed it on its way
                attempt.was_sent = True
                why = f"the answer cannot be unpacked: {error}"
            except (httpx2.TransportError, TimeoutError, OSError) as error:
                why = str(error) or f"no answer within {within:g} s"
            is_lost = is_lost or attempt.was_sent
            if is_lost and not again:
                raise Lost(why)
            if loop.time() + pause >= deadline:
                if why == "HTTP 429":
                    raise StoreBusy(self._place.where, within, "more requests than it allows")
                raise StoreUnreachable(self._place.where, why)
            pause = await paused(pause)

    async def until_closed(self, work: Coroutine[Any, Any, T], instead: T) -> T:
        """What it answers, or `instead` as soon as we close."""
        doing, closing = asyncio.ensure_future(work), asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({doing, closing}, return_when=asyncio.FIRST_COMPLETED)
            return doing.result() if doing.done() else instead
        finally:
            for one in (doing, closing):
                one.cancel()
            await asyncio.gather(doing, closing, return_exceptions=True)

    async def _request(self, path: str, body: bytes | None, attempt: _Attempt) -> httpx2.Response:
        if self._client is None:
            self._client = self._opened()
        return await self._client.request(
            "GET" if body is None else "POST", self._place.base + path, content=body, extensions={"trace": attempt.trace}
        )

    def _opened(self) -> httpx2.AsyncClient:
        headers = {"User-Agent": f"windlass/{__version__}", "Content-Type": "application/json"}
        if self._place.token is not None:
            headers["Authorization"] = f"Bearer {self._place.token}"
        return httpx2.AsyncClient(
            headers=headers, timeout=None, trust_env=False, follow_redirects=False, transport=self._transport,
            verify=ssl.create_default_context() if self._place.base.startswith("https:") else False,
            limits=httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=KEPT),
        )  # fmt: skip

    async def _part(self) -> None:
        if self._client is not None:
            await self._client.aclose()
        await asyncio.get_running_loop().shutdown_asyncgens()
        await asyncio.sleep(PARTING)  # a connection is closed a moment after it was told to


class _Attempt:
    """Whether anything of a request has left."""

    def __init__(self) -> None:
        self.was_sent = False

    async def trace(self, event: str, info: Any) -> None:
        if event.endswith("send_request_headers.started"):
            self.was_sent = True


def is_whole(response: httpx2.Response) -> bool:
    """An answer that ends with its connection, and of which nobody says how long it is, tells itself whether it was cut."""
    if "content-length" in response.headers or "transfer-encoding" in response.headers:
        return True  # else there would have been an error
    body = response.content.strip()
    if body[:1] in (b"{", b"[") and body[-1:] not in (b"}", b"]"):
        return False
    try:
        msgspec.json.decode(body)
    except ValueError as error:  # of msgspec, or of what is no UTF-8
        return "truncated" not in str(error)
    return True


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdecimal() else 0.0
