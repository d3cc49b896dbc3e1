"""Permits, buckets and turns while somebody holds the row of a key or of a job that waits: nobody waits for him, nothing is
written over, and what is passed over is found later."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from postgres.programs import NOW, alter, claim, claimed, enqueue, ids, new, settle, wanted, whole, wish
from postgres.stepping import Program, Stage
from windlass.clock import SECOND
from windlass.core.alterations import PutLimit, PutQueue
from windlass.core.duties import Done, RecountLimits
from windlass.core.limits import LOOK_AGAIN
from windlass.core.settle import Failed, Rejected
from windlass.drivers.ops import duties
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.link import BEGIN, ROLLBACK, Link, drive
from windlass.drivers.statement import Statement, T
from windlass.types import NewGroup

LATER = NOW + 10 * SECOND
MOMENT = 0.3


class Hand:
    """One connection, driven as far as a test wants."""

    def __init__(self, stage: Stage, program: Program) -> None:
        self.link, self.program = Link(stage.place), program
        self.next = next(program)

    def until(self, is_last: Callable[[str], bool]) -> None:
        """Up to and including the first statement of which this is so."""
        done = False
        while not done:
            done = is_last(self.next.sql)
            self.next = self.program.send(self.link.execute(self.next))

    def finish(self) -> object:
        try:
            while True:
                self.next = self.program.send(self.link.execute(self.next))
        except StopIteration as stop:
            self.link.close()
            return stop.value


def soon(call: Callable[[], T], before: Callable[[], object]) -> T:
    """Its answer, which must be there before something else happens."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call)
        wait([answer], 10 * MOMENT)
        prompt = answer.done()
        before()
        result = answer.result()
    assert prompt, "it waited"
    return result


def test_a_group_that_stops_gives_no_tokens_back_that_a_claim_took(stage: Stage) -> None:
    """A member comes back from a rated key after the look at whom the group would stop, and before the group is held."""
    alter(stage, PutLimit("key:k", per_second=1.0, burst=2.0))
    group = NewGroup(group_id="g", on_failure="stop")
    enqueue(stage, new(id="a", group_id="g", opens=group), new(id="b", group_id="g", limit_keys=("key:k",)))
    enqueue(stage, *(new(limit_keys=("key:k",)) for _ in range(5)))
    jobs = {job.id: job for job in claimed(stage, limit=20)}
    assert len(jobs) == 3  # a, and two tokens

    dies = Hand(stage, settle([jobs["a"]], Rejected("no"), LATER))
    dies.until(lambda sql: "on_failure = 'stop' and jobs.group_id" in sql)  # whom it would stop: b runs still
    assert drive(settle([jobs["b"]], Failed("boom", retry_in=0), LATER), stage.own.execute) == ["applied"]
    dies.until(lambda sql: sql.startswith("update windlass.jobs\n   set state = 'cancelled'"))  # b, which is queued by now
    dies.until(lambda sql: "from windlass.limits where key = any" in sql and "refilled_at" in sql)  # the bucket is read
    other = Link(stage.place)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(drive, whole(wish("one"), LATER), other.execute)
        wait([first], MOMENT)
        assert dies.finish() == ["applied"]
        taken = first.result()
    other.close()
    more = drive(claim(wish("two"), LATER), stage.own.execute)
    assert len(taken) + len(more) == 2, f"{ids(taken)} and {ids(more)} of a key that lets two pass"
    assert len(drive(claim(wish("three"), LATER + SECOND), stage.own.execute)) == 1  # who waits is not forgotten


def test_a_group_that_stops_does_not_wait_for_a_key_that_it_learnt_of_too_late(stage: Stage) -> None:
    """Whoever holds it may be waiting for the group."""
    alter(stage, PutLimit("key:k", 1))
    group = NewGroup(group_id="g", on_failure="stop")
    enqueue(stage, new(id="a", group_id="g", opens=group), new(id="b", group_id="g", limit_keys=("key:k",)))
    jobs = {job.id: job for job in claimed(stage, limit=20)}
    dies = Hand(stage, settle([jobs["a"]], Rejected("no")))
    dies.until(lambda sql: "on_failure = 'stop' and jobs.group_id" in sql)
    assert drive(settle([jobs["b"]], Failed("boom", retry_in=0)), stage.own.execute) == ["applied"]
    dies.until(lambda sql: sql.startswith("update windlass.jobs\n   set state = 'cancelled'"))
    somebody = Link(stage.place)
    somebody.execute(BEGIN)
    somebody.execute(Statement("select from windlass.limits where key = 'key:k' for update", ()))
    assert soon(dies.finish, before=lambda: somebody.execute(ROLLBACK)) == ["applied"]
    somebody.close()


