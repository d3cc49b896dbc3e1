"""Jobs that wait for others, and groups: every interleaving of ends, arrivals and wishes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from postgres.programs import LATER, LEASE, NOW, alter, check, claimed, enqueue, new, settle, sweep, wanted, wish
from postgres.programs import claim as claim_jobs
from postgres.stepping import Outcome, Stage, before, transaction
from windlass.core.alterations import Cancel, CancelGroup, Delete, PutGroup, PutLimit, Replay, RetryGroup
from windlass.core.changes import Answer
from windlass.core.dependencies import INLINE
from windlass.core.settle import Execution, Failed, Rejected, Succeeded
from windlass.core.settle import settle as decide
from windlass.drivers.ops import people
from windlass.drivers.ops.dependencies import pay
from windlass.drivers.postgres import leases, linking, settlement
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.link import BEGIN, ROLLBACK, Link
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op, Statement
from windlass.drivers.values import Enqueued
from windlass.errors import InvalidInput, WrongConnection
from windlass.types import Claimed, NewGroup, NewJob

NO = Rejected("no")
AGAIN = Failed("boom", retry_in=0)
ENDS = [Succeeded(), NO]


def end(job: Claimed, outcome: Any) -> Op[list[Answer]]:
    """As the driver settles what others wait for, without the look that finds it out."""
    unit = decide(job, outcome, Execution(at=NOW, child_id=f"{job.id}-next"))
    return (yield from transaction(settlement.settle([unit], NOW)))


def ask_for(*jobs: NewJob) -> Op[list[Enqueued]]:
    return (yield from transaction(linking.enqueue(jobs, NOW)))


def row(stage: Stage, job_id: str) -> tuple[Any, ...]:
    [found] = stage.ask(f"select state, waiting_on, ready from windlass.jobs where id = '{job_id}'")
    return tuple(found)


def nobody_owes(stage: Stage, outcome: Outcome) -> None:
    """Whatever the order, all was told in the transactions themselves: the sweep has nothing to do."""
    assert stage.ask("select id from windlass.jobs where awaited and finished_at is not null") == [], outcome
    open_edges = "select job_seq from windlass.dependencies join windlass.jobs on id = parent_id where not done"
    assert stage.ask(f"{open_edges} and finished_at is not null") == [], outcome
    check(stage, outcome)


def running(stage: Stage, count: int, **fields: Any) -> list[Claimed]:
    enqueue(stage, *(new(**fields) for _ in range(count)))
    return claimed(stage, limit=count)


# ---------------------------------------------------------------------------------------------------------- ends of parents


@pytest.mark.parametrize(("one_end", "other_end"), [(Succeeded(), Succeeded()), (Succeeded(), NO), (NO, NO)])
def test_a_fan_in_whose_parents_end_at_the_same_instant_is_released_once(
    stage: Stage, one_end: Any, other_end: Any
) -> None:
    one, two = running(stage, 2)
    [child] = enqueue(stage, new(after=(one.id, two.id)))
    [last] = enqueue(stage, new(after=(child, two.id), after_rule="continue"))
    for outcome in stage.every(lambda: {"one": end(one, one_end), "two": end(two, other_end)}):
        assert outcome["one"] == outcome["two"] == ["applied"], outcome
        if NO in (one_end, other_end):
            assert row(stage, child)[0] == "cancelled", outcome
            assert row(stage, last) == ("queued", 0, True), outcome
            assert len(stage.ask("select from windlass.runs where status = 'skipped'")) == 1, outcome
        else:
            assert row(stage, child) == ("queued", 0, True), outcome
            assert row(stage, last) == ("queued", 1, False), outcome
        nobody_owes(stage, outcome)


@pytest.mark.parametrize(("how", "chain"), [(Succeeded(), False), (NO, False), (AGAIN, False), (AGAIN, True)])
def test_a_child_that_comes_while_its_parent_ends_is_never_forgotten(stage: Stage, how: Any, chain: bool) -> None:
    mode: dict[str, Any] = {"retry_mode": "new_job", "crash_policy": "fail"} if chain else {}
    [parent] = running(stage, 1, **mode)
    child = new(after=(parent.id,))
    for outcome in stage.every(lambda: {"one": end(parent, how), "two": ask_for(child)}, most=1_500):
        assert outcome["one"] == ["applied"], outcome
        state, waiting_on, ready = row(stage, child.id)
        if isinstance(how, Failed):
            assert (state, waiting_on, ready) == ("queued", 1, False), outcome
        else:
            assert (state, ready) == (("cancelled", ready) if how is NO else ("queued", True)), outcome
        nobody_owes(stage, outcome)


def test_a_parent_that_is_taken_over_while_its_child_waits_for_another_is_looked_for_again(stage: Stage) -> None:
    [parent] = running(stage, 1, retry_mode="new_job", crash_policy="fail")
    [other] = enqueue(stage, new(run_at=NOW + LEASE))
    child = new(after=(other, parent.id))
    for outcome in stage.every(lambda: {"one": end(parent, AGAIN), "two": ask_for(child)}, most=1_500):
        assert row(stage, child.id) == ("queued", 2, False), outcome
        nobody_owes(stage, outcome)


def test_who_took_over_from_a_parent_cannot_end_unseen_by_a_child_that_is_coming(stage: Stage) -> None:
    """The child has waited for the parent's lock, and holds that of another: it looks again until it holds all heads."""
    [parent] = running(stage, 1, retry_mode="new_job", crash_policy="fail")
    [other] = enqueue(stage, new(run_at=NOW + LEASE))
    child = new(after=(other, parent.id), after_rule="continue")

    def taken_over_and_cancelled() -> Op[None]:
        yield from end(parent, AGAIN)
        yield from wanted(Cancel(f"{parent.id}-next"))

    for outcome in stage.some(lambda: {"one": taken_over_and_cancelled(), "two": ask_for(child)}, rounds=15, seed=2):
        outcome["one"], outcome["two"]
        assert row(stage, child.id) == ("queued", 1, False), outcome
        nobody_owes(stage, outcome)


