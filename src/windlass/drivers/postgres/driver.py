"""PostgreSQL as a job store: many machines, one truth.

Each kind of work has connections of its own (lane.py): claims, settlements, heartbeats, upkeep (leadership, duties and
sweeps), writes, reads. What the statements do is in the modules of the same names as in every driver; what an error means
is in faults.py; how others are told of new work is in wakeups.py.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import psycopg
from msgspec.structs import replace

from windlass.clock import SECOND, StoreClock, ticking
from windlass.core.acting import By
from windlass.core.admission import check_claim
from windlass.core.admission_of_queries import check_ids
from windlass.core.admission_of_settlements import check_settlements
from windlass.core.alterations import AlterAnswer, Alteration, OfWebhooks
from windlass.core.changes import Answer, Settlement
from windlass.core.duties import Done, Duty, ForgetEvents, ForgetUsage, SampleQueues, TellDependants
from windlass.core.eligibility import goes_on_at
from windlass.core.fields import check_lease, check_now
from windlass.core.history import RUNS_LIMIT
from windlass.core.queries import Query, R
from windlass.drivers.ops import dependencies, duties, fleet, inspect, people, samples
from windlass.drivers.postgres import exposure, health, held, jobs, leases, partitions, settlement
from windlass.drivers.postgres.claiming import Claiming
from windlass.drivers.postgres.deadlines import Watch
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.enqueueing import Enqueueing
from windlass.drivers.postgres.faults import Overdue, Taken, translate
from windlass.drivers.postgres.lane import Lane
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.measuring import readings
from windlass.drivers.postgres.place import Migrate, Place, Pooler
from windlass.drivers.postgres.schema import look, migrate, own_steps
from windlass.drivers.postgres.transactions import PostgresTransaction, Spares, Stored
from windlass.drivers.postgres.waiting import Waiting
from windlass.drivers.postgres.wakeups import Notifier, Wakeups, log
from windlass.drivers.postgres.within import Within, who
from windlass.drivers.statement import Op, Statement, T
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
    RowsHeld,
    WaitingType,
)
from windlass.errors import DriverClosed, DriverForked, OutcomeUnknown, StoreUnreachable
from windlass.records import Finding, WorkerInfo
from windlass.types import Claimed, Job, Micros, NewJob, Run

UPKEEP: Final = 2  # connections at most, opened when needed: an election or a sweep goes on beside a duty
ALL: Final = {""}  # told to everybody, whatever queues they serve
SHORTEST_BEAT: Final = 0.5  # seconds that a heartbeat may take, however short the lease

_drivers: Final[weakref.WeakSet[PostgresDriver]] = weakref.WeakSet()
_inherited: Final[list[PostgresDriver]] = []  # by a fork: a child must never close, and so never collect, these connections
os.register_at_fork(after_in_child=lambda: _inherited.extend(_drivers))


class PostgresDriver:
    def __init__(
        self, url: str, *, schema: str = "windlass", pooler: Pooler = "none", migrate: Migrate = "empty",
        timeout: float = 10.0, connections: int = 4,
    ) -> None:  # fmt: skip
        self.place: Final = Place(url, schema, pooler, timeout)
        self.clock: Final = StoreClock()
        self._pid = os.getpid()
        self._closed = False
        self._moved: Micros = 0  # of the clock, since somebody asked
        self._claiming = Claiming()
        self._beat_within = timeout  # as the latest leases want it: nothing on that lane may hold up their renewal
        self._open(migrate)
        watch = self._watch = Watch()
        place = self.place
        self._claims = Lane("claim", place, watch, switches=True)
        self._settles = Lane("settle", place, watch, switches=True)
        self._beats = Lane("beat", place, watch, switches=True, opened=self._measure)
        self._upkeep = Lane("upkeep", place, watch, size=UPKEEP)
        self._reads = Lane("read", place, watch, size=2)
        self._tells = Lane("notify", place, watch, opened=lambda link: self._notifier.opened(link))
        self._notifier = Notifier(place, self._tells)
        self._writes = Lane("write", place, watch, size=connections, opened=self._notifier.opened)
        self._enqueueing = Enqueueing(place, self._writes, self._told)
        self._spares = Spares(place)
        self._within = Within(place, self._tell_of)
        self._wakeups = Wakeups()
        self._waiting = Waiting(place, watch, self._wakeups, self._notifier, self._take_pulse)
        _drivers.add(self)

    def _open(self, mode: Migrate) -> None:
        """Is it there, is it what we know, and what time is it there?"""
        link, watch = Link(self.place), Watch()
        try:
            watch.begin(link, ticking() + 2 * self.place.timeout)
            if look(link, self.place, mode):
                watch.end(link)
                migrate(self.place, mode=mode)
                watch.begin(link, ticking() + self.place.timeout)
            self._measure(link)
        except (psycopg.Error, Taken, Overdue) as error:
            raise translate(error, self.place) from error
        finally:
            watch.end(link)
            watch.close()
            link.give_up()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            durable=True, shared=True, wakeups="push" if self._waiting.pushed else "poll", sql=True, transactional=True,
            single_writer=False,
        )  # fmt: skip

    @property
    def present_wakeups(self) -> str:
        return self._waiting.mode

    # --------------------------------------------------------------------------------------------------------- writes

    async def enqueue(self, jobs_: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        self._check_open()
        return await self._enqueueing.enqueue(tuple(jobs_), now)

    def enqueue_sync(self, jobs_: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        self._check_open()
        return self._enqueueing.enqueue_sync(tuple(jobs_), now)

    def _told(self, queues: set[str]) -> Statement | None:
        """What to say now on the connection that stored something there, if anything."""
        self._wakeups.tell()
        return self._notifier.said_at_once(queues)

    def _tell_of(self, new: Sequence[NewJob], answers: Sequence[Enqueued], now: Micros) -> None:
        queues = jobs.brought(new, answers, now)
        if queues and not self._closed:
            self._wakeups.tell()
            self._notifier.notify(queues)

    def _tell_all(self) -> None:
        self._wakeups.tell()
        self._notifier.notify(ALL)

    async def claim(self, claim: Claim, *, now: Micros) -> list[Claimed]:
        self._check_open()
        check_claim(claim, now)
        claiming, began = self._claiming, ticking()
        took = await self._claims.submit(
            lambda link: claiming.claim(link, claim, now), lambda link: claiming.claim_again(link, claim, now),
            quick=None if claiming.limited else lambda: claiming.claim_quickly(claim, now),
        )  # fmt: skip
        while took.more and not took.jobs:  # each keeps what it did, and has the time of a call
            at = goes_on_at(now, claim.lease_for, round((ticking() - began) * SECOND))
            took = await self._claims.submit(
                partial(claiming.claim, wish=claim, now=at, again=True), partial(claiming.claim_again, wish=claim, now=at)
            )
        if took.jobs:
            self._waiting.look_soon()
        return took.jobs

    async def extend(self, renewals: Sequence[Renewal], *, lease_for: Micros, now: Micros) -> list[Extended]:
        self._check_open()
        check_lease(lease_for)
        asked = tuple(renewals)
        if not asked:
            return []

        def work(link: Link) -> list[Extended]:
            return link.run(leases.extend(asked, lease_for, now))

        self._beat_within = min(self.place.timeout, max(lease_for / SECOND / 3, SHORTEST_BEAT))
        return await self._beats.submit(work, work, self._beat_within)

    async def settle(self, changes: Sequence[Settlement], *, now: Micros) -> list[Answer]:
        self._check_open()
        units = tuple(changes)
        check_settlements(units, now)
        if not units:
            return []

        quick = partial(settlement.ack_at_once, units, now)
        simple = settlement.is_simple(units, now)

        def work(link: Link) -> list[Answer | None]:
            return (
                link.run(settlement.ack_at_once(units, now))
                if simple
                else link.transact(settlement.settle_free(units, now))
            )

        told = await self._settles.submit(work, work, quick=quick if simple else None)
        left = tuple(unit for unit, answer in zip(units, told, strict=True) if answer is None)
        waited: list[Answer] | None = None
        try:
            waited = await self._settle_held(left, now) if left else []
        except StoreUnreachable as error:  # it says that nothing was stored
            if "applied" in told:
                raise OutcomeUnknown(str(self.place)) from error
            raise
        finally:
            if waited or settlement.brings_work(units):  # whom others wait for is among those that were held back
                self._tell_all()
        if waited is None:
            raise RowsHeld(str(self.place), told)
        answers = iter(waited)  # no other settlement waits behind those
        return [next(answers) if answer is None else answer for answer in told]

    async def _settle_held(self, units: Sequence[Settlement], now: Micros) -> list[Answer] | None:
        work = partial(held.settle_in_time, changes=units, now=now, until=ticking() + self.place.lock_timeout)
        return await self._writes.submit(work, work)

    async def expire(self, *, now: Micros, limit: int) -> tuple[int, list[Claimed]]:
        count, paid, undecided = await self._keep_up(lambda: leases.expire(now, limit))
        try:
            await dependencies.pay_on(DIALECT, paid, now, self._keep_up)
        finally:  # whatever becomes of the rest, this much is stored
            if count or paid:
                self._tell_all()
        return count, undecided

    async def alter(self, changes: Sequence[Alteration], *, now: Micros, by: By | None = None) -> list[AlterAnswer]:
        wishes = tuple(changes)
        self._check_open()
        answers = await self._writes.submit(lambda link: link.transact(people.alter(DIALECT, wishes, now, by)))
        if any(told == "applied" and not isinstance(wish, OfWebhooks) for wish, told in zip(wishes, answers, strict=True)):
            self._tell_all()
        return answers

    async def beat(self, worker: WorkerInfo, *, now: Micros) -> None:
        self._check_open()

        def work(link: Link) -> None:
            link.run(fleet.beat(DIALECT, worker, now))

        await self._beats.submit(work, work, self._beat_within)

    async def lead(self, worker_id: str, *, lease_for: Micros, now: Micros) -> Leadership:
        return await self._keep_up(lambda: fleet.lead(DIALECT, worker_id, lease_for, now))

    async def maintain(self, duty: Duty, *, epoch: int | None, now: Micros) -> Done | None:
        if isinstance(duty, SampleQueues):  # to look takes longest, and needs no lock
            found = await self._read(lambda: samples.look(DIALECT, epoch, now))
            return await self._keep_up(lambda: samples.write(DIALECT, duty, found, epoch, now))
        gone = 0
        if isinstance(duty, ForgetEvents | ForgetUsage):  # whole days and months are dropped, before rows are deleted
            gone = await self._keep_up(lambda: partitions.retire(DIALECT, duty, epoch, now))
        done = await self._keep_up(lambda: duties.maintain(DIALECT, duty, epoch, now))
        if isinstance(duty, TellDependants) and done is not None and done.rows:
            self._tell_all()
        return None if done is None else replace(done, rows=done.rows + gone)

    def transact_sync(self, make: Callable[[], Op[T]]) -> T:
        """An operation that may be repeated, as one transaction, for a blocking caller: what copies a store."""
        self._check_open()

        def work(link: Link) -> T:
            return link.transact(make())

        return self._upkeep.submit_sync(work, work)

    def read_sync(self, make: Callable[[], Op[T]]) -> T:
        self._check_open()

        def work(link: Link) -> T:
            return link.read(make())

        return self._reads.submit_sync(work, work)

    async def _keep_up(self, make: Callable[[], Op[T]]) -> T:
        """What may wait for others, apart from whatever jobs and leases wait for. Doing it twice is as good as once."""
        self._check_open()

        def work(link: Link) -> T:
            return link.transact(make())

        return await self._upkeep.submit(work, work)

    # ---------------------------------------------------------------------------------------------------- transactions

    def transaction(self) -> PostgresTransaction:
        self._check_open()
        return PostgresTransaction(self.place, self._spares, self._tell_of_commit)

    def enqueue_within(
        self, connection: object, jobs_: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        self._check_open()
        return self._within.enqueue(connection, tuple(jobs_), now, notify, lambda: self._reads.submit_sync(who, who))

    async def enqueue_within_async(
        self, connection: object, jobs_: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        self._check_open()
        return await self._within.enqueue_async(connection, tuple(jobs_), now, notify, lambda: self._reads.submit(who, who))

    def _tell_of_commit(self, stored: Sequence[Stored], settled: Sequence[Settlement], releases: bool) -> None:
        for new, answers, now in stored:
            self._tell_of(new, answers, now)
        if releases or settlement.brings_work(settled):
            self._tell_all()

    # ---------------------------------------------------------------------------------------------------------- reads

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        names = tuple(ids)
        check_ids(names)
        return await self._read(lambda: inspect.get(DIALECT, names))

    async def runs(self, job_id: str, *, before: int | None = None, limit: int = RUNS_LIMIT) -> list[Run]:
        return await self._read(lambda: inspect.runs(DIALECT, job_id, before, limit))

    async def find(self, query: JobQuery) -> Page:
        return await self._read(lambda: inspect.find(DIALECT, query))

    async def count(self, *, now: Micros) -> list[Count]:
        return await self._read(lambda: inspect.count(DIALECT, now))

    async def waiting_types(self, queues: Sequence[str] | None, *, limit: int) -> list[WaitingType]:
        names = None if queues is None else tuple(queues)
        return await self._read(lambda: inspect.waiting_types(DIALECT, names, limit))

    async def read(self, query: Query[R]) -> list[R]:
        return await self._read(lambda: inspect.read(DIALECT, query))

    async def examine(self, *, now: Micros) -> list[Finding]:
        check_now(now)
        found = await self._read(lambda: health.examine(self.place, own_steps(), now))
        heard = await self._waiting.latency()
        return [*found, health.wakeups("push" if heard else "poll", self.place.pooled, heard)]

    async def exposure(self) -> list[Finding]:
        return await self._read(lambda: exposure.exposure(self.place))

    async def _read(self, make: Callable[[], Op[T]], timeout: float | None = None) -> T:
        self._check_open()

        def work(link: Link) -> T:
            return link.read(make())

        return await self._reads.submit(work, work, timeout)

    # ------------------------------------------------------------------------------------------------ time and wake-ups

    def _measure(self, link: Link) -> None:
        step = self.clock.adopt(readings(link))
        if abs(step) > abs(self._moved):
            self._moved = step
        if abs(step) > SECOND:
            log.warning("the clock of %s moved by %.1f s", self.place, step / SECOND)

    def remeasure(self) -> Micros:
        """By how much the server's clock was seen to move since the last call; looks again in the background."""
        self._check_open()
        moved, self._moved = self._moved, 0
        self._beats.post(self._measure, self._beat_within)
        return moved

    async def wait(self, *, timeout: float) -> bool:
        self._check_open()
        return await self._waiting.wait(timeout)

    async def _take_pulse(self, within: float) -> tuple[int, bool]:
        return await self._read(leases.pulse, min(within, self.place.timeout))

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            raise DriverForked
        if self._closed:
            raise DriverClosed

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._pid != os.getpid():  # the connections and threads are the parent's
            return
        _drivers.discard(self)
        await self._enqueueing.all_landed()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._waiting.close()
        for lane in (self._claims, self._settles, self._beats, self._upkeep, self._writes, self._reads, self._tells):
            lane.close()
        self._spares.close()
        self._watch.close()
