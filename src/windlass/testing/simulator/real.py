"""The real worker in a simulated process: the parts that ship, with the seat's driver, clock and randomness.

Annotations here are values, not text: each worker registers its tasks anew, and evaluating text costs more than the rest.
"""

from windlass.app import Windlass
from windlass.clock import SECOND
from windlass.context import Context
from windlass.signals import Reject, RetryAfter, Snooze
from windlass.testing.simulator.scenario import CAREFUL, LEASE, PLAIN, QUEUES, Seat, Step
from windlass.worker.serving import serve


async def real_worker(seat: Seat) -> None:
    rng = seat.random
    app = Windlass(
        "memory://", driver=seat.driver, clock=seat.clock, random=rng, lease=LEASE / SECOND, grace=rng.choice((0, 1, 20)),
        poll=rng.choice((1, 3)), concurrency=rng.choice((1, 2, 5)), prefetch=rng.choice((0, 4, 500)),
    )  # fmt: skip

    async def work(ctx: Context, number: int, steps: list[Step], ms: int) -> int:
        step = await seat.perform(ctx.job.id, ctx.fence, ctx.job.payload)
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

    app.task(context=True, name=PLAIN)(work)
    app.task(context=True, name=CAREFUL, limits=("l1",))(work)
    await serve(app.worker(queues=QUEUES, worker_id=seat.name))
    await app.close()
