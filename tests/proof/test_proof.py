"""A report that could not turn red would prove nothing: each kind of failure, planted, is told and fails the run."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from faults import tasks
from faults.fleet import Fleet
from faults.history import History, Line, RunRow
from testing.toy_worker import ToyWorker
from windlass.core.settle import Outcome, Succeeded
from windlass.testing.simulator.history import SOMETIMES
from windlass.testing.simulator.run import Campaign
from windlass.testing.simulator.scenario import Seat
from windlass.types import Claimed

from . import killed, simulated, tried
from .__main__ import main, share_of_tests, told
from .evidence import PARTS, SECOND, Evidence, Killed, Promise, Simulated, Tried
from .promises import PAGE, RUNNERS, Named, Sworn, sworn_on
from .recorder import Found, Told
from .storm import SETTINGS, Blow, lacking, next_blow
from .verdict import failures


def sound() -> Evidence:
    """As a good run leaves it."""
    return Evidence(
        "1.0", "2026-01-01", "a machine", 60, 1.0,
        promises=[Promise("Durable", [Tried("test_a", passed=3), Tried("test_b", passed=1, full=1)])],
        simulated=Simulated(0, 10, Counter(seeds=10, jobs=200), Counter(kill=3), Counter(SOMETIMES.keys()), [], []),
        killed=[survived("SQLite"), survived("PostgreSQL")],
    )  # fmt: skip


def survived(store: str) -> Killed:
    return Killed(
        store=store, bound=5 * SECOND, accepted=100, jobs=104, ended=Counter(succeeded=104), executions=120,
        again=Counter({"taken back": 16}), repeated=2, took_over=4, recoveries=[2 * SECOND, 3 * SECOND], lost=[],
        problems=[], hits=Counter({"kill -9": 9, "SIGSTOP": 2, "by chance": 1}), least={"kill -9": 3, "SIGSTOP": 2},
    )  # fmt: skip


def test_a_run_without_failures_is_told_as_a_proof(tmp_path: Path) -> None:
    assert told(sound(), tmp_path) == 0
    page, data = (tmp_path / "report.md").read_text(), json.loads((tmp_path / "report.json").read_text())
    assert "Every promise held. All 4 cases of 2 tests ran and passed. Of 200 jobs" in page
    assert "None of 10 simulated fleets broke a rule." in page
    assert (data["proved"], data["failures"]) == (True, [])
    assert data["killed"][0]["hits"] == {"kill -9": 9, "SIGSTOP": 2, "by chance": 1}
    assert "| kill -9 | 3 | 9 | 9 |" in page
    assert "| by chance |  | 1 | 1 |" in page
    assert "| within, slowest | 3.00 s | 3.00 s |" in page


def test_a_part_of_a_proof_is_not_told_as_the_whole(tmp_path: Path) -> None:
    evidence = sound()
    evidence.promises, evidence.killed, evidence.left_out = [], [], ["tests", "sqlite", "postgres"]
    assert told(evidence, tmp_path) == 0, "nothing failed"
    page = (tmp_path / "report.md").read_text()
    assert "Only a part of the proof: left out were tests, sqlite, postgres." in page
    assert "Every promise held" not in page
    assert "none was lost" not in page, "nobody looked whether one was"
    assert "make proof SECONDS" not in page, "that would run the whole"
    assert "--parts simulator" in page
    assert json.loads((tmp_path / "report.json").read_text())["proved"] is False


def test_the_words_of_a_report_follow_from_what_happened(tmp_path: Path) -> None:
    """No reason is given for what did not happen, and a blow that a store does not know is not told as a zero."""
    evidence = sound()
    for one in evidence.killed:
        one.again.clear()
        one.took_over = 0
    evidence.killed[1].least["reset"], evidence.killed[1].hits["reset"] = 1, 4
    told(evidence, tmp_path)
    page = (tmp_path / "report.md").read_text()
    assert "begun again:" not in page
    assert "| reset | 1 | - | 4 |" in page
    assert "among them 1 that are marked `full`" in page
    assert f"{len(SOMETIMES)} of {len(SOMETIMES)} were reached" in page


def test_a_test_holds_only_when_every_case_of_it_ran_and_passed() -> None:
    assert Tried("test_a", passed=2).holds
    assert not any(one.holds for one in (
        Tried("test_a"), Tried("test_a", passed=2, failed=["b"]), Tried("test_a", passed=2, skipped=["b"]),
        Tried("test_a", passed=2, not_run=["b"]),
    ))  # fmt: skip


def campaign(evidence: Evidence) -> Simulated:
    assert evidence.simulated is not None
    return evidence.simulated


PLANTED: dict[str, tuple[Callable[[Evidence], object], str]] = {
    "a test failed": (
        lambda e: e.promises[0].tests[0].failed.append("x.py::test_a\nassert 1 == 2"),
        "test_a: of 4 cases 1 FAILED",
    ),
    "a case of several failed": (
        lambda e: e.promises[0].tests.append(Tried("test_c", passed=9, failed=["test_c[9]"])),
        "test_c: of 10 cases 1 FAILED",
    ),
    "one case of many was not run": (
        lambda e: e.promises[0].tests.append(Tried("test_c", passed=77, not_run=["test_c[x]", "test_c[y]"])),
        "test_c: of 79 cases 2 not run",
    ),
    "one case of many was skipped": (
        lambda e: e.promises[0].tests.append(Tried("test_c", passed=1, skipped=["test_c[z]\nno disk"])),
        "test_c: of 2 cases 1 skipped",
    ),
    "a test is not there": (lambda e: e.promises[0].tests.append(Tried("test_c")), "test_c was not found"),
    "a promise has no test": (lambda e: e.promises[0].tests.clear(), "no test is named"),
    "a seed broke a rule": (lambda e: campaign(e).failed.append("seed 7: no\n again"), "simulator: seed 7: no"),
    "no seed was tried": (lambda e: campaign(e).totals.clear(), "no seed was tried"),
    "a rare branch was never reached": (lambda e: campaign(e).never_reached.append("fenced"), "never reached, so nothing"),
    "a store left no evidence": (lambda e: e.killed.pop(), "postgres: left no evidence"),
    "the simulator left no evidence": (lambda e: setattr(e, "simulated", None), "simulator: left no evidence"),
    "no promise was tried": (lambda e: e.promises.clear(), "tests: left no evidence"),
    "a job is lost": (lambda e: e.killed[0].lost.append("j1"), "1 accepted jobs are LOST: j1"),
    "a history is false": (lambda e: e.killed[0].problems.append("j2 ran twice"), "SQLite: j2 ran twice"),
    "a recovery was late": (lambda e: e.killed[0].recoveries.append(6 * SECOND), "1 of 3 recoveries took longer than 5 s"),
    "nobody knows why": (lambda e: e.killed[0].again.update(unexplained=1), "began again without a reason"),
    "a blow hardly hit": (lambda e: e.killed[0].hits.update(SIGSTOP=-1), "SIGSTOP: hit 1 times, and less than 2 shows"),
    "a blow never hit": (lambda e: e.killed[1].hits.pop("kill -9"), "PostgreSQL: kill -9: hit 0 times"),
    "no blow had to hit": (lambda e: e.killed[0].least.clear(), "nothing says which blows"),
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


def proved(place: Path, tests: str, *named: str, seconds: float = 300) -> tuple[int, dict[str, Any], str]:
    """A promise of a page of its own, held by these tests of a file of its own: the answer, and the reports."""
    (place / "test_it.py").write_text(tests)
    (place / "page.md").write_text("## Kept\n\n" + "".join(f"| `{one}` | [it](test_it.py) |\n" for one in named))
    out = place / "out"
    code = main(["--parts", "tests", "--page", str(place / "page.md"), "--out", str(out), "--seconds", str(seconds)])
    return code, json.loads((out / "report.json").read_text()), (out / "report.md").read_text()


def test_a_named_test_that_fails_is_skipped_or_is_not_there_is_found_out(tmp_path: Path) -> None:
    several = "@pytest.mark.parametrize('n', [1, 2])\n"
    code, data, page = proved(
        tmp_path, f"import pytest\n\n\n@pytest.mark.full\n{several}def test_good(n):\n    assert n\n\n\n"
        f"{several}def test_half(n):\n    n == 1 or pytest.skip('no disk')\n\n\n"
        "def test_bad():\n    assert 'lost' == 'found'\n\n\ndef test_unnamed():\n    assert False\n",
        "test_good", "test_half", "test_bad", "test_c",
    )  # fmt: skip
    assert (code, data["failures"]) == (1, [
        "Kept: test_half: of 2 cases 1 skipped", "Kept: test_bad: of 1 cases 1 FAILED",
        "Kept: test_c was not found: nothing of that name was collected",
    ])  # fmt: skip
    assert [(one["test"], one["passed"], one["full"]) for one in data["promises"][0]["tests"]] == [
        ("test_good", 2, 2), ("test_half", 1, 0), ("test_bad", 0, 0), ("test_c", 0, 0),
    ]  # fmt: skip
    assert "assert 'lost' == 'found'" in page
    assert "no disk" in page


def test_a_time_that_does_not_suffice_is_not_proved(tmp_path: Path) -> None:
    code, data, page = proved(tmp_path, "import time\n\n\ndef test_a():\n    time.sleep(100)\n", "test_a", seconds=2)
    assert (code, data["proved"]) == (1, False)
    assert any("the tests were ended after 2 s" in failure for failure in data["failures"])
    assert "NOT PROVED" in page


def test_what_was_collected_and_never_told_of_is_named(tmp_path: Path) -> None:
    """The time was over; one of three had passed, and the process of another had died in it."""
    cases = [Found("/x.py", f"x.py::test_a[{name}]", full=True) for name in ("early", "late", "killed")]
    reports = [Told("/x.py", cases[0].nodeid, "passed", 1.0, ""), Told("", cases[2].nodeid, "failed", 0.0, "crashed")]
    evidence = sound()
    evidence.promises = tried.gathered([Sworn("Kept", [Named("test_a", (Path("/x.py"),))])], cases, reports)
    evidence.broken = list(tried.wrong_with(None, 585, evidence.promises))
    assert told(evidence, tmp_path) == 1
    assert failures(evidence) == [
        "a part of the proof could not be done: the tests were ended after 585 s: 1 of 3 cases were not run",
        "Kept: test_a: of 3 cases 1 FAILED, 1 not run",
    ]
    page = (tmp_path / "report.md").read_text()
    assert "not run: `x.py::test_a[late]`" in page
    assert "| Kept | **no** | 1 | 3 | 1 | 1 | 0 | 1 |" in page


def test_the_end_of_a_test_that_fails_after_it_passed_is_a_failure() -> None:
    case = Found("/x.py", "x.py::test_a", full=False)
    reports = [Told("/x.py", case.nodeid, outcome, 1.0, "") for outcome in ("passed", "failed")]
    [promise] = tried.gathered([Sworn("Kept", [Named("test_a", (Path("/x.py"),))])], [case], reports)
    assert (promise.tests[0].passed, len(promise.tests[0].failed), promise.holds) == (0, 1, False)


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ("import os\n\n\ndef test_a():\n    os._exit(3)\n", "test_a: of 1 cases 1 FAILED"),
        ("import nowhere\n\n\ndef test_a():\n    pass\n", "and no test that it told of says why"),
    ],
    ids=["its process died", "it could not be imported"],
)
def test_an_end_of_the_tests_that_nobody_expects_is_told(tmp_path: Path, tests: str, said: str) -> None:
    code, data, _ = proved(tmp_path, tests, "test_a")
    assert code == 1
    assert any(said in failure for failure in data["failures"]), data["failures"]


def test_a_promise_that_names_no_test_is_not_held(tmp_path: Path) -> None:
    code, data, _ = proved(tmp_path, "")
    assert (code, data["failures"]) == (1, ["Kept: no test is named"])


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


def test_a_campaign_goes_on_for_a_while_until_every_rare_branch_is_reached() -> None:
    campaign = Campaign(acks_first, profile="swarm", store="memory")
    assert [simulated.goes_on(campaign, took, 10) for took in (9, 19, 21)] == [True, True, False]
    campaign.seen.update(SOMETIMES.keys())
    assert [simulated.goes_on(campaign, took, 10) for took in (9, 11)] == [True, False]
    campaign.failed += ["seed 1", "seed 2", "seed 3"]
    assert not simulated.goes_on(campaign, 1, 10)


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


@pytest.mark.parametrize(
    ("pid", "at", "error", "dazed"),
    [
        (7, 90 * SECOND, "lease expired", 1), (7, 91 * SECOND, "lease expired", 1),
        (7, 91 * SECOND + 1, "lease expired", 0),  # it has had the time to look
        (7, 89 * SECOND, "lease expired", 0),  # nobody does anything while he sleeps
        (8, 90 * SECOND, "lease expired", 0), (7, 90 * SECOND, "boom", 0),
    ],
)  # fmt: skip
def test_only_who_has_just_woken_up_may_begin_what_was_taken_from_him(pid: int, at: int, error: str, dazed: int) -> None:
    run = RunRow("job", 1, "r1", "w", 1 * SECOND, None, 88 * SECOND, "failed", error)
    lines = [Line("start", "job", "r1", pid, at), Line("done", "job", "r1", pid, at + 1)]
    history = History({}, {"job": [run]}, lines, {}, [])
    left, counted = killed.but_for_the_dazed(history, {7: (85 * SECOND, 90 * SECOND)})
    assert counted == dazed
    assert len(left.lines) == 2 - dazed


def test_a_blow_that_has_not_hit_often_enough_comes_first() -> None:
    often = Blow("often", lambda: None, 1_000_000, 2)
    rare = Blow("rare", lambda: None, 1, 2)
    dice, hits = random.Random(1), Counter[str]()
    for _ in range(4):
        hits[next_blow([often, rare], hits, dice).name] += 1
    assert hits == {"often": 2, "rare": 2}
    assert lacking([often, rare], hits) == []
    assert next_blow([often, rare], hits, dice) is often, "from now on the dice choose"


def test_the_tests_may_have_what_the_other_parts_do_not_need() -> None:
    assert share_of_tests(["tests"]) == 1
    assert share_of_tests(["tests", "simulator"]) == pytest.approx(0.85)
    assert share_of_tests(PARTS) == pytest.approx(0.65)


@pytest.mark.full
@pytest.mark.parametrize("store", get_args(killed.StoreName))
def test_a_storm_is_survived_and_told(tmp_path: Path, store: str) -> None:
    """Long enough for every blow to hit: on PostgreSQL the server and the network are hit too."""
    assert main(["--parts", store, "--seconds", "900", "--out", str(tmp_path)]) == 0


# ------------------------------------------------------------------------------------------------------------- the page


def test_every_promise_of_the_page_is_run_where_it_is_kept() -> None:
    sworn = sworn_on()
    named = [one for promise in sworn for one in promise.tests]
    on_the_page = re.findall(r"^\|.*`([tT]est\w+)`", PAGE.read_text(), re.M)
    assert [one.test for one in named] == on_the_page
    assert len(named) >= 90
    assert all(promise.tests for promise in sworn)
    assert all(file.exists() for one in named for file in one.files)
    [(promise, zombie)] = [
        (one.title, test) for one in sworn for test in one.tests if test.test == "test_a_zombie_is_refused"
    ]
    assert (promise, zombie.files) == ("One owner", RUNNERS)


def test_a_section_without_a_test_is_a_promise_all_the_same_and_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("## Bold\n\nNo test.\n\n## Not promised\n\n- anything\n")
    assert sworn_on(tmp_path / "page.md") == [Sworn("Bold", [])]
    assert not Promise("Bold", []).holds
