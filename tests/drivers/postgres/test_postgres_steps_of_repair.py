"""Counting again and putting rows right beside workers, statement by statement: what others wrote is repaired, and what is
being written meanwhile is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from postgres.programs import NOW, alter, check, claimed, enqueue, new, settle, wanted, whole, wish
from postgres.stepping import Outcome, Stage, transaction
from windlass.core.alterations import PutLimit
from windlass.core.duties import Done, Mend, RecountLimits
from windlass.core.settle import Failed, Rejected, Succeeded
from windlass.drivers.ops import duties
from windlass.drivers.postgres import linking
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.statement import Op

KEY = "type:work"


def duty(what: Mend | RecountLimits) -> Op[Done | None]:
    return (yield from transaction(duties.maintain(DIALECT, what, None, NOW)))


def by_hand(stage: Stage, *statements: str) -> None:
    """By somebody who has switched off foreign keys and triggers."""
    stage.run(f"begin; set local session_replication_role = replica; {'; '.join(statements)}; commit")


def nothing_is_wrong(stage: Stage, outcome: Outcome) -> None:
    check(stage, outcome)
    assert stage.do(duties.maintain(DIALECT, Mend(), None, NOW)) == Done(0), outcome


BESIDE: dict[str, Callable[[list[Any]], Op[Any]]] = {
    "claim": lambda jobs: whole(wish("one", limit=1)),
    "success": lambda jobs: settle(jobs[:1]),
    "failure": lambda jobs: settle(jobs, Failed("no", retry_in=0)),
}


@pytest.mark.parametrize(
    ("what", "beside"), [*((RecountLimits(), beside) for beside in BESIDE), (Mend(), "claim"), (Mend(), "failure")]
)
def test_permits_that_were_miscounted_are_right_whoever_begins_or_ends_meanwhile(
    stage: Stage, what: Any, beside: str
) -> None:
    """Of two that run only one holds a permit, more are counted, and one waits although there is room."""
    alter(stage, PutLimit(KEY, 5))
    enqueue(stage, *(new() for _ in range(4)))
    jobs = claimed(stage, limit=2)
    by_hand(
        stage, "update windlass.limits set used = 4",
        f"update windlass.jobs set permits = null where id = '{jobs[1].id}'",
        f"update windlass.jobs set parked_on = '{KEY}', ready = false where seq = (select max(seq) from windlass.jobs)",
    )  # fmt: skip
    programs = lambda: {"leader": duty(what), "worker": BESIDE[beside](jobs)}  # noqa: E731 - made anew each time
    for outcome in stage.some(programs, rounds=10, seed=1):
        assert outcome["leader"].rows >= 1, outcome
        outcome["worker"]
        nothing_is_wrong(stage, outcome)


@pytest.mark.parametrize("what", [(RecountLimits(),), (PutLimit("key:a", 5), PutLimit("key:b", 5))], ids=["again", "first"])
def test_who_counts_by_several_limits_waits_in_no_ring_with_who_comes_after_running_jobs(stage: Stage, what: Any) -> None:
    """One holds jobs in the order of limits, the other in their own."""
    enqueue(stage, new(id="one", limit_keys=("key:b",)), new(id="two", limit_keys=("key:a",)))
    claimed(stage, limit=2)
    if what == (RecountLimits(),):
        by_hand(stage, "insert into windlass.limits (key, max_used) values ('key:a', 5), ('key:b', 5)")

    def leader() -> Op[Any]:
        return duty(what[0]) if what == (RecountLimits(),) else wanted(*what)

    def come() -> Op[Any]:
        return (yield from transaction(linking.enqueue([new(after=("one", "two"))], NOW, ours=True)))

    for outcome in stage.every(lambda: {"leader": leader(), "comer": come()}):
        outcome["leader"], outcome["comer"]
        nothing_is_wrong(stage, outcome)


@pytest.mark.parametrize("end", [Succeeded(), Failed("no", retry_in=0), None])
def test_a_run_that_is_missing_is_given_to_a_job_that_runs_and_to_no_other(stage: Stage, end: Any) -> None:
    """Its worker, who knows of nothing, ends it meanwhile; or others claim beside it."""
    enqueue(stage, new(), new())
    [job] = claimed(stage, limit=1)
    by_hand(
        stage, "delete from windlass.runs",
        "insert into windlass.runs (job_seq, attempt_no, run_id, queue, type, claimed_at)"
        f" values (999999, 1, 'orphan', 'default', 'work', windlass.at({NOW}))",
    )  # fmt: skip

    def other() -> Op[Any]:
        return whole(wish("w")) if end is None else settle([job], end)

    for outcome in stage.some(lambda: {"person": duty(Mend()), "worker": other()}, rounds=10, seed=1):
        outcome["worker"]
        [(state,)] = stage.ask("select state from windlass.jobs where id = $1", job.id)
        runs = stage.ask("select status from windlass.runs where job_seq = $1", job.handle[0])
        mended = outcome["person"].rows == 2
        assert mended or outcome["person"].rows == 1, outcome
        ended = {"running": None, "succeeded": "completed", "queued": "failed"}[state]
        assert runs == ([(ended,)] if mended else []), outcome
        assert stage.ask("select from windlass.runs where run_id = 'orphan'") == [], outcome
        if end is None:
            nothing_is_wrong(stage, outcome)


@pytest.mark.parametrize(("what", "ours"), [(PutLimit(KEY, 2), True), (RecountLimits(), True), (RecountLimits(), False)])
def test_a_job_that_comes_without_hope_waits_in_no_ring_with_who_counts(stage: Stage, what: Any, ours: bool) -> None:
    """It is given a run that says that it was skipped, and holds another parent: one that runs, or in a transaction that
    may be long, one that is let through."""
    enqueue(stage, new(id="dead"), new(id="other"))
    dead = claimed(stage, limit=2 if ours else 1)[:1]
    stage.do(settle(dead, Rejected("no")))
    if isinstance(what, RecountLimits):
        parked = f"update windlass.jobs set parked_on = '{KEY}', ready = false where id = 'other' and state = 'queued'"
        by_hand(stage, f"insert into windlass.limits (key, max_used, used) values ('{KEY}', 2, 2)", parked)
    child = new(after=("other", "dead"))

    def come() -> Op[Any]:
        return (yield from transaction(linking.enqueue([child], NOW, ours=ours)))

    def leader() -> Op[Any]:
        return duty(what) if isinstance(what, RecountLimits) else wanted(what)

    for outcome in stage.some(lambda: {"leader": leader(), "comer": come()}, rounds=12, seed=1):
        outcome["leader"], outcome["comer"]
        assert stage.ask("select state from windlass.jobs where id = $1", child.id) == [("cancelled",)], outcome
        nothing_is_wrong(stage, outcome)
