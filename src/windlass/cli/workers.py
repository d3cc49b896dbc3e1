"""`windlass workers`: who works on this store, who is silent, and who leads."""

from __future__ import annotations

import socket

from msgspec.structs import replace

from windlass.admin.views import Fleet, WorkerView
from windlass.cli.output import FAILED, OK, Part, one_line
from windlass.cli.session import Common, Flag, opened
from windlass.wording import age, relative

HEADERS = (
    "ID", "STATE", "HOST", "PID", "SLOTS", "RUNNING", "HEARTBEAT", "STARTED", "WAKE-UPS", "VERSION", "LEADER", "QUEUES",
)  # fmt: skip


async def workers(*, here: Flag = False, common: Common = Common()) -> int:
    """Every worker that is registered: what it is, how much it runs, when it was last heard of, and who leads.

    One that has been silent for longer than the setting worker_timeout is shown as dead, until the leader removes it.

    Args:
        here: only those of this host (this container, this pod); fails unless one of them is alive
    """
    async with opened(common) as admin:
        found = await admin.workers()
    if here:
        found = replace(found, workers=tuple(one for one in found.workers if one.hostname == socket.gethostname()))
    if common.json:
        common.out.emit(found)
    elif not found.workers:
        where = " on this host" if here else ""
        common.out.note(f"no worker{where} is registered; start one: {common.again('worker APP')}")
    else:
        common.out.table(HEADERS, [_row(worker, found) for worker in found.workers])
    return FAILED if here and not any(worker.alive for worker in found.workers) else OK


def _row(worker: WorkerView, found: Fleet) -> tuple[Part, ...]:
    state: Part = ("alive", "green") if worker.alive else ("dead", "bold red")
    leads = f"until {relative(worker.leader_until, found.at)}" if worker.is_leader and worker.leader_until else ""
    return (
        worker.id, state, worker.hostname, str(worker.pid), str(worker.pool_size), str(worker.running),
        relative(worker.last_heartbeat, found.at), age(worker.started_at, found.at), worker.wakeups, worker.version,
        (leads, "bold"), one_line(", ".join(worker.queues)),
    )  # fmt: skip
