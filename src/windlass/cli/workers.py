"""`windlass workers`: who works on this store, who is silent, and who leads."""

from __future__ import annotations

from windlass.admin.views import Fleet, WorkerView
from windlass.admin.wording import age, relative
from windlass.cli.output import Part, one_line
from windlass.cli.session import Common, opened

HEADERS = (
    "ID", "STATE", "HOST", "PID", "SLOTS", "RUNNING", "HEARTBEAT", "STARTED", "WAKE-UPS", "VERSION", "LEADER", "QUEUES",
)  # fmt: skip


async def workers(*, common: Common = Common()) -> None:
    """Every worker that is registered: what it is, how much it runs, when it was last heard of, and who leads.

    One that has been silent for longer than the setting worker_timeout is shown as dead, until the leader removes it.
    """
    async with opened(common) as admin:
        found = await admin.workers()
    if common.json:
        common.out.emit(found)
    elif not found.workers:
        common.out.note(f"no worker is registered; start one: {common.again('worker APP')}")
    else:
        common.out.table(HEADERS, [_row(worker, found) for worker in found.workers])


def _row(worker: WorkerView, found: Fleet) -> tuple[Part, ...]:
    state: Part = ("alive", "green") if worker.alive else ("dead", "bold red")
    leads = f"until {relative(worker.leader_until, found.at)}" if worker.is_leader and worker.leader_until else ""
    return (
        worker.id, state, worker.hostname, str(worker.pid), str(worker.pool_size), str(worker.running),
        relative(worker.last_heartbeat, found.at), age(worker.started_at, found.at), worker.wakeups, worker.version,
        (leads, "bold"), one_line(", ".join(worker.queues)),
    )  # fmt: skip
