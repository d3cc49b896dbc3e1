"""The peer scripts, for scale: raw SQLite without our schema, and a small whole worker. Optional."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

# Only the parts that answer to ours: durable commits, rows kept, one process.
RAW = """
from raw_sqlite import drain_run, enq_batch, enq_single, exclusive, rep
exclusive()
rep("FULL enqueue one/commit", lambda: enq_single("FULL"))
rep("FULL enqueue batch=1000", lambda: enq_batch("FULL", 1000))
for n in (10, 100, 500):
    rep(f"FULL claim+ack n={n} update procs=1", lambda: drain_run("FULL", n, "update", 1))
"""


class PeerFigure(msgspec.Struct, frozen=True):
    peer: str
    what: str
    best: float
    median: float
    command: str


def run_peers(scripts: Path, directory: Path, *, seconds: float, quick: bool) -> list[PeerFigure]:
    """The figures of both scripts, and of each what it managed to say in `seconds`."""
    settings = {"BENCH_DIR": str(directory), "REPS": "1" if quick else "3"}
    worker = {"SYNC": "FULL", "KEEP": "update", "N": "20000" if quick else "100000"}
    return [
        *figures_of(["-c", RAW], settings, scripts, seconds),
        *figures_of(["ideal_sqlite.py", "ab"], {**settings, **worker}, scripts, seconds),
    ]


def figures_of(args: list[str], settings: dict[str, str], scripts: Path, seconds: float) -> list[PeerFigure]:
    shown = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items() if name != "BENCH_DIR")
    command = f"{shown} python {shlex.join(args)}"
    found: list[PeerFigure] = []
    for line in output_of([sys.executable, *args], settings, scripts, seconds).splitlines():
        if line.startswith("{"):
            said = json.loads(line)
            if said.get("median") is not None and isinstance(said.get("best"), int | float):
                found.append(PeerFigure(said["peer"], said["what"], said["best"], said["median"], command))
    return found


def output_of(command: list[str], settings: dict[str, str], scripts: Path, seconds: float) -> str:
    env = {**os.environ, **settings, "PYTHONDONTWRITEBYTECODE": "1"}  # the directory is not ours to write to
    process = subprocess.Popen(command, env=env, cwd=scripts, stdout=subprocess.PIPE, text=True)
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # it ends its own workers; killing it would leave them behind
        return process.communicate()[0]
