"""A report that could not turn red would prove nothing: each kind of failure, planted, is told and fails the run."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from faults import tasks
from faults.fleet import Fleet
from testing.toy_worker import ToyWorker
from windlass.core.settle import Outcome, Succeeded
from windlass.testing.simulator.scenario import Seat
from windlass.types import Claimed

from . import killed, simulated, tried
from .__main__ import main, told
from .evidence import SECOND, Evidence, Killed, Promise, Simulated, Tried
from .promises import PAGE, RUNNERS, Named, named_on
from .storm import SETTINGS
from .verdict import failures


def sound() -> Evidence:
    """As a good run leaves it."""
    return Evidence(
        "1.0", "2026-01-01", "a machine", 60, 1.0,
        promises=[Promise("Durable", [Tried("test_a", passed=3), Tried("test_b", passed=1, skipped=1)])],
        simulated=Simulated(0, 10, Counter(seeds=10, jobs=200), Counter(kill=3), Counter(), [], []),
        killed=[Killed(
            store="SQLite", bound=5 * SECOND, accepted=100, jobs=104, ended=Counter(succeeded=104), executions=120,
            again=Counter({"taken back": 16}), repeated=2, took_over=4, recoveries=[2 * SECOND, 3 * SECOND], lost=[],
            problems=[], hits=Counter({"kill -9 of a worker with jobs": 9}),
        )],
    )  # fmt: skip


def test_a_run_without_failures_is_told_as_a_proof(tmp_path: Path) -> None:
    assert told(sound(), tmp_path) == 0
    page, data = (tmp_path / "report.md").read_text(), json.loads((tmp_path / "report.json").read_text())
    assert "Every promise held. No job was lost." in page
    assert (data["proved"], data["failures"]) == (True, [])
    assert data["killed"][0]["hits"] == {"kill -9 of a worker with jobs": 9}
    assert "| kill -9 of a worker with jobs | 9 |" in page
    assert "| within, slowest | 3.00 s |" in page


def test_a_part_of_a_proof_is_not_told_as_the_whole(tmp_path: Path) -> None:
    evidence = sound()
    evidence.promises, evidence.left_out = [], ["tests"]
    assert told(evidence, tmp_path) == 0, "nothing failed"
    page = (tmp_path / "report.md").read_text()
    assert "Only a part of the proof: left out were tests." in page
    assert "Every promise held" not in page
    assert json.loads((tmp_path / "report.json").read_text())["proved"] is False


def campaign(evidence: Evidence) -> Simulated:
    assert evidence.simulated is not None
    return evidence.simulated


PLANTED: dict[str, tuple[Callable[[Evidence], object], str]] = {
    "a test failed": (lambda e: e.promises[0].tests[0].failed.append("x.py::test_a\nassert 1 == 2"), "test_a FAILED"),
    "a test was not run": (lambda e: e.promises[0].tests.append(Tried("test_c")), "test_c was not run"),
    "a test was skipped": (lambda e: e.promises[0].tests.append(Tried("test_c", skipped=2)), "test_c was not run, but"),
    "a promise has no test": (lambda e: e.promises[0].tests.clear(), "no test is named"),
    "a seed broke a rule": (lambda e: campaign(e).failed.append("seed 7: no\n again"), "simulator: seed 7: no"),
    "no seed was tried": (lambda e: campaign(e).totals.clear(), "no seed was tried"),
    "a job is lost": (lambda e: e.killed[0].lost.append("j1"), "1 accepted jobs are LOST: j1"),
    "a history is false": (lambda e: e.killed[0].problems.append("j2 ran twice"), "SQLite: j2 ran twice"),
    "a recovery was late": (lambda e: e.killed[0].recoveries.append(6 * SECOND), "1 of 3 recoveries took longer than 5 s"),
    "nobody knows why": (lambda e: e.killed[0].again.update(unexplained=1), "began again without a reason"),
    "nobody was hit": (lambda e: e.killed[0].hits.clear(), "that shows nothing"),
    "nothing was recovered": (lambda e: e.killed[0].recoveries.clear(), "nothing had to be recovered"),
    "a part broke down": (lambda e: e.broken.append("processes: no room"), "could not be done: processes: no room"),
}


@pytest.mark.parametrize("plant", PLANTED)
def test_what_is_wrong_is_told_and_fails_the_run(tmp_path: Path, plant: str) -> None:
    evidence = sound()
    break_it, words = PLANTED[plant]
    break_it(evidence)
    assert told(evidence, tmp_path) == 1
    page, data = (tmp_path / "report.md").read_text(), json.loads((tmp_path / "report.json").read_text())
    assert "NOT PROVED" in page
    assert "Every promise held" not in page
    assert words in page
    assert (data["proved"], len(data["failures"])) == (False, 1)


# ------------------------------------------------------------------------------------------------------- the real parts


def test_a_named_test_that_fails_or_is_not_there_is_found_out(tmp_path: Path) -> None:
    """A promise of a page of its own, held by a test that holds, one that does not, and one that nobody wrote."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n\n@pytest.mark.parametrize('n', [1, 2])\ndef test_good(n):\n    assert n\n\n\n"
        "def test_bad():\n    assert 'lost' == 'found'\n\n\ndef test_unnamed():\n    assert False\n"
    )
    page = tmp_path / "page.md"
    page.write_text(
        "## Kept\n\n" + "".join(f"| `{one}` | [it](test_it.py) |\n" for one in ("test_good", "test_bad", "test_c"))
    )
    assert main(["--parts", "tests", "--page", str(page), "--out", str(tmp_path / "out"), "--seconds", "60"]) == 1
    data = json.loads((tmp_path / "out" / "report.json").read_text())
    assert data["failures"] == ["Kept: test_bad FAILED, 1 times of 1", "Kept: test_c was not run"]
    assert [(one["test"], one["passed"]) for one in data["promises"][0]["tests"]] == [
        ("test_good", 2), ("test_bad", 0), ("test_c", 0),
    ]  # fmt: skip
    assert "assert 'lost' == 'found'" in (tmp_path / "out" / "report.md").read_text()


