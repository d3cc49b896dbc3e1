"""Huey doing what fleet.py does, through a peer script that lives elsewhere: peer_huey.py, with common.py beside it.

The script knows how Huey is set up (SqliteHuey as it comes: 4 threads, synchronous = FULL) and how its consumer is
started; here are only the quantities, taken as fleet.py takes them. Runs inside the environment of `--peer-env`, which is
made when it is not there; hence nothing but the standard library. Without it, this interpreter must have Huey.

    python bench/huey_fleet.py drain --jobs 10000 --peers DIR --peer-env DIR
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Final

from peer_env import enter
from peer_scripts import LONGEST_S, PATIENCE_S, Measured, Scripts, idle, latency, one
from processes import cpu_seconds, rss_mb

PARTS: Final = ("drain", "one", "latency", "idle")


def drain(scripts: Scripts, jobs: int) -> Measured:
    """From the first handler's start to the last one's: Huey takes a job away before it runs it, and writes nothing
    when it has ended without a result."""
    peer = scripts.peer
    peer.reset()
    peer.preload(jobs)
    scripts.harness.clear()
    with scripts.workers() as [pid]:
        scripts.wait_for(1, PATIENCE_S)
        before, cpu = scripts.ran(), cpu_seconds(pid)
        scripts.wait_for(jobs, LONGEST_S)
        cpu, memory = cpu_seconds(pid) - cpu, rss_mb(pid)
        left = peer.check()
    starts = scripts.starts()
    if len(starts) != jobs or left != "pending 0":
        raise SystemExit(f"Huey ran {len(starts)} of {jobs} jobs, {left}")
    seconds = starts[-1] - starts[0]
    return {
        "jobs": jobs - 1, "seconds": seconds, "per_second": (jobs - 1) / seconds,
        "cpu_us": cpu * 1e6 / (jobs - before), "rss_mb": memory,
    }  # fmt: skip


def options_of(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Huey on SQLite, measured as Windlass is.")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="for how long it is watched (idle)")
    parser.add_argument("--peers", type=Path, required=True, metavar="DIR", help="where peer_huey.py lives")
    parser.add_argument("--peer-env", type=Path, metavar="DIR", help="the environment with Huey; made when it is not there")
    parser.add_argument("--dir", dest="parent", help="where files are made, and removed again")
    return parser.parse_args(argv)


def main() -> None:
    options = options_of()
    if options.peer_env is not None:
        enter(options.peer_env, "huey")
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=options.parent) as directory:
        scripts = Scripts(options.peers.resolve(), Path(directory), "peer_huey", "Huey")
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
