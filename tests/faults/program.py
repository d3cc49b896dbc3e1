"""The processes of the fault tests: `python -m faults.program run|child|supervise|enqueue|crash|stop ...`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from windlass.drivers.sqlite import SqliteDriver
from windlass.errors import StoreError
from windlass.handles import JobHandle
from windlass.worker import supervisor
from windlass.worker.serving import serve
from windlass.worker.stats import Stats
from windlass.worker.supervisor import Supervisor, stopped_with_parent, supervised_worker_id

from . import crash, tasks

ACCEPTED = "FAULTS_ACCEPTED"
log = logging.getLogger("faults")


def run(*queues: str) -> None:
    report(tasks.app.run(queues=queues or None))


def child() -> None:
    async def main() -> Stats:
        worker = tasks.app.worker(worker_id=supervised_worker_id())
        try:
            with stopped_with_parent(worker):
                return await serve(worker)
        finally:
            await tasks.app.close()

    report(asyncio.run(main()))


def supervise(processes: str, *command: str) -> None:
    supervisor.LONGEST_PAUSE = 0.4  # type: ignore[misc]  # tests do not want to sit through the growing pauses

    async def main() -> int:
        try:
            return await Supervisor(tasks.app.client, [sys.executable, *command], int(processes)).run()
        finally:
            await tasks.app.close()

    sys.exit(asyncio.run(main()))


def enqueue(first: str, last: str) -> None:
    """One job after the other; each is told of only after its enqueue has returned."""
    fd = os.open(os.environ[ACCEPTED], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    kinds: list[Callable[[int], JobHandle[Any]]] = [
        tasks.quick.enqueue_sync, lambda n: tasks.slow.enqueue_sync(0.02), tasks.flaky.enqueue_sync,
        lambda n: tasks.blocking.enqueue_sync(""), lambda n: tasks.ledger.enqueue_sync(0.02), tasks.quick.enqueue_sync,
        lambda n: tasks.limited.enqueue_sync(0.005), tasks.written.enqueue_sync,
    ]  # fmt: skip
    if not isinstance(tasks.app.client.driver, SqliteDriver):
        kinds[-1] = tasks.quick.enqueue_sync  # `written` speaks to a SQLite file
    for number in range(int(first), int(last)):
        while True:
            try:
                accepted = kinds[number % len(kinds)](number)
                break
            except StoreError as error:  # not accepted, though it may be stored
                log.warning("not accepted: %s", error)
                time.sleep(0.05)
        os.write(fd, f"{number} {accepted.id}\n".encode())
        time.sleep(0.003)  # a steady stream rather than a burst


def bound() -> None:
    """By what FAULTS_LIMITS says: `RLIMIT_NOFILE=64 RLIMIT_AS=+200000000`, a plus meaning more than now."""
    for word in os.environ.get("FAULTS_LIMITS", "").split():
        name, _, number = word.partition("=")
        now = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") if number[0] == "+" else 0
        resource.setrlimit(getattr(resource, name), (now + int(number), now + int(number)))


def report(stats: Stats) -> None:
    print(json.dumps(dataclasses.asdict(stats)))


def main(deed: str, *rest: str) -> None:
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {os.getpid()} %(name)s %(message)s")
    _ = tasks.app.client.driver  # opened before anybody is told that this process is ready
    bound()
    if deed != "supervise":
        tasks.tell("born")
    if "FAULTS_WAITS" in os.environ:
        sys.stdin.readline()
    match deed:
        case "run":
            run(*rest)
        case "child":
            child()
        case "supervise":
            supervise(*rest)
        case "enqueue":
            enqueue(*rest)
        case "crash" | "stop":
            crash.die_at(rest[0], signal.SIGKILL if deed == "crash" else signal.SIGSTOP)
            run(*rest[1:])


if __name__ == "__main__":
    main(*sys.argv[1:])
