"""Events: rows of the outbox, written together with the change that they report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windlass.core import events
from windlass.core.alterations import Missed
from windlass.core.changes import EXPIRED, AddEvent
from windlass.core.events import Lost
from windlass.core.health import troubles
from windlass.core.holds import is_valid
from windlass.drivers.memory.tables import Tables
from windlass.records import Event, QueueSample
from windlass.types import Group, Job, Micros, Schedule


def add(tables: Tables, added: Iterable[AddEvent], now: Micros, fanned_at: Micros | None = None) -> list[Event]:
    return [
        tables.add_event(
            Event(event=one.event, job_id=one.job_id, org_id=one.org_id, body=one.body, created_at=now, fanned_at=fanned_at)
        )
        for one in added
    ]


def announce(tables: Tables, taken_back: Sequence[Job], now: Micros) -> None:
    """Jobs as they were before they were taken back, in the order of their numbers."""
    lost = [Lost(j.id, j.org_id, j.type, j.queue, j.executions, j.lost + 1) for j in taken_back]
    add(tables, events.recovered(tables.webhooks.values(), lost, EXPIRED), now)


def announce_cancelled(tables: Tables, ids: Sequence[str], now: Micros) -> None:
    """Jobs that were cancelled while they waited, in the order of their numbers."""
    jobs = sorted((job for job_id in ids if (job := tables.find(job_id)) is not None), key=lambda job: job.seq)
    add(tables, events.cancelled(tables.webhooks.values(), jobs), now)


def announce_group(tables: Tables, group: Group, now: Micros) -> None:
    """Write the event of a group whose last member has ended."""
    orgs = {job.org_id for job in tables.jobs.values() if job.group_id == group.group_id}
    add(tables, events.finished(tables.webhooks.values(), group, orgs), now)


def announce_missed(tables: Tables, schedule: Schedule, late: Missed, now: Micros) -> None:
    add(tables, events.missed(tables.webhooks.values(), schedule, late), now)


def announce_troubles(tables: Tables, samples: Sequence[QueueSample], waits_over: Micros, now: Micros) -> None:
    """Queues of which these samples bring bad news."""
    hooks = tables.webhooks.values()
    if not samples or not events.is_asked_for(hooks, events.QUEUE_UNHEALTHY):
        return
    resting = {queue.name for queue in tables.queues.values() if queue.paused_at is not None}
    resting |= {hold.queue for hold in tables.holds.values() if is_valid(hold, now)}
    found, after = troubles(samples, tables.told, resting, waits_over)
    for trouble in found:
        add(tables, events.unhealthy(hooks, trouble), now)
    tables.set("told", after)
