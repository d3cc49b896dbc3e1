"""Reading and counting: values → statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from windlass.core.admission_of_queries import check_query
from windlass.core.fields import check_characters, check_limit, check_name, check_now, check_queues
from windlass.core.history import BEYOND, RUNS_LIMIT, check_page, is_last
from windlass.core.limits import GLOBAL, next_refill
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
    SeenLately,
    StoreId,
    TokenByDigest,
    UsageBy,
    UsageSince,
    WaitingEvents,
)
from windlass.core.rows import run_under_way
from windlass.drivers.ops import listing
from windlass.drivers.ops.deliveries import deliveries
from windlass.drivers.ops.deliveries import due as due_deliveries
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.limits import limit_in
from windlass.drivers.ops.notes import entry_in, page
from windlass.drivers.ops.order import in_order
from windlass.drivers.ops.repair import faults
from windlass.drivers.ops.usage import added_up
from windlass.drivers.rows import (
    delivery_in,
    dependency_in,
    event_in,
    job_in,
    member_count_in,
    run_in,
    sample_in,
    schedule_in,
    seen_in,
    strings_in,
    token_in,
    webhook_in,
    worker_in,
)
from windlass.drivers.statement import Op, Row, Statement
from windlass.drivers.values import Count, JobQuery, Page, WaitingType
from windlass.errors import InvalidInput
from windlass.records import AuditLine, Fault, GroupOwner, Usage
from windlass.types import Group, Hold, Job, LimitUse, Micros, Queue, Run, RunningCount, Template


def get(db: Dialect, ids: Sequence[str]) -> Op[list[Job | None]]:
    rows = yield db.sql.get_jobs(ids=db.texts(ids))
    jobs = {row[1]: job_in(row) for row in rows}
    return [jobs.get(job_id) for job_id in ids]


def runs(db: Dialect, job_id: str, before: int | None = None, limit: int = RUNS_LIMIT) -> Op[list[Run]]:
    """Of a job that runs without a row of it, the run as its row would be."""
    check_characters("id", job_id)
    check_page(before, limit)
    until = BEYOND if before is None else before
    jobs = (yield from get(db, [job_id])) if (yield db.sql.runs_unkept(id=job_id)) else []
    found = [run_in(row) for row in reversed((yield db.sql.get_runs(id=job_id, before=until, limit=limit)))]
    for job in jobs:
        if job is not None and job.state == "running" and job.executions < until and not is_last(found, job):
            found.append(run_under_way(job))
    return found[-limit:]


def find(db: Dialect, query: JobQuery) -> Op[Page]:
    check_query(query)
    rows = yield db.find(query)
    rows.sort(key=lambda row: -row[0])  # they come in this order, but not every statement says so
    jobs = tuple(job_in(row) for row in rows[: query.limit])
    return Page(jobs, jobs[-1].seq if len(rows) > query.limit else None)


def count(db: Dialect, now: Micros) -> Op[list[Count]]:
    check_now(now)
    rows = yield db.sql.count_jobs(now=now)
    counted: Counter[tuple[str, str]] = Counter()
    for queue, label, number in rows:
        counted[queue, label] += number
    return [Count(queue, label, number) for (queue, label), number in sorted(counted.items())]  # type: ignore[arg-type]


def waiting_types(db: Dialect, queues: Sequence[str] | None, limit: int) -> Op[list[WaitingType]]:
    check_limit(limit)
    if queues is None:
        names = [row[0] for row in (yield db.sql.ready_queues())]
    else:
        check_queues(queues)
        names = list(dict.fromkeys(queues))
    found: list[WaitingType] = []
    for (queue,) in (yield db.sql.open_queues(queues=db.texts(names))):
        rows = yield db.sql.waiting_types(queue=queue, limit=limit)
        found += [WaitingType(queue, *row) for row in rows]
    return sorted(found, key=lambda kind: (kind.queue, kind.type, kind.on_unknown))


def read(db: Dialect, query: Query[R]) -> Op[list[R]]:
    check_query(query)
    found: list[Any]
    match query:
        case InOrder():
            check_name("queue", query.queue)
            jobs: list[Any] = yield from in_order(db, query)
            return jobs
        case JobsAhead():
            found = yield from ahead(db, query)
        case GroupMembers():
            found = yield from members(db, query)
        case LeasedUnder():
            found = yield from leased_under(db, query)
        case NextRefill():
            found = yield from refill(db, query)
        case ListJobs() | GlimpseJobs() | TallyJobs():
            found = yield from listing.look(db, query)
        case UsageBy():
            used: list[Any] = yield from added_up(db, query)
            return used
        case DeliveriesOf():
            sent: list[Any] = yield from deliveries(db, query)
            return sent
        case Faults():
            found = [Fault(*row) for row in (yield from faults(db))]
        case _ if type(query) in _PLAIN:
            statement, make = _PLAIN[type(query)]
            rows = yield statement(db, query)
            found = [make(row) for row in rows]
        case _:
            raise InvalidInput("query", f"{type(query).__name__} is not known to this store")
    return found


def ahead(db: Dialect, query: JobsAhead) -> Op[list[Any]]:
    [job] = yield from get(db, [query.job_id])
    if job is None or job.state != "queued":
        return []
    rows = yield db.sql.jobs_ahead(
        queue=job.queue, priority=job.priority, position=job.position, created_at=job.created_at, seq=job.seq,
        most=query.most,
    )  # fmt: skip
    return [row[0] for row in rows]


def members(db: Dialect, query: GroupMembers) -> Op[list[Any]]:
    rows = yield db.sql.first_members(group_id=query.group_id, limit=query.limit)
    return (yield from numbered(db, [row[0] for row in rows]))


def leased_under(db: Dialect, query: LeasedUnder) -> Op[list[Any]]:
    """Two statements: what ended between them is left out."""
    check_queues(query.queues)
    rows = yield db.sql.leased_under(
        queues=db.texts(query.queues), token=query.token, worker_id=query.worker_id, now=query.now, limit=query.limit
    )
    return [job for job in (yield from numbered(db, [row[0] for row in rows])) if job.lease_token == query.token]


def numbered(db: Dialect, seqs: list[int]) -> Op[list[Job]]:
    """The jobs of these numbers, in this order."""
    jobs = {row[0]: job_in(row) for row in (yield listing.by_number(db, seqs))} if seqs else {}
    return [jobs[seq] for seq in seqs if seq in jobs]


def refill(db: Dialect, query: NextRefill) -> Op[list[Any]]:
    keys = [GLOBAL, *(f"queue:{queue}" for queue in query.queues)]
    rows = yield db.sql.refilling(keys=db.texts(keys), queues=db.texts(query.queues), now=query.now)
    limits = [limit_in(row) for row in rows]
    waited_for = [limit.key for limit in limits if limit.key not in keys]
    if waited_for and query.types is not None:
        kinds = yield db.sql.parked_kinds(keys=db.texts(waited_for))
        ours = {key for key, queue, kind, _ in kinds if queue in query.queues and kind in query.types}
        limits = [limit for limit in limits if limit.key in keys or limit.key in ours]
    at = next_refill(limits, query.now)
    return [] if at is None else [at]


def use_in(row: Row) -> LimitUse:
    return LimitUse(key=row[0], waiting=row[1], holders=strings_in(row[2]))


def newest_groups(db: Dialect, query: NewestGroups) -> Statement:
    return db.sql.newest_groups(limit=query.limit)


def uses(db: Dialect, query: LimitUses) -> Statement:
    return db.sql.limit_uses(keys=db.texts(sorted(set(query.keys))), limit=query.limit)


def dependants(db: Dialect, query: DependantsOf) -> Statement:
    return db.sql.dependants_of(id=query.job_id, limit=query.limit)


def edges(db: Dialect, query: EdgesOf) -> Statement:
    return db.sql.edges_of_group(group_id=query.group_id, members=query.members, limit=query.limit)


def templates(db: Dialect, query: AllTemplates) -> Statement:
    return db.sql.all_templates() if query.name is None else db.sql.versions_named(name=query.name)


def audit_page(db: Dialect, query: AuditPage) -> Statement:
    return page(db, query)


def due(db: Dialect, query: DueSchedules) -> Statement:
    return db.sql.due_schedules(by=query.by, limit=query.limit)


def events_waiting(db: Dialect, query: WaitingEvents) -> Statement:
    return db.sql.waiting_events(limit=query.limit)


def fields_of(kind: type[Any]) -> Callable[[Row], Any]:
    """The column order of the block is the field order of the value."""
    names = kind.__struct_fields__
    return lambda row: kind(**dict(zip(names, row, strict=True)))


# One statement each, and what a row of it becomes.
_PLAIN: Final[dict[type[Any], tuple[Callable[[Dialect, Any], Statement], Callable[[Row], Any]]]] = {
    AllQueues: (lambda db, _: db.sql.all_queues(), fields_of(Queue)),
    AllGroups: (lambda db, _: db.sql.all_groups(), fields_of(Group)),
    NewestGroups: (newest_groups, fields_of(Group)),
    GroupsById: (lambda db, asked: db.sql.groups_by_id(ids=db.texts(asked.ids)), fields_of(Group)),
    MembersOf: (lambda db, asked: db.sql.members_of(ids=db.texts(asked.ids)), member_count_in),
    OwnersOf: (lambda db, asked: db.sql.owners_of(ids=db.texts(asked.ids)), lambda row: GroupOwner(*row)),
    ParentsOf: (lambda db, asked: db.sql.edges_before(id=asked.job_id), dependency_in),
    DependantsOf: (dependants, dependency_in),
    EdgesOf: (edges, dependency_in),
    AllLimits: (lambda db, _: db.sql.all_limits(), limit_in),
    LimitUses: (uses, use_in),
    AllWebhooks: (lambda db, _: db.sql.all_webhooks(), webhook_in),
    AllEvents: (lambda db, _: db.sql.all_events(), event_in),
    WaitingEvents: (events_waiting, event_in),
    DueDeliveries: (due_deliveries, delivery_in),
    DeliveryOf: (
        lambda db, asked: db.sql.get_delivery(event_id=asked.event_id, webhook_id=asked.webhook_id),
        delivery_in,
    ),
    AllWorkers: (lambda db, _: db.sql.all_workers(), worker_in),
    AllHolds: (lambda db, _: db.sql.all_holds(), fields_of(Hold)),
    AllTokens: (lambda db, _: db.sql.all_tokens(), token_in),
    TokenByDigest: (lambda db, asked: db.sql.token_by_digest(digest=asked.digest), token_in),
    AuditLog: (lambda db, asked: db.sql.audit_log(since=asked.since), fields_of(AuditLine)),
    AuditPage: (audit_page, entry_in),
    LastAudited: (lambda db, _: db.sql.last_audited(), lambda row: row[0]),
    SamplesSince: (lambda db, asked: db.sql.all_samples(since=asked.since), sample_in),
    SamplesAt: (lambda db, asked: db.sql.samples_at(minutes=db.ints(asked.minutes)), sample_in),
    RunningNow: (lambda db, _: db.sql.running_now(), fields_of(RunningCount)),
    EndedJobs: (lambda db, asked: db.sql.ended_jobs(state=asked.state, most=asked.most), lambda row: row[0]),
    SeenLately: (lambda db, asked: db.sql.seen_lately(jobs=asked.jobs), seen_in),
    UsageSince: (lambda db, asked: db.sql.all_usage(since=asked.since), fields_of(Usage)),
    CountedUntil: (lambda db, _: db.sql.watermark(), lambda row: row[0]),
    StoreId: (lambda db, _: db.sql.store_id(), lambda row: row[0]),
    AllTemplates: (templates, fields_of(Template)),
    AllSchedules: (lambda db, _: db.sql.all_schedules(), schedule_in),
    DueSchedules: (due, schedule_in),
}
