"""Permits and parking: a limit bounds valid leases, and a job without a permit is not walked over again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from windlass.core import limits as rules
from windlass.core import rows
from windlass.core.alterations import AlterAnswer, PauseLimit, PutLimit, RemoveLimit
from windlass.core.counters import give_back
from windlass.core.duties import Done, RecountLimits
from windlass.core.eligibility import dispatch_order
from windlass.core.fairness import is_past, share_of, virtual_time
from windlass.drivers.memory.fairness import turns_of
from windlass.drivers.memory.tables import Tables
from windlass.types import Job, Limit, Micros


def keys_of(job: Job) -> tuple[str, ...]:
    return rules.keys_of(job.limit_keys, job.type, job.org_id, job.tags)


def may_give(tables: Tables, queue: str, now: Micros) -> bool:
    """Whether the limits of all and of this queue let a claim take one more from it."""
    return all(rules.room(tables.limits.get(key), now) != 0 for key in rules.caps_of(queue))


def take_permits(tables: Tables, job: Job, now: Micros) -> tuple[str, ...] | None:
    """All of a job's permits, or none: then it is parked on the first key that has no room."""
    keys = keys_of(job)
    limits = [tables.limits[key] for key in keys if key in tables.limits]
    full = next((limit for limit in limits if rules.room(limit, now) == 0), None)
    if full is not None:
        put(tables, rules.parked(full, now))
        tables.put(replace(job, ready=False, parked_on=full.key, updated_at=rows.touched(job, now)))
        let_through(tables, [key for key in keys if key != full.key], now)
        return None
    limits += [tables.limits[key] for key in rules.caps_of(job.queue) if key in tables.limits]
    for limit in limits:
        put(tables, rules.taken(limit, now))
    return tuple(limit.key for limit in limits)


def put(tables: Tables, limit: Limit) -> None:
    if tables.limits.get(limit.key) != limit:
        tables.put_in(tables.limits, limit.key, limit)


def free_permits(tables: Tables, keys: Sequence[str], now: Micros) -> None:
    """Give back the permits of a whole batch of ended leases."""
    for key in keys:
        limit = tables.limits.get(key)
        if limit is not None:
            put(tables, replace(limit, used=give_back(limit.used)))
    let_through(tables, dict.fromkeys(keys), now)


def wake(tables: Tables, now: Micros) -> None:
    """Let jobs through that wait for a token that is available by now."""
    due = [limit.key for limit in tables.limits.values() if limit.wake_at is not None and limit.wake_at <= now]
    let_through(tables, due, now)


def let_through(tables: Tables, keys: Iterable[str], now: Micros) -> None:
    """Let as many jobs that wait for a key try again as there is room for. That many of every queue and type, because the
    first ones may be in a queue that nobody serves; of a fair queue those whose organisations have the next turns."""
    for key in keys:
        limit = tables.limits.get(key)
        free = rules.room(limit, now)
        waiting = sorted((job for job in tables.jobs.values() if job.parked_on == key), key=dispatch_order)
        kinds = dict.fromkeys((job.queue, job.type) for job in waiting)
        passed = waiting if free is None else [
            job for kind in kinds
            for job in next_of(tables, kind[0], [job for job in waiting if (job.queue, job.type) == kind], free)
        ]  # fmt: skip
        for job in passed:
            tables.put(replace(job, ready=True, parked_on=None, updated_at=rows.touched(job, now)))
        if limit is not None:
            put(tables, rules.let_through(limit, now, waiting=len(passed) < len(waiting)))


def next_of(tables: Tables, queue: str, waiting: Sequence[Job], count: int) -> list[Job]:
    """The first of the jobs that wait in a queue, in dispatch order."""
    if queue not in tables.queues or tables.queues[queue].order != "fair":
        return list(waiting[:count])
    turns = turns_of(tables, queue)
    orgs: dict[str, list[Job]] = {}
    for job in waiting:
        orgs.setdefault(share_of(job.org_id), []).append(job)
    passed: list[Job] = []
    had: Counter[str] = Counter()
    while len(passed) < count:
        share = turns.next([share for share in orgs if had[share] < len(orgs[share])], had)
        if share is None:
            break
        passed.append(orgs[share][had[share]])
        had[share] += 1
    return passed


def put_limit(tables: Tables, change: PutLimit, now: Micros) -> AlterAnswer:
    if not rules.is_news(tables.limits.get(change.key), change):
        return "unchanged"
    put(tables, rules.described(row_of(tables, change.key, now), change, now))
    let_through(tables, [change.key], now)
    return "applied"


def row_of(tables: Tables, key: str, now: Micros) -> Limit:
    """The limit. A new one starts from those who run: each is counted in (only here, never in a claim)."""
    limit = tables.limits.get(key)
    return limit if limit is not None else Limit(key=key, used=count_in(tables, key, now))


def count_in(tables: Tables, key: str, now: Micros) -> int:
    """Every running job that the key concerns holds a permit of it; answers how many those are."""
    concerned = [job for job in (tables.jobs[seq] for seq in sorted(tables.leased)) if is_concerned(job, key)]
    for job in concerned:
        if key not in job.permits:
            tables.put(replace(job, permits=(*job.permits, key), updated_at=rows.touched(job, now)))
    return len(concerned)


def is_concerned(job: Job, key: str) -> bool:
    return rules.concerns(key, queue=job.queue, kind=job.type, org_id=job.org_id, tags=job.tags, limit_keys=job.limit_keys)


def remove_limit(tables: Tables, change: RemoveLimit, now: Micros) -> AlterAnswer:
    if change.key not in tables.limits:
        return "not_found"
    tables.drop_from(tables.limits, change.key)
    let_through(tables, [change.key], now)
    return "applied"


def pause_limit(tables: Tables, change: PauseLimit, now: Micros) -> AlterAnswer:
    if change.key not in tables.limits and not change.paused:
        return "unchanged"
    limit = row_of(tables, change.key, now)
    if (limit.paused_at is not None) == change.paused:
        return "unchanged"
    put(tables, replace(limit, paused_at=now if change.paused else None))
    let_through(tables, [change.key], now)
    return "applied"


def recount(tables: Tables, duty: RecountLimits, now: Micros) -> Done:
    wrong = [
        limit for _, limit in sorted(tables.limits.items())
        if limit.used != holders(tables, limit.key) or is_missed(tables, limit.key)
    ][: duty.limit]  # fmt: skip
    for limit in wrong:
        put(tables, replace(limit, used=count_in(tables, limit.key, now)))
    let_through(tables, [limit.key for limit in wrong], now)
    waited_for = sorted({job.parked_on for job in tables.jobs.values() if job.parked_on is not None})
    let_through(tables, [key for key in waited_for if rules.is_overlooked(tables.limits.get(key), now)], now)
    clocks = {
        queue: virtual_time([row for key, row in tables.shares.items() if key[0] == queue]) for queue, _ in tables.shares
    }
    for key in [key for key, row in tables.shares.items() if is_past(row, clocks[key[0]])]:
        tables.drop_from(tables.shares, key)
    return Done(len(wrong), more=bool(wrong))  # what else there is to do may come with the next bite


def holders(tables: Tables, key: str) -> int:
    return sum(key in tables.jobs[seq].permits for seq in tables.leased)


def is_missed(tables: Tables, key: str) -> bool:
    jobs = (tables.jobs[seq] for seq in tables.leased)
    return any(is_concerned(job, key) and key not in job.permits for job in jobs)
