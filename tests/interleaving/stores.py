"""What a program may ask of a store, in steps: by statement where there are statements, by call in memory.

A program is written once, as a generator over these; what it is asked to yield, the stage of the store executes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Protocol

from postgres import programs
from postgres import stepping as steps
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.changes import Answer, Settlement
from windlass.core.duties import Done, Prune
from windlass.core.queries import AllGroups, AllLimits, AllQueues, Query
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.ops import duties, fleet, inspect, people
from windlass.drivers.postgres import leases as postgres_leases
from windlass.drivers.postgres import linking as postgres_linking
from windlass.drivers.postgres.dialect import DIALECT as POSTGRES
from windlass.drivers.sqlite import leases as sqlite_leases
from windlass.drivers.sqlite import linking as sqlite_linking
from windlass.drivers.sqlite import settlement as sqlite_settlement
from windlass.drivers.sqlite.dialect import DIALECT as SQLITE
from windlass.drivers.statement import Op, Statement, T
from windlass.drivers.values import Claim, Enqueued, Extended, JobQuery, Leadership, Renewal
from windlass.testing.comparison import ranked, shown
from windlass.types import Claimed, Job, Micros, NewJob

Steps = Generator[Any, Any, T]
BEGIN, COMMIT = Statement("begin immediate", ()), Statement("commit", ())
LEASE: Micros = 30_000_000


class Store(Protocol):
    def enqueue(self, *jobs: NewJob, now: Micros) -> Steps[list[Enqueued]]: ...
    def claim(self, wish: Claim, now: Micros) -> Steps[list[Claimed]]: ...
    def extend(self, *renewals: Renewal, now: Micros) -> Steps[list[Extended]]: ...
    def settle(self, *changes: Settlement, now: Micros) -> Steps[list[Answer]]: ...
    def expire(self, now: Micros) -> Steps[tuple[int, list[Claimed]]]: ...
    def alter(self, *changes: Alteration, now: Micros) -> Steps[list[AlterAnswer]]: ...
    def lead(self, worker: str, term: Micros, now: Micros) -> Steps[Leadership]: ...
    def maintain(self, duty: Prune, epoch: int, now: Micros) -> Steps[Done | None]: ...
    def find(self) -> Steps[tuple[Job, ...]]: ...
    def read(self, query: Query[Any]) -> Steps[list[Any]]: ...
    def runs(self, job_id: str) -> Steps[list[Any]]: ...


def state(store: Store) -> Steps[Any]:
    """All that two stores must agree on."""
    jobs = yield from store.find()
    runs = list[Any]()
    for job in sorted(jobs, key=lambda job: job.id):
        runs += [job.id, (yield from store.runs(job.id))]
    shared = list[Any]()
    for query in (AllQueues(), AllGroups(), AllLimits()):
        shared += [(yield from store.read(query))]
    return [shown(ranked(jobs)), shown(runs), shared]


# ---------------------------------------------------------------------------------------------------------------- memory


class OnMemory:
    """A call is one step: nothing can come in between."""

    def __init__(self) -> None:
        self.driver = MemoryDriver()
        self.loop = asyncio.new_event_loop()

    def _call(self, name: str, call: Coroutine[Any, Any, T]) -> Steps[T]:
        try:
            yield name
        except GeneratorExit:
            call.close()
            raise
        return self.loop.run_until_complete(call)

    def enqueue(self, *jobs: NewJob, now: Micros) -> Steps[list[Enqueued]]:
        return (yield from self._call("enqueue", self.driver.enqueue(jobs, now=now)))

    def claim(self, wish: Claim, now: Micros) -> Steps[list[Claimed]]:
        return (yield from self._call("claim", self.driver.claim(wish, now=now)))

    def extend(self, *renewals: Renewal, now: Micros) -> Steps[list[Extended]]:
        return (yield from self._call("extend", self.driver.extend(renewals, lease_for=LEASE, now=now)))

    def settle(self, *changes: Settlement, now: Micros) -> Steps[list[Answer]]:
        return (yield from self._call("settle", self.driver.settle(changes, now=now)))

    def expire(self, now: Micros) -> Steps[tuple[int, list[Claimed]]]:
        return (yield from self._call("expire", self.driver.expire(now=now, limit=100)))

    def alter(self, *changes: Alteration, now: Micros) -> Steps[list[AlterAnswer]]:
        return (yield from self._call("alter", self.driver.alter(changes, now=now)))

    def lead(self, worker: str, term: Micros, now: Micros) -> Steps[Leadership]:
        return (yield from self._call("lead", self.driver.lead(worker, lease_for=term, now=now)))

    def maintain(self, duty: Prune, epoch: int, now: Micros) -> Steps[Done | None]:
        return (yield from self._call("maintain", self.driver.maintain(duty, epoch=epoch, now=now)))

    def find(self) -> Steps[tuple[Job, ...]]:
        return (yield from self._call("find", self.driver.find(JobQuery(superseded=True, limit=1000)))).jobs

    def read(self, query: Query[Any]) -> Steps[list[Any]]:
        return (yield from self._call("read", self.driver.read(query)))

    def runs(self, job_id: str) -> Steps[list[Any]]:
        return (yield from self._call("runs", self.driver.runs(job_id)))

    def close(self) -> None:
        self.loop.close()


# ---------------------------------------------------------------------------------------------------------------- SQLite


def written(op: Op[T]) -> Op[T]:
    """As the writer's lane does it."""
    yield BEGIN
    result = yield from op
    yield COMMIT
    return result


