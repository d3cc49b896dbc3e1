"""Who may end an execution, in the one statement that most go through and in the transaction of the others."""

from __future__ import annotations

from collections import Counter

from postgres.programs import LATER, NOW, alter, check, claimed, enqueue, new, settle
from postgres.stepping import Stage
from windlass.core.alterations import Cancel, PutLimit
from windlass.core.changes import Ack
from windlass.core.settle import Execution, Failed, Outcome, Rejected, Succeeded
from windlass.core.settle import settle as decide
from windlass.drivers.postgres import settlement


def test_a_plain_success_is_fenced(stage: Stage) -> None:
    enqueue(stage, new(), new())
    mine, other = claimed(stage)
    units = [Ack(handle=mine.handle, token=mine.token, at=NOW), Ack(handle=other.handle, token="stale", at=NOW)]
    assert settlement.is_simple(units, NOW)
    assert stage.do(settlement.ack_at_once(units, NOW)) == ["applied", "mismatch"]
    late = [Ack(handle=other.handle, token=other.token, at=NOW)]
    assert stage.do(settlement.ack_at_once(late, LATER)) == ["expired"]
    assert stage.do(settlement.ack_at_once(late, LATER - 1)) == ["applied"]


def test_each_of_a_batch_gets_its_own_ending(stage: Stage) -> None:
    enqueue(stage, new(), new(), new())
    jobs = claimed(stage)
    ends: list[Outcome] = [Failed("no"), Succeeded(b"x"), Rejected("never")]
    units = [decide(job, end, Execution(at=NOW)) for job, end in zip(jobs, ends, strict=True)]
    assert stage.do(settlement.settle(units, NOW)) == ["applied"] * 3
    assert stage.ask("select state from windlass.jobs order by seq") == [("queued",), ("succeeded",), ("dead",)]


def test_one_lease_is_settled_once(stage: Stage) -> None:
    enqueue(stage, new())
    jobs = claimed(stage)
    for outcome in stage.every(lambda: {"one": settle(jobs, Failed("no")), "two": settle(jobs, Succeeded(b"x"))}):
        assert Counter(outcome["one"] + outcome["two"])["applied"] == 1, outcome
        check(stage, outcome)


def test_nobody_is_let_through_to_a_limit_that_is_full(stage: Stage) -> None:
    """It would be parked again, so only the walk is in vain."""
    alter(stage, PutLimit("k", 1))
    jobs = enqueue(stage, *(new(limit_keys=("k",)) for _ in range(3)))
    assert len(claimed(stage)) == 1
    alter(stage, Cancel(jobs[1]))
    assert stage.ask("select id, ready, parked_on from windlass.jobs where state = 'queued'") == [(jobs[2], False, "k")]
