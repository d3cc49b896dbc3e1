"""`GET /api/openapi.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from windlass.web.openapi import described
from windlass.web.request import Request

if TYPE_CHECKING:
    from windlass.web.site import Site


async def openapi(request: Request[None, None]) -> dict[str, Any]:
    """This description."""
    site = cast("Site", request.http.app.state.site)
    return described(site.routes, [request.url("") or "/"])
