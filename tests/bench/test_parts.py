"""Every command of the plans, run with tiny numbers as run.py runs it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from limits.sqlite_loop import check_drained, fill, fresh_file
from plans import FULL, PEER_ENV, PEERS, Command, Numbers, plans
from run import in_turn, sample
from scaling import scaled

from .conftest import BENCH, HARNESS

TINY = Numbers(
    {10: 20, 100: 200, 500: 500}, bulk=200, singles=20, history=100, asynchronous=300, blocking=100, huey=20, latencies=5,
    idle_seconds=1,
)  # fmt: skip
OURS = plans(TINY, huey=False)
ONE_OF_A_KIND = {tuple(word for word in command if not word.isdigit()): command for command in in_turn(OURS)}


@pytest.mark.parametrize("command", ONE_OF_A_KIND.values(), ids=" ".join)
def test_every_command_measures_what_the_plans_ask_of_it(command: Command, tmp_path: Path) -> None:
    measured = sample(command, tmp_path, {}).figures
    asked = {plan.quantity for plan in OURS if command in (plan.ours, plan.base)}
    assert asked <= measured.keys()
    assert all(math.isfinite(value) and value >= 0 for value in measured.values())
    assert measured.get("per_second", 1) > 0
    assert list(tmp_path.iterdir()) == [], "files were left behind"


def test_a_drain_that_lost_a_job_measures_nothing() -> None:
    with fresh_file(None) as path:
        fill(path, jobs=3, history=5)
        with pytest.raises(AssertionError, match="left=3"):
            check_drained(path, 8)


def test_what_is_compared_runs_next_to_each_other() -> None:
    order = in_turn(plans(FULL, huey=True))
    assert len(order) == len(set(order))
    drain = next(plan for plan in plans(FULL, huey=True) if plan.title.startswith("drain of 50,000 async"))
    assert drain.base is not None
    assert order.index(drain.ours) == order.index(drain.base) + 1


def test_a_smaller_run_asks_for_the_same_things_of_fewer_jobs() -> None:
    quick = scaled(FULL, 0.1)
    assert len(plans(quick, huey=True)) == len(plans(FULL, huey=True))
    assert (quick.drains[500], quick.history, quick.singles) == (10_000, 100_000, 1_000)
    assert quick.idle_seconds == 3, "an idle worker is watched for some seconds"
    assert scaled(FULL, 1.0) == FULL


def test_results_never_name_a_directory_of_this_machine() -> None:
    for command in in_turn(plans(FULL, huey=True)):
        assert not any(word.startswith("/") for word in command)
        if command[0].endswith("huey_fleet.py"):
            assert command[-4:] == ("--peers", PEERS, "--peer-env", PEER_ENV)


# ------------------------------------------------------------------------------------------- the adapter for Huey

PEER = """
import os, struct, time
QUEUE = os.path.join(os.environ["BENCH_DIR"], "queue")

class P:
    script = __file__

    def reset(self):
        open(QUEUE, "w").close()

    def enqueue_single(self, n):
        began = time.monotonic()
        with open(QUEUE, "ab") as queue:
            for _ in range(n):
                queue.write(struct.pack("d", time.monotonic()))
        return time.monotonic() - began

    preload = enqueue_single

    def latency(self, n, gap):
        for _ in range(n):
            self.enqueue_single(1)

    def check(self):
        return "pending 0"

if __name__ == "__main__":
    with open(QUEUE, "rb") as queue, open(os.environ["BENCH_MARKS"], "ab", buffering=0) as marks:
        while True:
            for (sent,) in struct.iter_unpack("d", queue.read()):
                marks.write(struct.pack("dd", sent, time.monotonic()))
                time.sleep(0.002)
            time.sleep(0.001)
"""


def adapter(*words: str, scripts: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "huey_fleet.py"), *words, "--peers", str(scripts)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment or None)


@pytest.mark.parametrize(
    ("part", "quantities"),
    [
        ("drain", {"per_second", "cpu_us", "rss_mb"}),
        ("one", {"per_second"}),
        ("latency", {"p50_ms", "p99_ms"}),
        ("idle", {"cpu_percent", "rss_mb"}),
    ],
)
def test_another_queue_is_measured_by_the_same_quantities(part: str, quantities: set[str], tmp_path: Path) -> None:
    (tmp_path / "common.py").write_text(HARNESS)
    (tmp_path / "peer_huey.py").write_text(PEER)
    done = adapter(part, "--jobs", "20", "--seconds", "0.1", scripts=tmp_path)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert quantities <= measured.keys()
    assert all(math.isfinite(measured[name]) and measured[name] >= 0 for name in quantities)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["common.py", "peer_huey.py"], "it wrote to the scripts"


def test_without_the_scripts_it_says_what_to_name(tmp_path: Path) -> None:
    done = adapter("one", scripts=tmp_path)
    assert done.returncode == 1
    assert "--peers" in done.stderr


def test_when_huey_cannot_be_installed_it_says_what_can_be_done(tmp_path: Path) -> None:
    offline = {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    done = adapter("one", "--peer-env", str(tmp_path / "env"), scripts=tmp_path, **offline)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Huey cannot be had" in done.stderr
    assert "uv pip install --python DIR/bin/python huey" in done.stderr
