"""A plugin of pytest: of all that is collected only the tests that are wanted are run, and what became of each is written
down as it happens, so that a run that is ended early has still told what it saw.

    PROOF_WANTED    a file of `[file, test]` pairs, as JSON
    PROOF_FOUND     a file that gets what was collected of them, as JSON
    PROOF_TOLD      a file that gets one line of JSON for each test that ended
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

WANTED, FOUND, TOLD = "PROOF_WANTED", "PROOF_FOUND", "PROOF_TOLD"
FILE = "file"
LAST_WORDS = 1_500


class Found(NamedTuple):
    """A case: what pytest will run, if nothing keeps it from that."""

    file: str
    nodeid: str
    full: bool


class Told(NamedTuple):
    """What became of it. A test whose process died is told of without its file."""

    file: str
    nodeid: str
    outcome: str
    seconds: float
    words: str


def names_of(nodeid: str) -> set[str]:
    """`tests/x.py::TestA::test_b[c]` is `TestA` and `test_b`."""
    return {part.partition("[")[0] for part in nodeid.split("::")[1:]}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = {(file, test) for file, test in json.loads(Path(os.environ[WANTED]).read_text())}
    chosen = [item for item in items if {(str(item.path), name) for name in names_of(item.nodeid)} & wanted]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
    for item in chosen:  # the id of a test leaves out the file when that lies elsewhere, and inherited tests name another
        item.user_properties.append((FILE, str(item.path)))
    keep_found([Found(str(item.path), item.nodeid, item.get_closest_marker("full") is not None) for item in chosen])


def keep_found(cases: list[Found]) -> None:
    """Each of the processes that share the tests writes all of it: whoever reads meets a whole one."""
    whole, own = Path(os.environ[FOUND]), Path(f"{os.environ[FOUND]}.{os.getpid()}")
    own.write_text(json.dumps(cases))
    own.replace(whole)


class Recorder:
    def __init__(self, told: Path) -> None:
        self._told = told

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        file, words = str(dict(report.user_properties).get(FILE, "")), report.longreprtext[-LAST_WORDS:]
        line = Told(file, report.nodeid, report.outcome, report.duration, words)
        with self._told.open("a") as out:
            out.write(json.dumps(line) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the one that hands out the tests hears of all
        config.pluginmanager.register(Recorder(Path(os.environ[TOLD])))
