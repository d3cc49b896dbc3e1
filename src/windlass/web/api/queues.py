"""`/api/queues`."""

from __future__ import annotations

from windlass.admin.views import Overview
from windlass.web.request import Request


async def listed(request: Request[None, None]) -> Overview:
    """Every queue with the number of its jobs by label, and whether it is paused."""
    return await request.admin.overview()
