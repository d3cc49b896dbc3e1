"""The registry of workers, and who leads them."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.core.admission_of_workers import check_worker
from windlass.core.alterations import AlterAnswer, Leave
from windlass.core.fields import check_lease, check_name, check_now
from windlass.core.leadership import judge_bid, leads
from windlass.drivers.memory.tables import Tables
from windlass.drivers.values import Leadership
from windlass.records import WorkerInfo
from windlass.types import Micros


def beat(tables: Tables, worker: WorkerInfo, now: Micros) -> None:
    check_worker(worker)
    check_now(now)
    before = tables.workers.get(worker.id, worker)
    if before is not worker and now < before.last_heartbeat:
        return
    row = replace(
        worker, queues=tuple(worker.queues), types=tuple(worker.types), started_at=before.started_at, last_heartbeat=now,
        is_leader=False, leader_until=None,
    )  # fmt: skip
    tables.put_in(tables.workers, worker.id, row)


def workers(tables: Tables) -> list[WorkerInfo]:
    leader = tables.leader
    return [
        replace(row, is_leader=True, leader_until=leader.until) if row.id == leader.worker_id else row
        for _, row in sorted(tables.workers.items())
    ]


def lead(tables: Tables, worker_id: str, lease_for: Micros, now: Micros) -> Leadership:
    check_name("worker_id", worker_id)
    check_lease(lease_for)
    check_now(now)
    row, registered = tables.leader, worker_id in tables.workers
    bid = judge_bid(worker_id, leader=row.worker_id, until=row.until, registered=registered, now=now)
    if bid != "refused":
        epoch = row.epoch + 1 if bid == "elected" else row.epoch
        until = max(now + lease_for, row.until or 0)  # a renewal that was overtaken on its way shortens nothing
        tables.set("leader", Leadership(worker_id=worker_id, epoch=epoch, until=until))
    return tables.leader if leads(tables.leader.until, now) else Leadership(epoch=row.epoch)


def leave(tables: Tables, change: Leave, now: Micros) -> AlterAnswer:
    if change.worker_id not in tables.workers:
        return "unchanged"
    tables.drop_from(tables.workers, change.worker_id)
    if tables.leader.worker_id == change.worker_id and leads(tables.leader.until, now):
        tables.set("leader", replace(tables.leader, until=now))
    return "applied"
