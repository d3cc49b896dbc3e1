"""Whatever is no input, every driver refuses by the name of its field, and a lease that was held is held still."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from served import Server
from windlass.core.acting import By
from windlass.core.alterations import (
    Cancel,
    CreateToken,
    Fire,
    PutLimit,
    PutQueue,
    PutTemplate,
    RetryGroup,
    SetPaused,
    Unchanged,
)
from windlass.core.changes import Ack, Retry
from windlass.core.duties import Prune, SampleQueues
from windlass.core.fields import KEY_LIMIT, NAME_BYTES
from windlass.core.listing import GlimpseJobs, Kind, ListJobs, Place, TallyJobs, Wish
from windlass.core.queries import AllWorkers, AuditPage, DueSchedules, JobsAhead, LeasedUnder, SamplesSince
from windlass.drivers.http import HttpDriver
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim, JobQuery, Renewal
from windlass.errors import InvalidInput
from windlass.records import WorkerInfo
from windlass.types import Claimed, NewGroup, NewJob

NOW = 1_900_000_000_000_000
LEASE = 60_000_000
WISH: dict[str, Any] = {"queues": ("default",), "limit": 1, "lease_for": LEASE, "worker_id": "w", "token": "t"}
Call = Callable[[Driver, Claimed], Awaitable[object]]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(params=["memory", "sqlite", "http", "postgres"])
def open_driver(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Driver]:
    if request.param == "postgres":
        dsn, schema = request.getfixturevalue("empty_store")
        return lambda: PostgresDriver(dsn, schema=schema)
    if request.param == "memory":
        return MemoryDriver
    file = SqliteDriver(str(tmp_path / "bad.db"), durability="relaxed")
    if request.param == "sqlite":
        return lambda: file
    url = request.getfixturevalue("server").store(file)
    return lambda: HttpDriver(url)


def refused(open_driver: Callable[[], Driver], field: str, *calls: Call) -> None:
    """By a store that holds one running job; what is stored stays as it is."""

    async def play() -> None:
        driver = open_driver()
        await driver.enqueue([NewJob(id="a", type="work")], now=NOW)
        [job] = await driver.claim(Claim(**WISH), now=NOW)
        before = await driver.get(["a"])
        for call in calls:
            with pytest.raises(InvalidInput) as error:
                await call(driver, job)
            assert error.value.field == field
        assert await driver.get(["a"]) == before
        await driver.close()

    asyncio.run(play())


async def enqueue_sync(driver: Driver, now: Any) -> object:
    return await asyncio.to_thread(driver.enqueue_sync, [NewJob(id="b", type="work")], now=now)


WITH_NOW: dict[str, Callable[[Driver, Claimed, Any], Awaitable[object]]] = {
    "enqueue": lambda driver, job, now: driver.enqueue([NewJob(id="b", type="work")], now=now),
    "enqueue nothing": lambda driver, job, now: driver.enqueue([], now=now),
    "enqueue_sync": lambda driver, job, now: enqueue_sync(driver, now),
    "claim": lambda driver, job, now: driver.claim(Claim(**WISH), now=now),
    "extend": lambda driver, job, now: driver.extend([Renewal(job.handle, job.token)], lease_for=LEASE, now=now),
    "settle": lambda driver, job, now: driver.settle([Ack(handle=job.handle, token=job.token, at=NOW)], now=now),
    "settle nothing": lambda driver, job, now: driver.settle([], now=now),
    "expire": lambda driver, job, now: driver.expire(now=now, limit=1),
    "alter": lambda driver, job, now: driver.alter([Cancel("a")], now=now),
    "count": lambda driver, job, now: driver.count(now=now),
    "examine": lambda driver, job, now: driver.examine(now=now),
    "lead": lambda driver, job, now: driver.lead("w", lease_for=LEASE, now=now),
    "maintain": lambda driver, job, now: driver.maintain(Prune(succeeded=0), epoch=None, now=now),
    "sample": lambda driver, job, now: driver.maintain(SampleQueues(keep=LEASE), epoch=None, now=now),
}


@pytest.mark.parametrize("name", WITH_NOW)
def test_now_is_a_moment_in_every_call(open_driver: Callable[[], Driver], name: str) -> None:
    def at(now: Any) -> Call:
        return lambda driver, job: WITH_NOW[name](driver, job, now)

    refused(open_driver, "now", *map(at, [-5, "x", 2**70, 10**5000, [], None, True, 1.5]))


def renewed(**fields: Any) -> Call:
    def call(driver: Driver, job: Claimed) -> Awaitable[object]:
        one: Any = Renewal(**{"handle": job.handle, "token": job.token, **fields})
        return driver.extend([Renewal(job.handle, job.token), one], lease_for=2 * LEASE, now=NOW)

    return call


def settled(kind: Any, **fields: Any) -> Call:
    def call(driver: Driver, job: Claimed) -> Awaitable[object]:
        one = kind(**{"handle": job.handle, "token": job.token, "at": NOW, **fields})
        return driver.settle([Ack(handle=job.handle, token=job.token, at=NOW), one], now=NOW)

    return call


def asked(query: Any) -> Call:
    return lambda driver, job: driver.read(query)


def altered(change: Any, by: Any = None) -> Call:
    return lambda driver, job: driver.alter([SetPaused("default", True), change], now=NOW, by=by)


TEMPLATE: dict[str, Any] = {"template_id": "t", "name": "report", "type": "work"}
PARENTED = NewJob(id="b", type="work", schedule_id="s", fire_at=NOW, after=("a",))
OPENING = NewJob(id="b", type="work", schedule_id="s", fire_at=NOW, group_id="g", opens=NewGroup(group_id="g"))
UNDER: dict[str, Any] = {"token": "t", "worker_id": "w", "now": NOW, "limit": 1}
LISTED = ListJobs(wish=Wish(now=NOW), after=Place(1, 2**70))
BAD_WISHES: list[tuple[dict[str, Any], str]] = [
    ({"kinds": (1,)}, "kinds"), ({"kinds": (None,)}, "kinds"), ({"kinds": (Kind(cast("Any", 5)),)}, "label"),
    ({"kinds": (Kind("dead", cast("Any", 5)),)}, "dead_kind"), ({"kinds": (Kind("dead", None, cast("Any", 5)),)}, "ran"),
    ({"kinds": None}, "kinds"), ({"ids": (5,)}, "id"), ({"ids": None}, "ids"), ({"queues": (5,)}, "queue"),
    ({"now": None}, "now"), ({"superseded": 5}, "superseded"), ({"tag": 5}, "tag"), ({"error": 5}, "error"),
]  # fmt: skip
ANN = By(actor="ann", queues=("default",))
TOKEN: dict[str, Any] = {"token_id": "t", "name": "ci", "digest": b"d" * 32, "scopes": ("read",), "queues": ("default",)}
BAD_TOKENS: list[tuple[dict[str, Any], str]] = [({"queues": 5}, "queues"), ({"queues": ([],)}, "queues")]
BAD: list[tuple[Call, str]] = [
    (renewed(progress_note=5), "progress_note"), (renewed(progress_note=[]), "progress_note"),
    (renewed(started_at=-1), "started_at"), (renewed(started_at="x"), "started_at"), (renewed(progress="x"), "progress"),
    (renewed(token=None), "token"), (renewed(handle=5), "handle"), (renewed(handle="\ud800"), "handle"),
    (settled(Ack, at=-5), "at"), (settled(Ack, at=2**61), "at"), (settled(Ack, at="x"), "at"),
    (settled(Ack, started_at=-1), "started_at"), (settled(Ack, result="x"), "result"),
    (settled(Ack, token="\ud800"), "token"), (settled(Ack, handle=None), "handle"), (settled(Ack, report=5), "report"),
    (settled(Retry, attempts=2**70, run_at=None, error=""), "attempts"),
    (settled(Retry, attempts=1, run_at="x", error=""), "run_at"), (settled(Retry, attempts=1, run_at=0, error=5), "error"),
    (altered(PutTemplate(**TEMPLATE, settings=b"{}")), "settings"),  # type: ignore[arg-type]
    (altered(PutTemplate(**TEMPLATE, settings="\ud800")), "settings"),
    (altered(PutTemplate(**TEMPLATE, settings=" " * 2_000_000 + "{}")), "settings"),
    (altered(PutTemplate(**TEMPLATE, params=b'{"a":' * 100_000)), "params"),
    (altered(Unchanged(SetPaused("q", True), 0)), "change"),  # type: ignore[arg-type]
    (altered(RetryGroup("g", (("a", "x"), ("b", "x")))), "members"), (altered("cancel"), "changes"),
    (altered(Fire(schedule_id="s", expected=NOW, next_trigger_at=None, jobs=(PARENTED,))), "jobs"),
    (altered(Fire(schedule_id="s", expected=NOW, next_trigger_at=None, jobs=(OPENING,))), "jobs"),
    (altered(Cancel("a"), By(actor="ann", queues=5)), "queues"),  # type: ignore[arg-type]
    (altered(Cancel("a"), By(actor="ann", org_id="x" * 5_000)), "org_id"),
    *((altered(CreateToken(**{**TOKEN, **bad}), ANN), field) for bad, field in BAD_TOKENS),
    (altered("cancel", ANN), "changes"), (altered(Unchanged(cast("Any", 5), 0), ANN), "change"),
    (lambda driver, job: driver.claim(Claim(**WISH, unhandled=[]), now=NOW), "unhandled"),  # type: ignore[arg-type]
    (lambda driver, job: driver.get(["a", "\ud800"]), "id"), (lambda driver, job: driver.get([5]), "id"),  # type: ignore[list-item]
    (lambda driver, job: driver.runs("\ud800"), "id"), (lambda driver, job: driver.find(JobQuery(before=2**70)), "before"),
    (lambda driver, job: driver.find(JobQuery(queues=("\ud800",))), "queues"),
    (asked(SamplesSince(since=2**70)), "since"), (asked(AuditPage(before=-1)), "before"),
    (asked(DueSchedules(by=2**70)), "by"),
    (asked(ListJobs(wish=cast("Any", None))), "wish"), (asked(TallyJobs(wish=cast("Any", {"now": NOW}))), "wish"),
    *((asked(GlimpseJobs(wish=Wish(**{"now": NOW, **bad}))), field) for bad, field in BAD_WISHES),
    (asked(JobsAhead(job_id="a", most=-1)), "most"), (asked(JobsAhead(job_id=5)), "job_id"), (asked(LISTED), "after"),  # type: ignore[arg-type]
    (asked(LeasedUnder(**UNDER, queues=())), "queues"), (asked(LeasedUnder(**UNDER, queues=("",))), "queue"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "field"), BAD, ids=range(len(BAD)))
def test_what_is_no_input_is_refused_by_its_field(open_driver: Callable[[], Driver], call: Call, field: str) -> None:
    refused(open_driver, field, call)


def test_what_was_given_as_a_list_is_answered_like_what_was_given_as_a_tuple(open_driver: Callable[[], Driver]) -> None:
    async def play() -> None:
        driver, names = open_driver(), cast("Any", ["a", "b"])
        worker = WorkerInfo(
            id="w", hostname="", pid=0, pool_size=0, version="", queues=names, types=names, wakeups="", running=0,
            started_at=0,
        )  # fmt: skip
        await driver.beat(worker, now=NOW)
        [row] = await driver.read(AllWorkers())
        assert (row.queues, row.types) == (("a", "b"), ("a", "b"))
        await driver.close()

    asyncio.run(play())


def test_the_longest_names_and_keys_are_kept_in_every_index(open_driver: Callable[[], Driver]) -> None:
    """Of characters that take four bytes and repeat so rarely that no server can make them shorter."""
    drawn = Random(4)

    def name(size: int) -> str:
        return "".join(chr(drawn.randrange(0x20000, 0x2A000)) for _ in range(size // 4))

    queue, kind, org, key = (name(NAME_BYTES) for _ in range(4))
    key = f"key:{key}"
    fields: dict[str, Any] = {"type": kind, "queue": queue, "org_id": org, "limit_keys": (key,), "max_attempts": 1}

    async def play() -> None:
        driver = open_driver()
        await driver.alter([PutQueue(name=queue, order="fair")], by=By(actor="tests"), now=NOW)
        await driver.alter([PutLimit(key=key, max_used=1)], by=By(actor="tests"), now=NOW)
        ids = [name(NAME_BYTES) for _ in range(3)]
        fields["idempotency_scope"] = name(KEY_LIMIT)
        jobs = [NewJob(id=new, dedupe_key=name(KEY_LIMIT), idempotency_key=name(KEY_LIMIT), **fields) for new in ids]
        await driver.enqueue(jobs, now=NOW)
        for _ in range(2):
            await driver.claim(Claim(**{**WISH, "queues": (queue,), "limit": 3, "worker_id": name(NAME_BYTES)}), now=NOW)
        running, *parked = sorted(await driver.get(ids), key=lambda job: "" if job is None else job.state, reverse=True)
        assert running is not None
        assert (running.state, [job is not None and job.parked_on for job in parked]) == ("running", [key, key])
        await driver.close()

    asyncio.run(play())
