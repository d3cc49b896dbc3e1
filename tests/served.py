"""One server on loopback for as many stores as tests ask for: each has a path of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from windlass import Windlass
from windlass.drivers.protocol import Driver
from windlass.principal import SCOPES, Principal
from windlass.web.access import Access
from windlass.web.app import web_app
from windlass.web.bounds import Bounds
from windlass.web.serving import address, bound, serve

TESTER = Principal(actor="tester", scopes=frozenset(SCOPES))
BOUNDS = Bounds(rate=1e9, burst=10**9, lease=1e12)


class Server:
    """Serves in a thread of its own until it is stopped."""

    def __init__(self) -> None:
        self._stores: dict[str, Any] = {}
        self._apps: list[Windlass] = []
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._socket = bound("127.0.0.1", 0)
        self.url = address(self._socket, None)
        self._thread = threading.Thread(target=self._run, name="served", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_until_complete(serve(self, self._socket, self._stop))
        for app in self._apps:
            self._loop.run_until_complete(app.client.close())
        self._loop.run_until_complete(self._end())

    async def _end(self) -> None:
        """Ears at stores that are closed."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        name = scope["path"].split("/")[1]
        await self._stores[name](scope, receive, send)

    def store(
        self, driver: Driver | None = None, *, access: Access | None = None, trust_now: bool = True, **app: Any
    ) -> str:
        """Serve a store, and answer its URL. By default everybody may do everything, at any time they say."""
        made = Windlass("memory://", driver=driver)
        name = f"s{len(self._apps)}"
        self._apps.append(made)
        given = access or Access(anonymous=TESTER)
        self._stores[name] = web_app(made, access=given, base_path=name, bounds=BOUNDS, trust_now=trust_now)
        return f"{self.url}{name}/"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()
        self._socket.close()
