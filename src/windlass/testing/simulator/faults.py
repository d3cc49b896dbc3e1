"""Faults: what can go wrong at a driver call, and what can happen to a process at any other time.

A process's driver is wrapped. Every call may take time before or after it takes effect, kill the process on either side
of the commit, lose its reply, find the store unreachable, be delivered twice, or stall past the lease. Which faults a
seed has is itself drawn from the seed (swarm testing): a fault that is always on hides what happens without it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Literal, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import fields, replace

from windlass.clock import SECOND
from windlass.core.acting import By
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.changes import Answer, Settlement
from windlass.core.duties import Done, Duty
from windlass.core.history import RUNS_LIMIT
from windlass.core.queries import Query, R
from windlass.drivers.untransactional import Untransactional
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
from windlass.errors import DriverClosed, StoreError, StoreUnavailable
from windlass.records import Finding, WorkerInfo
from windlass.testing.simulator.store import Store
from windlass.testing.simulator.world import Process, World
from windlass.types import Claimed, Job, Micros, NewJob, Run

T = TypeVar("T")
Fault = Literal[
    "crash_before", "crash_after", "lose_reply", "refuse", "outage", "deliver_twice", "stall_before", "stall_after"
]
WRITES: Final = frozenset({"enqueue", "claim", "extend", "settle", "expire", "alter", "beat", "lead", "maintain"})


class Profile(Struct, frozen=True, kw_only=True):
    """How often what goes wrong: per call above, per virtual second and process below."""

    crash_before: float = 0.0
    crash_after: float = 0.0
    lose_reply: float = 0.0
    refuse: float = 0.0
    outage: float = 0.0
    deliver_twice: float = 0.0
    stall_before: float = 0.0
    stall_after: float = 0.0

    kill: float = 0.0
    stop: float = 0.0
    terminate: float = 0.0
    step_clock: float = 0.0

    lose_wakeup: float = 0.0
    slow: float = 0.3  # the share of calls that take time at all


STORM: Final = Profile(
    crash_before=0.01, crash_after=0.015, lose_reply=0.03, refuse=0.02, outage=0.012, deliver_twice=0.02,
    stall_before=0.008, stall_after=0.008, kill=0.02, stop=0.02, terminate=0.03, step_clock=0.01, lose_wakeup=0.2,
    slow=0.5,
)  # fmt: skip


def only(*names: str) -> Profile:
    """The storm, with all but these faults taken out."""
    return replace(STORM, **{f.name: 0.0 for f in fields(Profile) if f.name not in (*names, "slow")})


PROFILES: Final[dict[str, Profile | None]] = {
    "swarm": None,  # a random share of the storm's faults, drawn from the seed
    "calm": only(),
    "crashes": only("crash_before", "crash_after", "kill", "terminate"),
    "network": only("lose_reply", "refuse", "outage", "deliver_twice", "stall_before", "stall_after", "lose_wakeup"),
    "stops": only("stop", "stall_before", "stall_after"),
    "clocks": only("step_clock", "kill", "lose_wakeup"),
    "storm": STORM,
}


class Faults:
    """The faults of one seed, scheduled until a horizon; after it the world is kind."""

    def __init__(self, world: World, profile: str, *, lease_for: Micros, horizon: Micros) -> None:
        self.world = world
        self.lease_for = lease_for
        self.horizon = world.now + horizon
        chosen = PROFILES[profile]
        if chosen is None:
            rng = world.random
            names = [field.name for field in fields(Profile) if field.name != "slow" and rng.random() < 0.4]
            chosen = replace(only(*names), slow=rng.choice((0.0, 0.3, 0.8)))
        self.profile = chosen
        self._kinds: list[Fault] = [fault for fault in get_args(Fault) if getattr(chosen, fault) > 0]
        self._weights: list[float] = [getattr(chosen, fault) for fault in self._kinds]
        self._total = sum(self._weights)
        self._outages: dict[str, Micros] = {}

    @property
    def raging(self) -> bool:
        return self.world.now < self.horizon

    def draw(self, process: Process, method: str) -> Fault | None:
        if not self._total or not self.raging:
            return None
        if self.world.random.random() >= self._total:
            return None
        [fault] = self.world.random.choices(self._kinds, self._weights)
        if method not in WRITES and fault in ("deliver_twice", "crash_after"):
            return None
        self.world.history.faults[fault] += 1
        self.world.history.add(process.name, "fault", fault, method)
        process.excuse()
        if fault == "outage":
            lasts = self.world.random.randrange(SECOND, 2 * self.lease_for)
            self._outages[process.name] = self.world.now + lasts
            process.excuse(lasts)
            return None
        return fault

    def is_cut_off(self, process: Process) -> bool:
        return self.raging and self._outages.get(process.name, 0) > self.world.now

    def delay(self) -> float:
        """How long one leg of a call takes, in seconds. 0 = it does not even yield."""
        rng = self.world.random
        if rng.random() >= self.profile.slow:
            return 0.0
        return rng.choice((0.0002, 0.001, 0.005, 0.05)) * (0.5 + rng.random())

    def stall(self, process: Process) -> float:
        lasts = self.lease_for / SECOND * self.world.random.choice((0.4, 0.8, 1.1, 2.0))
        process.excuse(int(lasts * SECOND))
        return lasts

    # ------------------------------------------------------------------------------------------------- to a process

    def haunt(self, process: Process) -> None:
        """Plan what happens to a process regardless of its calls."""
        rng, profile = self.world.random, self.profile
        for name in ("kill", "stop", "terminate", "step_clock"):
            rate = getattr(profile, name)
            if rate > 0 and self.raging:
                when = self.world.now + int(rng.expovariate(rate) * SECOND)
                if when < self.horizon:
                    self.world.at(when, lambda name=name: self._strike(process, name))  # type: ignore[misc]

    def _strike(self, process: Process, name: str) -> None:
        if process.life != "live":
            return
        self.world.history.faults[name] += 1
        rng = self.world.random
        match name:
            case "kill":
                process.kill()
            case "terminate":
                process.signal(signal.SIGTERM)
            case "stop":
                process.stop()
                until = self.world.now + int(self.lease_for * rng.choice((0.2, 0.7, 1.2, 3.0)))
                self.world.at(min(until, max(self.horizon, self.world.now)), process.carry_on)
            case "step_clock":
                self.world.history.sometimes("clock_stepped")
                self.world.step_clock(process, rng.choice((-1, 1)) * rng.randrange(SECOND // 2, 120 * SECOND))


class FaultyDriver(Untransactional):
    """The store, as one process reaches it. Transactions block, and a simulated process has no thread to block."""

    def __init__(self, store: Store, process: Process, faults: Faults) -> None:
        self._store = store
        self._process = process
        self._faults = faults
        self._inner = store.driver
        self._history = store.world.history
        self._closed = False

    @property
    def capabilities(self) -> Capabilities:
        return replace(self._inner.capabilities, transactional=False)

    async def _call(self, call: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        if self._closed:
            raise DriverClosed
        method, process, faults = call.__name__, self._process, self._faults
        fault = faults.draw(process, method)
        await self._pass(faults.stall(process) if fault == "stall_before" else faults.delay())
        acting = method == "maintain" and kwargs["epoch"] is not None
        if acting and fault in ("crash_before", "crash_after"):
            self._history.sometimes("leader_lost_acting")
        if fault == "crash_before":
            await process.die()
        if fault == "refuse" or faults.is_cut_off(process):
            if method == "settle":
                self._history.sometimes("settle_unreachable")
            raise StoreUnavailable("the store cannot be reached (simulated); nothing was stored")
        if process.longest_stop > faults.lease_for:
            self._history.sometimes("zombie")
        answer: T = self._store.apply(process, method, *args, **kwargs)
        if fault == "deliver_twice":
            answer = self._store.apply(process, method, *args, **kwargs)
        if fault == "crash_after":
            if method in ("settle", "claim"):
                self._history.sometimes(f"crash_in_{method}")
            await process.die()
        await self._pass(faults.stall(process) if fault == "stall_after" else faults.delay())
        if fault == "lose_reply":
            if method in ("settle", "claim"):
                self._history.sometimes(f"{method}_reply_lost")
            raise StoreError("the connection broke before the answer came (simulated); the call may have taken effect")
        return answer

    async def _pass(self, seconds: float) -> None:
        if seconds > 0:
            await asyncio.sleep(seconds)

    async def enqueue(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        return await self._call(self._inner.enqueue, tuple(jobs), now=now)

    def enqueue_sync(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        answer: list[Enqueued] = self._store.apply(self._process, "enqueue", tuple(jobs), now=now)
        return answer

    async def claim(self, claim: Claim, *, now: Micros) -> list[Claimed]:
        told = self._process.signalled_at
        if told is not None and told < self._store.world.now and not claim.unhandled:
            self._history.break_rule("who was told to stop claims nothing", claim.token, who=self._process.name)
        return await self._call(self._inner.claim, claim, now=now)

    async def extend(self, renewals: Sequence[Renewal], *, lease_for: Micros, now: Micros) -> list[Extended]:
        return await self._call(self._inner.extend, tuple(renewals), lease_for=lease_for, now=now)

    async def settle(self, changes: Sequence[Settlement], *, now: Micros) -> list[Answer]:
        return await self._call(self._inner.settle, tuple(changes), now=now)

    async def expire(self, *, now: Micros, limit: int) -> tuple[int, list[Claimed]]:
        return await self._call(self._inner.expire, now=now, limit=limit)

    async def alter(self, changes: Sequence[Alteration], *, now: Micros, by: By | None = None) -> list[AlterAnswer]:
        return await self._call(self._inner.alter, tuple(changes), now=now, by=by)

    async def beat(self, worker: WorkerInfo, *, now: Micros) -> None:
        return await self._call(self._inner.beat, worker, now=now)

    async def lead(self, worker_id: str, *, lease_for: Micros, now: Micros) -> Leadership:
        return await self._call(self._inner.lead, worker_id, lease_for=lease_for, now=now)

    async def maintain(self, duty: Duty, *, epoch: int | None, now: Micros) -> Done | None:
        return await self._call(self._inner.maintain, duty, epoch=epoch, now=now)

    async def examine(self, *, now: Micros) -> list[Finding]:
        return await self._call(self._inner.examine, now=now)

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return await self._call(self._inner.get, tuple(ids))

    async def runs(self, job_id: str, *, before: int | None = None, limit: int = RUNS_LIMIT) -> list[Run]:
        return await self._call(self._inner.runs, job_id, before=before, limit=limit)

    async def find(self, query: JobQuery) -> Page:
        return await self._call(self._inner.find, query)

    async def count(self, *, now: Micros) -> list[Count]:
        return await self._call(self._inner.count, now=now)

    async def waiting_types(self, queues: Sequence[str] | None, *, limit: int) -> list[WaitingType]:
        return await self._call(self._inner.waiting_types, queues, limit=limit)

    async def read(self, query: Query[R]) -> list[R]:
        return await self._call(self._inner.read, query)

    async def wait(self, *, timeout: float) -> bool:
        if self._closed:
            raise DriverClosed
        store, process = self._store, self._process
        if process.name in store.unseen:
            store.unseen.discard(process.name)
            return True
        told: asyncio.Future[bool] = process.loop.create_future()
        place = (process, told)
        store.waiting.append(place)
        alarm = process.loop.call_later(timeout, _give_up, told)
        try:
            return await told
        finally:
            alarm.cancel()
            if place in store.waiting:
                store.waiting.remove(place)

    async def close(self) -> None:
        self._closed = True


def _give_up(told: asyncio.Future[bool]) -> None:
    if not told.done():
        told.set_result(False)
