"""A process that dies at a given moment. Run by test_crashes.py, which looks at what is left."""

from __future__ import annotations

import asyncio
import os
import sys

from windlass.core.settle import Execution, Failed, Succeeded, settle
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim
from windlass.types import NewJob

NOW = 10**15
LEASE = 30_000_000


async def prepared(driver: SqliteDriver, **fields: object) -> None:
    await driver.enqueue([NewJob(id="first", type="work", **fields)], now=NOW)  # type: ignore[arg-type]


async def take(driver: SqliteDriver) -> list[object]:
    wish = Claim(queues=("default",), limit=1, lease_for=LEASE, worker_id="doomed", token="doomed")
    return list(await driver.claim(wish, now=NOW))


async def act(driver: SqliteDriver, deed: str, step: str) -> None:
    """Prepare quietly, then arm the crash and do the deed."""
    chain = {"retry_mode": "new_job", "crash_policy": "fail", "max_attempts": 3}
    await prepared(driver, **(chain if deed == "chain" else {"max_attempts": 3}))
    job = (await take(driver))[0] if deed in ("ack", "retry", "chain", "reclaim") else None
    driver._writer.on_step = lambda reached: os._exit(7) if reached == step else None
    if deed == "enqueue":
        await driver.enqueue([NewJob(id="second", type="work")], now=NOW)
    elif deed == "claim":
        await take(driver)
    elif deed == "reclaim":
        wish = Claim(queues=("default",), limit=1, lease_for=LEASE, worker_id="next", token="next")
        await driver.claim(wish, now=NOW + LEASE)
    else:
        outcome = Succeeded(b"1") if deed == "ack" else Failed("boom")
        run = Execution(at=NOW, child_id="child")
        await driver.settle([settle(job, outcome, run)], now=NOW)  # type: ignore[arg-type]


async def stream(driver: SqliteDriver, number: str) -> None:
    """Enqueue, claim and settle for ever, telling of each job only after it was acknowledged."""
    for n in range(1_000_000):
        name = f"{number}-{n}"
        await driver.enqueue([NewJob(id=name, type="work")], now=NOW)
        os.write(1, f"{name}\n".encode())
        wish = Claim(queues=("default",), limit=3, lease_for=LEASE, worker_id="w", token=name)
        jobs = await driver.claim(wish, now=NOW + n)
        run = Execution(at=NOW + n)
        await driver.settle([settle(job, Succeeded() if n % 3 else Failed("x"), run) for job in jobs], now=NOW + n)


async def drain(driver: SqliteDriver, number: str) -> None:
    """One of many processes on one file: lease and settle until nothing is left, telling of each lease.
    It says that it is ready, and waits until all of them are."""
    os.write(1, b"ready\n")
    sys.stdin.readline()
    turn = 0
    while True:
        turn += 1
        wish = Claim(queues=("default",), limit=1 + turn % 9, lease_for=LEASE, worker_id=number, token=f"{number}-{turn}")
        jobs = await driver.claim(wish, now=NOW)
        if not jobs:
            return
        answers = await driver.settle([settle(job, Succeeded(), Execution(at=NOW)) for job in jobs], now=NOW)
        assert set(answers) == {"applied"}, answers
        os.write(1, "".join(f"{job.id}\n" for job in jobs).encode())


async def main(path: str, what: str, detail: str) -> None:
    driver = SqliteDriver(path, busy_timeout=300)
    if what == "stream":
        await stream(driver, detail)
    elif what == "drain":
        await drain(driver, detail)
    else:
        await act(driver, what, detail)
    await driver.close()


asyncio.run(main(*sys.argv[1:4]))
