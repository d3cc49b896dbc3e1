"""The short critical programs: what there is at first, and the two who meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from interleaving.stores import LEASE, Steps, Store
from interleaving.walking import Program
from windlass.core.alterations import (
    Acquire,
    AlterAnswer,
    Cancel,
    Fire,
    Grant,
    PutGroup,
    PutLimit,
    PutSchedule,
    PutTemplate,
)
from windlass.core.cron import next_after
from windlass.core.duties import Prune
from windlass.core.settle import Execution, Failed, Outcome, Rejected, Succeeded
from windlass.core.settle import settle as decide
from windlass.drivers.values import Claim, Extended, Renewal
from windlass.types import Claimed, NewJob

NOW = 1_800_000_000_000_000
LATER = NOW + LEASE  # a lease of NOW has lapsed
TERM = 60_000_000
HOUR = 3_600_000_000
DUE = next_after("0 * * * *", "UTC", NOW) or 0


@dataclass(frozen=True)
class Case:
    pair: str  # as the table in docs/design/interleavings.md calls it
    name: str
    given: Callable[[Store], Steps[Any]]
    programs: Mapping[str, Program]

    def __str__(self) -> str:
        return self.name

    def weaker(self) -> list[Mapping[str, Program]]:
        """Where not all writers wait for each other, one of them may do less than it was asked for, if it says so."""
        return [
            {**self.programs, name: less}
            for name, program in self.programs.items()
            if isinstance(program, Claims | Extends | Takes)
            for less in program.weaker()
        ]


def new(number: int, **fields: Any) -> NewJob:
    return NewJob(**{"id": f"job-{number}", "type": "work", **fields})


def wish(worker: str, *queues: str, limit: int = 10) -> Claim:
    return Claim(queues=queues or ("default",), limit=limit, lease_for=LEASE, worker_id=worker, token=f"token-{worker}")


def queued(*jobs: NewJob) -> Callable[[Store], Steps[Any]]:
    def given(store: Store) -> Steps[Any]:
        yield from store.enqueue(*jobs, now=NOW)

    return given


def running(*jobs: NewJob, altered: Any = (), waiting: tuple[NewJob, ...] = ()) -> Callable[[Store], Steps[list[Claimed]]]:
    """The facts are what was claimed."""

    def given(store: Store) -> Steps[list[Claimed]]:
        yield from store.alter(*altered, now=NOW)
        yield from store.enqueue(*jobs, now=NOW)
        taken = yield from store.claim(wish("first"), NOW)
        yield from store.enqueue(*waiting, now=NOW)
        return taken

    return given


@dataclass(frozen=True)
class Claims:
    wish: Claim
    now: int

    def __call__(self, store: Store, _: Any) -> Steps[list[Claimed]]:
        return (yield from store.claim(self.wish, self.now))

    def weaker(self) -> list[Program]:
        """It steps over what others hold, and may come away with nothing."""

        def nothing(_: Store, __: Any) -> Steps[list[Claimed]]:
            yield from ()
            return []

        return [nothing]


@dataclass(frozen=True)
class Extends:
    now: int
    held: tuple[int, ...] = ()

    def __call__(self, store: Store, jobs: list[Claimed]) -> Steps[list[Extended]]:
        kept = {index: Extended("applied", jobs[index].lease_expires_at) for index in self.held}
        asked = [index for index in range(len(jobs)) if index not in kept]
        told = yield from store.extend(*(Renewal(jobs[i].handle, jobs[i].token) for i in asked), now=self.now)
        return [answer for _, answer in sorted([*kept.items(), *zip(asked, told, strict=True)])]

    def weaker(self) -> list[Program]:
        """What others hold keeps the lease that it has, and the answer says so."""
        return [Extends(self.now, held) for held in ((0,), (1,), (0, 1))]


@dataclass(frozen=True)
class Takes:
    """Two calls: between them the queue is asked for and not granted."""

    hold: str
    now_or_later: bool = False

    def __call__(self, store: Store, _: Any) -> Steps[list[AlterAnswer]]:
        [acquired] = yield from store.alter(Acquire(self.hold, "default", "api", TERM), now=NOW)
        if self.now_or_later and acquired == "applied":
            return [acquired, "requested"]
        return [acquired, *(yield from store.alter(Grant(self.hold, TERM), now=NOW))]

    def weaker(self) -> list[Program]:
        """Somebody who might claim is under way: not yet."""
        return [Takes(self.hold, now_or_later=True)]


def claims(worker: str, limit: int = 10, now: int = NOW) -> Claims:
    return Claims(wish(worker, limit=limit), now)


def alters(*changes: Any, now: int = NOW) -> Program:
    return lambda store, _: store.alter(*changes, now=now)


def enqueues(*jobs: NewJob) -> Program:
    return lambda store, _: store.enqueue(*jobs, now=NOW)


def sweeps(now: int = LATER) -> Program:
    return lambda store, _: store.expire(now)


def settles(outcome: Outcome, *which: int, now: int = NOW) -> Program:
    def program(store: Store, jobs: list[Claimed]) -> Steps[Any]:
        chosen = [jobs[index] for index in which] if which else jobs
        units = [decide(job, outcome, Execution(at=now, child_id=f"{job.id}-next")) for job in chosen]
        return (yield from store.settle(*units, now=now))

    return program


def bids(worker: str, now: int) -> Program:
    return lambda store, _: store.lead(worker, LEASE, now)


def prunes(epoch: int, now: int) -> Program:
    return lambda store, _: store.maintain(Prune(succeeded=0), epoch, now)


def led(store: Store) -> Steps[Any]:
    """`old` leads, and there is something to prune."""
    yield from store.enqueue(new(1), now=NOW)
    jobs = yield from store.claim(wish("first"), NOW)
    yield from store.settle(*(decide(job, Succeeded(), Execution(at=NOW)) for job in jobs), now=NOW)
    yield from store.lead("old", LEASE, NOW)


def scheduled(store: Store) -> Steps[Any]:
    schedule = PutSchedule(schedule_id="s", name="nightly", template="report", cron_expression="0 * * * *")
    yield from store.alter(PutTemplate(template_id="t", name="report", type="work"), schedule, now=NOW)


def fires(number: int) -> Program:
    job = new(number, schedule_id="s", fire_at=DUE)
    return alters(Fire(schedule_id="s", expected=DUE, next_trigger_at=DUE + HOUR, jobs=(job,)))


def limited(most: int, jobs: int) -> Callable[[Store], Steps[Any]]:
    def given(store: Store) -> Steps[Any]:
        yield from store.alter(PutLimit("k", most), now=NOW)
        yield from store.enqueue(*(new(number, limit_keys=("k",)) for number in range(jobs)), now=NOW)

    return given


NO = Rejected("no")
MEMBERS = (new(1, group_id="g"), new(2, group_id="g"))
CASES = [
    Case("claim–claim", "two claims of all", queued(new(1), new(2), new(3)), {"one": claims("a"), "two": claims("b")}),
    Case("claim–claim", "two claims of some", queued(new(1), new(2), new(3)),
         {"one": claims("a", 2), "two": claims("b", 2)}),
    Case("claim–claim", "two claims, one job is due", queued(new(1), new(2, run_at=NOW)),
         {"one": claims("a", 1), "two": claims("b", 1)}),
    Case("claim–cancel", "a claim and a cancel", queued(new(1)), {"one": claims("a"), "two": alters(Cancel("job-1"))}),
    Case("claim–cancel", "a claim and a cancel of a member",
         running(altered=[PutGroup("g", 1)], waiting=(new(1, group_id="g"),)),
         {"one": claims("a"), "two": alters(Cancel("job-1"))}),
    Case("settle–expire", "an ack and a sweep", running(new(1), new(2)),
         {"one": settles(Succeeded(), now=LATER - 1), "two": sweeps()}),
    Case("settle–expire", "an ack with a result and a sweep", running(new(1)),
         {"one": settles(Succeeded(b"1"), now=LATER - 1), "two": sweeps()}),
    Case("settle–expire", "a failure and a sweep", running(new(1)),
         {"one": settles(Failed("no", retry_in=1), now=LATER - 1), "two": sweeps()}),
    Case("settle–expire", "a sweep and a claim that takes back", running(new(1), new(2)),
         {"one": sweeps(), "two": claims("a", now=LATER)}),
    Case("settle–extend", "an ack and an extension", running(new(1), new(2)),
         {"one": settles(Succeeded(), 0), "two": Extends(NOW + 1)}),
    Case("settle–extend", "a failure and an extension", running(new(1), new(2)),
         {"one": settles(Failed("no", retry_in=1), 0), "two": Extends(NOW + 1)}),
    Case("settle–extend", "two ends of one lease", running(new(1)),
         {"one": settles(Succeeded()), "two": settles(Failed("no", retry_in=1))}),
    Case("extend–expire", "an extension and a sweep", running(new(1), new(2)),
         {"one": Extends(LATER - 1), "two": sweeps()}),
    Case("enqueue–enqueue", "two of one dedupe key", queued(),
         {"one": enqueues(new(1, dedupe_key="k")), "two": enqueues(new(2, dedupe_key="k"))}),
    Case("enqueue–enqueue", "two of one idempotency key", queued(),
         {name: enqueues(new(number, idempotency_scope="s", idempotency_key="k"))
          for number, name in enumerate(("one", "two"))}),
    Case("enqueue–enqueue", "two that replace one", queued(new(0, dedupe_key="k")),
         {name: enqueues(new(number, dedupe_key="k", on_duplicate="replace", payload=name.encode()))
          for number, name in enumerate(("one", "two"), 1)}),
    Case("enqueue–enqueue", "a key that its holder lets go", running(new(1, dedupe_key="k")),
         {"one": enqueues(new(2, dedupe_key="k")), "two": settles(Succeeded())}),
    Case("last parents", "two that succeed", running(new(1), new(2), waiting=(new(3, after=("job-1", "job-2")),)),
         {"one": settles(Succeeded(), 0), "two": settles(Succeeded(), 1)}),
    Case("last parents", "one that fails", running(new(1), new(2), waiting=(new(3, after=("job-1", "job-2")),)),
         {"one": settles(Succeeded(), 0), "two": settles(NO, 1)}),
    Case("last parents", "the last members of a group", running(*MEMBERS, altered=[PutGroup("g", 2)]),
         {"one": settles(Succeeded(), 0), "two": settles(Succeeded(b"x"), 1)}),
    Case("leaders", "two who stand", queued(), {"one": bids("a", NOW), "two": bids("b", NOW)}),
    Case("leaders", "a term that lapsed", led, {"one": bids("old", LATER), "two": bids("new", LATER)}),
    Case("leaders", "a duty and a hand-over", led, {"one": prunes(1, LATER - 1), "two": bids("new", LATER)}),
    Case("hold–claim", "a hold and a claim", queued(new(1)), {"one": Takes("h"), "two": claims("a")}),
    Case("hold–claim", "a hold and a claim that promotes", queued(new(1, run_at=NOW)),
         {"one": Takes("h"), "two": claims("a")}),
    Case("hold–claim", "a hold and an end", running(new(1)), {"one": Takes("h"), "two": settles(Failed("no", retry_in=1))}),
    Case("hold–claim", "two who want one queue", queued(),
         {name: alters(Acquire(name, "default", "api", TERM)) for name in ("one", "two")}),
    Case("permit–permit", "two claims of one permit", limited(1, 3), {"one": claims("a"), "two": claims("b")}),
    Case("permit–permit", "two claims of two permits", limited(2, 3), {"one": claims("a", 1), "two": claims("b", 2)}),
    Case("permit–permit", "a permit that comes back",
         running(new(1, limit_keys=("k",)), altered=[PutLimit("k", 1)], waiting=(new(2, limit_keys=("k",)),)),
         {"one": settles(Succeeded()), "two": claims("a")}),
    Case("permit–permit", "a permit that a sweep gives back",
         running(new(1, limit_keys=("k",)), altered=[PutLimit("k", 1)], waiting=(new(2, limit_keys=("k",)),)),
         {"one": sweeps(), "two": claims("a", now=LATER)}),
    Case("fire–fire", "two who fire one time", scheduled, {"one": fires(1), "two": fires(2)}),
]  # fmt: skip
