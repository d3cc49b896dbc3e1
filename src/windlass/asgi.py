"""Windlass in FastAPI, Starlette and their like: a lifespan, and a dependency. The dashboard is mounted as any other
application is: `api.mount("/windlass", web_app(jobs, access=…))`.

    api = FastAPI(lifespan=lifespan(jobs))
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final

from windlass.app import Windlass
from windlass.errors import InvalidInput
from windlass.extras import MissingExtra

try:
    from starlette.requests import HTTPConnection
except ModuleNotFoundError as error:
    raise MissingExtra("server", "starlette") from error

STATE: Final = "windlass"
Lifespan = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]


def lifespan(
    jobs: Windlass, *, worker: bool = False, around: Lifespan | None = None, **options: Any
) -> Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """Keep the store open while the application runs, so that errors show at the start.

    With `worker`, the process is also a worker, with the options of `app.running()`. That is fine for small programs, but
    then every server process is a worker and shares its event loop with requests. `around` is a lifespan of your own,
    which begins before this one and ends after it."""

    @asynccontextmanager
    async def span(app: Any) -> AsyncIterator[Mapping[str, Any]]:
        async with AsyncExitStack() as stack:
            state = await stack.enter_async_context(around(app)) if around is not None else None
            await stack.enter_async_context(jobs)
            await jobs.client.ready()
            if worker:
                await stack.enter_async_context(jobs.running(**options))
            app.state.windlass = jobs
            yield {**(state or {}), STATE: jobs}

    return span


def jobs_of(connection: HTTPConnection) -> Windlass:
    """The app of `lifespan`, as a dependency that tests can override: `jobs: Annotated[Windlass, Depends(jobs_of)]`."""
    found = getattr(connection.app.state, STATE, None)
    if not isinstance(found, Windlass):
        raise InvalidInput("lifespan", "this application has no Windlass; write FastAPI(lifespan=lifespan(jobs))")
    return found
