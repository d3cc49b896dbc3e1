"""`GET /api/openapi.json`."""

from __future__ import annotations

from typing import Any

from windlass.web.openapi import described
from windlass.web.request import Request
from windlass.web.site import site_of


async def openapi(request: Request[None, None]) -> dict[str, Any]:
    """This description."""
    return described(site_of(request.http).routes, [request.url("") or "/"])
