"""The programs that stepped tests let loose on each other, in short words, and the stage they play on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.core.acting import By
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.changes import Answer, Settlement
from windlass.core.settle import Execution, Succeeded
from windlass.core.settle import settle as decide
from windlass.drivers.ops import people
from windlass.drivers.postgres import leases, linking, settlement
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.statement import Op
from windlass.drivers.values import Claim
from windlass.types import Claimed, NewJob

from .server import Server, unique_name
from .soundness import assert_sound
from .stepping import Outcome, Stage, staged, transaction

NOW = 1_800_000_000_000_000
LEASE = 30 * SECOND
LATER = NOW + LEASE
names = iter(range(1, 1_000_000))


@pytest.fixture(scope="module")
def one_stage(postgres_server: Server) -> Iterator[Stage]:
    schema = unique_name("steps")
    with staged(postgres_server.dsn(), schema) as stage:
        yield stage
        stage.run(f"drop schema {schema} cascade")


@pytest.fixture
def stage(one_stage: Stage) -> Stage:
    one_stage.clear()
    return one_stage


def new(**fields: Any) -> NewJob:
    return NewJob(**{"id": f"job-{next(names)}", "type": "work", **fields})


def enqueue(stage: Stage, *jobs: NewJob) -> list[str]:
    return [answer.id for answer in stage.do(linking.enqueue(jobs, NOW))]


def alter(stage: Stage, *changes: Alteration) -> None:
    stage.do(people.alter(DIALECT, changes, NOW))


def wish(worker: str, *queues: str, limit: int = 10, **fields: Any) -> Claim:
    token = f"{worker}-{next(names)}"
    return Claim(queues=queues or ("default",), limit=limit, lease_for=LEASE, worker_id=worker, token=token, **fields)


def claim(claim: Claim, now: int = NOW) -> Op[list[Claimed]]:
    """As the driver claims: one statement, and a transaction when that says so."""
    for _ in range(leases.TRIES):
        taken, todo = yield from leases.claim_at_once(claim, now)
        if taken or todo == leases.NOTHING_ELSE:
            return taken
        if todo != leases.CONTENDED:
            return (yield from transaction(leases.claim(claim, now)))
    return []


def whole(claim: Claim, now: int = NOW) -> Op[list[Claimed]]:
    """The transaction alone, where it is known that the one statement would ask for it."""
    return (yield from transaction(leases.claim(claim, now)))


def held(claim: Claim, now: int = NOW) -> Op[tuple[list[Claimed], int]]:
    """The one statement, and a commit that comes later: what others meet while it is under way."""
    return (yield from transaction(leases.claim_at_once(claim, now)))


def claimed(stage: Stage, *queues: str, now: int = NOW, **fields: Any) -> list[Claimed]:
    jobs = stage.do(leases.claim(wish("first", *queues, **fields), now))
    assert jobs
    return jobs


def settle(jobs: list[Claimed], outcome: Any = None, now: int = NOW) -> Op[list[Answer]]:
    return (
        yield from settled(
            [decide(job, outcome or Succeeded(), Execution(at=now, child_id=f"{job.id}-next")) for job in jobs], now
        )
    )


def settled(units: Sequence[Settlement], now: int) -> Op[list[Answer]]:
    """As the driver settles: what can be one statement, then what nobody holds, then what is left, without the wait for
    held rows before it, which keeps nothing."""
    simple = settlement.is_simple(units, now)
    told = yield from settlement.ack_at_once(units, now) if simple else transaction(settlement.settle_free(units, now))
    left = [unit for unit, answer in zip(units, told, strict=True) if answer is None]
    waited = iter((yield from transaction(settlement.settle(left, now))) if left else [])
    return [next(waited) if answer is None else answer for answer in told]


def wanted(*changes: Alteration, now: int = NOW, by: By | None = None) -> Op[list[AlterAnswer]]:
    return (yield from transaction(people.alter(DIALECT, changes, now, by)))


def sweep(now: int = LATER) -> Op[tuple[int, list[Claimed]]]:
    count, _, undecided = yield from transaction(leases.expire(now, 100))
    return count, undecided


def check(stage: Stage, outcome: Outcome) -> None:
    assert_sound(stage.ask, outcome)


def ids(jobs: list[Claimed]) -> list[str]:
    return [job.id for job in jobs]
