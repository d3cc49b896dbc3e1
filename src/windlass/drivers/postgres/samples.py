"""What a minute of each queue looked like: values → statements. Looking takes longest, and needs no write lock."""

from __future__ import annotations

from windlass.core.admission import check_duty, check_now
from windlass.core.duties import Done, SampleQueues
from windlass.core.sampling import EDGES, Ended, minute_before, samples
from windlass.drivers.postgres.arrays import Ints
from windlass.drivers.postgres.fleet import is_allowed
from windlass.drivers.postgres.inspect import count
from windlass.drivers.postgres.rows import to_json
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op
from windlass.types import Micros, QueueSample


def look(epoch: int | None, now: Micros) -> Op[list[QueueSample]]:
    """The rows of the minute that has just ended; none when it has some already, or for one who may not write them."""
    check_now(now)
    minute = minute_before(now)
    [(sampled,)] = yield SQL.is_sampled(minute=minute)
    if sampled or not (yield from is_allowed(epoch, now)):
        return []
    queues = yield SQL.all_queues()
    depth = yield from count(now)
    ended = yield SQL.ended_alike(minute=minute, edges=Ints(EDGES))
    ages = yield from oldest(now)
    return samples(
        minute, [row[0] for row in queues], [(row.queue, row.label, row.jobs) for row in depth], ages,
        [Ended(*row) for row in ended],
    )  # fmt: skip


def oldest(now: Micros) -> Op[dict[str, Micros]]:
    """For how long the job of each queue that is due longest has been due."""
    first: dict[str, Micros] = {}
    for queue, created_at, due in (yield SQL.first_created()):
        earlier = (yield SQL.first_due(queue=queue, before=due)) if due > created_at else [(due,)]
        first[queue] = min(due, earlier[0][0])
    for queue, due in (yield SQL.first_waiting(now=now)):
        first[queue] = min(due, first.get(queue, due))
    return {queue: max(now - due, 0) for queue, due in first.items()}


def write(duty: SampleQueues, found: list[QueueSample], epoch: int | None, now: Micros) -> Op[Done | None]:
    check_duty(duty)
    if not (yield from is_allowed(epoch, now)):
        return None
    yield SQL.drop_samples(before=now - duty.keep)
    if found:  # two may have looked at the same time
        [(sampled,)] = yield SQL.is_sampled(minute=found[0].minute)
        found = [] if sampled else found
    for row in found:
        yield SQL.add_sample(
            queue=row.queue, minute=row.minute, depth=to_json(row.depth), oldest=row.oldest,
            finished=to_json(row.finished), waits=to_json(row.waits), runs=to_json(row.runs),
        )  # fmt: skip
    return Done(len(found))
