"""Enqueueing jobs that may wait for others: values → statements."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.admission import check_job
from windlass.core.dependencies import check_links, is_linked
from windlass.core.fields import check_now
from windlass.drivers.ops.dependencies import link
from windlass.drivers.sqlite import jobs
from windlass.drivers.sqlite.dialect import DIALECT
from windlass.drivers.statement import Op
from windlass.drivers.values import Enqueued
from windlass.types import Micros, NewJob


def enqueue(new: Sequence[NewJob], now: Micros) -> Op[list[Enqueued]]:
    check_now(now)
    if not is_linked(new):
        return (yield from jobs.enqueue(new, now))
    for job in new:
        check_job(job)
    check_links(new)
    answers = yield from jobs.enqueue(new, now)
    yield from link(DIALECT, new, answers, now)
    return answers
