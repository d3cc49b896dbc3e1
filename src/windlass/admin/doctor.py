"""What is wrong with a store, in the order in which a person would look; every finding says what to type next.

It only reads. A check that cannot be made on a kind of store is left out, never guessed.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Final

from windlass.admin import repair
from windlass.admin.views import Check, Diagnosis
from windlass.client import Client
from windlass.clock import SECOND, wall
from windlass.core.listing import Kind, ListJobs, Wish
from windlass.core.queries import AllQueues, AllWorkers
from windlass.drivers.protocol import Driver
from windlass.errors import WindlassError
from windlass.records import WorkerInfo
from windlass.types import Job, Micros
from windlass.urls import url_of_file
from windlass.wording import are, in_words, named, plural

LOST_FOR: Final = 60 * SECOND
WAITING_FOR: Final = 60 * SECOND
LOOK: Final = 1_000  # jobs of a kind
SKEW: Final = 2 * SECOND
DEPTH: Final = 3
SKIPPED: Final = frozenset({"node_modules", "__pycache__", "site-packages"})


async def examine(client: Client, *, rows: bool) -> Diagnosis:
    try:
        driver = client.driver
    except WindlassError as error:
        return Diagnosis((Check("store", "problem", str(error)),))
    checks = [_opened(client, driver)]
    checks += [Check(f.name, f.status, f.text, f.command) for f in await driver.examine(now=client.now())]
    checks += [*await asyncio.to_thread(lambda: list(_other_stores(driver))), _clock(client.now())]  # a disk may be slow
    checks += [check async for check in _jobs(driver, client.now(), client.settings.worker_timeout)]
    if rows:
        checks.append(await repair.check(client))
    return Diagnosis(tuple(checks))


def _opened(client: Client, driver: Driver) -> Check:
    can = driver.capabilities
    if not can.durable:
        return Check(
            "store", "warning", f"{client.where} forgets everything when the process ends", "--store sqlite:///jobs.db"
        )
    where = getattr(driver, "path", None) or getattr(driver, "place", client.where)
    if client.settings.durability == "relaxed":
        return Check("store", "warning", f"{where}: durability is relaxed; a power cut may undo what was acknowledged")
    return Check("store", "ok", f"{where}: opens, its schema is current, {can.wakeups} wake-ups")


def _other_stores(driver: Driver) -> Iterator[Check]:
    path: str | None = getattr(driver, "path", None)
    if path is None:
        return
    others = [other for other in _stores_below(Path.cwd(), Path(path).name) if os.path.realpath(other) != path]
    if others:
        yield Check(
            "other stores", "warning", f"a second {Path(path).name} lies at {others[0]}; is this the one you mean?",
            f"windlass doctor --store {shlex.quote(url_of_file(others[0]))}",
        )  # fmt: skip


def _stores_below(directory: Path, name: str, depth: int = DEPTH) -> Iterator[Path]:
    """Files of the same name in a project: a relative default makes one wherever a program is started."""
    try:
        inside = sorted(directory.iterdir())
    except OSError:
        return
    for path in inside:
        if path.name == name and path.is_file():
            yield path
        elif depth and path.is_dir() and not path.is_symlink() and path.name[0] != "." and path.name not in SKIPPED:
            yield from _stores_below(path, name, depth - 1)


def _clock(now: Micros) -> Check:
    apart = abs(wall() - now)
    if apart <= SKEW:
        return Check("clock", "ok", "the store's clock and this machine's agree")
    return Check("clock", "warning", f"the store's clock and this machine's differ by {in_words(apart)}", "timedatectl")


async def _jobs(driver: Driver, now: Micros, worker_timeout: Micros) -> AsyncIterator[Check]:
    counts = await driver.count(now=now)
    paused = {queue.name for queue in (await driver.read(AllQueues())) if queue.paused_at is not None}
    for queue in sorted(paused):
        waiting = sum(count.jobs for count in counts if count.queue == queue and count.label == "queued")
        if waiting:
            yield Check(
                "paused",
                "warning",
                f"queue {queue} is paused and {are(waiting, 'job')} due",
                f"windlass queues resume {queue}",
            )
    [found] = await driver.read(
        ListJobs(wish=Wish(now=now, kinds=(Kind("claimed"), Kind("running"))), first="oldest", limit=LOOK)
    )
    running = found.jobs
    lapsed = [job for job in running if (job.lease_expires_at or now) < now - LOST_FOR]
    if lapsed:
        yield Check(
            "leases", "warning", f"of {plural(len(lapsed), 'job')} the worker is gone, and no other takes "
            f"{'it' if len(lapsed) == 1 else 'them'} back", "windlass worker APP",
        )  # fmt: skip
    else:
        yield Check(
            "leases",
            "ok",
            f"{are(len(running), 'job')} running, under {'a valid lease' if len(running) == 1 else 'valid leases'}",
        )
    async for check in _waiting(driver, now, bool(running), worker_timeout):
        yield check
    dead = sum(count.jobs for count in counts if count.label == "dead")
    if dead:
        yield Check("dead letters", "warning", f"{are(dead, 'job')} dead", "windlass dlq list --by-error")
    else:
        yield Check("dead letters", "ok", "none")


async def _waiting(driver: Driver, now: Micros, running: bool, worker_timeout: Micros) -> AsyncIterator[Check]:
    """Due jobs that nobody takes. Where their queue is served, another worker like those would not take them either."""
    waiting = await driver.waiting_types(None, limit=200)
    queues = sorted({kind.queue for kind in waiting})
    wish = Wish(now=now, kinds=(Kind("queued"),), queues=tuple(queues))
    [page] = await driver.read(ListJobs(wish=wish, first="oldest", limit=LOOK)) if queues else [None]
    late = sorted((job for job in page.jobs if job.ready), key=_due) if page else []
    if not late or now - _due(late[0]) <= WAITING_FOR:
        return
    living = [row for row in await driver.read(AllWorkers()) if now - row.last_heartbeat < worker_timeout]
    unknown = [job for job in late if _is_unknown(job, living)]
    if unknown and now - _due(unknown[0]) > WAITING_FOR:
        types = named(sorted({job.type for job in unknown}), 5)
        yield Check(
            "tasks",
            "warning",
            f"due jobs wait for {in_words(now - _due(unknown[0]))}, and no worker of the queue knows their task ({types})",
            f"windlass jobs why {unknown[0].id}",
        )
    ids = {job.id for job in unknown}
    others = [job for job in late if job.id not in ids]
    if others and not running and now - _due(others[0]) > WAITING_FOR:
        types = named(sorted({job.type for job in others}), 5)
        served = any(_serves(worker, others[0]) for worker in living)
        unserved = ",".join(sorted({job.queue for job in others}))
        next_step = f"windlass jobs why {others[0].id}" if served else f"windlass worker APP --queues {unserved}"
        yield Check(
            "workers",
            "warning",
            f"due jobs wait for {in_words(now - _due(others[0]))} and nothing runs ({types})",
            next_step,
        )


def _due(job: Job) -> Micros:
    return max(job.created_at, job.run_at or 0)


def _serves(worker: WorkerInfo, job: Job) -> bool:
    return not worker.queues or job.queue in worker.queues


def _is_unknown(job: Job, living: Sequence[WorkerInfo]) -> bool:
    serving = [worker for worker in living if _serves(worker, job)]
    return bool(serving) and not any(job.type in worker.types for worker in serving)