def test_tests_that_take_too_long_are_told_as_not_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import time\n\n\ndef test_slow():\n    time.sleep(100)\n")
    [promise] = tried.run([Named("Kept", "test_slow", (tmp_path / "test_it.py",))], seconds=2)
    assert not promise.holds


class AcksFirst(ToyWorker):
    async def outcome(self, job: Claimed) -> Outcome:
        await self.report(job, Succeeded(), self.seat.clock.now())
        return await super().outcome(job)


async def acks_first(seat: Seat) -> None:
    await AcksFirst(seat).run()


def test_a_worker_that_breaks_a_rule_is_found_out() -> None:
    evidence = sound()
    evidence.simulated = simulated.run(0, 0.1, acks_first)
    assert any("an effect comes before its acknowledgement" in failure for failure in failures(evidence))
    assert evidence.simulated.last > evidence.simulated.first


def test_a_job_that_vanished_from_the_store_is_found_out(tmp_path: Path) -> None:
    """A real worker on a real file; afterwards somebody removes a job that was acknowledged."""
    with Fleet(tmp_path, **SETTINGS) as fleet:
        handles = [tasks.quick.enqueue_sync(n) for n in range(5)]
        fleet.accepted.write_text("".join(f"{number} {handle.id}\n" for number, handle in enumerate(handles)))
        fleet.finish()
        honest = killed.looked_at(fleet, {})
        fleet.rows("delete from jobs where id = ?", handles[2].id)
        robbed = killed.looked_at(fleet, {})
    assert (honest.lost, honest.problems, honest.executions) == ([], [], 5)
    assert robbed.lost == [handles[2].id]
    evidence = sound()
    evidence.killed = [robbed]
    assert any("1 accepted jobs are LOST" in failure for failure in failures(evidence))


@pytest.mark.full
def test_a_storm_is_survived_and_told(tmp_path: Path) -> None:
    assert main(["--parts", "sqlite", "--seconds", "220", "--out", str(tmp_path)]) == 0


# ------------------------------------------------------------------------------------------------------------- the page


def test_every_promise_of_the_page_is_run_where_it_is_kept() -> None:
    named = named_on()
    on_the_page = re.findall(r"^\|.*`([tT]est\w+)`", PAGE.read_text(), re.M)
    assert [one.test for one in named] == on_the_page
    assert len(named) >= 90
    assert all(file.exists() for one in named for file in one.files)
    [zombie] = [one for one in named if one.test == "test_a_zombie_is_refused"]
    assert (zombie.promise, zombie.files) == ("One owner", RUNNERS)
