"""`/api/groups`: jobs that belong together."""

from __future__ import annotations

from msgspec import Struct

from windlass.admin.groups import GroupDetail, GroupList
from windlass.web.api.asking import Limit, Limited, Spoken
from windlass.web.api.jobs import Reason
from windlass.web.request import Request


class GroupQuery(Spoken, frozen=True):
    limit: Limit = 200


class GroupChanged(Struct, frozen=True):
    """`what`: cancelled, requested (some of it still runs), or queued again."""

    group_id: str
    what: str
    jobs: int | None = None


async def listed(request: Request[Limited, None]) -> GroupList:
    """The newest groups, and how far each is."""
    return await request.admin.groups(request.page(request.query.limit))


async def show(request: Request[GroupQuery, None]) -> GroupDetail:
    """One group with its first members in their order; `GET /api/jobs?group_id=` pages through all of them."""
    asked = request.query
    return await request.admin.group(request.path["group_id"], system=asked.words, limit=request.page(asked.limit))


async def cancel(request: Request[None, Reason]) -> GroupChanged:
    """Cancel what has not ended."""
    group = request.path["group_id"]
    return GroupChanged(group, await request.admin.cancel_group(group, request.body.reason))


async def retry(request: Request[None, None]) -> GroupChanged:
    """Run members again that died or were skipped."""
    group = request.path["group_id"]
    return GroupChanged(group, "queued again", await request.admin.retry_group(group))
