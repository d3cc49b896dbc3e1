"""What somebody who is bound to an org, or to queues, reads of a store. A question that is not known here is refused:
an answer that leaks is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from windlass.core.acting import By, beyond, has_token, is_theirs, owns_all, within
from windlass.core.limits import GLOBAL
from windlass.core.listing import Glimpsed, GlimpseJobs, Listed, ListJobs, Tally, TallyJobs
from windlass.core.queries import (
    AllEvents,
    AllGroups,
    AllHolds,
    AllLimits,
    AllQueues,
    AllSchedules,
    AllTemplates,
    AllTokens,
    AllWebhooks,
    AllWorkers,
    AuditPage,
    CountedUntil,
    DependantsOf,
    DueSchedules,
    EdgesOf,
    GroupMembers,
    GroupsById,
    InOrder,
    JobsAhead,
    LastAudited,
    LimitUses,
    MembersOf,
    NewestGroups,
    OwnersOf,
    ParentsOf,
    Query,
    RunningNow,
    SamplesAt,
    SamplesSince,
    SeenLately,
    StoreId,
    UsageBy,
    UsageSince,
)
from windlass.core.templates import decode_policies
from windlass.drivers.protocol import Driver
from windlass.errors import InvalidInput
from windlass.records import WorkerInfo
from windlass.types import Dependency, Limit, LimitUse, Template

HIDDEN: Final = "-"


async def narrowed(driver: Driver, by: By, query: Query[Any]) -> list[Any]:
    """The rows that are theirs."""
    keep = _ROWS.get(type(query))
    if keep is not None:
        return [row for row in await driver.read(query) if keep(by, row)]
    match query:
        case ListJobs() | GlimpseJobs() | TallyJobs():
            return await _search(driver, by, query)
        case DueSchedules():
            mine = {row.template_id for row in await driver.read(AllTemplates()) if _has_template(by, row)}
            return [row for row in await driver.read(query) if row.template_id in mine]
        case InOrder():
            return [job for job in await driver.read(query) if is_theirs(by, job)]
        case JobsAhead() | ParentsOf() | DependantsOf():
            return await _of_job(driver, by, query)
        case EdgesOf():
            return await _of_edges(driver, by, query)
        case AllGroups() | GroupsById() | GroupMembers() | MembersOf():
            return await _of_groups(driver, by, query)
        case NewestGroups():
            theirs = await _of_groups(driver, by, AllGroups())
            return sorted(theirs, key=lambda group: (group.created_at, group.group_id), reverse=True)[: query.limit]
        case AllWorkers():
            return [_nameless(worker) for worker in await driver.read(query)]
        case RunningNow():
            rows = await driver.read(query) if by.org_id is None else []
            return [replace(row, worker_id=HIDDEN) for row in rows if within(by, None, row.queue)]
        case LimitUses():
            return [await _use(driver, by, use) for use in await driver.read(query)]
        case AuditPage():
            return await _of_audit(driver, by, query)
        case UsageBy():
            return await _of_usage(driver, by, query)
        case CountedUntil() | LastAudited() | StoreId():
            return await driver.read(query)
        case AllSchedules():
            mine = {row.template_id for row in await driver.read(AllTemplates()) if _has_template(by, row)}
            return [row for row in await driver.read(query) if row.template_id in mine]
    raise beyond(by, type(query).__name__)


async def _search(driver: Driver, by: By, query: ListJobs | GlimpseJobs | TallyJobs) -> list[Any]:
    wish = query.wish
    queues = tuple(queue for queue in wish.queues or by.queues or () if by.queues is None or queue in by.queues)
    if (by.org_id is not None and wish.org_id not in (None, by.org_id)) or (by.queues is not None and not queues):
        return [_NOTHING[type(query)]]
    theirs: Query[Any] = replace(query, wish=replace(wish, org_id=by.org_id or wish.org_id, queues=queues))
    [found] = await driver.read(theirs)
    own = found.jobs if isinstance(found, Tally) else len(found.jobs)
    return [replace(found, looked_at=own)]  # how many others there were on the way is not theirs to know


async def _of_job(driver: Driver, by: By, query: JobsAhead | ParentsOf | DependantsOf) -> list[Any]:
    [job] = await driver.get([query.job_id])
    if job is None or not is_theirs(by, job):
        return []
    found: Sequence[Any] = await driver.read(query)
    if isinstance(query, JobsAhead):
        return list(found)
    edges: Sequence[Dependency] = found
    others = [edge.parent_id if isinstance(query, ParentsOf) else edge.job_id for edge in edges]
    ends = await driver.get(others)
    return [edge for edge, end in zip(edges, ends, strict=True) if is_theirs(by, end)]


async def _of_groups(driver: Driver, by: By, query: AllGroups | GroupsById | GroupMembers | MembersOf) -> list[Any]:
    rows: Sequence[Any] = await driver.read(query)
    ids = tuple(dict.fromkeys(row.group_id for row in rows))
    owners: dict[str, list[tuple[str | None, str]]] = {}
    for owner in await driver.read(OwnersOf(ids=ids)) if ids else []:
        owners.setdefault(owner.group_id, []).append((owner.org_id, owner.queue))
    return [row for row in rows if row.group_id in owners and owns_all(by, owners[row.group_id])]


async def _of_edges(driver: Driver, by: By, query: EdgesOf) -> list[Any]:
    if not await _of_groups(driver, by, GroupsById(ids=(query.group_id,))):
        return []
    edges = await driver.read(query)
    ids = tuple(dict.fromkeys(end for edge in edges for end in (edge.job_id, edge.parent_id)))
    theirs = {job.id for job in await driver.get(ids) if job is not None and is_theirs(by, job)}
    return [edge for edge in edges if edge.job_id in theirs and edge.parent_id in theirs]


async def _of_audit(driver: Driver, by: By, query: AuditPage) -> list[Any]:
    """Lines do not tell which queues they concern: whoever is bound to some is shown what was done in their own name.
    Somebody of an org may have the same."""
    org_id = by.org_id if by.org_id is not None else query.org_id
    if by.queues is None or by.org_id is not None:
        actor = query.actor if by.queues is None else by.actor
        return await driver.read(replace(query, org_id=org_id, actor=actor))
    own: list[Any] = []
    page = replace(query, org_id=org_id, actor=by.actor)
    while len(own) < query.limit:
        rows = await driver.read(page)
        own += [row for row in rows if row.line.org_id is None]
        if len(rows) < page.limit:
            break
        page = replace(page, before=rows[-1].number)
    return own[: query.limit]


async def _of_usage(driver: Driver, by: By, query: UsageBy) -> list[Any]:
    if by.org_id is not None and query.org_id not in (None, by.org_id):
        return []
    queues = query.queues
    if by.queues is not None:
        queues = tuple(queue for queue in by.queues if queues is None or queue in queues)
    org_id = by.org_id if by.org_id is not None else query.org_id
    return await driver.read(replace(query, org_id=org_id, queues=queues))


async def _use(driver: Driver, by: By, use: LimitUse) -> LimitUse:
    jobs = await driver.get(use.holders)
    return replace(use, holders=tuple(job.id for job in jobs if job is not None and is_theirs(by, job)))


def _nameless(worker: WorkerInfo) -> WorkerInfo:
    """That somebody works on a queue may be known; on which machine, not."""
    return replace(worker, id=HIDDEN, hostname=HIDDEN, pid=0)


def _has_template(by: By, row: Template) -> bool:
    try:
        org_id = decode_policies(row).org_id
    except InvalidInput:  # a newer version's: it may be anybody's
        return by.org_id is None and within(by, None, row.queue)
    return within(by, org_id, row.queue)


def _has_limit(by: By, limit: Limit) -> bool:
    kind, _, name = limit.key.partition(":")
    if kind == "org":
        return by.org_id is None or name == by.org_id
    return kind != "queue" or limit.key == GLOBAL or by.queues is None or name in by.queues


# Rows that tell by themselves whose they are. What a queue with the jobs of several orgs has done is nobody's alone.
_ROWS: Final[dict[type[Any], Callable[[By, Any], bool]]] = {
    AllQueues: lambda by, row: by.queues is None or row.name in by.queues,
    AllHolds: lambda by, row: by.queues is None or row.queue in by.queues,
    AllLimits: _has_limit,
    AllTokens: has_token,
    AllTemplates: _has_template,
    AllWebhooks: lambda by, row: by.queues is None and row.org_id == by.org_id,
    AllEvents: lambda by, row: by.queues is None and row.org_id == by.org_id,
    SamplesSince: lambda by, row: by.org_id is None and within(by, None, row.queue),
    SamplesAt: lambda by, row: by.org_id is None and within(by, None, row.queue),
    SeenLately: lambda by, row: within(by, row.org_id, row.queue),
    UsageSince: lambda by, row: within(by, row.org_id or None, row.queue),
}

_NOTHING: Final[dict[type[Any], Any]] = {
    ListJobs: Listed(jobs=(), after=None, looked_at=0), GlimpseJobs: Glimpsed(jobs=(), after=None, looked_at=0),
    TallyJobs: Tally(jobs=0, complete=True, looked_at=0),
}  # fmt: skip
