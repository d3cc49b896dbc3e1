"""What a job can know of the jobs that it has waited for."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from windlass.core.queries import ParentsOf
from windlass.drivers.protocol import Driver
from windlass.sealing import readable
from windlass.types import Job, State


class Parent(Struct, frozen=True, kw_only=True):
    """How a job ended that this one has waited for. `result` is what its handler returned, as plain data; None if it did
    not succeed."""

    id: str
    type: str
    state: State
    result: Any = None
    error: str | None = None  # of one that died or was cancelled


async def parents_of(driver: Driver, job_id: str) -> list[Parent]:
    """The parents of a job in the order in which they were enqueued; of a retry chain the last link. Pruned ones are left
    out, and chains without an end: SQL by hand may have made a circle."""
    ids = {edge.parent_id for edge in await driver.read(ParentsOf(job_id=job_id))}
    links: dict[str, Job] = {}
    while ids:
        found = [job for job in await driver.get(sorted(ids)) if job is not None]
        links |= {job.id: job for job in found}
        ids = {job.superseded_by for job in found if job.superseded_by is not None} - links.keys()
    last = [job for job in links.values() if job.superseded_by is None]
    return [parent_in(job) for job in sorted(last, key=lambda job: job.seq)]


def parent_in(job: Job) -> Parent:
    if job.state == "succeeded":
        result = None if job.result is None else msgspec.json.decode(readable(job.result, "result"))
        return Parent(id=job.id, type=job.type, state=job.state, result=result)
    return Parent(id=job.id, type=job.type, state=job.state, error=job.dead_reason or job.last_error)
