"""The registry of workers, and who leads them: values → statements."""

from __future__ import annotations

from windlass.core.admission_of_workers import check_worker
from windlass.core.alterations import AlterAnswer, Leave
from windlass.core.fields import check_lease, check_name, check_now
from windlass.core.leadership import leads, may_maintain
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.rows import strings_out
from windlass.drivers.statement import Op
from windlass.drivers.values import Leadership
from windlass.records import WorkerInfo
from windlass.types import Micros


def beat(db: Dialect, worker: WorkerInfo, now: Micros) -> Op[None]:
    check_worker(worker)
    check_now(now)
    yield db.sql.beat(
        id=worker.id, hostname=worker.hostname, pid=worker.pid, pool_size=worker.pool_size, version=worker.version,
        queues=strings_out(worker.queues), types=strings_out(worker.types), wakeups=worker.wakeups,
        running=worker.running, started_at=worker.started_at, now=now,
    )  # fmt: skip


def lead(db: Dialect, worker_id: str, lease_for: Micros, now: Micros) -> Op[Leadership]:
    check_name("worker_id", worker_id)
    check_lease(lease_for)
    check_now(now)
    row = yield from leader(db)
    if leads(row.until, now) and row.worker_id != worker_id:  # who cannot win need not wait for the leader's duties
        return row
    yield db.sql.lead(worker_id=worker_id, until=now + lease_for, now=now)
    row = yield from leader(db)
    return row if leads(row.until, now) else Leadership(epoch=row.epoch)


def leader(db: Dialect) -> Op[Leadership]:
    """The leadership as it was last granted, also if it has expired."""
    rows = yield db.sql.leader()
    return Leadership(worker_id=rows[0][0], epoch=rows[0][1], until=rows[0][2]) if rows else Leadership()


def is_allowed(db: Dialect, epoch: int | None, now: Micros) -> Op[bool]:
    if epoch is None:
        return True
    yield from db.lock("hold_leader")
    row = yield from leader(db)
    return may_maintain(epoch, current=row.epoch, until=row.until, now=now)


def leave(db: Dialect, change: Leave, now: Micros) -> Op[AlterAnswer]:
    if not (yield db.sql.leave(worker_id=change.worker_id)):
        return "unchanged"
    yield db.sql.abdicate(worker_id=change.worker_id, now=now)
    return "applied"