def test_of_two_parents_that_owe_children_none_tells_one_twice(stage: Stage) -> None:
    """A sweep tells both of their children at once, one of whom had heard of one parent when it came."""
    one, two = running(stage, 2)
    first, second = new(after=(one.id,)), new(after=(one.id, two.id))
    with closing(Link(stage.place)) as held, closing(Link(stage.place)) as also_held:

        def comes(child: NewJob, link: Link) -> Callable[[], None]:
            def meanwhile() -> None:
                link.transact(linking.enqueue([child], NOW))
                link.execute(BEGIN)
                link.execute(Statement("select from windlass.jobs where id = $1 for no key update", (child.id,)))

            return meanwhile

        for parent, child, link in ((one, first, held), (two, second, also_held)):
            unit = decide(parent, Succeeded(), Execution(at=NOW))
            ending = before(SQL.lock_guards, settlement.settle([unit], NOW), comes(child, link))
            assert stage.do(ending) == ["applied"]
        for link in (held, also_held):
            link.execute(ROLLBACK)
    assert [row(stage, child.id) for child in (first, second)] == [("queued", 1, False)] * 2
    assert stage.do(pay(DIALECT, NOW, 100)) == 2
    assert [row(stage, child.id) for child in (first, second)] == [("queued", 0, True)] * 2


def test_a_parent_that_nobody_waited_for_any_more_is_not_forgotten_by_ends_of_others(stage: Stage) -> None:
    """Its only child was cancelled and deleted, and another one comes while a stranger tells his own."""
    parent, stranger = running(stage, 2)
    gone, _ = enqueue(stage, new(after=(parent.id,)), new(after=(stranger.id,)))
    alter(stage, Cancel(gone), Delete(gone))
    child = new(after=(parent.id,))
    for outcome in stage.every(lambda: {"one": end(stranger, Succeeded()), "two": ask_for(child)}, most=1_500):
        assert outcome["one"] == ["applied"], outcome
        assert stage.do(end(parent, Succeeded())) == ["applied"], outcome
        assert row(stage, child.id) == ("queued", 0, True), outcome
        nobody_owes(stage, outcome)


def test_two_children_that_come_while_their_parent_ends_are_both_released(stage: Stage) -> None:
    [parent] = running(stage, 1)
    one, two = new(after=(parent.id,)), new(after=(parent.id,))
    programs = lambda: {"end": settle([parent]), "one": ask_for(one), "two": ask_for(two)}  # noqa: E731 - made anew each time
    for outcome in stage.some(programs, rounds=40, seed=3):
        assert [row(stage, job.id) for job in (one, two)] == [("queued", 0, True)] * 2, outcome
        nobody_owes(stage, outcome)


@pytest.mark.parametrize("how", ENDS)
def test_a_person_who_cancels_a_child_while_its_parent_ends_does_not_wait_in_a_ring(stage: Stage, how: Any) -> None:
    """The child stands before its parent, so the order of numbers and the order of waiting are not the same."""
    child, parent = new(id="child", after=("parent",)), new(id="parent")
    enqueue(stage, child, parent)
    [held] = claimed(stage)
    for outcome in stage.every(lambda: {"one": end(held, how), "two": wanted(Cancel("child"), Cancel("parent"))}):
        assert outcome["one"] == ["applied"], outcome
        assert row(stage, "child")[0] in ("cancelled", "queued"), outcome
        assert outcome["two"][0] in ("applied", "unchanged"), outcome
        assert row(stage, "child")[0] == "cancelled", outcome
        nobody_owes(stage, outcome)


