"""A client in somebody's name: the same client on the same store, except that each change is noted as theirs and that, if
they are bound to an org or to queues, nothing else exists for them.

The bounds are around the driver, so that everything that goes through it keeps to them. A call that is not known to be
harmless is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from windlass.admin.bounded import narrowed
from windlass.client import Client
from windlass.core.acting import By, beyond, is_theirs, within
from windlass.core.alterations import AlterAnswer, Alteration, Note
from windlass.core.dependencies import unknown_parent
from windlass.core.duties import Done, Duty, Mend
from windlass.core.history import RUNS_LIMIT
from windlass.core.queries import Query, R
from windlass.core.uniqueness import apart
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Capabilities, Count, Enqueued, JobQuery, Page, WaitingType
from windlass.errors import JobNotFound
from windlass.options import JobOptions
from windlass.results import ResultWatch
from windlass.types import Job, Micros, NewJob, Run

MADE_BY = "windlass-by"  # the header in which a job says who enqueued it


class ActingClient(Client):
    __slots__ = ("_by", "_inner")

    _by: By
    _inner: Client

    def __init__(self, client: Client, by: By) -> None:
        if isinstance(client, ActingClient):
            by, client = _inside(client._by, by), client._inner
        self.__dict__ = client.__dict__  # one store, one clock, one end
        self._inner, self._by = client, by

    @property
    def driver(self) -> Driver:
        return cast("Driver", ActingDriver(self._inner.driver, self._by))

    def selecting(self, words: str) -> Client:
        return ActingClient(self._inner, replace(self._by, selection=words))

    def bounded(self, options: JobOptions) -> JobOptions:
        """Their jobs are of their org, whatever they say."""
        if self._by.org_id is None:
            return options
        said = options.copy()
        if said.get("org_id", self._by.org_id) != self._by.org_id:
            raise beyond(self._by, f"a job of the org {said['org_id']!r}")
        said["org_id"] = self._by.org_id
        if said.get("idempotency_scope") == "global":
            raise beyond(self._by, "an idempotency key for all orgs")
        return said

    async def enqueue(self, new: Sequence[NewJob], now: Micros, conn: object = None, notify: bool = True) -> list[Enqueued]:
        self.check_apart("enqueued in somebody's name")  # it would join without being looked at
        return await super().enqueue(new, now, conn, notify)

    async def declare(self) -> None:
        """Declarations of the program are stored in nobody's name."""
        await self._inner.declare()

    def watch(self) -> ResultWatch:
        return ResultWatch(lambda: self.driver)


class ActingDriver:
    """The calls of a driver that look at jobs and change them. The others are for workers, which are not bounded."""

    def __init__(self, inner: Driver, by: By) -> None:
        self._inner = inner
        self._by = by

    def __getattr__(self, name: str) -> Any:
        if self._by.bounded and not name.startswith("_"):
            raise beyond(self._by, name)
        return getattr(self._inner, name)

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    async def alter(self, changes: Sequence[Alteration], *, now: Micros, by: By | None = None) -> list[AlterAnswer]:
        return await self._inner.alter(changes, now=now, by=by or self._by)

    async def enqueue(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        """Enqueue. The job itself says who made it, because jobs are too many for the audit log. Keys are bounded like
        the caller."""
        await self._check(jobs)
        org, queue = self._by.org_id is not None, self._by.queues is not None
        signed = [replace(job, headers={**(job.headers or {}), MADE_BY: self._by.actor}) for job in jobs]
        return await self._inner.enqueue([apart(job, of_org=org, of_queue=queue) for job in signed], now=now)

    async def _check(self, jobs: Sequence[NewJob]) -> None:
        for job in jobs:
            if not within(self._by, job.org_id, job.queue):
                raise beyond(self._by, f"a job in the queue {job.queue!r} of the org {job.org_id!r}")
        named = {parent for job in jobs for parent in job.after} - {job.id for job in jobs}
        if self._by.bounded and named:
            for parent, found in zip(named, await self._inner.get(list(named)), strict=True):
                if not is_theirs(self._by, found):
                    raise unknown_parent(parent)

    async def maintain(self, duty: Duty, *, epoch: int | None, now: Micros) -> Done | None:
        if self._by.bounded:
            raise beyond(self._by, type(duty).__name__)
        done = await self._inner.maintain(duty, epoch=epoch, now=now)
        if isinstance(duty, Mend) and done is not None and done.rows:
            await self.alter([Note("store.repair", "store", done.rows)], now=now)
        return done

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return [job if is_theirs(self._by, job) else None for job in await self._inner.get(ids)]

    async def runs(self, job_id: str, *, before: int | None = None, limit: int = RUNS_LIMIT) -> list[Run]:
        if self._by.bounded and (await self.get([job_id])) == [None]:
            raise JobNotFound(job_id)
        return await self._inner.runs(job_id, before=before, limit=limit)

    async def find(self, query: JobQuery) -> Page:
        by = self._by
        if by.org_id is not None:
            if query.org_id not in (None, by.org_id):
                return Page((), None)
            query = replace(query, org_id=by.org_id)
        if by.queues is not None:
            queues = tuple(queue for queue in query.queues or by.queues if queue in by.queues)
            if not queues:
                return Page((), None)
            query = replace(query, queues=queues)
        return await self._inner.find(query)

    async def count(self, *, now: Micros) -> list[Count]:
        if self._by.org_id is not None:
            raise beyond(self._by, "counts of the jobs of all orgs")
        return [one for one in await self._inner.count(now=now) if within(self._by, None, one.queue)]

    async def waiting_types(self, queues: Sequence[str] | None, *, limit: int) -> list[WaitingType]:
        if self._by.org_id is not None:
            raise beyond(self._by, "counts of the jobs of all orgs")
        found = await self._inner.waiting_types(queues, limit=limit)
        return [one for one in found if within(self._by, None, one.queue)]

    async def read(self, query: Query[R]) -> list[R]:
        if not self._by.bounded:
            return await self._inner.read(query)
        return cast("list[R]", await narrowed(self._inner, self._by, query))


def _inside(outer: By, by: By) -> By:
    """Bounds that are narrowed further: acting as somebody else never widens them."""
    if outer.org_id is not None and by.org_id not in (None, outer.org_id):
        raise beyond(outer, f"the org {by.org_id!r}")
    if outer.queues is not None and not set(by.queues or ()) <= set(outer.queues):
        raise beyond(outer, f"the queues {', '.join(by.queues or ())}")
    return replace(by, org_id=by.org_id or outer.org_id, queues=by.queues if by.queues is not None else outer.queues)
