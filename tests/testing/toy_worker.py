"""A worker in its simplest honest form, and ways to break it: the simulator is tested with these, not with itself.

Each way of being wrong is one method overridden, so that what the simulator catches has a name.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

from windlass.clock import SECOND
from windlass.core.changes import Settlement
from windlass.core.recovery import recover
from windlass.core.settle import Execution, Failed, Outcome, Rejected, Released, Snoozed, Succeeded, WasCancelled, settle
from windlass.drivers.values import Claim, Renewal
from windlass.errors import StoreError
from windlass.testing.simulator.history import Lease
from windlass.testing.simulator.scenario import LEASE, Seat
from windlass.testing.simulator.work import QUEUES, Step
from windlass.types import Claimed, Micros

OUTCOMES: dict[Step, Outcome] = {
    "ok": Succeeded(), "fail": Failed("boom"), "reject": Rejected("no"), "snooze": Snoozed(2 * SECOND),
}  # fmt: skip


def lease_of(job: Claimed) -> Lease:
    return (job.id, job.token)


class ToyWorker:
    slots = 3
    sweeps = True

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.held: dict[Lease, tuple[Claimed, asyncio.Task[None]]] = {}
        self.renewed: dict[Lease, Micros] = {}
        self.cancelled: set[Lease] = set()
        self.stopping = asyncio.Event()

    def name(self) -> str:
        return f"{self.seat.random.getrandbits(64):016x}"

    def token(self) -> str:
        return self.name()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stopping.set)
        beat = loop.create_task(self.beat())
        while not self.stopping.is_set():
            with suppress(StoreError):
                await self.look()
            if not self.stopping.is_set():
                await self.seat.driver.wait(timeout=1.0)
        for job, _ in list(self.held.values()):
            self.stop(job)
        await asyncio.gather(*(task for _, task in self.held.values()), return_exceptions=True)
        beat.cancel()

    async def look(self) -> None:
        seat, free = self.seat, self.slots - len(self.held)
        if self.sweeps:
            now = seat.clock.now()
            _, lapsed = await seat.driver.expire(now=now, limit=10)
            changes = [recover(job, Execution(at=now, child_id=self.name())) for job in lapsed]
            if changes:
                await seat.driver.settle(changes, now=seat.clock.now())
        if free > 0 and not self.stopping.is_set():
            wish = Claim(queues=QUEUES, limit=free, lease_for=LEASE, worker_id=seat.name, token=self.token())
            for job in await seat.driver.claim(wish, now=seat.clock.now()):
                self.take(job)

    def take(self, job: Claimed) -> None:
        if self.is_safe(job.claimed_at):
            self.renewed[lease_of(job)] = job.claimed_at
            self.held[lease_of(job)] = (job, asyncio.get_running_loop().create_task(self.execute(job)))

    def is_safe(self, renewed: Micros) -> bool:
        return self.seat.clock.now() - renewed < LEASE * 2 // 3

    async def execute(self, job: Claimed) -> None:
        started = self.seat.clock.now()
        try:
            outcome = await self.outcome(job)
        except asyncio.CancelledError:
            if lease_of(job) in self.cancelled:
                outcome = WasCancelled()
            elif self.is_safe(self.renewed[lease_of(job)]):
                outcome = Released()
            else:
                self.let_go(job)
                return
        try:
            await self.report(job, outcome, started)
        finally:
            self.let_go(job)

    async def outcome(self, job: Claimed) -> Outcome:
        return OUTCOMES[await self.seat.perform(job.id, job.token, job.payload)]

    def let_go(self, job: Claimed) -> None:
        self.held.pop(lease_of(job), None)
        self.cancelled.discard(lease_of(job))

    def settlement(self, job: Claimed, outcome: Outcome, started: Micros) -> Settlement:
        return settle(job, outcome, Execution(at=self.seat.clock.now(), started_at=started, child_id=self.name()))

    async def report(self, job: Claimed, outcome: Outcome, started: Micros) -> None:
        change = self.settlement(job, outcome, started)
        while True:
            try:
                await self.seat.driver.settle([change], now=self.seat.clock.now())
                return
            except StoreError:
                await asyncio.sleep(0.5)

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(LEASE / SECOND / 10)
            self.fence()
            jobs = [job for job, _ in self.held.values()]
            if not jobs:
                continue
            now = self.seat.clock.now()
            renewals = [Renewal(job.handle, job.token) for job in jobs]
            try:
                async with asyncio.timeout(LEASE / SECOND / 10):
                    answers = await self.seat.driver.extend(renewals, lease_for=LEASE, now=now)
            except (StoreError, TimeoutError):
                continue
            for job, told in zip(jobs, answers, strict=True):
                if lease_of(job) not in self.held:
                    continue
                if told.answer == "applied":
                    self.renewed[lease_of(job)] = now
                else:
                    self.renewed[lease_of(job)] = 0
                if told.cancel_requested:
                    self.cancelled.add(lease_of(job))
                if told.cancel_requested or told.answer != "applied":
                    self.stop(job)

    def fence(self) -> None:
        for job, _ in list(self.held.values()):
            if not self.is_safe(self.renewed[lease_of(job)]):
                self.stop(job)

    def stop(self, job: Claimed) -> None:
        if lease_of(job) in self.seat.fleet.world.history.running:
            self.held[lease_of(job)][1].cancel()
