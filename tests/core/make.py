"""Rows for tests of the core, made by the core's own functions so that no test invents an impossible one."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core import rows
from windlass.types import Claimed, Job, NewJob

NOW = 1_900_000_000 * SECOND
LEASE = 30 * SECOND
FENCE = "t1"
OTHER_FENCE = "t2"


def new(**fields: Any) -> NewJob:
    return NewJob(**{"id": "job-1", "type": "mail", **fields})


def queued(**fields: Any) -> Job:
    """A queued row; `fields` are columns of the stored job."""
    return replace(rows.enqueued(new(), seq=1, position=100, now=NOW), **fields)


def running(**fields: Any) -> Job:
    """A leased row that has begun; `fields` are columns of the stored job."""
    leased = rows.claimed(queued(), token=FENCE, worker_id="w1", lease_for=LEASE, start=True, now=NOW)
    return replace(leased, **fields)


def claimed(**fields: Any) -> Claimed:
    """What a worker holds of a leased row."""
    return replace(rows.as_claimed(running(), "run-1", 1), **fields)
