"""Any driver, with payloads and results sealed on their way in and opened on their way out.

Here, at the seam, everything passes: jobs that are enqueued, fired, claimed and looked at. What does not open is handed on
as it is: a worker makes a dead letter of it, with the reason, and a page says that it is encrypted. Results are sealed by
whoever settles (`worker/holdings.py`), because a settlement does not know its job's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from windlass.core.alterations import AlterAnswer, Alteration, Fire, RetryGroup
from windlass.core.groups import comes_back, stays
from windlass.core.listing import Listed
from windlass.core.queries import Query, R
from windlass.core.uniqueness import is_by_arguments
from windlass.drivers.protocol import Driver, Transaction
from windlass.drivers.values import Claim, Enqueued, JobQuery, Page
from windlass.errors import InvalidInput, Undecodable
from windlass.sealing import SEALED, KeyRing, is_sealed
from windlass.types import Claimed, Job, Micros, NewJob

A = TypeVar("A", Claimed, Job)


class SealedDriver:
    """A driver that encrypts and decrypts. Calls that are not defined here go to the driver inside."""

    def __init__(self, inner: Driver, ring: KeyRing) -> None:
        self._inner = inner
        self._ring = ring

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    # -------------------------------------------------------------------------------------------------------- going in

    async def enqueue(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        return await self._inner.enqueue(sealed(self._ring, jobs), now=now)

    def enqueue_sync(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        return self._inner.enqueue_sync(sealed(self._ring, jobs), now=now)

    def enqueue_within(
        self, connection: object, jobs: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        return self._inner.enqueue_within(connection, sealed(self._ring, jobs), now=now, notify=notify)

    async def enqueue_within_async(
        self, connection: object, jobs: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        return await self._inner.enqueue_within_async(connection, sealed(self._ring, jobs), now=now, notify=notify)

    async def alter(self, changes: Sequence[Alteration], *, now: Micros, **said: Any) -> list[AlterAnswer]:
        for change in changes:
            if isinstance(change, RetryGroup):
                await self._check_in_place(change)
        fired = [
            replace(change, jobs=tuple(sealed(self._ring, change.jobs))) if isinstance(change, Fire) else change
            for change in changes
        ]
        return await self._inner.alter(fired, now=now, **said)

    async def _check_in_place(self, change: RetryGroup) -> None:
        """A member that comes back as another job would take a payload along that is sealed to this one."""
        for job in await self._inner.get([member for member, _ in change.members]):
            if job is not None and job.codec == SEALED and comes_back(job) and not stays(job):
                why = f"its member {job.id} is {job.state} and would come back as another job, and an encrypted payload"
                raise InvalidInput("group", f"{why} belongs to one; enqueue it again, or retry dead members one by one")

    def transaction(self) -> Transaction:
        return SealedTransaction(self._inner.transaction(), self._ring)

    # ------------------------------------------------------------------------------------------------------- going out

    async def claim(self, claim: Claim, *, now: Micros) -> list[Claimed]:
        return [opened(self._ring, job) for job in await self._inner.claim(claim, now=now)]

    async def expire(self, *, now: Micros, limit: int) -> tuple[int, list[Claimed]]:
        count, undecided = await self._inner.expire(now=now, limit=limit)
        return count, [opened(self._ring, job) for job in undecided]

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return [None if job is None else opened(self._ring, job) for job in await self._inner.get(ids)]

    async def find(self, query: JobQuery) -> Page:
        page = await self._inner.find(query)
        return replace(page, jobs=tuple(opened(self._ring, job) for job in page.jobs))

    async def read(self, query: Query[R]) -> list[R]:
        return [self._row(row) for row in await self._inner.read(query)]

    def _row(self, row: Any) -> Any:
        """Of those that hold jobs."""
        if isinstance(row, Job):
            return opened(self._ring, row)
        if isinstance(row, Listed):
            return replace(row, jobs=tuple(opened(self._ring, job) for job in row.jobs))
        return row


class SealedTransaction:
    def __init__(self, inner: Transaction, ring: KeyRing) -> None:
        self._inner = inner
        self._ring = ring

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def enqueue(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        return self._inner.enqueue(sealed(self._ring, jobs), now=now)


def sealed(ring: KeyRing, jobs: Sequence[NewJob]) -> list[NewJob]:
    return [_sealed(ring, job) for job in jobs]


def _sealed(ring: KeyRing, job: NewJob) -> NewJob:
    if job.codec != "json":
        return job
    # A payload is sealed to the id of its job, and these would put it into the row of another.
    if job.retry_mode == "new_job":
        raise InvalidInput("retry_mode", "'new_job' copies payloads from job to job, and encrypted ones belong to one")
    if job.on_duplicate == "replace" and (job.dedupe_key is not None or job.idempotency_key is not None):
        raise InvalidInput("on_duplicate", "'replace' (and debounce) moves a payload, and encrypted ones belong to one job")
    key = job.dedupe_key
    if key is not None and is_by_arguments(key, job):
        key = ring.hidden(key)  # made of the arguments, it would tell them
    payload = ring.seal(job.payload, "payload", job.org_id, job.id)
    return replace(job, payload=payload, codec=SEALED, dedupe_key=key)


def opened(ring: KeyRing, job: A) -> A:
    """The jobs with payloads and results decrypted; what cannot be decrypted stays as it is stored."""
    changes: dict[str, Any] = {}
    if job.codec == SEALED:
        with suppress(Undecodable):
            changes = {"payload": ring.open(job.payload, "payload", job.org_id, job.id), "codec": "json"}
    result = getattr(job, "result", None)  # what is claimed has none
    if is_sealed(result):
        with suppress(Undecodable):
            changes["result"] = ring.open(result, "result", job.org_id, job.id)
    return replace(job, **changes) if changes else job
