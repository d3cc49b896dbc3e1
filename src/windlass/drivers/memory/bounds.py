"""Whether what a change names is theirs who ask for it. Asked only of those who are bounded."""

from __future__ import annotations

from collections.abc import Collection

from windlass.core.acting import (
    OF_GROUPS,
    OF_HOLDS,
    OF_QUEUES,
    By,
    has_token,
    is_theirs,
    jobs_of,
    owns_all,
    queue_of,
    within,
)
from windlass.core.alterations import Alteration, RevokeToken
from windlass.drivers.memory.tables import Tables
from windlass.records import GroupOwner


def reaches(tables: Tables, by: By, change: Alteration) -> bool:
    jobs = jobs_of(change)
    if jobs:
        return all(is_theirs(by, tables.find(job_id)) for job_id in jobs)
    if isinstance(change, OF_QUEUES):
        return within(by, by.org_id, queue_of(change))
    if isinstance(change, OF_HOLDS):
        hold = tables.holds.get(change.hold_id)
        return hold is None or within(by, by.org_id, hold.queue)
    if isinstance(change, OF_GROUPS):
        return owns_all(by, [(owner.org_id, owner.queue) for owner in owners(tables, [change.group_id])])
    if isinstance(change, RevokeToken):
        token = tables.tokens.get(change.token_id)
        return token is None or has_token(by, token)
    return True


def owners(tables: Tables, groups: Collection[str]) -> list[GroupOwner]:
    found = {
        (job.group_id, job.org_id, job.queue) for job in tables.jobs.values()
        if job.group_id is not None and job.group_id in groups
    }  # fmt: skip
    return [GroupOwner(*one) for one in sorted(found, key=lambda one: (one[0], one[1] or "", one[2]))]
