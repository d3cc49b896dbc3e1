"""Reading, counting and forgetting: values → statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.core.admission import check_limit, check_queues
from windlass.drivers.filters import POSTGRES, find_statement
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.rows import job_in, run_in
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.protocol import Count, JobQuery, Page, Retention, Shared, WaitingType
from windlass.drivers.statement import Op
from windlass.types import Event, Group, Job, Limit, Micros, Queue, Run


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


def prune(retention: Retention, now: Micros, limit: int) -> Op[int]:
    check_limit(limit)
    rows = yield SQL.prunable(
        succeeded=_cutoff(retention.succeeded, now), cancelled=_cutoff(retention.cancelled, now),
        dead=_cutoff(retention.dead, now), limit=limit,
    )  # fmt: skip
    if not rows:
        return 0
    return len((yield SQL.delete_chains(seqs=Ints(row[0] for row in rows))))


def _cutoff(kept: Micros | None, now: Micros) -> Micros | None:
    return None if kept is None else now - kept


def newest() -> Op[int]:
    [(seq,)] = yield SQL.newest_job()
    return seq or 0
