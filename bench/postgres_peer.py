"""PgQueuer, Procrastinate and Graphile Worker doing what postgres_fleet.py does, by peer scripts that live elsewhere.

The quantities are taken as ours are. A drain is counted until the queue's own table says that nothing is left, so buffered
acknowledgements are in it. Runs inside the environment of `--peer-env` (a directory with one for each queue; they are
made when they are not there); hence nothing but the standard library and psql.

    python bench/postgres_peer.py pgqueuer drain --jobs 40000 --peers DIR --peer-env DIR [--server URL]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cost import Cost, Psql
from peer_env import PEERS, enter, prepare
from peer_scripts import LONGEST_S, PATIENCE_S, Measured, Scripts, idle, latency, one
from processes import cpu_seconds, rss_mb, wait_until

PARTS: Final = ("drain", "one", "many", "latency", "idle")


@dataclass(frozen=True)
class Queue:
    script: str
    left: str  # a query: how many jobs are not done with
    settings: dict[str, str] = field(default_factory=dict)  # of the script: the best that is known for each


QUEUES: Final = {
    "pgqueuer": Queue("peer_pgqueuer", "select count(*) from pgqueuer", {"BATCH": "500"}),
    "procrastinate": Queue(
        "peer_procrastinate", "select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
        {"CONC": "20", "DELETE_JOBS": "successful"},
    ),
    "graphile": Queue(
        "peer_node", "select count(*) from graphile_worker._private_jobs",
        {"LIB": "graphile", "CONC": "24", "LOCALQ": "500", "BATCHDELAY": "0"},
    ),
}  # fmt: skip


def drain(scripts: Scripts, queue: Queue, jobs: int, processes: int) -> Measured:
    """From the first handler's start until nothing is left in its table."""
    peer = scripts.peer
    peer.reset()
    peer.preload(jobs)
    scripts.harness.clear()
    with Psql(scripts.harness.pg_url(peer.db)) as psql:
        psql.do("vacuum analyze")
        psql.do("checkpoint")
        cost = Cost(psql.number)
        cost.begin()
        with scripts.workers(processes) as pids:
            scripts.wait_for(1, PATIENCE_S)
            before, cpu = scripts.ran(), sum(map(cpu_seconds, pids))
            scripts.wait_for(jobs, LONGEST_S)
            wait_until(lambda: not psql.number(queue.left), PATIENCE_S, lambda: f"{scripts.name} has not settled all jobs")
            ended = time.monotonic()
            cpu, memory = sum(map(cpu_seconds, pids)) - cpu, sum(map(rss_mb, pids))
            server = cost.end(jobs)
    starts = scripts.starts()
    if len(starts) != jobs:
        raise SystemExit(f"{scripts.name} ran {len(starts)} of {jobs} jobs")
    seconds = ended - starts[0]
    return {
        "jobs": jobs, "seconds": seconds, "per_second": jobs / seconds,
        "started_per_second": jobs / (starts[-1] - starts[0]), "cpu_us": cpu * 1e6 / (jobs - before), "rss_mb": memory,
        **server,
    }  # fmt: skip


def many(scripts: Scripts, jobs: int) -> Measured:
    """In calls of 1,000, as the scripts have it."""
    scripts.peer.reset()
    seconds = scripts.peer.enqueue_bulk(jobs)
    return {"jobs": jobs, "seconds": seconds, "per_second": jobs / seconds}


def measure(scripts: Scripts, queue: Queue, options: argparse.Namespace) -> Measured:
    match options.part:
        case "drain":
            return drain(scripts, queue, options.jobs, options.processes)
        case "one":
            return one(scripts, options.jobs)
        case "many":
            return many(scripts, options.jobs)
        case "latency":
            return latency(scripts, options.jobs)
        case _:
            return idle(scripts, options.seconds)


def options_of(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Other queues on PostgreSQL, measured as Windlass is.")
    parser.add_argument("queue", choices=QUEUES)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=1, help="worker processes (drain)")
    parser.add_argument("--seconds", type=float, default=10.0, help="for how long it is watched (idle)")
    parser.add_argument("--peers", type=Path, required=True, metavar="DIR", help="where the peer scripts live")
    parser.add_argument(
        "--peer-env", type=Path, metavar="DIR", help="one environment for each queue; made when it is missing"
    )
    parser.add_argument("--server", metavar="URL", help="of a PostgreSQL to use (default: one is started)")
    parser.add_argument("--dir", dest="parent", help="where files are made, and removed again")
    return parser.parse_args(argv)


def with_a_server(options: argparse.Namespace) -> None:
    """This environment has what starting a server needs; the one to go to has not."""
    import subprocess

    from server import private_server

    with private_server(options.parent) as url:
        sys.exit(subprocess.run([sys.executable, *sys.argv, "--server", url], check=False).returncode)


def main() -> None:
    options = options_of()
    queue = QUEUES[options.queue]
    if options.server is None:
        with_a_server(options)
    os.environ.update(queue.settings, PG_DSN=options.server)
    if options.peer_env is not None:
        environment = options.peer_env / options.queue
        if PEERS[options.queue].node:
            prepare(environment, options.queue)
            os.environ["NODE_MODULES"] = str(environment.resolve())
        else:
            enter(environment, options.queue)
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=options.parent) as directory:
        name = PEERS[options.queue].title
        scripts = Scripts(options.peers.resolve(), Path(directory), queue.script, name)
        measured = measure(scripts, queue, options)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
