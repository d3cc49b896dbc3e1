"""The history checker bites: a true history with one thing changed by hand is refused for that very thing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from . import tasks
from .fleet import Fleet
from .history import History, Line, read_log
from .summary import Told


class Sample(NamedTuple):
    """A real history: an ordinary and a never-twice job whose workers died, and jobs that went well."""

    store: Path
    log: Path
    jobs: dict[str, str]  # kind -> id


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    with Fleet(tmp_path_factory.mktemp("sample"), lease="300ms") as fleet:
        jobs = {"slow": tasks.slow.enqueue_sync(0).id, "ledger": tasks.ledger.enqueue_sync(0).id}
        doomed = [fleet.start("crash", "inside_handler", queue) for queue in ("steady", "ledger")]
        for process in doomed:
            process.wait()
        jobs |= {"quick": tasks.quick.enqueue_sync(1).id, "limited": tasks.limited.enqueue_sync(0).id}
        fleet.finish()
        return Sample(fleet.store, fleet.log, jobs)


@pytest.fixture
def copied(sample: Sample, tmp_path: Path) -> Sample:
    """A copy that may be changed: without the triggers that would refuse it."""
    store, log = tmp_path / "jobs.db", tmp_path / "handlers.log"
    shutil.copy(sample.store, store)
    shutil.copy(sample.log, log)
    copy = Sample(store, log, sample.jobs)
    triggers = rows(copy, "select name from sqlite_master where type = 'trigger'")
    rows(copy, f"begin; {' '.join(f'drop trigger {name};' for (name,) in triggers)} commit")
    return copy


def rows(sample: Sample, sql: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(sample.store))
    try:
        connection.execute("pragma ignore_check_constraints = on")
        return [tuple(row) for row in connection.execute(sql, sample.jobs)]
    finally:
        connection.close()


def rewrite(sample: Sample, change: Callable[[Line], Line | None]) -> None:
    kept = [changed for line in read_log(sample.log) if (changed := change(line)) is not None]
    sample.log.write_text("".join(" ".join(map(str, line)) + "\n" for line in kept))


def problems(sample: Sample) -> list[str]:
    return History.read(sample.store, sample.log).problems(sample.jobs.values())


def test_a_true_history_has_no_problems(sample: Sample, copied: Sample) -> None:
    assert problems(sample) == problems(copied) == []
    history = History.read(sample.store, sample.log)
    assert [run.status for run in history.runs[sample.jobs["slow"]]] == ["failed", "completed"]
    assert history.jobs[sample.jobs["ledger"]].dead_kind == "superseded"
    assert len(history.lines) >= 2 + 2 * 5


SLOW = "job_seq = (select seq from jobs where id = :slow)"


@pytest.mark.parametrize(
    ("sql", "complaint"),
    [
        ("delete from jobs where id = :quick", "was accepted and is gone"),
        ("delete from jobs where id = :quick", "started and is not in the store"),
        ("update jobs set state = 'queued' where id = :quick", "has not ended"),
        ("delete from jobs where retry_of = :ledger", "names a successor that is not there"),
        ("update jobs set superseded_by = null where id = :ledger", "is superseded and has no successor"),
        ("update jobs set superseded_by = :quick where id = :ledger", "names another successor"),
        (f"update runs set finished_at = finished_at + 9000000 where {SLOW} and attempt_no = 1", "1 and 2 overlap by"),
        (f"update runs set status = null where {SLOW} and attempt_no = 1", "still open and another has begun"),
        (f"update runs set status = null where {SLOW} and attempt_no = 2", "last run and its state disagree"),
        (f"update runs set status = iif(attempt_no = 1, 'completed', 'failed') where {SLOW}", "begun after it"),
        (f"update runs set status = 'completed' where {SLOW}", "has 2 completed runs"),
        (f"update runs set status = 'skipped' where {SLOW} and attempt_no = 1", "counts 0 skipped runs"),
        (f"update runs set run_id = 'another' where {SLOW} and attempt_no = 1", "which the store does not know"),
        (f"update runs set claimed_at = claimed_at + 9000000 where {SLOW}", "before it was claimed"),
        (f"update runs set finished_at = claimed_at where {SLOW} and attempt_no = 1", "after it had been closed"),
        ("update jobs set finished_at = finished_at + 1 where id = :quick", "ended at another time"),
        ("update jobs set executions = 3 where id = :slow", "counts 3 executions"),
        ("update jobs set max_attempts = 1 where id = :slow", "was executed 2 times of 1"),
        ("update jobs set executions = 2 where id = :ledger", "ran twice under one id"),
        ("update limits set used = 1", "1 permits are counted, 0 are held"),
        ("update jobs set lease_token = 'left over' where id = :quick", "the file is damaged: CHECK"),
        (f"update runs set job_seq = 9999 where {SLOW}", "a broken reference"),
    ],
)  # fmt: skip
def test_a_store_that_tells_something_else_is_refused(copied: Sample, sql: str, complaint: str) -> None:
    rows(copied, sql)
    assert [problem for problem in problems(copied) if complaint in problem]


def test_a_success_that_nobody_did_is_refused(copied: Sample) -> None:
    rewrite(copied, lambda line: None if line.what == "done" and line.job == copied.jobs["quick"] else line)
    [problem] = problems(copied)
    assert "its handler never said that it was done" in problem


def test_work_done_after_its_run_is_refused(copied: Sample) -> None:
    quick = copied.jobs["quick"]
    rewrite(
        copied, lambda line: line._replace(at=line.at + 60_000_000) if (line.what, line.job) == ("done", quick) else line
    )
    [problem] = problems(copied)
    assert "was done outside of the run" in problem


def test_a_start_after_the_success_is_refused(copied: Sample) -> None:
    """A stale worker that begins once more, after another has done the job."""
    [stale] = [line for line in read_log(copied.log) if line.what == "start" and line.job == copied.jobs["slow"]][:1]
    with copied.log.open("a") as log:
        log.write(" ".join(map(str, stale)) + "\n")
    found = problems(copied)
    assert any("a handler was started after the one that succeeded" in problem for problem in found)
    assert any("a handler was called twice in one run" in problem for problem in found)


def test_a_second_start_of_a_never_twice_job_is_refused(copied: Sample) -> None:
    [start] = [line for line in read_log(copied.log) if line.what == "start" and line.job == copied.jobs["ledger"]]
    with copied.log.open("a") as log:
        log.write(" ".join(map(str, start)) + "\n")
    assert any("must never start twice and started 2 times" in problem for problem in problems(copied))


def test_a_line_that_is_being_written_is_left_for_later(copied: Sample) -> None:
    with copied.log.open("a") as log:
        log.write("start half-a-li")
    assert problems(copied) == []


def test_a_fault_that_did_not_hit_is_not_told_of(sample: Sample, tell_summary: Told) -> None:
    history = History.read(sample.store, sample.log)
    with pytest.raises(AssertionError, match="a flood: the fault did not hit"):
        tell_summary("a flood", 0, history, sample.jobs.values())
