"""Which executions leave a row, and what is stored of the others."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from core.make import running
from windlass.core import rows
from windlass.core.changes import Ack, Expire, Fail, Release, Report, Retry, Settlement, Snooze, effect_of
from windlass.core.history import (
    BEYOND,
    MINUTE,
    UsageBatch,
    batches,
    check_page,
    earlier_runs,
    is_last,
    keeps_run,
    unkept_run,
    usage_of,
)
from windlass.core.usage import LATE
from windlass.errors import InvalidInput
from windlass.types import Job, Run

NOW = 10_000 * MINUTE
SAID: dict[str, Any] = {"handle": 1, "token": "t", "at": NOW}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (Ack(**SAID), False),
        (Ack(**SAID, result=b"1", report=Report(cpu_us=1, peak_rss=2, exit_code=0, log_path="x")), False),
        (Ack(**SAID, report=Report(artifacts=("a",))), True),
        (Ack(**{**SAID, "at": NOW - LATE // 2 + 1}), False),
        (Ack(**{**SAID, "at": NOW - LATE // 2}), True),
        (Retry(**SAID, run_at=None, attempts=1, error="no"), True),
        (Fail(**SAID, kind="exhausted", reason="no"), True),
        (Snooze(**SAID, run_at=NOW), True),
        (Release(**SAID), True),
        (Expire(**SAID, lapsed=True), True),
    ],
)
def test_only_a_success_in_time_and_without_artifacts_leaves_no_row(change: Settlement, kept: bool) -> None:
    assert keeps_run(change, NOW) is kept


def lean(**fields: Any) -> Job:
    return replace(running(), history="failures", lease_token="t", executions=2, **fields)


def ended(job: Job, at: int, **report: Any) -> Run:
    change = Ack(handle=1, token="t", at=at, report=Report(**report) if report else None)
    return rows.closed(rows.run_under_way(job), change, effect_of(change))


def test_a_batch_is_of_one_kind_and_of_one_minute() -> None:
    one, other = lean(claimed_at=NOW, started_at=NOW, queued_at=NOW - 5, run_at=None), lean(org_id="o", claimed_at=NOW)
    other = replace(other, started_at=NOW, queued_at=NOW, run_at=None)
    found = batches([
        ended(one, NOW + 9, cpu_us=3, peak_rss=7), ended(one, NOW + 4, peak_rss=8), ended(one, NOW + MINUTE),
        ended(other, NOW + 1),
    ])  # fmt: skip
    said: dict[str, Any] = {"queue": one.queue, "type": one.type, "outcome": "completed"}
    assert found == [
        UsageBatch(at=NOW + 9, org_id=None, runs=2, run_us=13, wait_us=10, cpu_us=3, peak_rss=8, **said),
        UsageBatch(at=NOW + MINUTE, org_id=None, runs=1, run_us=MINUTE, wait_us=5, cpu_us=0, peak_rss=None, **said),
        UsageBatch(at=NOW + 1, org_id="o", runs=1, run_us=1, wait_us=0, cpu_us=0, peak_rss=None, **said),
    ]
    assert (usage_of(found[2]).org_id, usage_of(found[2]).runs, usage_of(found[0]).org_id) == ("o", 1, "")


def test_a_success_without_a_row_is_told_from_its_job() -> None:
    job = lean(claimed_at=NOW, started_at=None)
    change = Ack(handle=1, token="t", at=NOW + 3)
    run, after = ended(job, NOW + 3), rows.settled(job, change, effect_of(change), NOW + 3)
    failed = replace(run, attempt_no=1)
    assert unkept_run(after, [failed]) == run
    assert unkept_run(after, [failed, run]) is None, "it has a row"
    assert unkept_run(job, [failed]) is None, "it has not ended"
    assert unkept_run(replace(after, history="full"), [failed]) is None
    assert unkept_run(after, []) == run
    assert unkept_run(replace(after, claimed_at=None), []) is None
    assert unkept_run(replace(after, last_token=None), []) is not None


def test_of_a_job_with_many_executions_the_older_ones_are_counted() -> None:
    job = replace(lean(claimed_at=NOW, started_at=NOW), executions=7)
    run = ended(job, NOW + 3)
    change = Ack(handle=1, token="t", at=NOW + 3)
    after = rows.settled(job, change, effect_of(change), NOW + 3)
    assert earlier_runs(after, [replace(run, attempt_no=5), run]) == 4
    assert earlier_runs(after, []) == 6, "what the last one was the job still says"
    assert earlier_runs(replace(after, history="full"), []) == 7
    assert (is_last([run], after), is_last([replace(run, attempt_no=6)], after), is_last([], after)) == (True, False, False)


@pytest.mark.parametrize(("before", "limit"), [(None, 1), (1, 10), (BEYOND, 10)])
def test_a_page_of_executions(before: int | None, limit: int) -> None:
    check_page(before, limit)


@pytest.mark.parametrize(
    ("before", "limit", "field"),
    [
        (0, 1, "before"), (BEYOND + 1, 1, "before"), (True, 1, "before"), ("9", 1, "before"), (None, 0, "limit"),
        ([2**14_000], 1, "before"), (2**14_000, 1, "before"),
    ],
    ids=range(7),
)  # fmt: skip
def test_what_is_no_page_is_refused(before: object, limit: object, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_page(before, limit)
    assert refused.value.field == field
