"""Other queues doing what fleet.py does, by peer scripts that live elsewhere: one peer_*.py each, with common.py beside it.

A script knows how its queue is set up and how its worker is started. The standard library only: this runs inside the
environment of what is measured.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from processes import cdf, cpu_percent, latencies_ms, percentiles, rss_mb, wait_until

GAP_S: Final = 0.020
PATIENCE_S: Final = 60.0
LONGEST_S: Final = 300.0
MARK: Final = 16  # bytes that a handler writes: when it was sent, when it began
REST_S: Final = 1.5  # some workers look ever less often while there is nothing

Measured = dict[str, Any]


class Scripts:
    """The modules of the peer scripts, and the peer they describe. They take their directory from the environment."""

    def __init__(self, scripts: Path, directory: Path, module: str, name: str) -> None:
        if not (scripts / f"{module}.py").exists():
            raise SystemExit(f"there is no {module}.py in {scripts}; name the directory of the peer scripts with --peers")
        sys.dont_write_bytecode = True  # the directory is not ours to write to
        os.environ.update(BENCH_DIR=str(directory), PYTHONDONTWRITEBYTECODE="1")
        self.name: Final = name
        self.marks: Final = directory / "marks"
        os.environ["BENCH_MARKS"] = str(self.marks)
        sys.path.insert(0, str(scripts))
        self.harness: Final = importlib.import_module("common")
        self.peer: Final[Any] = importlib.import_module(module).P()
        atexit.register(self.harness._cleanup)

    @contextmanager
    def workers(self, processes: int = 1) -> Iterator[list[int]]:
        """Their processes, stopped at the end."""
        sys.argv[0] = str(Path(sys.modules[type(self.peer).__module__].__file__ or ""))  # a worker is the script itself
        started = self.harness.start(self.peer, processes)
        try:
            yield [one.pid for one in started]
        finally:
            self.harness.stop(self.peer, started)

    def ran(self) -> int:
        """By the size of the file: reading it again and again would take time from what is measured."""
        return self.marks.stat().st_size // MARK if self.marks.exists() else 0

    def starts(self) -> list[float]:
        return sorted(began for _, began in self.harness.records())

    def wait_for(self, jobs: int, seconds: float) -> None:
        wait_until(lambda: self.ran() >= jobs, seconds, lambda: f"{self.name} ran {self.ran()} jobs, not {jobs}")


def one(scripts: Scripts, jobs: int) -> Measured:
    scripts.peer.reset()
    seconds = scripts.peer.enqueue_single(jobs)
    return {"jobs": jobs, "seconds": seconds, "per_second": jobs / seconds}


@contextmanager
def idle_worker(scripts: Scripts) -> Iterator[int]:
    """After a few jobs, so that whatever is made on first use has been made."""
    scripts.peer.reset()
    scripts.harness.clear()
    with scripts.workers() as [pid]:
        scripts.peer.latency(3, 0.2)
        scripts.wait_for(3, PATIENCE_S)
        time.sleep(REST_S)
        scripts.harness.clear()
        yield pid


def latency(scripts: Scripts, jobs: int) -> Measured:
    with idle_worker(scripts):
        scripts.peer.latency(jobs, GAP_S)
        scripts.wait_for(jobs, PATIENCE_S)
        taken = latencies_ms(scripts.marks)
    return {"jobs": len(taken), **percentiles(taken), "series": {"waits": cdf(taken)}}


def idle(scripts: Scripts, seconds: float) -> Measured:
    with idle_worker(scripts) as pid:
        share = cpu_percent(pid, seconds)
        return {"seconds": seconds, "cpu_percent": share, "rss_mb": rss_mb(pid)}
