"""The tests that the guarantees page names, run in a process of their own, and what became of each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from . import recorder
from .evidence import Promise, Tried
from .promises import ROOT, Named, Sworn
from .recorder import Found, Told

TOGETHER: Final = ("-n", "3", "--dist", "worksteal")  # they wait a third of their time
SOME_FAILED: Final = 1  # of pytest's answers
TIDYING: Final = 20.0  # seconds that pytest has to end its servers when its time is over


def run(sworn: Sequence[Sworn], seconds: float) -> tuple[list[Promise], list[str]]:
    """At most so many seconds. What came of each promise, and what went wrong with the run as a whole."""
    named = [one for promise in sworn for one in promise.tests]
    with tempfile.TemporaryDirectory(prefix="windlass-proof-") as place:
        wanted, found, told = (Path(place) / name for name in ("wanted.json", "found.json", "told"))
        wanted.write_text(json.dumps([[str(file), one.test] for one in named for file in one.files]))
        found.write_text("[]")
        told.touch()
        files = {recorder.WANTED: str(wanted), recorder.FOUND: str(found), recorder.TOLD: str(told)}
        code = _pytest(sorted({str(file) for one in named for file in one.files}), seconds, files) if named else 0
        cases = [Found(*one) for one in json.loads(found.read_text())]
        promises = gathered(sworn, cases, [Told(*json.loads(line)) for line in told.read_text().splitlines()])
    return promises, list(wrong_with(code, seconds, promises))


def _pytest(files: Sequence[str], seconds: float, surroundings: Mapping[str, str]) -> int | None:
    """Answers what it ended with: None when it had to be ended."""
    environment = {
        **os.environ, **surroundings,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "tests"), os.environ.get("PYTHONPATH", ""))),
    }  # fmt: skip
    words = ("-p", "proof.recorder", "-p", "no:cacheprovider", "-m", "", "-q", "--no-header", "--rootdir", str(ROOT))
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *words, *TOGETHER, *files],
        cwd=ROOT, env=environment, process_group=0, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        for number in (signal.SIGINT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(TIDYING)
                break
    return None


def wrong_with(code: int | None, seconds: float, promises: Sequence[Promise]) -> Iterator[str]:
    """What no single test tells: an end of pytest that its tests do not explain."""
    tests = [test for promise in promises for test in promise.tests]
    if code is None:
        missing, cases = sum(len(test.not_run) for test in tests), sum(test.cases for test in tests)
        what = f"{missing} of {cases} cases were not run" if cases else "before any was collected"
        yield f"the tests were ended after {seconds:.0f} s: {what}"
    elif code != 0 and not (code == SOME_FAILED and any(test.failed for test in tests)):
        yield f"pytest ended with {code}, and no test that it told of says why"


def gathered(sworn: Sequence[Sworn], cases: Sequence[Found], told: Sequence[Told]) -> list[Promise]:
    """Every case that was collected is accounted for, also those that nobody told of."""
    return [Promise(one.title, [_gathered(test, cases, told) for test in one.tests]) for one in sworn]


def _gathered(named: Named, cases: Sequence[Found], told: Sequence[Told]) -> Tried:
    tried = Tried(named.test)
    for case in cases:
        if Path(case.file) not in named.files or named.test not in recorder.names_of(case.nodeid):
            continue
        of_it = [one for one in told if one.nodeid == case.nodeid and one.file in ("", case.file)]
        words = {one.outcome: f"{case.nodeid}\n{one.words}" for one in of_it}  # the end of one can fail after it passed
        tried.seconds += sum(one.seconds for one in of_it)
        tried.full += case.full
        if "failed" in words:
            tried.failed.append(words["failed"])
        elif "skipped" in words:
            tried.skipped.append(words["skipped"])
        elif "passed" in words:
            tried.passed += 1
        else:
            tried.not_run.append(case.nodeid)
    return tried