class OnSqlite:
    def enqueue(self, *jobs: NewJob, now: Micros) -> Op[list[Enqueued]]:
        return (yield from written(sqlite_linking.enqueue(jobs, now)))

    def claim(self, wish: Claim, now: Micros) -> Op[list[Claimed]]:
        taken, more = yield from written(sqlite_leases.claim(wish, now))
        while more and not taken:
            taken, more = yield from written(sqlite_leases.claim(wish, now, again=True))
        return sqlite_leases.claimed_of(taken, wish, now)

    def extend(self, *renewals: Renewal, now: Micros) -> Op[list[Extended]]:
        return (yield from written(sqlite_leases.extend(renewals, LEASE, now)))

    def settle(self, *changes: Settlement, now: Micros) -> Op[list[Answer]]:
        return (yield from written(sqlite_settlement.settle(changes, now)))

    def expire(self, now: Micros) -> Op[tuple[int, list[Claimed]]]:
        count, _, undecided = yield from written(sqlite_leases.expire(now, 100))
        return count, undecided

    def alter(self, *changes: Alteration, now: Micros) -> Op[list[AlterAnswer]]:
        return (yield from written(people.alter(SQLITE, changes, now)))

    def lead(self, worker: str, term: Micros, now: Micros) -> Op[Leadership]:
        return (yield from written(fleet.lead(SQLITE, worker, term, now)))

    def maintain(self, duty: Prune, epoch: int, now: Micros) -> Op[Done | None]:
        return (yield from written(duties.maintain(SQLITE, duty, epoch, now)))

    def find(self) -> Op[tuple[Job, ...]]:
        return (yield from inspect.find(SQLITE, JobQuery(superseded=True, limit=1000))).jobs

    def read(self, query: Query[Any]) -> Op[list[Any]]:
        return (yield from inspect.read(SQLITE, query))

    def runs(self, job_id: str) -> Op[list[Any]]:
        return (yield from inspect.runs(SQLITE, job_id))


# ------------------------------------------------------------------------------------------------------------ PostgreSQL


class OnPostgres:
    """As the driver does it: what can be one statement is one, the rest are transactions."""

    def enqueue(self, *jobs: NewJob, now: Micros) -> Op[list[Enqueued]]:
        return (yield from steps.transaction(postgres_linking.enqueue(jobs, now)))

    def claim(self, wish: Claim, now: Micros) -> Op[list[Claimed]]:
        return (yield from programs.claim(wish, now))

    def extend(self, *renewals: Renewal, now: Micros) -> Op[list[Extended]]:
        return (yield from postgres_leases.extend(renewals, LEASE, now))

    def settle(self, *changes: Settlement, now: Micros) -> Op[list[Answer]]:
        return (yield from programs.settled(changes, now))

    def expire(self, now: Micros) -> Op[tuple[int, list[Claimed]]]:
        return (yield from programs.sweep(now))

    def alter(self, *changes: Alteration, now: Micros) -> Op[list[AlterAnswer]]:
        return (yield from programs.wanted(*changes, now=now))

    def lead(self, worker: str, term: Micros, now: Micros) -> Op[Leadership]:
        return (yield from steps.transaction(fleet.lead(POSTGRES, worker, term, now)))

    def maintain(self, duty: Prune, epoch: int, now: Micros) -> Op[Done | None]:
        return (yield from steps.transaction(duties.maintain(POSTGRES, duty, epoch, now)))

    def find(self) -> Op[tuple[Job, ...]]:
        return (yield from inspect.find(POSTGRES, JobQuery(superseded=True, limit=1000))).jobs

    def read(self, query: Query[Any]) -> Op[list[Any]]:
        return (yield from inspect.read(POSTGRES, query))

    def runs(self, job_id: str) -> Op[list[Any]]:
        return (yield from inspect.runs(POSTGRES, job_id))
