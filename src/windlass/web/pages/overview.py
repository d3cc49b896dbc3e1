"""`/`: how things are."""

from __future__ import annotations

from windlass.web.answers import Page
from windlass.web.pages.shell import Told, page
from windlass.web.request import Request


async def show(request: Request[Told, None]) -> Page:
    return await page(request, "overview.html", "overview", {"overview": await request.admin.overview()})
