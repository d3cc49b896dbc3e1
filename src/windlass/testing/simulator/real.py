"""The real worker in a simulated process: the parts that ship, with the seat's driver, clock and randomness."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from windlass.app import Windlass
from windlass.clock import SECOND
from windlass.context import Context
from windlass.coordinator import Coordinator
from windlass.signals import Reject, RetryAfter, Snooze
from windlass.subscriptions import Nobody
from windlass.testing.simulator.scenario import FIRES, LEADER_LEASE, LEASE, Seat
from windlass.testing.simulator.telling import Caller
from windlass.testing.simulator.work import CAREFUL, PLAIN, QUEUES, Step
from windlass.worker import Worker
from windlass.worker.serving import serve
from windlass.worker.settler import ROOM

# Tasks are made once: each seed starts several workers, and reading a signature costs more than a job does.
DECLARED: Final = Windlass("memory://")
seat_here: Final[ContextVar[Seat]] = ContextVar("windlass_simulated_seat")


async def work(ctx: Context, number: int, steps: list[Step], ms: int) -> int:
    step = await seat_here.get().perform(ctx.job.id, ctx.fence, ctx.job.payload)
    match step:
        case "fail" if number % 2:
            raise RetryAfter(1)
        case "fail":
            raise ValueError("boom")
        case "reject":
            raise Reject("no")
        case "snooze":
            raise Snooze(2)
        case _:
            return number


DECLARED.task(context=True, name=PLAIN)(work)
DECLARED.task(context=True, name=CAREFUL, limits=("l1",))(work)


async def real_worker(seat: Seat) -> None:
    rng = seat.random
    seat_here.set(seat)
    app = Windlass(
        "memory://", driver=seat.driver, clock=seat.clock, random=rng, lease=LEASE / SECOND, grace=rng.choice((0, 1, 20)),
        poll=rng.choice((1, 3)), concurrency=rng.choice((1, 2, 5)), prefetch=rng.choice((0, 4, 500)),
        leader_lease=LEADER_LEASE / SECOND, worker_timeout=seat.fleet.worker_timeout / SECOND,
        webhook_concurrency=5 if seat.fleet.telling.is_on else 0,
    )  # fmt: skip
    listen(app, seat)
    app.tasks.update(DECLARED.tasks)
    worker = app.worker(queues=QUEUES, worker_id=seat.name)
    seat.process.overflow = lambda: overflow(worker, app.client.settings.prefetch)
    seat.process.leads = lambda: leads(worker)
    await serve(worker)
    await app.close()


def listen(app: Windlass, seat: Seat) -> None:
    """In most seeds nobody does, and their stories are as they were before anybody could."""
    client = app.client
    if not seat.fleet.telling.is_on:
        client.subscriptions = Nobody(lambda: client.driver, client.now)
        return
    caller = Caller(seat.fleet.telling, seat.process, raging=seat.fleet.faults.raging)
    seat.fleet.callers.append(caller)
    client.sender = caller


FIRES.add(real_worker)


def leads(worker: Worker) -> bool:
    coordinator = getattr(worker, "_coordinator", None)  # there is none before it runs
    return isinstance(coordinator, Coordinator) and coordinator.election.epoch is not None


def overflow(worker: Worker, prefetch: int) -> str:
    """Which buffer of a worker holds more than was declared. Careful work is asked for apart, up to once more the slots."""
    slots, settler, held = worker._runners[0], worker._settler, len(worker._holdings)
    ahead = prefetch + (slots.size if prefetch else 0)
    if settler.unsettled > ROOM + slots.size:
        return f"{settler.unsettled} outcomes wait to be stored"
    if slots.busy + slots.waiting > slots.size + ahead:
        return f"{slots.waiting} jobs wait for {slots.size} slots, of which {slots.busy} are busy"
    if held > slots.size + ahead + settler.unsettled:
        return f"{held} jobs are held by {slots.size} slots"
    return ""
