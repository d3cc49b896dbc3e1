"""The tests that the guarantees page names, run in a process of their own, and what became of each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from . import recorder
from .evidence import Promise, Tried
from .promises import ROOT, Named

TOGETHER: Final = ("-n", "3", "--dist", "worksteal")  # they wait a third of their time
TIDYING: Final = 20.0  # seconds that pytest has to end its servers when its time is over


def run(named: Sequence[Named], seconds: float) -> list[Promise]:
    """At most so many seconds; what has not been run by then is told as not run."""
    with tempfile.TemporaryDirectory(prefix="windlass-proof-") as place:
        wanted, told = Path(place) / "wanted.json", Path(place) / "told"
        wanted.write_text(json.dumps([[str(file), one.test] for one in named for file in one.files]))
        told.touch()
        _pytest(sorted({str(file) for one in named for file in one.files}), seconds, wanted, told)
        return gathered(named, told.read_text())


def _pytest(files: Sequence[str], seconds: float, wanted: Path, told: Path) -> None:
    environment = {
        **os.environ, recorder.WANTED: str(wanted), recorder.TOLD: str(told),
        "PYTHONPATH": os.pathsep.join((str(ROOT / "tests"), os.environ.get("PYTHONPATH", ""))),
    }  # fmt: skip
    words = ("-p", "proof.recorder", "-p", "no:cacheprovider", "-m", "", "-q", "--no-header", "--rootdir", str(ROOT))
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *words, *TOGETHER, *files],
        cwd=ROOT, env=environment, process_group=0, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        for number in (signal.SIGINT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(TIDYING)
                return


def gathered(named: Sequence[Named], told: str) -> list[Promise]:
    promises: dict[str, Promise] = {}
    reports = [json.loads(line) for line in told.splitlines()]
    for one in named:
        tried = Tried(one.test)
        for file, nodeid, outcome, seconds, words in reports:
            if Path(file) not in one.files or one.test not in recorder.names_of(nodeid):
                continue
            tried.seconds += seconds
            if outcome == "passed":
                tried.passed += 1
            elif outcome == "skipped":
                tried.skipped += 1
            else:
                tried.failed.append(f"{nodeid}\n{words}")
        promises.setdefault(one.promise, Promise(one.promise, [])).tests.append(tried)
    return list(promises.values())
