"""Groups and dependencies as people see them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from windlass.admin.filtering import last_run_of
from windlass.admin.views import JobView, LinkView, job_view
from windlass.client import Client
from windlass.clock import moment
from windlass.core.admission import BATCH_LIMIT, check_limit
from windlass.core.groups import GroupStatus, Progress, progress_of
from windlass.core.queries import DependantsOf, GroupMembers, MembersOf, NewestGroups, ParentsOf
from windlass.groups import GroupHandle
from windlass.types import Dependency, Group, GroupMode, OnFailure
from windlass.words import System


class GroupView(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    mode: GroupMode
    on_failure: OnFailure
    status: GroupStatus
    total: int
    succeeded: int
    failed: int
    skipped: int  # died where failures are forgiven
    cancelled: int
    running: int
    waiting: int
    created_at: datetime
    finished_at: datetime | None


class GroupList(Struct, frozen=True, kw_only=True):
    """The newest groups. `more`: there are others."""

    at: datetime
    groups: tuple[GroupView, ...]
    more: bool


class GroupDetail(Struct, frozen=True, kw_only=True):
    """A group with its members in their order. `more`: there are others behind them."""

    at: datetime
    group: GroupView
    members: tuple[JobView, ...]
    more: bool = False


async def all_groups(client: Client, limit: int) -> GroupList:
    check_limit(limit)
    rows = await client.driver.read(NewestGroups(limit=min(limit + 1, BATCH_LIMIT)))
    shown = rows[:limit]
    members = await client.driver.read(MembersOf(ids=tuple(row.group_id for row in shown)))
    views = tuple(group_view(row, progress_of(row, members)) for row in shown)
    return GroupList(at=moment(client.now()), groups=views, more=len(rows) > limit)


async def one_group(client: Client, group_id: str, system: System | None, limit: int | None) -> GroupDetail:
    group, now = GroupHandle(client, group_id), client.now()
    row, progress = await group.fetch(), await group.progress()
    if limit is None:
        members = await group.members()
    else:
        check_limit(limit)
        members = await client.driver.read(GroupMembers(group_id=group_id, limit=min(limit + 1, BATCH_LIMIT)))
    views = tuple(job_view(job, now, system, last_run_of(job), brief=True) for job in members[:limit])
    return GroupDetail(at=moment(now), group=group_view(row, progress), members=views, more=len(members) > len(views))


def group_view(row: Group, progress: Progress) -> GroupView:
    return GroupView(
        id=row.group_id, name=row.name, mode=row.mode, on_failure=row.on_failure, status=progress.status, total=row.total,
        succeeded=progress.succeeded, failed=progress.failed, skipped=progress.skipped, cancelled=progress.cancelled,
        running=progress.running, waiting=progress.waiting, created_at=moment(row.created_at),
        finished_at=None if row.finished_at is None else moment(row.finished_at),
    )  # fmt: skip


async def parents(client: Client, job_id: str) -> tuple[LinkView, ...]:
    edges = await client.driver.read(ParentsOf(job_id=job_id))
    return await _links(client, edges, [edge.parent_id for edge in edges])


async def dependants(client: Client, job_id: str) -> tuple[LinkView, ...]:
    edges = await client.driver.read(DependantsOf(job_id=job_id))
    return await _links(client, edges, [edge.job_id for edge in edges])


async def _links(client: Client, edges: Sequence[Dependency], ids: Sequence[str]) -> tuple[LinkView, ...]:
    jobs = await client.driver.get(ids)
    return tuple(
        LinkView(
            id=job_id, type=None if job is None else job.type, state=None if job is None else job.state, rule=edge.rule,
            done=edge.done,
        )
        for edge, job_id, job in zip(edges, ids, jobs, strict=True)
    )  # fmt: skip
