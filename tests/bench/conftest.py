"""The scripts of the benchmark import each other by name, as they do when one of them is run."""

from __future__ import annotations

import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))

# What the adapters of other queues import of the project that they come from.
HARNESS = """
import os, struct, subprocess, sys
MARKS = os.environ["BENCH_MARKS"]

def clear():
    open(MARKS, "w").close()

def records():
    return list(struct.iter_unpack("dd", open(MARKS, "rb").read()))

def start(peer, processes):
    return [subprocess.Popen([sys.executable, peer.script]) for _ in range(processes)]

def stop(peer, started):
    for process in started:
        process.kill()
        process.wait()

def pg_url(db):
    return os.environ["PG_DSN"].rsplit("/", 1)[0] + "/" + db

def _cleanup():
    pass
"""
