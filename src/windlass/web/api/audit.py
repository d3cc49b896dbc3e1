"""`GET /api/audit`: who did what."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.admin.audit import AuditList
from windlass.web.api.asking import Instant, Limit
from windlass.web.request import Request


class AuditQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    actor: Annotated[str | None, Meta(description="only what they did, such as token:ci")] = None
    action: Annotated[str | None, Meta(description="such as job.cancel, or job for all that was done to jobs")] = None
    subject: Annotated[str | None, Meta(description="such as job:ID or queue:mail")] = None
    since: Instant | None = None
    limit: Limit = 50
    cursor: Annotated[int, Meta(ge=0)] | None = None


async def listed(request: Request[AuditQuery, None]) -> AuditList:
    """Who changed what, how it was chosen and how many it were, newest first."""
    asked = request.query
    return await request.admin.audit(
        limit=request.page(asked.limit), cursor=asked.cursor, since=asked.since, actor=asked.actor, action=asked.action,
        subject=asked.subject,
    )  # fmt: skip
