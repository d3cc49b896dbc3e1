"""What a leader does for all: bounded pieces of maintenance, as values. A driver does one piece in one transaction, and
only while the leader that asks for it still leads.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from windlass.types import Micros


class Prune(Struct, frozen=True, kw_only=True):
    """Delete finished jobs, with their runs, that are older than their state's retention, counted from `finished_at`;
    None = kept for ever. At most `limit` chains, the oldest first. A chain goes as one, by its last link's rule and date;
    members of a group go only when all of them may, and the group's row with the last of them. A run that the usage
    roll-up has not counted keeps its job. Idempotency keys stay."""

    succeeded: Micros | None = None
    cancelled: Micros | None = None
    dead: Micros | None = None
    limit: int = 1_000


class ForgetKeys(Struct, frozen=True, kw_only=True):
    """Delete idempotency keys whose time is over, at most `limit`."""

    limit: int = 1_000


class RemoveDeadWorkers(Struct, frozen=True, kw_only=True):
    """Remove workers that have been silent for so long; what they hold expires now, so that anybody takes it back."""

    silent_for: Micros


class SampleQueues(Struct, frozen=True, kw_only=True):
    """Write one row of `queue_stats` per queue for the minute that has just ended, unless it is there; drop rows older
    than `keep`."""

    keep: Micros


class RollUpUsage(Struct, frozen=True, kw_only=True):
    """Add the runs that ended up to `until`, and were not counted yet, to `usage_hourly`; at most about `limit` of them.
    Everything up to the watermark is counted exactly once."""

    until: Micros
    limit: int = 10_000


Duty: TypeAlias = Prune | ForgetKeys | RemoveDeadWorkers | SampleQueues | RollUpUsage


class Done(Struct, frozen=True, gc=False):
    """How many rows a duty removed or wrote, and whether there is more of it at once."""

    rows: int
    more: bool = False
