"""A pytest plugin that runs the collected tests not once but once for each mutant, in a forked child each time.

The parent has imported and collected everything, so a child costs a fork and the tests that come to its mutant: first those
that caught another in the same place, then the quick ones, until one fails. A child that says nothing for a while hangs:
that is told apart, because nothing was asserted, and a machine with too much to do looks the same.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from mutation.mutant import ROOT, Mutant
from mutation.planting import plant
from mutation.reach import Reach

HERE = ROOT / ".mutation"
NOT_PLANTED = "it could not be planted"
PATIENCE = 40.0  # seconds that one test may take, on a machine with other things to do
settings.register_profile(
    "mutation", phases=[Phase.explicit, Phase.generate], database=None, deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@dataclass
class Verdict:
    by: str | None  # the test that failed or hung; None: none did
    tests: int
    seconds: float
    hung: bool = False


@dataclass
class Course:
    """What a run of the plugin is to do, and where it keeps what it found."""

    mutants: list[Mutant]
    done: Callable[[Mutant, Verdict], None]
    until: float
    reached: Path
    between: Callable[[], None] = lambda: None
    caught: Counter[tuple[str, str]] = field(default_factory=Counter)
    most: int | None = None  # tests for one mutant


class Loop:
    def __init__(self, course: Course) -> None:
        self.course = course
        self.again = False
        self._trusted: set[str] = set()
        self._useless: set[str] = set()
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = session.items
        reached, new = self._reached(items)
        if new:  # a process that has run tests is not one to fork from: threads, caches, open files
            self.again = True
            return True
        by_place: dict[str, list[pytest.Item]] = {}
        for item in items:
            for place in reached.get(item.nodeid, {}).get("places", ()):
                by_place.setdefault(place, []).append(item)
        costs = {item.nodeid: reached.get(item.nodeid, {}).get("seconds", 1.0) for item in items}
        for mutant in self.course.mutants:
            if time.monotonic() > self.course.until:
                break
            able = by_place.get(mutant.reach, [])
            killers = self.course.caught
            own = f"test_{Path(mutant.file).stem}.py"  # tests of core are named after what they test
            able.sort(key=lambda item: (-killers[mutant.reach, item.nodeid], own not in item.nodeid, costs[item.nodeid]))
            able = able[: self.course.most]
            verdict = self._judged(mutant, able)
            if verdict.by is not None and not verdict.hung:  # to hang takes long: not the one to begin with
                killers[mutant.reach, verdict.by] += 1
            self.course.done(mutant, verdict)
        return True

    # ------------------------------------------------------------------------------------------------------- healthy code

    def _reached(self, items: list[pytest.Item]) -> tuple[dict[str, Any], bool]:
        """Of each test how long it takes and where it comes to; those that fail on healthy code are of no use."""
        path = self.course.reached
        known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        new = [item for item in items if item.nodeid not in known]
        if new:
            reach, failed = Reach(), list[str]()
            self._watch(new[0].config, failed.append, lambda _: None)
            for number, item in enumerate(new):
                began = time.monotonic()
                with reach.noted() as places:
                    self._run(item, new[number + 1] if number + 1 < len(new) else item)
                known[item.nodeid] = {"seconds": round(time.monotonic() - began, 3), "places": sorted(places - {""})}
                if item.nodeid in failed:
                    known[item.nodeid]["places"] = []
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(known))
        return known, bool(new)

    def _run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _watch(self, config: pytest.Config, failed: Callable[[str], None], begun: Callable[[str], None]) -> None:
        class Watch:
            def pytest_runtest_logstart(self, nodeid: str) -> None:
                begun(nodeid)

            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed:
                    failed(report.nodeid)

        config.pluginmanager.register(Watch())

    # ------------------------------------------------------------------------------------------------------------ mutants

    def _judged(self, mutant: Mutant, items: list[pytest.Item]) -> Verdict:
        """Whoever fails has to show that it passes on healthy code, once, in a child like this one."""
        verdict = self._tried(mutant, [item for item in items if item.nodeid not in self._useless])
        while verdict.by is not None and verdict.by not in self._trusted:
            failed = [item for item in items if item.nodeid == verdict.by]
            if not failed or self._tried(None, failed).by is None:
                self._trusted.add(verdict.by)
                break
            print(f"fails on healthy code: {verdict.by}", flush=True)
            self._useless.add(verdict.by)
            verdict = self._tried(mutant, [item for item in items if item.nodeid not in self._useless])
        return verdict

    def _tried(self, mutant: Mutant | None, items: list[pytest.Item]) -> Verdict:
        began = time.monotonic()
        if not items:
            return Verdict(None, 0, 0.0)
        directory = tempfile.mkdtemp(prefix="windlass-mutation-", dir=os.environ.get("MUTATION_TMP"))
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            self._child(mutant, items, writer, directory)
        os.close(writer)
        try:
            by, tests, hung = self._listen(reader, pid)
        finally:
            os.close(reader)
            shutil.rmtree(directory, ignore_errors=True)
            self.course.between()
        return Verdict(by, tests, round(time.monotonic() - began, 2), hung)

    @staticmethod
    def _listen(reader: int, pid: int) -> tuple[str | None, int, bool]:
        """Until the child has ended, or says nothing any more, which is the last that is answered."""
        said, current, tests, failed, ended, hung = b"", NOT_PLANTED, 0, None, False, False
        while not ended:
            readable, _, _ = select.select([reader], [], [], PATIENCE)
            hung = not readable
            heard = os.read(reader, 65536) if readable else b""
            if not heard:
                break
            *lines, said = (said + heard).split(b"\n")
            for line in lines:
                word, _, name = line.decode().partition(" ")
                if word == "begun":
                    current, tests = name, tests + 1
                elif word == "failed":
                    failed, ended = name, True
                elif word == "passed":
                    ended, current = True, ""
        with suppress(ProcessLookupError):  # it may have ended
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return failed or current or None, tests, hung

    def _child(self, mutant: Mutant | None, items: Iterable[pytest.Item], writer: int, directory: str) -> None:
        try:
            os.setpgid(0, 0)
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silence, stream)
            tempfile.tempdir = directory
            if mutant is not None:
                plant(mutant)

            def say(word: str) -> None:
                os.write(writer, f"{word}\n".encode())

            chosen = list(items)
            config = chosen[0].config
            config._tmp_path_factory._basetemp = Path(directory)  # type: ignore[attr-defined]

            def failed(name: str) -> None:
                say(f"failed {name}")
                time.sleep(60)  # nothing else is of interest: the parent ends this

            self._watch(config, failed, lambda name: say(f"begun {name}"))
            for number, item in enumerate(chosen):
                self._run(item, chosen[number + 1] if number + 1 < len(chosen) else item)
            say("passed all")
            time.sleep(60)
        finally:
            os._exit(0)
