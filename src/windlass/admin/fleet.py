"""Who works on a store: the registry as people see it, and whether it is in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.admin.bounded import HIDDEN
from windlass.admin.views import Check, Fleet, WorkerView
from windlass.client import Client
from windlass.clock import moment
from windlass.core.queries import AllWorkers, RunningNow
from windlass.errors import WindlassError
from windlass.records import WorkerInfo
from windlass.types import Micros, RunningCount
from windlass.wording import are, in_words, plural


async def fleet(client: Client) -> Fleet:
    """Every worker that is registered. One that was silent for `worker_timeout` counts as dead until it is removed."""
    rows, now = await client.driver.read(AllWorkers()), client.now()
    leader = next((row.id for row in rows if leads(row, now)), None)
    timeout = client.settings.worker_timeout
    running = taken(rows, await client.driver.read(RunningNow()))
    views = (worker_view(row, now, timeout, many) for row, many in zip(rows, running, strict=True))
    return Fleet(at=moment(now), leader=leader, workers=tuple(views))


def taken(workers: Sequence[WorkerInfo], running: Sequence[RunningCount]) -> list[int]:
    """How many jobs each of them has, by its leases, so that it agrees with what is told of the jobs. Its own word is as
    old as its last heartbeat; of those whose name is hidden there is no other."""
    counted = Counter[str | None]()
    for one in running:
        counted[one.worker_id] += one.jobs
    return [worker.running if worker.id == HIDDEN else counted[worker.id] for worker in workers]


def leads(row: WorkerInfo, now: Micros) -> bool:
    """The registry also tells who led last."""
    return row.is_leader and row.leader_until is not None and row.leader_until > now


def worker_view(row: WorkerInfo, now: Micros, timeout: Micros, running: int) -> WorkerView:
    return WorkerView(
        id=row.id, hostname=row.hostname, pid=row.pid, pool_size=row.pool_size, running=running, queues=row.queues,
        types=row.types, wakeups=row.wakeups, version=row.version, started_at=moment(row.started_at),
        last_heartbeat=moment(row.last_heartbeat), alive=now - row.last_heartbeat < timeout, is_leader=leads(row, now),
        leader_until=moment(row.leader_until) if row.is_leader and row.leader_until is not None else None,
    )  # fmt: skip


async def checks(client: Client) -> list[Check]:
    """Nothing of a store that cannot be opened."""
    try:
        rows = await client.driver.read(AllWorkers())
    except WindlassError:
        return []
    now, settings = client.now(), client.settings
    living = [row for row in rows if now - row.last_heartbeat < settings.worker_timeout]
    found = [_known(rows, living, settings.worker_timeout)]
    if living and not any(leads(row, now) for row in rows):
        ended = max((row.leader_until or 0 for row in rows), default=0)
        alone_for = now - max(ended, min(row.started_at for row in living))
        if alone_for > settings.leader_lease:  # less is the time in which one takes over from another
            text = f"{are(len(living), 'worker')} alive and none has led for {in_words(alone_for)}: nothing old is removed"
            found.append(Check("leader", "warning", text, "windlass workers"))
    return found


def _known(rows: Sequence[WorkerInfo], living: Sequence[WorkerInfo], timeout: Micros) -> Check:
    silent = len(rows) - len(living)
    if silent:
        text = f"{silent} of {plural(len(rows), 'worker')}: no sign of life for {in_words(timeout)} or longer"
        return Check("fleet", "warning", text, "windlass workers")
    return Check("fleet", "ok", f"{are(len(rows), 'worker')} alive" if rows else "no worker is registered")