@pytest.mark.parametrize("fair", [False, True])
def test_a_permit_that_is_given_back_does_not_wait_for_a_job_that_somebody_holds(stage: Stage, fair: bool) -> None:
    """As a caller does who touched it in his own transaction. Another gets the permit, or it is looked at again soon."""
    alter(stage, PutLimit("key:k", 1), PutQueue("default", order="fair" if fair else "strict"))
    enqueue(stage, new(id="holder", limit_keys=("key:k",)), new(id="held", limit_keys=("key:k",)))
    jobs = claimed(stage, limit=2)
    assert ids(jobs) == ["holder"]
    somebody = Link(stage.place)
    somebody.execute(BEGIN)
    somebody.execute(Statement("select from windlass.jobs where id = 'held' for update", ()))
    end = soon(lambda: drive(settle(jobs), stage.own.execute), before=lambda: somebody.execute(ROLLBACK))
    somebody.close()
    assert end == ["applied"]
    assert stage.do(whole(wish("one"))) == []
    assert ids(drive(claim(wish("two"), NOW + LOOK_AGAIN), stage.own.execute)) == ["held"]


def test_a_permit_goes_to_the_next_when_somebody_holds_the_first(stage: Stage) -> None:
    alter(stage, PutLimit("key:k", 1))
    enqueue(stage, *(new(id=name, limit_keys=("key:k",)) for name in ("holder", "held", "next")))
    jobs = claimed(stage, limit=3)
    somebody = Link(stage.place)
    somebody.execute(BEGIN)
    somebody.execute(Statement("select from windlass.jobs where id = 'held' for update", ()))
    end = soon(lambda: drive(settle(jobs), stage.own.execute), before=lambda: somebody.execute(ROLLBACK))
    somebody.close()
    assert end == ["applied"]
    assert ids(stage.do(claim(wish("one")))) == ["next"]


def test_a_queue_becomes_fair_without_waiting_for_a_job_that_somebody_holds(stage: Stage) -> None:
    """Its turn comes when a recount has seen it."""
    enqueue(stage, new(id="held"), new(id="free"))
    somebody = Link(stage.place)
    somebody.execute(BEGIN)
    somebody.execute(Statement("select from windlass.jobs where id = 'held' for update", ()))
    change = wanted(PutQueue("default", order="fair"))
    assert soon(lambda: drive(change, stage.own.execute), before=lambda: somebody.execute(ROLLBACK)) == ["applied"]
    somebody.close()
    stage.do(duties.maintain(DIALECT, RecountLimits(), None, NOW))
    assert ids(stage.do(claim(wish("one")))) == ["held", "free"]


@pytest.mark.parametrize("where", ["running", "parked without a turn", "parked"])
def test_a_recount_ends_though_somebody_holds_those_it_came_for(stage: Stage, where: str) -> None:
    """Else a leader would ask for one bite after the other without a pause, for as long as they are held."""
    enqueue(stage, new(id="held"))
    if where == "running":
        claimed(stage, limit=1)
    else:
        share = "''" if where == "parked" else "null"
        stage.run(f"update windlass.jobs set ready = false, parked_on = 'key:k', share = {share}")
    queue = "insert into windlass.queues (name, fairness, created_at, updated_at) values ('default', 'fair', now(), now())"
    stage.run(queue)
    stage.run(f"insert into windlass.limits (key, max_used) values ('key:k', {5 if where == 'parked' else 0})")
    somebody = Link(stage.place)
    somebody.execute(BEGIN)
    somebody.execute(Statement("select from windlass.jobs for no key update", ()))
    duty = duties.maintain(DIALECT, RecountLimits(limit=1), None, NOW)
    done = soon(lambda: drive(duty, stage.own.execute), before=lambda: somebody.execute(ROLLBACK))
    somebody.close()
    assert done == Done(0)
