"""Groups and dependencies as people see them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from msgspec import Struct

from windlass.admin.filtering import last_run_of
from windlass.admin.showing import looked_through
from windlass.admin.views import JobView, LinkView, job_view
from windlass.client import Client
from windlass.clock import moment
from windlass.core.fields import BATCH_LIMIT, check_limit
from windlass.core.groups import GroupStatus, Progress, progress_of
from windlass.core.queries import DependantsOf, EdgesOf, GroupMembers, MembersOf, NewestGroups, ParentsOf
from windlass.groups import GroupHandle
from windlass.types import AfterRule, Dependency, Group, GroupMode, Job, OnFailure
from windlass.words import System

OUTSIDE: Final = 200  # jobs that are not of a group and are shown with it, at least


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


class EdgeView(Struct, frozen=True, kw_only=True):
    """One job waits for another, or has waited. Of a retry chain it names the link that stands for it now."""

    job_id: str
    parent_id: str
    rule: AfterRule  # when the parent ends badly
    done: bool  # the end of the parent was told


class GroupDetail(Struct, frozen=True, kw_only=True):
    """A group with its members in their order. `more`: there are others behind them. `edges`: who of these members waits
    for whom, and who outside waits for them; `others`: the jobs outside, such as a finaliser."""

    at: datetime
    group: GroupView
    members: tuple[JobView, ...]
    more: bool = False
    edges: tuple[EdgeView, ...] = ()
    others: tuple[JobView, ...] = ()


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
    more, members = limit is not None and len(members) > limit, members[:limit]
    edges, others = await _woven(client, group_id, members)
    jobs = [*members, *others]
    views = await looked_through(jobs, lambda: [job_view(job, now, system, last_run_of(job), brief=True) for job in jobs])
    return GroupDetail(
        at=moment(now), group=group_view(row, progress), edges=edges, more=more, members=tuple(views[: len(members)]),
        others=tuple(views[len(members) :]),
    )  # fmt: skip


async def _woven(client: Client, group_id: str, members: Sequence[Job]) -> tuple[tuple[EdgeView, ...], list[Job]]:
    """The edges of these members between the last links of chains, and the jobs outside that they lead to; where those are
    very many, the first of them: each is read whole."""
    known = {job.id: job for job in members}
    if not known:
        return (), []
    rows = await client.driver.read(EdgesOf(group_id=group_id, members=min(2 * len(known) + 100, BATCH_LIMIT)))
    heads = dict[str, str]()
    others = dict[str, Job]()
    ends = dict.fromkeys(end for edge in rows for end in (edge.job_id, edge.parent_id) if end not in known)
    asked = {end: end for end in islice(ends, 2 * len(known) + OUTSIDE)}
    passed = {(end, end) for end in asked}  # SQL by hand may have made a circle
    unasked = ends.keys() - asked.keys()
    while asked:  # one step along every chain at a time
        found = await client.driver.get(tuple(asked.values()))
        later = dict[str, str]()
        for first, job in zip(asked, found, strict=True):
            if job is None:
                continue
            following = job.superseded_by
            if following is not None and following not in known and (first, following) not in passed:
                later[first] = following
                passed.add((first, following))
                continue
            heads[first] = job.superseded_by or job.id
            if heads[first] not in known and job.group_id != group_id:  # a member that is not shown is no stranger
                others[job.id] = job
        asked = later
    edges = dict[tuple[str, str], EdgeView]()
    for edge in rows:
        if not unasked.isdisjoint((edge.job_id, edge.parent_id)):
            continue
        job_id, parent_id = heads.get(edge.job_id, edge.job_id), heads.get(edge.parent_id, edge.parent_id)
        if (job_id in known or job_id in others) and (parent_id in known or job_id in known):
            edges[job_id, parent_id] = EdgeView(job_id=job_id, parent_id=parent_id, rule=edge.rule, done=edge.done)
    return tuple(edges.values()), sorted(others.values(), key=lambda job: job.seq)


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
