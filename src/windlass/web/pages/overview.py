"""`/`: how things are."""

from __future__ import annotations

from windlass.web.answers import Page
from windlass.web.request import Request


async def show(request: Request[None, None]) -> Page:
    return Page("overview.html", {"overview": await request.admin.overview()})
