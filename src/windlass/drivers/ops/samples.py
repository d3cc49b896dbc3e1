"""What a minute of each queue looked like: values → statements. Looking takes longest, and needs no write lock."""

from __future__ import annotations

from windlass.core.admission_of_workers import check_duty
from windlass.core.duties import Done, SampleQueues
from windlass.core.fields import check_now
from windlass.core.sampling import Ended, minute_before, samples
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.events import announce_troubles
from windlass.drivers.ops.fleet import is_allowed
from windlass.drivers.ops.inspect import count
from windlass.drivers.rows import to_json
from windlass.drivers.statement import Op
from windlass.records import QueueSample
from windlass.types import Micros


def look(db: Dialect, epoch: int | None, now: Micros) -> Op[list[QueueSample]]:
    """The rows of the minute that has just ended; none when it has some already, or for one who may not write them."""
    check_now(now)
    minute = minute_before(now)
    [(sampled,)] = yield db.sql.is_sampled(minute=minute)
    if sampled or not (yield from is_allowed(db, epoch, now)):
        return []
    queues = yield db.sql.all_queues()
    depth = yield from count(db, now)
    [(unkept,)] = yield db.sql.any_unkept(minute=minute)
    ended = yield db.ended_alike(minute, unkept=bool(unkept))
    ages = yield from oldest(db, now)
    return samples(
        minute, [row[0] for row in queues], [(row.queue, row.label, row.jobs) for row in depth], ages,
        [Ended(*row) for row in ended],
    )  # fmt: skip


def oldest(db: Dialect, now: Micros) -> Op[dict[str, Micros]]:
    """For how long the job of each queue that is due longest has been due."""
    first: dict[str, Micros] = {}
    for queue, created_at, due in (yield db.sql.first_created()):
        earlier = (yield db.sql.first_due(queue=queue, before=due)) if due > created_at else [(due,)]
        first[queue] = min(due, earlier[0][0])
    for queue, due in (yield db.sql.first_waiting(now=now)):
        first[queue] = min(due, first.get(queue, due))
    return {queue: max(now - due, 0) for queue, due in first.items()}


def write(db: Dialect, duty: SampleQueues, found: list[QueueSample], epoch: int | None, now: Micros) -> Op[Done | None]:
    check_duty(duty)
    if not (yield from is_allowed(db, epoch, now)):
        return None
    yield db.sql.drop_samples(before=now - duty.keep)
    if found:  # two may have looked at the same time
        [(sampled,)] = yield db.sql.is_sampled(minute=found[0].minute)
        found = [] if sampled else found
    for row in found:
        yield db.sql.add_sample(
            queue=row.queue, minute=row.minute, depth=to_json(row.depth), oldest=row.oldest,
            finished=to_json(row.finished), waits=to_json(row.waits), runs=to_json(row.runs),
        )  # fmt: skip
    yield from announce_troubles(db, found, duty.waits_over, now)
    return Done(len(found))