def test_a_person_who_cancels_one_parent_while_the_other_ends_leaves_nothing_untold(stage: Stage) -> None:
    [other] = running(stage, 1)
    [parent] = enqueue(stage, new(run_at=NOW + LEASE))
    [child] = enqueue(stage, new(after=(parent, other.id), after_rule="continue"))
    programs = lambda: {"one": end(other, Succeeded()), "two": wanted(Cancel(parent))}  # noqa: E731
    for outcome in stage.some(programs, rounds=60, seed=13):
        assert row(stage, child) == ("queued", 0, True), outcome
        nobody_owes(stage, outcome)


def test_a_callers_transaction_never_holds_a_running_parent(stage: Stage) -> None:
    """The lock would outlast its heartbeat. One that is queued may be held: nobody has a lease on it."""
    [parent] = running(stage, 1)
    enqueue(stage, new(id="queued"))
    with pytest.raises(WrongConnection, match="renewing its lease"):
        stage.do(linking.enqueue([new(after=(parent.id,))], NOW, ours=False))
    stage.do(linking.enqueue([new(after=("queued",))], NOW, ours=False))


def test_a_released_child_is_claimed_once(stage: Stage) -> None:
    one, two = running(stage, 2)
    [child] = enqueue(stage, new(after=(one.id, two.id)))
    programs = lambda: {"one": settle([one]), "two": settle([two]), "w": claim_jobs(wish("w"))}  # noqa: E731
    for outcome in stage.some(programs, rounds=40, seed=5):
        again = stage.do(transaction(claim_jobs(wish("v"))))
        assert [job.id for job in [*outcome["w"], *again]] == [child], outcome
        nobody_owes(stage, outcome)


def test_two_sweeps_pay_what_is_owed_once(stage: Stage) -> None:
    [parent, other] = running(stage, 2)
    [child] = enqueue(stage, new(after=(parent.id, other.id)))
    stage.do(settle([other]))
    stage.do(settle([parent]))
    stage.run(f"update windlass.jobs set awaited = true where id = '{parent.id}'")
    stage.run(f"update windlass.dependencies set done = false where parent_id = '{parent.id}'")
    stage.run(f"update windlass.jobs set ready = false, waiting_on = 1 where id = '{child}'")

    def sweep() -> Op[int]:
        return (yield from transaction(pay(DIALECT, NOW, 100)))

    for outcome in stage.every(lambda: {"one": sweep(), "two": sweep()}):
        assert outcome["one"] + outcome["two"] == 1, outcome
        assert row(stage, child) == ("queued", 0, True), outcome
        nobody_owes(stage, outcome)


def test_a_sweep_that_pays_and_the_end_of_a_member_never_wait_for_each_other_in_a_ring(stage: Stage) -> None:
    """Limits come before groups, whoever it is."""
    alter(stage, PutLimit("key:k", 5), PutGroup("g", INLINE + 2, on_failure="continue"))
    enqueue(stage, new(id="lapses", limit_keys=("key:k",)), new(id="parent"))
    parent = next(job for job in claimed(stage) if job.id == "parent")
    enqueue(stage, new(id="member", group_id="g", limit_keys=("key:k",)))
    [member] = claimed(stage, now=NOW + 1)
    enqueue(stage, *(new(group_id="g", after=("parent",)) for _ in range(INLINE + 1)))
    stage.do(settle([parent]))  # one of those who wait is left to the sweep
    assert stage.ask("select from windlass.jobs where awaited and finished_at is not null")
    for outcome in stage.some(lambda: {"sweep": sweep(), "worker": settle([member], now=LATER)}, rounds=60, seed=4):
        assert outcome.error("sweep") is None, outcome
        assert outcome.error("worker") is None, outcome


# ------------------------------------------------------------------------------------------------------------------ groups


def test_a_member_that_is_brought_back_while_its_parent_outside_ends_is_not_blocked_for_ever(stage: Stage) -> None:
    [parent] = enqueue(stage, new())
    group = NewGroup(group_id="g", on_failure="continue")
    [member] = enqueue(stage, new(group_id="g", opens=group, after=(parent,)))
    [first] = claimed(stage)
    stage.do(end(first, NO))  # the member is cancelled with it
    alter(stage, Replay(parent, "unused"))
    [again] = claimed(stage)
    programs = lambda: {"person": wanted(RetryGroup("g", ((member, "heir"),))), "worker": settle([again])}  # noqa: E731
    for outcome in stage.every(programs, most=4000):
        assert outcome["person"] == outcome["worker"] == ["applied"], outcome
        stage.do(pay(DIALECT, NOW, 100))
        assert row(stage, "heir") == ("queued", 0, True), outcome


