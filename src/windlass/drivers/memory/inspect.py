"""Reading and counting."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from windlass.core.admission_of_queries import check_query
from windlass.core.eligibility import dispatch_order, is_promotable, label_of
from windlass.core.fields import check_characters, check_limit, check_name, check_now, check_queues
from windlass.core.history import RUNS_LIMIT, check_page, is_last
from windlass.core.limits import caps_of, next_refill
from windlass.core.listing import GlimpseJobs, ListJobs, TallyJobs
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
    AuditLog,
    AuditPage,
    CountedUntil,
    DeliveriesOf,
    DeliveryOf,
    DependantsOf,
    DueDeliveries,
    DueSchedules,
    EdgesOf,
    EndedJobs,
    Faults,
    GroupMembers,
    GroupsById,
    InOrder,
    JobsAhead,
    LastAudited,
    LeasedUnder,
    LimitUses,
    MembersOf,
    NewestGroups,
    NextRefill,
    OwnersOf,
    ParentsOf,
    Query,
    R,
    RunningNow,
    SamplesAt,
    SamplesSince,
    Seen,
    SeenLately,
    StoreId,
    TokenByDigest,
    UsageBy,
    UsageSince,
    WaitingEvents,
)
from windlass.drivers.memory import deliveries
from windlass.drivers.memory.access import access
from windlass.drivers.memory.dependencies import edges_before, links_before
from windlass.drivers.memory.fleet import workers
from windlass.drivers.memory.holds import is_open
from windlass.drivers.memory.listing import look
from windlass.drivers.memory.order import in_order as in_dispatch_order
from windlass.drivers.memory.schedules import due, schedules, templates
from windlass.drivers.memory.tables import Tables
from windlass.drivers.memory.usage import usage
from windlass.drivers.values import Count, JobQuery, Page, WaitingType
from windlass.errors import InvalidInput
from windlass.types import Dependency, Job, LimitUse, MemberCount, Micros, OnUnknown, Run, RunningCount

T = TypeVar("T")


def get(tables: Tables, ids: Sequence[str]) -> list[Job | None]:
    return [tables.find(job_id) for job_id in ids]


def runs(tables: Tables, job_id: str, before: int | None = None, limit: int = RUNS_LIMIT) -> list[Run]:
    check_characters("id", job_id)
    check_page(before, limit)
    job = tables.find(job_id)
    found = [] if job is None else every_run(tables, job)
    return [run for run in found if before is None or run.attempt_no < before][-limit:]


def every_run(tables: Tables, job: Job) -> list[Run]:
    """First to last; of a job that runs without a row of it, also the run as its row would be."""
    found = list(tables.runs.get(job.seq, ()))
    if job.state == "running" and not is_last(found, job):
        found.append(tables.run_of(job))
    return found


def find(tables: Tables, query: JobQuery) -> Page:
    check_query(query)
    found = [job for _, job in sorted(tables.jobs.items(), reverse=True) if matches(job, query)]
    page = tuple(found[: query.limit])
    return Page(page, page[-1].seq if len(found) > query.limit else None)


def matches(job: Job, query: JobQuery) -> bool:
    return (
        (not query.states or job.state in query.states)
        and (not query.queues or job.queue in query.queues)
        and (not query.types or job.type in query.types)
        and (query.org_id is None or job.org_id == query.org_id)
        and (query.group_id is None or job.group_id == query.group_id)
        and (query.retry_of is None or job.retry_of == query.retry_of)
        and (query.superseded or job.dead_kind != "superseded")
        and (query.before is None or job.seq < query.before)
    )


def count(tables: Tables, now: Micros) -> list[Count]:
    check_now(now)
    alive = (job for job in tables.jobs.values() if job.state in ("queued", "running", "dead"))
    counted = Counter((job.queue, label_of(job, now)) for job in alive if job.dead_kind != "superseded")
    return [Count(queue, label, number) for (queue, label), number in sorted(counted.items())]


def waiting_types(tables: Tables, queues: Sequence[str] | None, limit: int) -> list[WaitingType]:
    check_limit(limit)
    if queues is not None:
        check_queues(queues)
    counted: Counter[tuple[str, str, OnUnknown]] = Counter()
    for name in tables.ready if queues is None else dict.fromkeys(queues):
        if is_open(tables, name):
            first = [tables.jobs[order[3]] for order in tables.ready.get(name, [])[:limit]]
            counted.update((name, job.type, job.on_unknown) for job in first)
    return [WaitingType(*kind, number) for kind, number in sorted(counted.items())]


def read(tables: Tables, query: Query[R]) -> list[R]:
    check_query(query)
    rows: Sequence[Any]
    match query:
        case AllQueues():
            rows = in_order(tables.queues)
        case AllGroups():
            rows = in_order(tables.groups)
        case GroupsById():
            rows = [tables.groups[group_id] for group_id in sorted(set(query.ids)) if group_id in tables.groups]
        case MembersOf():
            rows = members(tables, query.ids)
        case ParentsOf():
            rows = edges_before(tables, query.job_id)
        case DependantsOf():
            rows = dependants(tables, query)
        case EdgesOf():
            rows = edges_of_group(tables, query)
        case AllLimits():
            rows = in_order(tables.limits)
        case LimitUses():
            rows = [limit_use(tables, key, query.limit) for key in sorted(set(query.keys))]
        case NextRefill():
            rows = refill(tables, query)
        case AllWebhooks() | AllEvents() | WaitingEvents() | DueDeliveries() | DeliveriesOf() | DeliveryOf():
            rows = deliveries.read(tables, query)
        case AllWorkers():
            rows = workers(tables)
        case AllHolds():
            rows = sorted(tables.holds.values(), key=lambda hold: (hold.reserved_at, hold.hold_id))
        case AllTokens() | TokenByDigest() | AuditLog() | AuditPage() | LastAudited() | OwnersOf():
            rows = access(tables, query)
        case InOrder():
            check_name("queue", query.queue)
            rows = in_dispatch_order(tables, query.queue)[: query.limit]
        case SamplesSince():
            rows = [tables.samples[key] for key in sorted(tables.samples) if key[0] >= query.since]
        case UsageSince():
            rows = [tables.usage[key] for key in sorted(tables.usage) if key[0] >= query.since]
        case UsageBy() | CountedUntil():
            rows = usage(tables, query)
        case AllTemplates():
            rows = templates(tables, query)
        case AllSchedules():
            rows = schedules(tables)
        case DueSchedules():
            rows = due(tables, query)
        case Faults() | StoreId():
            rows = []  # nobody else writes here
        case JobsAhead():
            rows = ahead(tables, query)
        case LeasedUnder():
            rows = leased_under(tables, query)
        case _:
            rows = read_for_people(tables, query)
    return list(rows)


def read_for_people(tables: Tables, query: Query[R]) -> Sequence[Any]:
    """The queries that pages and commands ask about many jobs."""
    match query:
        case SamplesAt():
            return [tables.samples[key] for key in sorted(tables.samples) if key[0] in query.minutes]
        case RunningNow():
            taken = Counter((job.worker_id, job.queue) for job in tables.jobs.values() if job.state == "running")
            return [RunningCount(worker_id=who, queue=queue, jobs=jobs) for (who, queue), jobs in taken.items()]
        case EndedJobs():
            ended = sum(job.state == query.state and job.finished_at is not None for job in tables.jobs.values())
            return [min(ended, query.most)]
        case NewestGroups():
            newest = sorted(tables.groups.values(), key=lambda group: (group.created_at, group.group_id), reverse=True)
            return newest[: query.limit]
        case GroupMembers():
            found = [job for job in tables.jobs.values() if job.group_id == query.group_id and job.superseded_by is None]
            return sorted(found, key=lambda job: (job.group_seq or 0, job.seq))[: query.limit]
        case SeenLately():
            return seen(tables, query.jobs)
        case ListJobs() | GlimpseJobs() | TallyJobs():
            return look(tables, query)
        case _:
            raise InvalidInput("query", f"{type(query).__name__} is not known to this store")


def ahead(tables: Tables, query: JobsAhead) -> list[int]:
    job = tables.find(query.job_id)
    if job is None or job.state != "queued":
        return []
    return [min(bisect_left(tables.ready.get(job.queue, []), dispatch_order(job)), query.most)]


def leased_under(tables: Tables, query: LeasedUnder) -> list[Job]:
    check_queues(query.queues)
    held = (tables.jobs[seq] for seq in tables.leased)
    theirs = [
        job for job in held
        if job.queue in query.queues and (job.lease_token, job.worker_id) == (query.token, query.worker_id)
        and job.lease_expires_at is not None and job.lease_expires_at > query.now
    ]  # fmt: skip
    return sorted(theirs, key=dispatch_order)[: query.limit]


def seen(tables: Tables, jobs: int) -> list[Seen]:
    newest = [tables.jobs[seq] for seq in sorted(tables.jobs, reverse=True)[:jobs]]
    kinds = {(job.queue, job.type, job.org_id, job.worker_id, job.tags) for job in newest}
    return [Seen(*kind) for kind in kinds]


def refill(tables: Tables, query: NextRefill) -> list[Micros]:
    limits = tables.limits.values()
    keys = {key for queue in query.queues if has_due(tables, queue, query.now) for key in caps_of(queue)}
    if any(limit.wake_at is not None for limit in limits):
        queues = frozenset(query.queues)
        keys |= {
            job.parked_on for job in tables.jobs.values()
            if job.parked_on is not None and job.queue in queues and (query.types is None or job.type in query.types)
        }  # fmt: skip
    at = next_refill([limit for limit in limits if limit.key in keys], query.now)
    return [] if at is None else [at]


def has_due(tables: Tables, queue: str, now: Micros) -> bool:
    return bool(tables.ready.get(queue)) or any(
        is_promotable(tables.jobs[seq], now) for seq in tables.waiting.get(queue, ())
    )


def limit_use(tables: Tables, key: str, limit: int) -> LimitUse:
    waiting = sum(job.parked_on == key for job in tables.jobs.values())
    holders = [tables.jobs[seq].id for seq in sorted(tables.leased) if key in tables.jobs[seq].permits]
    return LimitUse(key=key, waiting=waiting, holders=tuple(holders[:limit]))


def members(tables: Tables, groups: Collection[str]) -> list[MemberCount]:
    counted = Counter(
        (job.group_id, job.state, job.executions > 0) for job in tables.jobs.values()
        if job.group_id is not None and job.group_id in groups and job.superseded_by is None
    )  # fmt: skip
    return [
        MemberCount(group_id=group_id, state=state, begun=begun, jobs=jobs)
        for (group_id, state, begun), jobs in sorted(counted.items())
    ]


def dependants(tables: Tables, query: DependantsOf) -> list[Dependency]:
    found: dict[int, Dependency] = {}
    for link in links_before(tables, query.job_id):  # the latest link's word goes first
        for seq, edge in tables.edges_to(link.id):
            found.setdefault(seq, edge)
    return [found[seq] for seq in sorted(found)][: query.limit]


def edges_of_group(tables: Tables, query: EdgesOf) -> list[Dependency]:
    rows = [job for job in tables.jobs.values() if job.group_id == query.group_id]
    first = sorted(rows, key=lambda job: (job.group_seq or 0, job.seq))[: query.members]
    ids = {job.seq: job.id for job in first}
    found = {(seq, edge.parent_id): edge for seq in ids for edge in tables.edges_of(seq)}
    found |= {(seq, edge.parent_id): edge for parent_id in ids.values() for seq, edge in tables.edges_to(parent_id)}
    return [found[place] for place in sorted(found)][: query.limit]


def in_order(table: Mapping[str, T]) -> list[T]:
    return [table[key] for key in sorted(table)]
