"""Server-sent events: bounded in number, kept alive, and over when the other side is gone or may not read them any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from windlass.clock import ticking
from windlass.errors import WindlassError
from windlass.web.answers import Events
from windlass.web.encoding import encoded
from windlass.web.gate import log
from windlass.web.identity import caller_of
from windlass.web.problems import Trouble, problem_of, trouble_of
from windlass.web.request import Request
from windlass.web.site import Site, Who

ALIVE: Final = 15.0  # seconds of silence, then a comment: proxies close what says nothing
STALLED: Final = 60.0  # seconds that a reader may leave what was sent to it; it keeps the place of another
WELCOME: Final = 15.0  # seconds after which a reader is looked at again: a token may have been revoked


def stream(site: Site, request: Request[Any, Any], answer: Events) -> Response:
    who = request.principal.who
    if request.http.method == "HEAD":  # whoever asks for no body would wait for its end
        return Response(media_type="text/event-stream")
    open_streams = site.streams
    if sum(open_streams.values()) >= site.bounds.streams or open_streams[who] >= site.bounds.streams_each:
        raise Trouble(429, "too-many-streams", "too many streams of events are open", retry_after=10)
    open_streams[who] += 1
    return EventResponse(site, who, _written(site, request, answer))


class _Stalled(Exception):
    """Who reads does not."""


class EventResponse(StreamingResponse):
    """Counted from the moment it is promised until it is over, however that comes."""

    def __init__(self, site: Site, who: Who, source: AsyncIterator[bytes]) -> None:
        super().__init__(source, media_type="text/event-stream")
        self._site = site
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def within_time(message: Message) -> None:
            try:
                async with asyncio.timeout(STALLED):
                    await send(message)
            except TimeoutError:
                raise _Stalled from None

        try:
            await super().__call__(scope, receive, within_time)
        except* _Stalled:
            log.info("a reader of events took nothing for %g s and was left", STALLED)
        finally:
            self._site.streams[self._who] -= 1


async def _written(site: Site, request: Request[Any, Any], answer: Events) -> AsyncIterator[bytes]:
    source, looked = aiter(answer.source), ticking()
    coming: asyncio.Future[tuple[str, Any]] | None = None
    yield b"retry: 3000\n\n"
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(source))
            done, _ = await asyncio.wait({coming}, timeout=ALIVE)
            try:
                if ticking() - looked >= WELCOME:
                    await _check_still_welcome(site, request)
                    looked = ticking()
                if not done:
                    yield b": still here\n\n"
                    continue
                told, coming = coming, None
                name, value = told.result()
            except StopAsyncIteration:
                yield b"event: end\ndata: {}\n\n"
                return
            except WindlassError as error:
                yield _event("problem", problem_of(trouble_of(error), request.correlation_id))
                return
            yield _event(name, value)
    finally:
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration, WindlassError):
                await coming
        closing = getattr(answer.source, "aclose", None)
        if closing is not None:
            await closing()


async def _check_still_welcome(site: Site, request: Request[Any, Any]) -> None:
    if (await caller_of(site, request.http)).principal != request.principal:
        raise Trouble(401, "unauthenticated", "what let you in is not valid any more, or not for the same")


def _event(name: str, value: Any) -> bytes:
    """JSON of ours holds no line break, so one line of data is enough."""
    return b"event: " + name.encode() + b"\ndata: " + encoded(value) + b"\n\n"
