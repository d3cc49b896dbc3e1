"""Server-sent events: bounded in number, kept alive, and over when the other side is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from windlass.errors import WindlassError
from windlass.web.answers import Events
from windlass.web.encoding import encoded
from windlass.web.problems import Trouble, problem_of, trouble_of
from windlass.web.request import Request
from windlass.web.site import Site

ALIVE: Final = 15.0  # seconds of silence, then a comment: proxies close what says nothing


def stream(site: Site, request: Request[Any, Any], answer: Events) -> Response:
    actor = request.principal.actor
    open_streams = site.streams
    if sum(open_streams.values()) >= site.bounds.streams or open_streams[actor] >= site.bounds.streams_each:
        raise Trouble(429, "too-many-streams", "too many streams of events are open", retry_after=10)
    open_streams[actor] += 1
    return EventResponse(site, actor, _written(answer, request.correlation_id))


class EventResponse(StreamingResponse):
    """Counted from the moment it is promised until it is over, however that comes."""

    def __init__(self, site: Site, actor: str, source: AsyncIterator[bytes]) -> None:
        super().__init__(source, media_type="text/event-stream")
        self._site = site
        self._actor = actor

    async def __call__(self, *args: Any) -> None:
        try:
            await super().__call__(*args)
        finally:
            self._site.streams[self._actor] -= 1


async def _written(answer: Events, correlation_id: str) -> AsyncIterator[bytes]:
    source = aiter(answer.source)
    coming: asyncio.Future[tuple[str, Any]] | None = None
    yield b"retry: 3000\n\n"
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(source))
            done, _ = await asyncio.wait({coming}, timeout=ALIVE)
            if not done:
                yield b": still here\n\n"
                continue
            told, coming = coming, None
            try:
                name, value = told.result()
            except StopAsyncIteration:
                yield b"event: end\ndata: {}\n\n"
                return
            except WindlassError as error:
                yield _event("problem", problem_of(trouble_of(error), correlation_id))
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


def _event(name: str, value: Any) -> bytes:
    """JSON of ours holds no line break, so one line of data is enough."""
    return b"event: " + name.encode() + b"\ndata: " + encoded(value) + b"\n\n"
