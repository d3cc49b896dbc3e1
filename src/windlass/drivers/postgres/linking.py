"""Enqueueing jobs that may wait for others: values → statements."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.dependencies import check_links, is_linked
from windlass.drivers.ops.dependencies import link
from windlass.drivers.postgres.dialect import CALLERS, DIALECT
from windlass.drivers.statement import Op
from windlass.drivers.values import Enqueued
from windlass.types import Micros, NewJob


def enqueue(jobs: Sequence[NewJob], now: Micros, *, ours: bool = True) -> Op[list[Enqueued]]:
    """Inside a transaction; `ours`: it ends as soon as this does. The jobs were checked."""
    db = DIALECT if ours else CALLERS
    answers = yield from db.enqueue(jobs, now)
    if is_linked(jobs):
        check_links(jobs)
        yield from link(db, jobs, answers, now)
    return answers
