"""Leaders: every interleaving of hand-overs with each other and with the duties of a leader."""

from __future__ import annotations

import pytest

from postgres.programs import LEASE, NOW, check, claimed, enqueue, new, wanted
from postgres.stepping import Stage, transaction
from windlass.clock import SECOND
from windlass.core.alterations import Cancel, Leave
from windlass.core.changes import Ack
from windlass.core.duties import Done, Prune, RemoveDeadWorkers, RollUpUsage
from windlass.drivers.ops import duties, fleet, people
from windlass.drivers.postgres import settlement
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.statement import Op
from windlass.drivers.values import Leadership
from windlass.records import WorkerInfo

TERM = 30 * SECOND
LAPSED = NOW + TERM  # the instant of expiry is expired
LONG_AGO = NOW - 3_600 * SECOND


def register(stage: Stage, *names: str, now: int = NOW) -> None:
    for name in names:
        about = WorkerInfo(
            id=name, hostname="host", pid=1, pool_size=1, version="1", queues=("default",), types=("work",), wakeups="push",
            running=0, started_at=now,
        )  # fmt: skip
        stage.do(fleet.beat(DIALECT, about, now))


def bid(name: str, now: int = NOW) -> Op[Leadership]:
    return (yield from transaction(fleet.lead(DIALECT, name, TERM, now)))


def duty(what: Prune | RemoveDeadWorkers | RollUpUsage, epoch: int, now: int = NOW) -> Op[Done | None]:
    return (yield from transaction(duties.maintain(DIALECT, what, epoch, now)))


def leader(stage: Stage) -> tuple[str, int]:
    [(name, epoch)] = stage.ask("select worker_id, epoch from windlass.leader")
    return name, epoch


def last(story: list[str], line: str) -> int:
    return len(story) - 1 - story[::-1].index(line)


def test_of_two_who_ask_at_once_one_leads(stage: Stage) -> None:
    register(stage, "a", "b")
    for outcome in stage.every(lambda: {"a": bid("a"), "b": bid("b")}):
        one, two = outcome["a"], outcome["b"]
        assert one == two, outcome
        assert (one.worker_id, one.epoch) == leader(stage), outcome
        assert one.epoch == 1, outcome


def test_after_a_lapse_the_old_leader_and_a_new_one_never_both_lead(stage: Stage) -> None:
    register(stage, "old", "new")
    stage.do(fleet.lead(DIALECT, "old", TERM, NOW))
    for outcome in stage.every(lambda: {"old": bid("old", LAPSED), "new": bid("new", LAPSED)}):
        assert outcome["old"] == outcome["new"], outcome
        assert outcome["old"].epoch == 2, "a term that has lapsed is over, also for who had it"


def test_who_renews_in_time_meets_nobody_else(stage: Stage) -> None:
    register(stage, "old", "new")
    stage.do(fleet.lead(DIALECT, "old", TERM, NOW))
    for outcome in stage.every(lambda: {"old": bid("old", LAPSED - 1), "new": bid("new", LAPSED - 1)}):
        assert outcome["old"] == Leadership(worker_id="old", epoch=1, until=LAPSED - 1 + TERM), outcome
        assert (outcome["new"].worker_id, outcome["new"].epoch) == ("old", 1), outcome


@pytest.mark.parametrize("first", ["lapse", "leave"])
def test_a_hand_over_waits_for_the_duty_under_way_or_the_duty_is_refused(stage: Stage, first: str) -> None:
    register(stage, "old", "new")
    stage.do(fleet.lead(DIALECT, "old", TERM, NOW))
    [job] = enqueue(stage, new())
    [held] = claimed(stage)
    stage.do(settlement.settle([Ack(handle=held.handle, token=held.token, at=NOW)], NOW))

    def hand_over() -> Op[Leadership]:
        if first == "leave":
            yield from transaction(people.alter(DIALECT, [Leave("old")], LAPSED - 1))
            return (yield from bid("new", LAPSED - 1))
        return (yield from bid("new", LAPSED))

    for outcome in stage.every(lambda: {"duty": duty(Prune(succeeded=0), 1, LAPSED - 1), "hand over": hand_over()}):
        done, now_leads = outcome["duty"], outcome["hand over"]
        gone = stage.ask("select from windlass.jobs where id = $1", job) == []
        assert (now_leads.worker_id, now_leads.epoch) == ("new", 2), outcome
        assert done == (Done(1) if gone else None), outcome
        if done is not None:  # it was stored while the one that did it led
            assert outcome.story.index("duty: 'commit'") < last(outcome.story, "hand over: 'commit'"), outcome


