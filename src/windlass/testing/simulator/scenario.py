"""A small fleet and its work, drawn from a seed: producers, workers under a supervisor, and an operator who meddles.

A job's payload says what its handler will do in each of its executions, so the same scenario runs over any worker. The
worker itself is a parameter: the real one in campaigns, naive and deliberately broken ones where the simulator is tested.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.client import Client
from windlass.clock import SECOND
from windlass.config import Settings
from windlass.core.alterations import (
    Alteration,
    Cancel,
    Delete,
    Move,
    MoveBeside,
    PutGroup,
    PutLimit,
    Renormalise,
    Replay,
    RunNow,
    SetPaused,
    SetPriority,
    Swap,
)
from windlass.core.duties import Prune
from windlass.core.eligibility import label_of
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.protocol import Driver
from windlass.errors import DuplicateId, HoldLost, InvalidInput, ResourceBusy, StoreError
from windlass.holds import QueueHold
from windlass.subscriptions import Nobody
from windlass.testing.simulator.conduct import Conduct
from windlass.testing.simulator.faults import Faults, FaultyDriver
from windlass.testing.simulator.history import History
from windlass.testing.simulator.rhythm import schedules
from windlass.testing.simulator.store import Store, run_now
from windlass.testing.simulator.telling import WEBHOOK, Caller
from windlass.testing.simulator.work import (
    CAREFUL,
    GROUP,
    LENGTHS,
    PLAIN,
    QUEUES,
    QUICK,
    SHAPES,
    WELL,
    Plan,
    Step,
    draw_job,
)
from windlass.testing.simulator.world import Process, World
from windlass.types import End, Micros, NewJob, OnFailure, Side
from windlass.worker.recovering import take_back

StoreName = Literal["memory", "sqlite"]
LEASE: Final[Micros] = 6 * SECOND
LEADER_LEASE: Final[Micros] = 3 * SECOND
PRODUCERS: Final = ("p1", "p2")
ENDS: Final[tuple[End, ...]] = ("top", "bottom")
SIDES: Final[tuple[Side, ...]] = ("before", "after")
LIMITS: Final = {"l1": 1, "l2": 2, f"type:{CAREFUL}": 4, "org:o": 3}
SCHEDULED: Final = 1_000_000  # the number of what schedules make
MEMBERS: Final = 1_000  # the group is declared larger than it gets: jobs join it as they come
PATIENCE: Final[Micros] = 1_200 * SECOND  # after the last fault: every retry, every stepped clock, and then some


class Seat:
    """A place in the fleet where a worker runs, with all that it may touch."""

    def __init__(self, fleet: Fleet, process: Process) -> None:
        self.fleet = fleet
        self.process = process
        self.name = process.name
        self.clock = process.clock
        self.random = process.random
        self.driver = FaultyDriver(fleet.store, process, fleet.faults)

    async def perform(self, job_id: str, token: str, payload: bytes) -> Step:
        """The handler: what it does is seen outside the store, and it says how it ended."""
        history, plan = self.fleet.world.history, msgspec.json.decode(payload, type=Plan)
        self.fleet.conduct.begins(job_id, token, self.process)
        done = self.fleet.performed[plan.number] = self.fleet.performed.get(plan.number, -1) + 1
        history.begin(self.name, job_id, token)
        try:
            if plan.ms:
                await asyncio.sleep(plan.ms / 1_000)
        except asyncio.CancelledError:
            history.interrupted(self.name, job_id, token)
            self.fleet.conduct.note_why(self.process, job_id, token)
            raise
        self.fleet.conduct.finishes(job_id, token, self.process)
        step = plan.steps[min(done, len(plan.steps) - 1)]
        if step == "poison":
            history.sometimes("poison")
            await self.process.die()
        history.finish(self.name, job_id, token, step)
        return step


WorkerMain = Callable[[Seat], Coroutine[Any, Any, None]]
FIRES: Final[set[WorkerMain]] = set()  # workers that also see to schedules


class Fleet:
    def __init__(self, seed: int, worker: WorkerMain, *, profile: str, driver: Driver) -> None:
        self.world = World(seed)
        rng = self.world.random
        self.store = Store(self.world, driver)
        self.conduct = Conduct(self.world, self.store.checker, lease_for=LEASE)
        self.faults = Faults(self.world, profile, lease_for=LEASE, horizon=rng.choice((5, 10, 20)) * SECOND)
        self.store.lose_wakeup = self.faults.profile.lose_wakeup
        self.performed: dict[int, int] = {}
        self.ids: list[str] = []
        self._worker = worker
        self._workers = rng.choice((1, 2, 2, 3))
        self._births = 0
        self._tells = rng.choice((0.0, 0.7))
        self._on_failure: OnFailure = ("stop", "continue", "skip")[seed % 3]
        self.worker_timeout: Micros = (4, 8)[seed % 2] * SECOND  # shorter than a lease, or longer
        self._has_schedules = seed % 3 == 0 and worker in FIRES
        self._clocks_differ_for_ever = rng.random() < 0.3
        quick = rng.random() < 0.25  # a burst of short jobs, which workers take ahead of free slots
        self._lengths = QUICK if quick else LENGTHS
        self._pauses = (0, 0, 0, 0.01) if quick else (0, 0, 0.01, 0.5, 2.0)
        self._count = rng.choice((10, 25) if quick else (2, 3, 5, 8, 15))  # jobs of each producer
        self.telling = self.store.checker.telling
        self.telling.is_on = seed % 8 == 5 and worker in FIRES
        self.callers: list[Caller] = []
        self._is_held = seed % 10 in (6, 9)  # not drawn: what other seeds tell stays as it was
        self.world.on_exit = self._forget

    # -------------------------------------------------------------------------------------------------------- a seed

    def run(self) -> None:
        world = self.world
        group = PutGroup(GROUP, MEMBERS, on_failure=self._on_failure)
        shared: list[Alteration] = [
            *(PutLimit(key, most) for key, most in LIMITS.items()), PutLimit("l3", per_second=2.0, burst=2.0),
            group,
        ]  # fmt: skip
        if self.telling.is_on:
            shared.append(WEBHOOK)
        if self._has_schedules:
            rhythm = schedules(world.now, PLAIN, "a", msgspec.json.encode(Plan(SCHEDULED, WELL, 5)))
            self.store.checker.rhythm.begin(rhythm, world.now)
            shared += rhythm
        run_now(self.store.driver.alter(shared, now=world.now))
        for number in range(self._workers):
            self._hire(f"w{number + 1}")
        for name in PRODUCERS:
            world.spawn(name, self._produce)
        world.spawn("operator", self._meddle)
        if self._is_held:
            holder = world.spawn("holder", self._hold)
            world.at(world.now + holder.random.randrange(int(1.5 * self.faults.horizon)), holder.kill)
        self._supervise()
        world.run(until=lambda: not self.faults.raging, deadline=self.faults.horizon)
        world.now = max(world.now, self.faults.horizon)
        self.calm()
        if not world.run(until=self._is_at_rest, deadline=world.now + PATIENCE) and world.history.violation is None:
            for job_id, token in self.conduct.unsaid():
                world.history.break_rule("an outcome is offered until it is answered", f"{job_id} under {token}")
            waiting = ", ".join(
                f"{job.id} is {label_of(job, world.now)} ({job.parked_on}, {job.lost} lost)"
                for job in self.store.checker.unfinished()
            )
            for worker_id in self._left_behind():
                world.history.break_rule("a dead worker leaves the registry", worker_id)
            for message in self._untold():
                world.history.break_rule("what happened is told", message)
            world.history.break_rule("what was acknowledged ends", f"twenty minutes after the last fault: {waiting}")
        if world.history.violation is None:
            self.store.checker.check_all()
            self.conduct.check_ended()

    def calm(self) -> None:
        """Faults are over. Who was stopped goes on, and in most seeds clocks agree again, as far as they can without
        running back."""
        self.world.history.add("world", "calm")
        self.store.lose_wakeup = 0.0
        for caller in self.callers:
            caller.is_bad = False
        for process in self.world.processes:
            process.carry_on()
            if not self._clocks_differ_for_ever:
                process.clock.skew = 0
            if process.name in ("operator", "holder"):  # a wish of theirs must not pause a queue for ever
                process.kill()
        for queue in QUEUES:
            run_now(self.store.driver.alter([SetPaused(queue, False)], now=self.world.now))

    def _is_at_rest(self) -> bool:
        if (
            self.store.checker.open
            or self.store.checker.rhythm.outstanding()
            or self._untold()
            or any(p.name in PRODUCERS and is_alive(p) for p in self.world.processes)
        ):
            return False
        return not self._left_behind() and not self.conduct.unsaid()

    def _untold(self) -> list[str]:
        return self.telling.outstanding(self.store.checker.rows)

    def _left_behind(self) -> list[str]:
        """Dead workers that the registry still knows."""
        known = self.store.checker.succession.registry
        return [worker_id for worker_id in known if not is_alive(self.world.process(worker_id))]

    # ------------------------------------------------------------------------------------------------------ processes

    def _hire(self, name: str) -> None:
        self._births += 1
        rng = self.world.random
        differs = self.faults.raging or self._clocks_differ_for_ever
        skew = rng.randrange(-SECOND // 4, SECOND // 4) if differs else 0
        process = self.world.spawn(f"{name}.{self._births}", lambda process: self._worker(Seat(self, process)), skew=skew)
        self.faults.haunt(process)

    def _supervise(self) -> None:
        """A supervisor looks each second and replaces a worker that is gone. It knows that the dead one is dead, and
        mostly says so."""
        alive = [p for p in self.world.processes if p.name.startswith("w") and is_alive(p)]
        for process in self.world.processes:
            if process.life == "dead" and not process.buried:
                process.buried = True
                self._forget(process)
                if process.name.startswith("w") and self.world.random.random() < self._tells:
                    self.world.spawn(f"after {process.name}", self._take_back)
        if len(alive) < self._workers:
            self._hire("w")
        self.world.at(self.world.now + SECOND, self._supervise)

    async def _take_back(self, process: Process) -> None:
        """What the real supervisor does about a child that is gone, with a connection that fails as any other."""
        driver = FaultyDriver(self.store, process, self.faults)
        client = Client("memory://", Settings(), driver=driver, clock=process.clock, random=process.random)
        await take_back(client, process.name.removeprefix("after "))

    def _forget(self, process: Process) -> None:
        running = self.world.history.running
        for lease in [lease for lease, who in running.items() if who == process.name]:
            del running[lease]

    # ------------------------------------------------------------------------------------------------------- the work

    async def _produce(self, process: Process) -> None:
        driver, rng = FaultyDriver(self.store, process, self.faults), process.random
        for number in range(self._count):
            await asyncio.sleep(rng.choice(self._pauses))
            plan = Plan(number * 2 + (process.name == "p1"), rng.choice(SHAPES), rng.choice(self._lengths))
            new = draw_job(rng, f"{process.name}-{number}", plan, process.clock.now())
            if self.ids and rng.random() < 0.3:  # a small graph grows: whoever it waits for may have ended, or be gone
                after = tuple(dict.fromkeys(rng.choice(self.ids[-6:]) for _ in range(rng.choice((1, 2, 3)))))
                new = replace(new, after=after, after_rule=rng.choice(("cancel", "continue", "continue")))
            await self._enqueue(driver, process, new)

    async def _enqueue(self, driver: FaultyDriver, process: Process, new: NewJob) -> None:
        """Again with the same id until it is answered: an enqueue whose reply was lost is safe to repeat."""
        while True:
            try:
                [answer] = await driver.enqueue([new], now=process.clock.now())
                job_id = answer.id
            except DuplicateId:
                job_id = new.id
            except InvalidInput:  # one that it was to wait for was pruned, or deleted
                new = replace(new, after=())
                continue
            except StoreError:
                await asyncio.sleep(0.5)
                continue
            self.world.history.acknowledged[job_id] = None
            self.world.history.add(process.name, "acknowledged", job_id)
            self.ids.append(job_id)
            return

    async def _meddle(self, process: Process) -> None:
        driver, rng = FaultyDriver(self.store, process, self.faults), process.random
        while self.faults.raging:
            await asyncio.sleep(rng.choice((0.2, 1.0, 5.0)))
            if not self.ids:
                continue
            job_id, queue = rng.choice(self.ids), rng.choice(QUEUES)
            wishes: tuple[Alteration, ...] = (
                Cancel(job_id), Cancel(job_id), RunNow(job_id), Move(job_id, rng.choice(ENDS)), Delete(job_id),
                SetPaused(queue, True), SetPaused(queue, False), SetPaused(queue, False),
                Replay(job_id, f"manual-{rng.getrandbits(32):08x}", reset_attempts=rng.random() < 0.7),
            )  # fmt: skip
            if self._is_held:
                other = rng.choice(self.ids)
                wishes += (SetPriority(job_id, rng.choice((0, 5))), Renormalise(queue))
                wishes += (Swap(job_id, other), MoveBeside(job_id, other, rng.choice(SIDES))) if other != job_id else ()
            try:
                if rng.random() < 0.05:
                    kept = rng.choice((None, 0, SECOND))
                    duty = Prune(succeeded=kept, dead=kept, limit=10)
                    await driver.maintain(duty, epoch=None, now=process.clock.now())
                else:
                    await driver.alter([rng.choice(wishes)], now=process.clock.now())
            except StoreError:
                continue

    async def _hold(self, process: Process) -> None:
        """Somebody who wants a queue for himself now and then, with the real hold; killed at some time, or not."""
        driver, rng = FaultyDriver(self.store, process, self.faults), process.random
        client = Client("memory://", Settings(), driver=driver, clock=process.clock, random=rng)
        if not self.telling.is_on:
            client.subscriptions = Nobody(lambda: driver, client.now)
        while self.faults.raging:
            await asyncio.sleep(rng.choice((0.2, 1.0)))
            hold = QueueHold(
                client, rng.choice(QUEUES), by=process.name, expires_in=rng.choice((1, 3, 8)), wait=rng.choice((0, 3, None))
            )
            with suppress(StoreError, ResourceBusy, HoldLost, InvalidInput):  # the last: nobody knows that queue yet
                async with hold:
                    await asyncio.sleep(rng.choice((0.1, 1.0, 4.0)))


def is_alive(process: Process) -> bool:
    return process.life in ("live", "stopped")


class Report(Struct, frozen=True):
    """One seed, judged."""

    seed: int
    history: History
    jobs: int
    crashes: int
    calls: int
    steps: int

    @property
    def executions(self) -> int:
        return len(self.history.begun)


@contextmanager
def quiet() -> Iterator[None]:
    """Workers complain of every fault, and here there is nobody to read it."""
    logger = logging.getLogger("windlass")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def simulate(
    seed: int, worker: WorkerMain, *, profile: str = "swarm", store: StoreName | MemoryDriver = "memory"
) -> Report:
    """Run one seed to its end. The history says whether a rule was broken."""
    with ExitStack() as opened:
        driver: Driver
        if isinstance(store, MemoryDriver):
            driver = store
        elif store == "memory":
            driver = MemoryDriver()
        else:
            from windlass.drivers.sqlite import SqliteDriver  # heavy, and most campaigns need none

            place = opened.enter_context(tempfile.TemporaryDirectory(prefix="windlass-sim-"))
            driver = SqliteDriver(f"{place}/jobs.db", inline=True, durability="relaxed")
        opened.callback(lambda: run_now(driver.close()))
        fleet = Fleet(seed, worker, profile=profile, driver=driver)
        opened.callback(fleet.world.close)
        opened.enter_context(quiet())
        fleet.run()
        world = fleet.world
        crashes = sum(process.life == "dead" and process.name.startswith("w") for process in world.processes)
        return Report(seed, world.history, len(fleet.store.checker.ids), crashes, fleet.store.calls, world.steps)
