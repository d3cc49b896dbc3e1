"""A pytest plugin that runs the collected tests not once but once for each mutant, in a forked child each time.

The parent has imported and collected everything, so a child costs a fork and the tests that come to its mutant: first those
that caught another in the same place, then the quick ones, until one fails. A child that says nothing for a while hangs:
that is told apart, because nothing was asserted, and a machine with too much to do looks the same.
"""

from __future__ import annotations

import gc
import json
import os
import re
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
PATIENCE = 10.0  # seconds that one test may take, on a machine with other things to do: several times what any does
KEPT_EVERY = 20  # tests: to look at them takes many minutes, and somebody may end it
COMMON = set("select from where windlas exist null true false queue state with case when".split())  # they tell of nothing
OTHERS_AFTER_A_HANG = 2  # tests of a place that may hang before those left are asked no more, whatever hangs
MEMORY = "/dev/shm"  # noqa: S108  a disk makes each test of SQLite wait for it, several times as long as the test takes
PLACE = os.environ.get("MUTATION_TMP") or (MEMORY if os.access(MEMORY, os.W_OK) else None)
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
    functions: bool = True  # whether a mutant may be in one; to look at each call takes several times as long as the test


def written_in(item: pytest.Item) -> str:
    """In which file: a case of the conformance suite is collected far from where it stands."""
    code = getattr(getattr(item, "function", None), "__code__", None)
    return Path(code.co_filename if code else item.nodeid.partition("::")[0]).stem


def kept_in(path: Path, known: dict[str, Any]) -> dict[str, Any]:
    """With what others found out meanwhile about other tests."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    known = found | known
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps(known))
    beside.replace(path)
    return known


def spread(tests: list[tuple[str, set[str]]]) -> dict[str, int]:
    """At which place to try each test where there is time for a few of them only: next comes the one that goes where those
    before it did not go. The quickest hundred of the seven hundred tests that claim a job all claim it in the same way."""
    ranks, left = dict[str, int](), list(tests)
    while left:
        seen = set[str]()
        while left:
            nodeid, places = max(left, key=lambda test: len(test[1] - seen))
            if places <= seen:  # all has been seen: once more from the beginning
                break
            ranks[nodeid] = len(ranks)
            seen |= places
            left = [test for test in left if test[0] != nodeid]
        else:
            break
        if not seen:
            ranks |= {nodeid: len(ranks) + number for number, (nodeid, _) in enumerate(left)}
            break
    return ranks


class Loop:
    def __init__(self, course: Course) -> None:
        self.course = course
        self.again = False
        self._trusted: set[str] = set()
        self._useless: set[str] = set()
        self._hung: set[tuple[str, str]] = set()  # where, and by whom
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
        spreads: dict[str, dict[str, int]] = {}
        gc.collect()
        gc.freeze()  # else each child's first collection copies all that the parent has collected
        for mutant in self.course.mutants:
            if time.monotonic() > self.course.until:
                break
            able = by_place.get(mutant.reach, [])
            killers, near, place = self.course.caught, self._near(mutant), mutant.reach
            able.sort(key=lambda item: costs[item.nodeid])
            if self.course.most is not None and len(able) > self.course.most:
                if place not in spreads:
                    spreads[place] = spread([(item.nodeid, set(reached[item.nodeid]["places"])) for item in able])
                ranks = spreads[place]
                able.sort(key=lambda item: ranks[item.nodeid])
            able.sort(key=lambda item: (-killers[place, item.nodeid], -near(item)))
            able.sort(key=lambda item: (place, item.nodeid) in self._hung)
            able = able[: self.course.most]
            verdict = self._judged_after_hangs(mutant, able)
            if verdict.by is not None and not verdict.hung:
                killers[place, verdict.by] += 1
            self.course.done(mutant, verdict)
        return True

    def _judged_after_hangs(self, mutant: Mutant, able: list[pytest.Item]) -> Verdict:
        """Where one test hangs another may say what is wrong, and is not kept waiting by it again."""
        verdict = self._judged(mutant, able)
        while verdict.hung and verdict.by is not None:
            if sum(place == mutant.reach for place, _ in self._hung) >= OTHERS_AFTER_A_HANG:  # as many mutants there do
                break
            self._hung.add((mutant.reach, verdict.by))
            able = [item for item in able if item.nodeid != verdict.by]
            other = self._judged(mutant, able)
            if other.by is None:
                break
            verdict = other
        return verdict

    def _near(self, mutant: Mutant) -> Callable[[pytest.Item], int]:
        """How likely a test is about this mutant: tests of a noun are in a file named after it, as its rules and its SQL
        are, who caught others of its file may catch this one, and who is named after what is changed is about that."""
        noun = Path(mutant.file).stem.rstrip("s")  # leases, settle: as the files of tests begin, too
        of_file: Counter[str] = Counter()
        for (reach, nodeid), count in self.course.caught.items():
            if reach.startswith(f"{mutant.file}:"):
                of_file[nodeid] += count

        changed = {word.rstrip("s") for word in re.findall(r"[a-z]{4,}", mutant.what.lower())} - COMMON

        def near(item: pytest.Item) -> int:
            named = sum(word in item.name for word in changed)
            return of_file[item.nodeid] + 3 * written_in(item).removeprefix("test_").startswith(noun) + 4 * named

        return near

    # ------------------------------------------------------------------------------------------------------- healthy code

    def _reached(self, items: list[pytest.Item]) -> tuple[dict[str, Any], bool]:
        """Of each test how long it takes and where it comes to; those that fail on healthy code are of no use."""
        path = self.course.reached
        known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        new = [item for item in items if item.nodeid not in known]
        if new:
            reach, failed = Reach(called=self.course.functions), list[str]()
            self._watch(new[0].config, failed.append, lambda _: None)
            for number, item in enumerate(new):
                began = time.monotonic()
                with reach.noted() as places:
                    self._run(item, new[number + 1] if number + 1 < len(new) else item)
                known[item.nodeid] = {"seconds": round(time.monotonic() - began, 3), "places": sorted(places - {""})}
                if item.nodeid in failed:
                    known[item.nodeid]["places"] = []
                if number % KEPT_EVERY == 0:
                    known = kept_in(path, known)
            known = kept_in(path, known)
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
        directory = tempfile.mkdtemp(prefix="windlass-mutation-", dir=PLACE)
        os.chmod(directory, 0o701)  # a server that a test starts in it may run as somebody else
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
