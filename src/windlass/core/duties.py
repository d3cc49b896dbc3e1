"""What a leader does for all: bounded pieces of maintenance, as values. A driver does one piece in one transaction, and
only while the leader that asks for it still leads.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from windlass.core.dependencies import SWEPT
from windlass.core.named import Named
from windlass.types import Micros


class Prune(Named, frozen=True, kw_only=True):
    """Delete finished jobs, with their runs, that are older than their state's retention, counted from `finished_at`;
    None = kept for ever. At most `limit` chains, the oldest first. A chain goes as one, by its last link's rule and date;
    members of a group go only when all of them may, and the group's row with the last of them. Idempotency keys stay.
    A store may look at so many jobs at a time: then it says that there is more, also where none went, and the next bite
    with the same rules goes on from there.

    A run that the usage roll-up has not counted keeps its job, once there has been a roll-up at all: a store in which
    nobody counts would otherwise never forget."""

    succeeded: Micros | None = None
    cancelled: Micros | None = None
    dead: Micros | None = None
    limit: int = 1_000


class ForgetKeys(Named, frozen=True, kw_only=True):
    """Delete idempotency keys whose time is over, at most `limit`."""

    limit: int = 1_000


class RemoveDeadWorkers(Named, frozen=True, kw_only=True):
    """Remove workers that have been silent for so long; their valid leases end now, so that anybody takes the jobs back.
    Leadership is not ended by it: that has a date of its own."""

    silent_for: Micros


class SampleQueues(Named, frozen=True, kw_only=True):
    """Write one row of `queue_stats` per queue (declared, with jobs, or with runs that ended) for the minute that has
    just ended, unless that minute has rows already; drop rows of minutes that began longer than `keep` ago. `Done.rows`
    are those written. A queue that is not well, and of which that was not told yet, is announced (`queue.unhealthy`)
    where a webhook asks for it: a job has waited for `waits_over`, or half of the runs have failed (core: health)."""

    keep: Micros
    waits_over: Micros = 300_000_000


class RollUpUsage(Named, frozen=True, kw_only=True):
    """Add the runs that ended up to `until`, and were not counted yet, to `usage_hourly`; at most about `limit` of them:
    those that ended at the same instant as the last go with it. The last minute (`windlass.core.usage.LATE`) is left
    alone. The watermark moves to the last end that was counted, or to `until` when nothing is left, and never back.
    Every run that ended up to it is counted exactly once; one that is settled later is counted then."""

    until: Micros
    limit: int = 10_000


class ForgetUsage(Named, frozen=True, kw_only=True):
    """Delete usage, by the hour and by the day, of days that ended `keep` ago; None = kept for ever. At most about `limit`
    hours' rows and as many of days, the oldest first; a store that keeps a time apart may drop all of it at once."""

    keep: Micros | None = None
    limit: int = 1_000


class ReturnSpace(Named, frozen=True, kw_only=True):
    """Give room that deleting has left back to whoever has the disk, at most `limit` pages, where a store can do so in
    pieces; some of it is kept for what is to come. `Done.rows` are the pages given back."""

    limit: int = 1_000


class RecountLimits(Named, frozen=True, kw_only=True):
    """Where the permits of a limit are not those of the jobs that run, count again: every running job that it concerns
    holds one, nobody else does. Those who wait for a key that has room may try again; jobs that were written by others
    into a fair queue get their turn. At most `limit` limits, so many of those who wait for a key that bars nobody, and so
    many of those without a turn."""

    limit: int = 1_000


class TidyPositions(Named, frozen=True, kw_only=True):
    """In queues with dense positions: where there is no room left between two queued jobs of one priority, all of that
    priority get fresh positions, in their order. Queues with more than `limit` queued jobs are left to the move that needs
    the room. `Done.rows` are the jobs whose position changed."""

    limit: int = 1_000


class AgeJobs(Named, frozen=True, kw_only=True):
    """Raise the priority of jobs that have waited for their queue's `age_after`, since they were due or last raised, by
    one, up to its `age_to`. They keep their positions. At most `limit` jobs of a queue, those first that wait longest in
    the order of dispatch."""

    limit: int = 1_000


class Mend(Named, frozen=True, kw_only=True):
    """Put rows right that contradict each other (`windlass.core.queries.Faults`), as far as no decision is needed: a run
    without a job is deleted, a running job without its run is given one that is open, permits are counted anew and who
    waits for them is let through. At most `limit` rows of a kind, and of one kind at a time; while there is more, others
    go on in between. `Done.rows` are the rows put right. What becomes of the jobs is settled afterwards."""

    limit: int = 1_000


class FanOut(Named, frozen=True, kw_only=True):
    """Make the deliveries of events in the outbox: one for each webhook that is switched on, asks for the event, is of its
    organisation or of all, and was there when it happened. At most `limit` events. `Done.rows` are the deliveries made."""

    limit: int = 500


class ForgetEvents(Named, frozen=True, kw_only=True):
    """Delete events that are older than `keep`, with their deliveries: those that nothing is to be sent of any more, or
    only to webhooks that are switched off or gone. At most `limit` events, unless a store drops a whole day at once;
    `Done.rows` are those deleted."""

    keep: Micros
    limit: int = 1_000


class TellDependants(Named, frozen=True, kw_only=True):
    """Tell jobs that wait for others what ended jobs still owe them, as a sweep does, but take no lease back. At most
    `limit` such words; `Done.rows` are those told. What somebody else holds is left to the next, and with it, perhaps, what
    comes behind."""

    limit: int = SWEPT


Duty: TypeAlias = (
    Prune
    | ForgetKeys
    | RemoveDeadWorkers
    | SampleQueues
    | RollUpUsage
    | ForgetUsage
    | ReturnSpace
    | TidyPositions
    | RecountLimits
    | AgeJobs
    | Mend
    | FanOut
    | ForgetEvents
    | TellDependants
)


class Done(Struct, frozen=True, gc=False):
    """How many rows a duty removed or wrote (of usage: how many runs it counted), and whether its bite was full, so that
    there may be more at once. `refused`: in the store's words, why rows of others that refer to some keep
    them."""

    rows: int
    more: bool = False
    refused: str = ""
