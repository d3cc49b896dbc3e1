"""`/workers`: who works on this store, who leads, who has not been heard of."""

from __future__ import annotations

from collections import Counter

from windlass.admin.views import Filter
from windlass.web.answers import Events, Page
from windlass.web.pages.live import fragments
from windlass.web.pages.shell import Told, page
from windlass.web.request import Request

LONGEST = 10


async def show(request: Request[Told, None]) -> Page:
    fleet = await request.admin.workers()
    workers = sorted(fleet.workers, key=lambda one: (not one.alive, not one.is_leader, one.id))
    running = (await request.admin.jobs(Filter(state="running"), limit=LONGEST, first="oldest")).jobs
    versions = Counter(one.version for one in workers if one.alive)
    usual = versions.most_common(1)[0][0] if versions else None
    shown = {
        "fleet": fleet, "workers": workers, "alive": [one for one in workers if one.alive], "live": "/live/workers",
        "lost": [one for one in workers if not one.alive], "usual": usual,
        "longest": sorted(running, key=lambda job: job.started_at or job.created_at),
    }  # fmt: skip
    return await page(request, "workers.html", "workers", shown)


async def live(request: Request[Told, None]) -> Page | Events:
    return Events(fragments(request, show, "worker-list", "longest"))
