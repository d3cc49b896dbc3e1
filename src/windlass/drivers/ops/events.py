"""Events: rows of the outbox, written together with the change that they report. Subscribers are read only if there is
something to report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from windlass.core import events
from windlass.core.alterations import Missed
from windlass.core.changes import EXPIRED, AddEvent
from windlass.core.events import Lost
from windlass.core.health import Told, troubles
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.rows import job_in, note_in, to_json, webhook_in
from windlass.drivers.statement import Blocks, Op, Row
from windlass.records import QueueSample, Webhook
from windlass.types import Group, Micros, Schedule

TOLD: Final = "unwell_told"


def add(sql: Blocks, added: Iterable[AddEvent], now: Micros) -> Op[None]:
    items = [(one.event, one.job_id, one.org_id, one.body) for one in added]
    if items:
        yield sql.add_events(items=to_json(items), now=now)


def webhooks(sql: Blocks) -> Op[list[Webhook]]:
    return [webhook_in(row) for row in (yield sql.all_webhooks())]


def subscribers(sql: Blocks) -> Op[list[Webhook]]:
    """The subscribers without their secrets, which somebody who only writes events need not be allowed to read."""
    return [webhook_in(row) for row in (yield sql.subscribers())]


def announce(sql: Blocks, taken_back: Sequence[Row], now: Micros) -> Op[None]:
    """Rows of `expire`."""
    hooks = yield from subscribers(sql)
    if hooks:
        lost = [Lost(*row[2:]) for row in sorted(taken_back, key=lambda row: row[0])]
        yield from add(sql, events.recovered(hooks, lost, EXPIRED), now)


def announce_cancelled(db: Dialect, ids: Sequence[str], now: Micros) -> Op[None]:
    """Jobs that were cancelled while they waited, in the order of their numbers."""
    if not ids:
        return
    hooks = yield from subscribers(db.sql)
    if events.is_asked_for(hooks, events.CANCELLED):
        jobs = sorted((job_in(row) for row in (yield db.sql.get_jobs(ids=db.texts(ids)))), key=lambda job: job.seq)
        yield from add(db.sql, events.cancelled(hooks, jobs), now)


def announce_group(db: Dialect, group_id: str, now: Micros) -> Op[None]:
    """Write the event of a group whose last member has ended."""
    hooks = yield from subscribers(db.sql)
    if events.is_asked_for(hooks, events.GROUP_FINISHED):
        [row] = yield db.sql.groups_by_id(ids=db.texts([group_id]))
        orgs = {org_id for (org_id,) in (yield db.sql.orgs_in_group(group_id=group_id))}
        group = Group(**dict(zip(Group.__struct_fields__, row, strict=True)))
        yield from add(db.sql, events.finished(hooks, group, orgs), now)


def announce_missed(db: Dialect, schedule: Schedule, late: Missed, now: Micros) -> Op[None]:
    yield from add(db.sql, events.missed((yield from subscribers(db.sql)), schedule, late), now)


def announce_troubles(db: Dialect, samples: Sequence[QueueSample], waits_over: Micros, now: Micros) -> Op[None]:
    """Queues of which these samples bring bad news."""
    hooks = (yield from subscribers(db.sql)) if samples else []
    if not events.is_asked_for(hooks, events.QUEUE_UNHEALTHY):
        return
    said = yield db.sql.duty_place(duty=TOLD)
    before = (note_in(said[0][0], Told) if said else None) or Told()
    resting = {row[0] for row in (yield db.sql.resting_queues(now=now))}
    found, after = troubles(samples, before, resting, waits_over)
    for trouble in found:
        yield from add(db.sql, events.unhealthy(hooks, trouble), now)
    if before.queues or after.queues:
        yield db.sql.set_duty_place(duty=TOLD, place=to_json(after))
