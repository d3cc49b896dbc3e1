"""A queue of which the last minutes are known: so many jobs came in each, a worker ended so many of them, and lives."""

from __future__ import annotations

from windlass.clock import SECOND
from windlass.core.duties import SampleQueues
from windlass.core.sampling import MINUTE
from windlass.core.settle import Execution, Succeeded, settle
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Claim
from windlass.records import WorkerInfo
from windlass.types import Micros, NewJob


async def busy(driver: Driver, now: Micros, *, come: int, end: int, minutes: int = 5, queue: str = "mail") -> None:
    """Until the last whole minute before `now`."""
    for number in range(minutes):
        begins = now - now % MINUTE - (minutes - number) * MINUTE
        jobs = [NewJob(id=f"{queue}-{number}-{n}", type="t", queue=queue) for n in range(come)]
        await driver.enqueue(jobs, now=begins)
        wish = Claim(queues=(queue,), limit=end, lease_for=60 * SECOND, worker_id="w1", token=f"t{number}")
        got = await driver.claim(wish, now=begins)
        done = begins + 2 * SECOND
        await driver.settle([settle(job, Succeeded(), Execution(done, begins)) for job in got], now=done)
        await driver.maintain(SampleQueues(keep=7 * 86_400 * SECOND), epoch=None, now=begins + MINUTE)
    worker = WorkerInfo(
        id="w1", hostname="h", pid=1, pool_size=4, version="1", queues=(queue,), types=("t",), wakeups="poll", running=1,
        started_at=now,
    )  # fmt: skip
    await driver.beat(worker, now=now)
