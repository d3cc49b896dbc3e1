"""A served store, in process: requests go straight to the ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import httpx2

from windlass import Windlass
from windlass.web.access import LOCAL, Access
from windlass.web.app import web_app
from windlass.web.bounds import Bounds

BASE = "http://localhost"
Promise = Callable[..., Awaitable[None]]


class Desk:
    """A program with a task or two, its web application, and a client that is whoever `access` says."""

    def __init__(
        self, access: Access | None = None, base_path: str = "", url: str = "memory://", bounds: Bounds | None = None
    ) -> None:
        self.app = Windlass(url)
        self.web = web_app(self.app, access=access or Access(anonymous=LOCAL), base_path=base_path, bounds=bounds)

        @self.app.task
        async def add(a: int, b: int) -> int:
            return a + b

        self.add = add

    @asynccontextmanager
    async def client(self, **said: Any) -> AsyncIterator[httpx2.AsyncClient]:
        transport = httpx2.ASGITransport(app=self.web)
        async with httpx2.AsyncClient(transport=transport, **{"base_url": BASE, **said}) as client:
            yield client


def on_a_desk(promise: Callable[[Desk, httpx2.AsyncClient], Awaitable[None]]) -> Callable[[], None]:
    @wraps(promise)
    def test() -> None:
        async def main() -> None:
            desk = Desk()
            async with desk.app, desk.client() as client:
                await promise(desk, client)

        asyncio.run(main())

    del test.__wrapped__  # pytest would look for fixtures of these names
    return test
