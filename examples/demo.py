"""The store at work: a thousand jobs on a fresh SQLite file, a process killed with SIGKILL in the middle, nothing lost.

    python examples/demo.py

Handlers write every start and every end to a log of their own, outside the store. At the end the log and the store are
compared; the exit code tells whether they agree.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

from windlass import Retry, fixed
from windlass.clock import SECOND
from windlass.core.recovery import recover
from windlass.core.settle import Execution, Failed, Outcome, Succeeded, settle
from windlass.drivers.protocol import Claim, JobQuery
from windlass.drivers.singular import new_token
from windlass.drivers.sqlite import SqliteDriver
from windlass.types import Claimed, Job, NewJob

QUEUES = ("mail", "thumbnails", "payments")
LEASE = SECOND
QUICK = Retry(max_attempts=3, backoff=fixed(0.05))


def jobs() -> list[NewJob]:
    """Mail always works; every fifth thumbnail fails once and every fiftieth for ever; payments must never run twice."""
    policy = {"retry_policy": QUICK.encode(), "max_attempts": QUICK.executions, "max_lost": 5}
    never_twice = {"retry_mode": "new_job", "crash_policy": "fail"}
    made = []
    for n in range(1_000):
        queue = QUEUES[n % 3]
        extra = never_twice if queue == "payments" else {}
        payload = json.dumps({"n": n}).encode()
        made.append(NewJob(id=f"{queue}-{n}", type=f"{queue}.work", queue=queue, payload=payload, **policy, **extra))  # type: ignore[arg-type]
    return made


def handle(job: Claimed, log: int) -> Outcome:
    os.write(log, f"start {job.id}\n".encode())
    n = json.loads(job.payload)["n"]
    if n % 50 == 0 or (n % 5 == 0 and job.attempts == 0):
        return Failed(f"number {n} did not work", ("builtins.RuntimeError",))
    os.write(log, f"done {job.id}\n".encode())
    return Succeeded(json.dumps(n * n).encode())


async def work(path: str, log_path: str, *, until_empty: bool) -> None:
    """A worker in its plainest form: claim, run, settle; and take back what others have lost."""
    driver = SqliteDriver(path)
    log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    while True:
        wish = Claim(queues=QUEUES, limit=10, lease_for=LEASE, worker_id=f"worker-{os.getpid()}", token=new_token())
        batch = await driver.claim(wish, now=driver.clock.now())
        for job in batch:
            change = settle(job, handle(job, log), Execution(at=driver.clock.now(), child_id=str(uuid4())))
            await driver.settle([change], now=driver.clock.now())
        if batch:
            continue
        _, lapsed = await driver.expire(now=driver.clock.now(), limit=100)
        changes = [recover(job, Execution(at=driver.clock.now(), child_id=str(uuid4()))) for job in lapsed]
        await driver.settle(changes, now=driver.clock.now())
        if until_empty and not [c for c in await driver.count(now=driver.clock.now()) if c.label != "dead"]:
            break
        await driver.wait(timeout=0.02)
    os.close(log)
    await driver.close()


async def everything(driver: SqliteDriver) -> list[Job]:
    found: list[Job] = []
    page = await driver.find(JobQuery(superseded=True, limit=500))
    while True:
        found += page.jobs
        if page.cursor is None:
            return found
        page = await driver.find(JobQuery(superseded=True, limit=500, before=page.cursor))


async def main() -> int:
    with tempfile.TemporaryDirectory(prefix="windlass-demo-") as directory:
        path, log_path = f"{directory}/jobs.db", f"{directory}/executions.log"
        driver = SqliteDriver(path)
        print(f"A fresh store: {path}")
        await driver.enqueue(jobs(), now=driver.clock.now())
        print("Enqueued 1,000 jobs on three queues: mail, thumbnails (some fail), payments (must never run twice).")
        done = await asyncio.to_thread(killed_worker, path, log_path)
        print(f"A worker process ran {done} of them and was killed with SIGKILL in the middle of one batch.")
        print(f"Its leases run out in {LEASE / SECOND:g} s; another worker takes over ...")
        await work(path, log_path, until_empty=True)
        answer = await asyncio.to_thread(report, await everything(driver), log_path)
        await driver.close()
        return answer


def killed_worker(path: str, log_path: str) -> int:
    """Let another process work until it has done three hundred jobs, then kill it. Answers how many it did."""
    with subprocess.Popen([sys.executable, __file__, path, log_path]) as child:
        while not Path(log_path).exists() or Path(log_path).read_text().count("done") < 300:
            time.sleep(0.01)
        child.kill()
    return Path(log_path).read_text().count("done")


def report(found: list[Job], log_path: str) -> int:
    log = Path(log_path).read_text().splitlines()
    starts = Counter(line.split()[1] for line in log if line.startswith("start"))
    ends = Counter(line.split()[1] for line in log if line.startswith("done"))
    print(f"\n{'queue':12}{'succeeded':>10}{'dead':>6}{'superseded':>12}{'executions':>12}{'lost leases':>13}")
    for queue in QUEUES:
        mine = [job for job in found if job.queue == queue]
        kinds = Counter("superseded" if job.dead_kind == "superseded" else job.state for job in mine)
        ran, lost = sum(job.executions for job in mine), sum(job.lost for job in mine)
        print(f"{queue:12}{kinds['succeeded']:>10}{kinds['dead']:>6}{kinds['superseded']:>12}{ran:>12}{lost:>13}")
    checks = {
        "every job has ended": all(job.finished_at is not None for job in found),
        "none of the 1,000 is missing": {job.id for job in jobs()} <= {job.id for job in found},
        "every success really ran to its end": all(ends[job.id] >= 1 for job in found if job.state == "succeeded"),
        "every execution the log saw is in the history": all(starts[job.id] <= job.executions for job in found),
        "no payment was started twice": all(starts[job.id] <= 1 for job in found if job.queue == "payments"),
    }
    print()
    for words, holds in checks.items():
        print(f"  {'yes' if holds else 'NO '}  {words}")
    print("\nNext: read examples/demo.py, docs/drivers/contract.md, or run `make test`.")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(work(sys.argv[1], sys.argv[2], until_empty=False))
    else:
        sys.exit(asyncio.run(main()))