def test_a_worker_that_beats_again_while_it_is_buried_is_there_or_gone_as_a_whole(stage: Stage) -> None:
    register(stage, "dead", now=LONG_AGO)
    register(stage, "boss")
    stage.do(fleet.lead(DIALECT, "boss", TERM, NOW))
    enqueue(stage, new())
    [held] = claimed(stage)
    stage.run("update windlass.jobs set worker_id = 'dead'")

    def beat() -> Op[None]:
        about = WorkerInfo(
            id="dead", hostname="host", pid=1, pool_size=1, version="1", queues=(), types=(), wakeups="push", running=1,
            started_at=LONG_AGO,
        )  # fmt: skip
        return (yield from transaction(fleet.beat(DIALECT, about, NOW)))

    for outcome in stage.every(lambda: {"beat": beat(), "burial": duty(RemoveDeadWorkers(silent_for=60 * SECOND), 1)}):
        [(valid,)] = stage.ask("select lease_expires_at > windlass.at($1) from windlass.jobs", NOW)
        assert outcome["burial"] == Done(0 if valid else 1), outcome
        assert stage.ask("select from windlass.workers where id = 'dead'") != [], "who beats is registered"
    assert held.lease_expires_at == NOW + LEASE


def test_a_burial_of_two_and_a_person_do_not_wait_in_a_ring(stage: Stage) -> None:
    """Their leases end in the order of the jobs, whoever of them had which."""
    register(stage, "first", "second", now=LONG_AGO)
    register(stage, "boss")
    stage.do(fleet.lead(DIALECT, "boss", TERM, NOW))
    jobs = enqueue(stage, new(), new())
    claimed(stage)
    for job, worker in zip(jobs, ("second", "first"), strict=True):
        stage.run(f"update windlass.jobs set worker_id = '{worker}' where id = '{job}'")
    burial = RemoveDeadWorkers(silent_for=60 * SECOND)
    for outcome in stage.every(lambda: {"burial": duty(burial, 1), "person": wanted(*map(Cancel, jobs))}, most=1_500):
        assert outcome["burial"] == Done(2), outcome
        assert outcome["person"] == ["requested"] * 2, outcome
        check(stage, outcome)


@pytest.mark.parametrize("begun", [False, True])
def test_a_late_end_and_a_roll_up_count_it_once(stage: Stage, begun: bool) -> None:
    register(stage, "boss")
    stage.do(fleet.lead(DIALECT, "boss", TERM, NOW))
    enqueue(stage, new())
    jobs = claimed(stage, now=NOW - 20 * SECOND)
    late = [Ack(handle=job.handle, token=job.token, at=NOW - 300 * SECOND) for job in jobs]

    def end_late() -> Op[object]:
        return (yield from transaction(settlement.settle(late, NOW)))

    def mark() -> None:
        stage.run("delete from windlass.meta where key = 'usage_watermark'")
        if begun:
            stage.do(duties.maintain(DIALECT, RollUpUsage(until=NOW - 400 * SECOND), 1, NOW))

    mark()
    for outcome in stage.every(lambda: {"end": end_late(), "roll up": duty(RollUpUsage(until=NOW), 1)}):
        stage.do(duties.maintain(DIALECT, RollUpUsage(until=NOW + 60 * SECOND), None, NOW + 120 * SECOND))
        assert stage.ask("select sum(runs)::int from windlass.usage_hourly") == [(1,)], outcome
        check(stage, outcome)
        mark()
