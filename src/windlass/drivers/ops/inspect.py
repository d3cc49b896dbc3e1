"""Reading and counting: values → statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.core.admission import check_limit, check_queues
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.protocol import Count, JobQuery, Page, Shared, WaitingType
from windlass.drivers.rows import job_in, run_in, sample_in
from windlass.drivers.statement import Op
from windlass.types import Event, Group, Job, Limit, Micros, Queue, QueueSample, Run, Usage


def get(db: Dialect, ids: Sequence[str]) -> Op[list[Job | None]]:
    rows = yield db.sql.get_jobs(ids=db.texts(ids))
    jobs = {row[1]: job_in(row) for row in rows}
    return [jobs.get(job_id) for job_id in ids]


def runs(db: Dialect, job_id: str) -> Op[list[Run]]:
    rows = yield db.sql.get_runs(id=job_id)
    return [run_in(row) for row in rows]


def find(db: Dialect, query: JobQuery) -> Op[Page]:
    check_limit(query.limit)
    rows = yield db.find(query)
    rows.sort(key=lambda row: -row[0])  # they come in this order, but not every statement says so
    jobs = tuple(job_in(row) for row in rows[: query.limit])
    return Page(jobs, jobs[-1].seq if len(rows) > query.limit else None)


def count(db: Dialect, now: Micros) -> Op[list[Count]]:
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


def shared(db: Dialect) -> Op[Shared]:
    queues = yield db.sql.all_queues()
    groups = yield db.sql.all_groups()
    limits = yield db.sql.all_limits()
    outbox = yield db.sql.all_events()
    return Shared(
        queues=tuple(Queue(name=n, positions=p, preset=r, settings=s, paused_at=a) for n, p, r, s, a in queues),
        groups=tuple(Group(**dict(zip(Group.__struct_fields__, row, strict=True))) for row in groups),
        limits=tuple(Limit(key=key, max_used=max_used, used=used) for key, max_used, used in limits),
        outbox=tuple(Event(event=e, job_id=j, org_id=o, body=b, created_at=c) for e, j, o, b, c in outbox),
    )


def samples(db: Dialect, since: Micros) -> Op[list[QueueSample]]:
    rows = yield db.sql.all_samples(since=since)
    return [sample_in(row) for row in rows]


def usage(db: Dialect, since: Micros) -> Op[list[Usage]]:
    rows = yield db.sql.all_usage(since=since)
    return [Usage(**dict(zip(Usage.__struct_fields__, row, strict=True))) for row in rows]
