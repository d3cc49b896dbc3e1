"""Huey doing what fleet.py does, through a peer script that lives elsewhere: peer_huey.py, with common.py beside it.

The script knows how Huey is set up (SqliteHuey as it comes: 4 threads, synchronous = FULL) and how its consumer is
started; here are only the quantities, taken as fleet.py takes them. Runs inside the environment of `--peer-env`, which is
made when it is not there; hence nothing but the standard library. Without it, this interpreter must have Huey.

    python bench/huey_fleet.py drain --jobs 10000 --peers DIR --peer-env DIR
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from peer_env import interpreter, prepare
from processes import cpu_percent, cpu_seconds, latencies_ms, percentiles, rss_mb, wait_until

PARTS: Final = ("drain", "one", "latency", "idle")
GAP_S: Final = 0.020
PATIENCE_S: Final = 60.0
LONGEST_S: Final = 300.0
REST_S: Final = 1.5  # the consumer's threads look ever less often while there is nothing

Measured = dict[str, float]


class Scripts:
    """The modules of the peer scripts, and the peer they describe. They take their directory from the environment."""

    def __init__(self, scripts: Path, directory: Path) -> None:
        if not (scripts / "peer_huey.py").exists():
            raise SystemExit(f"there is no peer_huey.py in {scripts}; name the directory of the peer scripts with --peers")
        sys.dont_write_bytecode = True  # the directory is not ours to write to
        os.environ.update(BENCH_DIR=str(directory), PYTHONDONTWRITEBYTECODE="1")
        self.marks: Final = directory / "marks"
        os.environ["BENCH_MARKS"] = str(self.marks)
        sys.path.insert(0, str(scripts))
        self.harness: Final = importlib.import_module("common")
        self.peer: Final[Any] = importlib.import_module("peer_huey").P()
        atexit.register(self.harness._cleanup)

    @contextmanager
    def consumer(self) -> Iterator[int]:
        """Its process, stopped at the end."""
        started = self.harness.start(self.peer, 1)
        try:
            yield started[0].pid
        finally:
            self.harness.stop(self.peer, started)

    def ran(self) -> int:
        return len(latencies_ms(self.marks))

    def wait_for(self, jobs: int, seconds: float) -> None:
        wait_until(lambda: self.ran() >= jobs, seconds, lambda: f"Huey ran {self.ran()} jobs, not {jobs}")


def drain(scripts: Scripts, jobs: int) -> Measured:
    """From the first handler's start to the last one's: Huey takes a job away before it runs it, and writes nothing
    when it has ended without a result."""
    peer = scripts.peer
    peer.reset()
    peer.preload(jobs)
    scripts.harness.clear()
    with scripts.consumer() as pid:
        scripts.wait_for(1, PATIENCE_S)
        before, cpu = scripts.ran(), cpu_seconds(pid)
        scripts.wait_for(jobs, LONGEST_S)
        cpu, memory = cpu_seconds(pid) - cpu, rss_mb(pid)
        left = peer.check()
    starts = sorted(began for _, began in scripts.harness.records())
    if len(starts) != jobs or left != "pending 0":
        raise SystemExit(f"Huey ran {len(starts)} of {jobs} jobs, {left}")
    seconds = starts[-1] - starts[0]
    return {
        "jobs": jobs - 1, "seconds": seconds, "per_second": (jobs - 1) / seconds,
        "cpu_us": cpu * 1e6 / (jobs - before), "rss_mb": memory,
    }  # fmt: skip


def one(scripts: Scripts, jobs: int) -> Measured:
    scripts.peer.reset()
    seconds = scripts.peer.enqueue_single(jobs)
    return {"jobs": jobs, "seconds": seconds, "per_second": jobs / seconds}


@contextmanager
def idle_consumer(scripts: Scripts) -> Iterator[int]:
    """After a few jobs, so that whatever is made on first use has been made."""
    scripts.peer.reset()
    scripts.harness.clear()
    with scripts.consumer() as pid:
        scripts.peer.latency(3, 0.2)
        scripts.wait_for(3, PATIENCE_S)
        time.sleep(REST_S)
        scripts.harness.clear()
        yield pid


def latency(scripts: Scripts, jobs: int) -> Measured:
    with idle_consumer(scripts):
        scripts.peer.latency(jobs, GAP_S)
        scripts.wait_for(jobs, PATIENCE_S)
        taken = latencies_ms(scripts.marks)
    return {"jobs": len(taken), **percentiles(taken)}


def idle(scripts: Scripts, seconds: float) -> Measured:
    with idle_consumer(scripts) as pid:
        share = cpu_percent(pid, seconds)
        return {"seconds": seconds, "cpu_percent": share, "rss_mb": rss_mb(pid)}


def options_of(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Huey on SQLite, measured as Windlass is.")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="for how long it is watched (idle)")
    parser.add_argument("--peers", type=Path, required=True, metavar="DIR", help="where peer_huey.py lives")
    parser.add_argument("--peer-env", type=Path, metavar="DIR", help="the environment with Huey; made when it is not there")
    parser.add_argument("--dir", dest="parent", help="where files are made, and removed again")
    return parser.parse_args(argv)


def enter(environment: Path) -> None:
    """Go on as the environment's own interpreter."""
    if Path(sys.prefix).resolve() != environment.resolve():
        prepare(environment)
        python = str(interpreter(environment))
        os.execv(python, [python, *sys.argv])  # noqa: S606


def main() -> None:
    options = options_of()
    if options.peer_env is not None:
        enter(options.peer_env)
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=options.parent) as directory:
        scripts = Scripts(options.peers.resolve(), Path(directory))
        match options.part:
            case "drain":
                measured = drain(scripts, options.jobs)
            case "one":
                measured = one(scripts, options.jobs)
            case "latency":
                measured = latency(scripts, options.jobs)
            case "idle":
                measured = idle(scripts, options.seconds)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
