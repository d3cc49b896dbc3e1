"""The processes of one store: workers, a producer, and somebody who kills a worker now and then. The first worker is never
killed, because memory that leaks shows only in a process that stays."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from .program import COUNTS, HASTE, counts_in
from .sizes import CREATED, MB, TABLES, UNFINISHED, Sizes
from .tasks import CANCELLED

TESTS: Final = Path(__file__).parents[1]
KEPT: Final = 60.0  # seconds that finished jobs are kept, in half an hour
PATIENCE: Final = 60.0
UNWANTED: Final = f"{UNFINISHED} and queue = '{CANCELLED}'"  # it waits to be cancelled
Sample = dict[str, float]


class Stage:
    def __init__(self, sizes: Sizes, place: Path, *, workers: int, rate: float, haste: float) -> None:
        self.sizes, self.kills = sizes, 0
        self._place, self._began, self._before = place, time.monotonic(), (time.monotonic(), 0)
        self._counts = place / f"{sizes.name}.counts"
        self._logs, keep = place / f"{sizes.name}-logs", f"{KEPT / haste:g}s"
        self._environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), os.environ.get("PYTHONPATH", ""))), HASTE: str(haste),
            COUNTS: str(self._counts), "WINDLASS_URL": sizes.url, "WINDLASS_LEASE": "3s", "WINDLASS_LEADER_LEASE": "3s",
            "WINDLASS_WORKER_TIMEOUT": "6s", "WINDLASS_LOG_ROOT": str(self._logs),
            "WINDLASS_KEEP_SUCCEEDED": keep, "WINDLASS_KEEP_CANCELLED": keep, "WINDLASS_KEEP_DEAD": keep,
            "WINDLASS_CONCURRENCY": "8", "WINDLASS_THREADS": "4",
        }  # fmt: skip
        self._workers = [self._start("worker") for _ in range(workers)]
        self._producer = self._start("produce", str(rate))

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self._place / f"{self.sizes.name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "soak.program", *words], env=self._environment, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, process_group=0,
            )  # fmt: skip

    def kill_somebody(self, dice: random.Random) -> None:
        place = dice.randrange(1, len(self._workers))
        self._workers[place].kill()
        self._workers[place].wait()
        self._workers[place] = self._start("worker")
        self.kills += 1

    def sample(self) -> Sample:
        at, (accepted, cancelled) = time.monotonic(), counts_in(self._counts)
        unfinished, unwanted = self.sizes.number(UNFINISHED), self.sizes.number(UNWANTED)
        (before, ended_before), ended = self._before, max(accepted - (unfinished - unwanted), 0)
        self._before = (at, ended)
        pid = self._workers[0].pid
        return {
            "second": at - self._began, "ended": float(ended), "cancelled": float(cancelled),
            "taken over": float(max(self.sizes.number(CREATED) - accepted - cancelled - unwanted, 0)),
            "jobs a second": (ended - ended_before) / max(at - before, 0.001),
            "waiting and running": float(unfinished), "memory of a worker, MB": resident(pid) / MB,
            "open files of a worker": count_in(f"/proc/{pid}/fd"),
            "threads of a worker": count_in(f"/proc/{pid}/task"),
            "files of logs": float(sum(one.is_file() for one in self._logs.rglob("*"))),
            **{f"rows of {table}": float(self.sizes.number(f"select count(*) from {table}")) for table in TABLES},
            **self.sizes.bytes(),
        }  # fmt: skip

    def problems(self) -> list[str]:
        """Whoever ended without being told to. What is left must come to its end when nothing new is added."""
        found = [f"worker {one.pid} ended with {one.poll()}" for one in self._workers if one.poll() is not None]
        if self._producer.poll() is not None:
            found.append(f"the producer ended with {self._producer.poll()}")
        self._producer.kill()
        deadline = time.monotonic() + PATIENCE
        while left := self.sizes.number(UNFINISHED) - self.sizes.number(UNWANTED):
            if time.monotonic() > deadline:
                found.append(f"{left} jobs have not ended {PATIENCE:g} s after the last enqueue")
                break
            time.sleep(0.1)
        return [f"{self.sizes.name}: {one}" for one in found]

    def close(self) -> None:
        for process in (*self._workers, self._producer):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in (*self._workers, self._producer):
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.sizes.close()


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def count_in(directory: str) -> float:
    """Of a process; one that has ended has none, and is told of in the end."""
    try:
        return float(len(os.listdir(directory)))
    except OSError:
        return 0.0
