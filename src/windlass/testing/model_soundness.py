"""Rules that no driver is asked about: they find the mistakes that the two stores share."""

from __future__ import annotations

from collections import Counter

from hypothesis.stateful import invariant

from windlass.core.queries import AllGroups
from windlass.testing.model_machine import Machine
from windlass.types import ACTIVE, TERMINAL, Job, Run


class SoundRows(Machine):
    def check_usage(self) -> None:
        raise NotImplementedError

    @invariant()
    def rows_are_sound(self) -> None:
        jobs = self._jobs(self.driver)
        active = Counter(job.dedupe_key for job in jobs if job.dedupe_key is not None and job.state in ACTIVE)
        assert all(count == 1 for count in active.values()), "two active jobs hold one dedupe key"
        automatic = Counter(job.retry_of for job in jobs if job.retry_of is not None and not job.manual)
        assert all(count == 1 for count in automatic.values()), "a failure has two automatic retries"
        for job in jobs:
            runs: list[Run] = self._ask(self.driver, "runs", job.id)
            _check_row(job, runs)
            if job.id not in self.replayed:  # a person may allow more
                _check_maxima(job)
            self._check_history(job, runs)
        assert all(count == 1 for count in self.acked.values()), "one lease was settled twice"
        self.check_usage()

    def _check_history(self, job: Job, runs: list[Run]) -> None:
        before = self.before.get(job.id)
        if before is not None and before != job:
            assert job.updated_at > before.updated_at, "a change that updated_at does not show"
            if before.state in TERMINAL and job.id not in self.replayed:
                assert (job.state, job.finished_at) == (before.state, before.finished_at), "a terminal state changed"
        self.before[job.id] = job
        for run in runs:
            if run.run_id in self.ended:
                assert run == self.ended[run.run_id], "an ended run changed"
            elif run.status is not None:
                self.ended[run.run_id] = run

    @invariant()
    def shared_rows_add_up(self) -> None:
        for group in self._ask(self.driver, "read", AllGroups()):
            assert group.total == group.remaining + group.succeeded + group.failed + group.cancelled
            assert (group.finished_at is not None) == (group.remaining == 0)

    @invariant()
    def nothing_runs_early(self) -> None:
        for job in self._jobs(self.driver):
            if job.state == "running" and job.claimed_at is not None and job.run_at is not None:
                assert job.run_at <= job.claimed_at, f"{job.id} was claimed before its time"
            assert job.parked_on is None or job.run_at is None or job.run_at <= self.now, "parked before its time"


def _check_row(job: Job, runs: list[Run]) -> None:
    assert (job.state == "running") == (job.lease_token is not None) == (job.lease_expires_at is not None)
    assert (job.state in TERMINAL) == (job.finished_at is not None)
    assert (job.state == "dead") == (job.dead_kind is not None) == (job.dead_at is not None)
    assert job.state == "cancelled" or (job.dead_kind == "superseded") == (job.superseded_by is not None)
    unkept = job.history == "failures" and job.state == "succeeded" and len(runs) == job.executions - 1
    assert len(runs) == job.executions or unkept, "executions are run rows, unless they succeed and need not be"
    assert not unkept or all(run.status != "completed" for run in runs), "a job succeeds once"
    assert [run.attempt_no for run in runs] == list(range(1, len(runs) + 1)), "runs are numbered"
    assert [run.status for run in runs[:-1]].count(None) == 0, "only the last run may be open"
    assert (bool(runs) and runs[-1].status is None) == (job.state == "running"), "running has an open run, others none"
    assert job.skipped >= sum(run.status == "skipped" for run in runs)
    assert job.retry_mode == "same_job" or job.executions <= 1, "a never-twice job ran twice"


def _check_maxima(job: Job) -> None:
    if job.max_attempts and job.retry_mode == "same_job" and job.lost == 0:
        assert job.executions - job.skipped <= job.max_attempts, "more executions than allowed"
    assert job.max_lost == 0 or job.crash_policy == "fail" or job.lost <= job.max_lost, "lost more often than allowed"
