"""Reading and counting: values → statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.core.admission import check_limit, check_queues
from windlass.drivers.filters import POSTGRES, find_statement
from windlass.drivers.postgres.arrays import Texts
from windlass.drivers.postgres.rows import job_in, run_in, sample_in
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.protocol import Count, JobQuery, Page, Shared, WaitingType
from windlass.drivers.statement import Op
from windlass.types import Event, Group, Job, Limit, Micros, Queue, QueueSample, Run, Usage


def get(ids: Sequence[str]) -> Op[list[Job | None]]:
    rows = yield SQL.get_jobs(ids=Texts(ids))
    jobs = {row[1]: job_in(row) for row in rows}
    return [jobs.get(job_id) for job_id in ids]


def runs(job_id: str) -> Op[list[Run]]:
    rows = yield SQL.get_runs(id=job_id)
    return [run_in(row) for row in rows]


def find(query: JobQuery) -> Op[Page]:
    check_limit(query.limit)
    rows = yield find_statement(SQL.get_jobs.sql, query, POSTGRES)
    rows.sort(key=lambda row: -row[0])  # they come in this order, but no statement says so
    jobs = tuple(job_in(row) for row in rows[: query.limit])
    return Page(jobs, jobs[-1].seq if len(rows) > query.limit else None)


def count(now: Micros) -> Op[list[Count]]:
    rows = yield SQL.count_jobs(now=now)
    counted: Counter[tuple[str, str]] = Counter()
    for queue, label, number in rows:
        counted[queue, label] += number
    return [Count(queue, label, number) for (queue, label), number in sorted(counted.items())]  # type: ignore[arg-type]


def waiting_types(queues: Sequence[str] | None, limit: int) -> Op[list[WaitingType]]:
    check_limit(limit)
    if queues is None:
        names = [row[0] for row in (yield SQL.ready_queues())]
    else:
        check_queues(queues)
        names = list(dict.fromkeys(queues))
    found: list[WaitingType] = []
    for (queue,) in (yield SQL.open_queues(queues=Texts(names))):
        rows = yield SQL.waiting_types(queue=queue, limit=limit)
        found += [WaitingType(queue, *row) for row in rows]
    return sorted(found, key=lambda kind: (kind.queue, kind.type, kind.on_unknown))


def pulse() -> Op[tuple[int, bool]]:
    """What moves when work arrives: the newest number, and whether anything is ready."""
    [(newest, ready)] = yield SQL.pulse()
    return newest or 0, ready


def shared() -> Op[Shared]:
    queues = yield SQL.all_queues()
    groups = yield SQL.all_groups()
    limits = yield SQL.all_limits()
    outbox = yield SQL.all_events()
    return Shared(
        queues=tuple(Queue(name=n, positions=p, preset=r, settings=s, paused_at=a) for n, p, r, s, a in queues),
        groups=tuple(Group(**dict(zip(Group.__struct_fields__, row, strict=True))) for row in groups),
        limits=tuple(Limit(key=key, max_used=max_used, used=used) for key, max_used, used in limits),
        outbox=tuple(Event(event=e, job_id=j, org_id=o, body=b, created_at=c) for e, j, o, b, c in outbox),
    )


def samples(since: Micros) -> Op[list[QueueSample]]:
    rows = yield SQL.all_samples(since=since)
    return [sample_in(row) for row in rows]


def usage(since: Micros) -> Op[list[Usage]]:
    rows = yield SQL.all_usage(since=since)
    return [Usage(**dict(zip(Usage.__struct_fields__, row, strict=True))) for row in rows]