def a_group(stage: Stage, count: int, **rule: Any) -> list[str]:
    group = NewGroup(group_id="g", **rule)
    jobs = [new(id=f"m{n}", group_id="g", group_seq=n, opens=group, limit_keys=("k",)) for n in range(count)]
    return enqueue(stage, *jobs, new(id="last", after=tuple(job.id for job in jobs), after_rule="continue"))


@pytest.mark.parametrize(("how", "on_failure"), [(Succeeded(), "stop"), (NO, "stop"), (Succeeded(), "continue")])
def test_members_that_end_at_the_same_instant_finish_their_group_once(stage: Stage, how: Any, on_failure: Any) -> None:
    a_group(stage, 3, on_failure=on_failure)
    one, two = claimed(stage, limit=2)
    for outcome in stage.some(lambda: {"one": end(one, how), "two": end(two, NO)}, rounds=60, seed=11):
        assert outcome["one"] == outcome["two"] == ["applied"], outcome
        [(remaining, total)] = stage.ask(
            "select remaining, succeeded + failed + cancelled + remaining from windlass.groups"
        )
        assert (remaining, total) == (0 if on_failure == "stop" else 1, 3), outcome
        assert row(stage, "last") == (("queued", 0, True) if on_failure == "stop" else ("queued", 1, False)), outcome
        nobody_owes(stage, outcome)


def test_a_stop_and_a_claim_of_the_same_member_leave_it_whole(stage: Stage) -> None:
    """It runs, or it is skipped; never both."""
    a_group(stage, 2, on_failure="stop")
    [one] = claimed(stage, limit=1)
    for outcome in stage.every(lambda: {"one": end(one, NO), "w": claim_jobs(wish("w"))}):
        taken = [job.id for job in outcome["w"]]
        state = row(stage, "m1")[0]
        assert (state, "m1" in taken) in (("running", True), ("cancelled", False)), outcome
        check(stage, outcome)


@pytest.mark.parametrize("change", [CancelGroup("g"), Cancel("m1"), RetryGroup("g", (("m1", "x1"), ("m2", "x2")))])
@pytest.mark.parametrize("how", [Succeeded(), NO])
def test_wishes_for_a_group_and_ends_of_its_members_keep_the_order_of_locks(stage: Stage, change: Any, how: Any) -> None:
    a_group(stage, 3, mode="sequential", on_failure="stop")
    [one] = claimed(stage, limit=1)
    programs = lambda: {"one": end(one, how), "two": wanted(change)}  # noqa: E731
    for outcome in stage.some(programs, rounds=40, seed=7):
        assert outcome["one"] == ["applied"], outcome
        [(total,)] = stage.ask("select succeeded + failed + cancelled + remaining from windlass.groups")
        assert total == 3, outcome
        nobody_owes(stage, outcome)


def test_who_cancels_a_group_passes_a_permit_on_although_others_hold_its_limit(stage: Stage) -> None:
    """The limits of all members are held before anything is cancelled; afterwards nobody could be waited for."""
    alter(stage, PutLimit("k", 1), PutGroup("g", 1))
    enqueue(stage, new(limit_keys=("k",)))
    [one] = claimed(stage)
    member, outside = enqueue(stage, new(limit_keys=("k",), group_id="g"), new(limit_keys=("k",)))
    stage.do(leases.claim(wish("parks"), NOW))
    stage.do(end(one, Succeeded()))
    assert [row(stage, job)[2] for job in (member, outside)] == [True, False]
    with closing(Link(stage.place)) as other:

        def look_in() -> None:
            other.execute(BEGIN)
            other.execute(Statement("select from windlass.limits for no key update skip locked", ()))

        change = people.alter(DIALECT, [CancelGroup("g")], NOW)
        assert stage.do(before(SQL.cancel_members, change, look_in)) == ["applied"]
    assert row(stage, outside)[2]


def test_a_parent_is_not_deleted_under_a_child_that_is_coming(stage: Stage) -> None:
    [parent] = running(stage, 1)
    stage.do(settle([parent]))
    child = new(after=(parent.id,))

    def arrive() -> Op[bool]:
        try:
            yield from ask_for(child)
        except InvalidInput:
            yield ROLLBACK
            return False
        return True

    for outcome in stage.every(lambda: {"one": wanted(Delete(parent.id)), "two": arrive()}):
        there = stage.ask(f"select waiting_on from windlass.jobs where id = '{child.id}'")
        assert there == ([(0,)] if outcome["two"] else []), outcome
