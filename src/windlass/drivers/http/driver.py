"""The driver contract over the worker protocol. The server keeps every rule, on its store and by its clock.

Arguments are checked before anything is sent. Transactions are not offered: nobody should hold a lock of the store across
a network that may fail.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from msgspec.structs import replace

from windlass.clock import StoreClock, ticking
from windlass.core.acting import By
from windlass.core.admission import check_claim, check_job
from windlass.core.admission_of_changes import check_alterations
from windlass.core.admission_of_queries import check_ids, check_query
from windlass.core.admission_of_settlements import check_renewal, check_settlements
from windlass.core.admission_of_workers import check_duty, check_worker
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.changes import Answer, Settlement, stored_report
from windlass.core.duties import Done, Duty
from windlass.core.fields import check_characters, check_lease, check_limit, check_name, check_now
from windlass.core.history import RUNS_LIMIT, check_page
from windlass.core.queries import Query, R
from windlass.drivers.http import wire
from windlass.drivers.http.encoding import decoded, encoded
from windlass.drivers.http.faults import TooLarge, all_told
from windlass.drivers.http.link import FIRST_PAUSE, Link, Lost, paused
from windlass.drivers.http.looking import is_of
from windlass.drivers.http.place import Place
from windlass.drivers.values import (
    Capabilities,
    Claim,
    Count,
    Enqueued,
    Extended,
    JobQuery,
    Leadership,
    Page,
    Renewal,
    WaitingType,
)
from windlass.errors import (
    DriverClosed,
    DriverForked,
    DuplicateId,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
    WrongConnection,
)
from windlass.records import Finding, WorkerInfo
from windlass.types import Claimed, Job, Micros, NewJob, Run

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
U = TypeVar("U")
SAMPLES: Final = 3  # of the server's clock, when we come and each time it is measured anew
WAITS_OVER: Final = 5.0  # seconds that the reply to a wait may take beyond the wait
ASKS_AGAIN: Final = 0.5  # seconds until a wait asks a server again that failed
NO_TRANSACTIONS: Final = "is reached over HTTP, which has no transactions"


class HttpDriver:
    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 10.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:  # fmt: skip
        self.place: Final = Place.of(url, token)
        self.clock: Final = StoreClock()
        self._timeout = timeout
        self._pid = os.getpid()
        self._closed = False
        self._moved: Micros = 0
        self._link = Link(self.place, transport)
        try:
            self._store = self._link.send(self._greet()).result()
        except BaseException:
            self._link.close()
            raise
        self._wake = self._store.wake

    def __repr__(self) -> str:
        return f"HttpDriver({self.place.where})"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=self._store.durable, shared=True, wakeups="push", sql=False, transactional=False)

    async def _greet(self) -> wire.Store:
        """Ask who is there, and what time it is."""
        samples = []
        for _ in range(SAMPLES):
            asked = ticking()
            store = decoded(await self._link.ask(wire.ROOT, None, self._timeout, again=True), wire.Store)
            samples.append((asked, ticking(), store.now))
        if store.protocol != wire.PROTOCOL:
            raise StoreUnavailable(
                f"{self.place.where}: it speaks version {store.protocol} of our protocol, not {wire.PROTOCOL}"
            )
        self._moved += self.clock.adopt(samples)
        return store

    # --------------------------------------------------------------------------------------------------------- writes

    async def enqueue(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        return await self._run(self._enqueue(self._checked(jobs, now), now))

    def enqueue_sync(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        self._check_open()
        return self._link.send(self._enqueue(self._checked(jobs, now), now)).result()

    def _checked(self, jobs: Sequence[NewJob], now: Micros) -> tuple[NewJob, ...]:
        self._check_open()
        new = tuple(jobs)
        check_now(now)
        for job in new:
            check_job(job)
        return new

    async def _enqueue(self, new: tuple[NewJob, ...], now: Micros) -> list[Enqueued]:
        """All are stored or none is, under ids of ours: after a lost reply these tell which, if they are the jobs that were
        asked for. Those that are not there then were duplicates, and are so again."""
        until, pause = ticking() + self._timeout, FIRST_PAUSE
        is_lost = False
        while True:
            try:
                return await self._ask("driver/enqueue", wire.EnqueueCall(jobs=new, now=now), list[Enqueued], again=False)
            except Lost:
                is_lost = True
            except DuplicateId:
                if not is_lost:
                    raise
            except StoreError:
                if is_lost:  # the try before may still be on its way
                    raise OutcomeUnknown(self.place.where) from None
                raise
            try:
                stored = await self._stored(new)
            except StoreError:
                raise OutcomeUnknown(self.place.where) from None
            if stored:
                rest = tuple(job for job in new if job.id not in stored)
                others = iter(await self._enqueue(rest, now)) if rest else iter(())
                return [Enqueued(job.id) if job.id in stored else next(others) for job in new]
            if ticking() + pause >= until:
                raise OutcomeUnknown(self.place.where)
            pause = await paused(pause)

    async def _stored(self, new: tuple[NewJob, ...]) -> set[str]:
        rows = await self._ask("driver/get", wire.GetCall(ids=tuple(job.id for job in new)), list[Job | None])
        for asked, row in zip(new, rows, strict=True):
            if row is not None and not is_of(row, asked):  # the try that was lost was refused for it, or will be
                raise DuplicateId(asked.id)
        return {row.id for row in rows if row is not None}

    async def claim(self, claim: Claim, *, now: Micros) -> list[Claimed]:
        self._check_open()
        check_claim(claim, now)
        call = wire.ClaimCall(
            queues=tuple(claim.queues), limit=claim.limit, lease=_time(claim.lease_for), worker_id=claim.worker_id,
            token=claim.token, types=None if claim.types is None else tuple(claim.types), unhandled=claim.unhandled,
            start=claim.start, reclaim=claim.reclaim, sure=claim.sure, now=now,
        )  # fmt: skip
        taken = await self._call("claim", call, wire.Taken)
        self._wake = taken.wake
        return [wire.claimed_of(work) for work in taken.jobs]

    async def extend(self, renewals: Sequence[Renewal], *, lease_for: Micros, now: Micros) -> list[Extended]:
        self._check_open()
        check_lease(lease_for)
        check_now(now)
        for one in renewals:
            check_renewal(one)
        beats = tuple(
            wire.Beat(
                id=one.handle, token=one.token, started_at=one.started_at, progress=one.progress,
                progress_note=one.progress_note,
            ) for one in renewals
        )  # fmt: skip
        lease = _time(lease_for)
        return await self._run(
            self._in_parts("extend", beats, lambda part: wire.ExtendCall(renewals=part, lease=lease, now=now), Extended)
        )

    async def settle(self, changes: Sequence[Settlement], *, now: Micros) -> list[Answer]:
        self._check_open()
        units = tuple(changes)
        check_settlements(units, now)
        units = tuple(map(_storable, units))
        kind: Any = Answer | None
        patience = 2 * self._timeout  # the server may wait as long as we would for a row that somebody holds
        answers = await self._run(
            self._in_parts("driver/settle", units, lambda part: wire.SettleCall(changes=part, now=now), kind, patience)
        )
        return all_told(self.place.where, answers)

    async def _in_parts(
        self, name: str, units: tuple[T, ...], call: Callable[[tuple[T, ...]], wire.Call], kind: type[U], within: float = 0
    ) -> list[U]:
        """Send the units in one request, or in as few as are allowed. Units are independent, and a repeated one is
        answered as such."""
        body = encoded(call(units))
        if len(body) <= self._store.largest_body or len(units) < 2:
            try:
                answer = await self._link.ask(f"{wire.ROOT}/{name}", body, within or self._timeout, again=True)
                return decoded(answer, list[kind])  # type: ignore[valid-type]
            except TooLarge:  # a proxy may take less than the server says of itself
                if len(units) < 2:
                    raise
        half = len(units) // 2
        first = await self._in_parts(name, units[:half], call, kind, within)
        return [*first, *await self._in_parts(name, units[half:], call, kind, within)]

    async def expire(self, *, now: Micros, limit: int) -> tuple[int, list[Claimed]]:
        self._check_open()
        check_now(now)
        check_limit(limit)
        lapsed = await self._call("driver/expire", wire.ExpireCall(limit=limit, now=now), wire.Lapsed)
        return lapsed.taken_back, [wire.claimed_of(work) for work in lapsed.undecided]

    async def alter(self, changes: Sequence[Alteration], *, now: Micros, by: By | None = None) -> list[AlterAnswer]:
        self._check_open()
        wishes = tuple(changes)
        check_now(now)
        check_alterations(wishes, by)
        call = wire.AlterCall(changes=wishes, by=by, now=now)
        return await self._call("driver/alter", call, list[AlterAnswer], again=False)

    async def beat(self, worker: WorkerInfo, *, now: Micros) -> None:
        self._check_open()
        check_worker(worker)
        check_now(now)
        await self._call("driver/beat", wire.BeatCall(worker=worker, now=now), wire.Beaten)

    async def lead(self, worker_id: str, *, lease_for: Micros, now: Micros) -> Leadership:
        self._check_open()
        check_name("worker_id", worker_id)
        check_lease(lease_for)
        check_now(now)
        return await self._call(
            "driver/lead", wire.LeadCall(worker_id=worker_id, lease=_time(lease_for), now=now), Leadership
        )

    async def maintain(self, duty: Duty, *, epoch: int | None, now: Micros) -> Done | None:
        self._check_open()
        check_duty(duty)
        check_now(now)
        call = wire.MaintainCall(duty=duty, epoch=epoch, now=now)
        return (await self._call("driver/maintain", call, wire.Maintained)).done

    # ---------------------------------------------------------------------------------------------------------- reads

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        names = tuple(ids)
        check_ids(names)
        return await self._call("driver/get", wire.GetCall(ids=names), list[Job | None])

    async def runs(self, job_id: str, *, before: int | None = None, limit: int = RUNS_LIMIT) -> list[Run]:
        self._check_open()
        check_characters("id", job_id)
        check_page(before, limit)
        return await self._call("driver/runs", wire.RunsCall(job_id=job_id, before=before, limit=limit), list[Run])

    async def find(self, query: JobQuery) -> Page:
        self._check_open()
        check_query(query)
        return await self._call("driver/find", wire.FindCall(query=query), Page)

    async def count(self, *, now: Micros) -> list[Count]:
        self._check_open()
        check_now(now)
        return await self._call("driver/count", wire.MomentCall(now=now), list[Count])

    async def waiting_types(self, queues: Sequence[str] | None, *, limit: int) -> list[WaitingType]:
        self._check_open()
        check_limit(limit)
        named = None if queues is None else tuple(queues)
        call = wire.WaitingCall(queues=named, limit=limit)
        return await self._call("driver/waiting-types", call, list[WaitingType])

    async def read(self, query: Query[R]) -> list[R]:
        self._check_open()
        check_query(query)
        return wire.rows_of(query, await self._call("driver/read", wire.ReadCall(query=query), wire.RawRows))

    async def examine(self, *, now: Micros) -> list[Finding]:
        self._check_open()
        check_now(now)
        return await self._call("driver/examine", wire.MomentCall(now=now), list[Finding])

    # --------------------------------------------------------------------------------------------- what is not offered

    def transaction(self) -> NoReturn:
        self._check_open()
        raise WrongConnection(f"{self.place.where} {NO_TRANSACTIONS}; settle, and enqueue what follows before that")

    def enqueue_within(self, connection: object, jobs: Sequence[NewJob], *, now: Micros, notify: bool = True) -> NoReturn:
        self._check_open()
        raise WrongConnection(f"{self.place.where} {NO_TRANSACTIONS}; enqueue after your own commit")

    async def enqueue_within_async(
        self, connection: object, jobs: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> NoReturn:
        self.enqueue_within(connection, jobs, now=now, notify=notify)

    # ------------------------------------------------------------------------------------------------ time and wake-ups

    def remeasure(self) -> Micros:
        """By how much the clock of the server was seen to move since the last call. Looks again in the background."""
        self._check_open()
        moved, self._moved = self._moved, 0
        self._link.send(self._measure())
        return moved

    async def _measure(self) -> None:
        try:
            await self._greet()
        except StoreError:  # the next time; whoever needs the server now meets the error in its own words
            return

    async def wait(self, *, timeout: float) -> bool:
        self._check_open()
        return await self._run(self._wait(ticking() + timeout))

    async def _wait(self, until: float) -> bool:
        while True:
            left = max(until - ticking(), 0)
            slice_ = min(left, self._store.longest_wait)
            call = wire.WaitCall(timeout=slice_, wake=self._wake)
            try:
                woken = await self._link.until_closed(
                    self._ask("wait", call, wire.Woken, within=slice_ + WAITS_OVER), wire.Woken(True, self._wake)
                )
            except StoreError:  # the next claim meets the error; what happens meanwhile is told by the mark
                await asyncio.sleep(min(left, ASKS_AGAIN))
            else:
                self._wake = woken.wake
                if woken.told:
                    return True
            if ticking() >= until:
                return False

    # ------------------------------------------------------------------------------------------------------- the calls

    async def _call(self, name: str, call: wire.Call, kind: type[T], *, again: bool = True) -> T:
        self._check_open()
        try:
            return await self._run(self._ask(name, call, kind, again=again))
        except Lost:
            raise OutcomeUnknown(self.place.where) from None

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._check_open()
        except BaseException:
            work.close()
            raise
        return await asyncio.wrap_future(self._link.send(work))

    async def _ask(
        self, name: str, call: wire.Call, kind: type[T], *, again: bool = True, within: float | None = None
    ) -> T:
        body = encoded(call)
        return decoded(await self._link.ask(f"{wire.ROOT}/{name}", body, within or self._timeout, again=again), kind)

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            raise DriverForked
        if self._closed:
            raise DriverClosed

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._pid == os.getpid():  # after a fork the thread is the parent's
            await asyncio.to_thread(self._link.close)


def _storable(change: Settlement) -> Settlement:
    return change if change.report is None else replace(change, report=stored_report(change.report))


def _time(micros: Micros) -> str:
    return f"{micros}us"
