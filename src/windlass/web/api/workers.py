"""`/api/workers`, and `POST /api/jobs/tick`: a worker for one request."""

from __future__ import annotations

from dataclasses import asdict

from msgspec import Struct

from windlass.admin.views import Fleet
from windlass.web.api.asking import Count
from windlass.web.problems import Trouble
from windlass.web.request import Request


class TickWish(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Count = 10


class Ticked(Struct, frozen=True):
    """What was done."""

    ok: bool
    claimed: int
    succeeded: int
    retried: int
    dead: int
    snoozed: int
    cancelled: int
    released: int
    recovered: int


async def listed(request: Request[None, None]) -> Fleet:
    """Who is registered as a worker, who of them lives, and who leads."""
    return await request.admin.workers()


async def tick(request: Request[None, TickWish]) -> Ticked:
    """Claim at most `limit` runnable jobs, execute them in this process, settle them with backoff; then answer what
    happened."""
    if not request.app.tasks:
        raise Trouble(409, "no-tasks", "this server knows no tasks, so it cannot run jobs; serve the program that has them")
    did = await request.app.tick(min(request.body.limit, request.bounds.tick))
    if did.store_errors or did.settled_late:
        raise Trouble(503, "tick-failed", "the store did not take every outcome; what was not settled will run again")
    counts = asdict(did)
    return Ticked(True, **{name: counts[name] for name in Ticked.__struct_fields__ if name != "ok"})
