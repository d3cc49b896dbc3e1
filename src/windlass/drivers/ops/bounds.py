"""Whether what a change names is theirs who ask for it: values → statements. Asked only of those who are bounded."""

from __future__ import annotations

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
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.holds import find
from windlass.drivers.ops.inspect import get
from windlass.drivers.rows import token_in
from windlass.drivers.statement import Op


def reaches(db: Dialect, by: By, change: Alteration) -> Op[bool]:
    jobs = jobs_of(change)
    if jobs:
        return all(is_theirs(by, job) for job in (yield from get(db, jobs)))
    if isinstance(change, OF_QUEUES):
        return within(by, by.org_id, queue_of(change))
    if isinstance(change, OF_HOLDS):
        hold = yield from find(db, change.hold_id)
        return hold is None or within(by, by.org_id, hold.queue)
    if isinstance(change, OF_GROUPS):
        rows = yield db.sql.owners_of(ids=db.texts([change.group_id]))
        return owns_all(by, [row[1:] for row in rows])
    if isinstance(change, RevokeToken):
        tokens = [token_in(row) for row in (yield db.sql.all_tokens())]
        return all(has_token(by, token) for token in tokens if token.token_id == change.token_id)
    return True
