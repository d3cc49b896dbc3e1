"""`/livez` and `/readyz`: does this process answer, and does its store. They tell nobody more than that."""

from __future__ import annotations

import asyncio
from typing import Final

from windlass.web.answers import Text
from windlass.web.problems import Trouble
from windlass.web.request import Request

PATIENCE: Final = 2.0


async def live(request: Request[None, None]) -> Text:
    """This process answers."""
    return Text("ok\n")


async def ready(request: Request[None, None]) -> Text:
    """The store answers, too."""
    try:
        async with asyncio.timeout(PATIENCE):
            await request.admin.ping()
    except TimeoutError:
        raise Trouble(503, "store-unavailable", "the store does not answer now", retry_after=1) from None
    return Text("ok\n")
