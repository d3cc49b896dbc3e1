"""Keys, people and retention: every interleaving of what they ask for with each other and with workers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import Any, cast

import pytest
from msgspec.structs import replace

from postgres.programs import LATER, LEASE, NOW, alter, check, claimed, enqueue, new, settle, sweep, wanted, wish
from postgres.soundness import assert_sound
from postgres.stepping import Stage, before, drive, transaction
from windlass.core.alterations import (
    Alteration,
    Cancel,
    Delete,
    Move,
    PutGroup,
    PutLimit,
    PutQueue,
    Replay,
    Revoke,
    SetPaused,
)
from windlass.core.duties import Done, Prune
from windlass.core.settle import Execution, Failed, Rejected, Released, Succeeded
from windlass.core.settle import settle as decide
from windlass.drivers.ops import duties, people, retention
from windlass.drivers.postgres import keys, leases, linking, settlement
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op, T
from windlass.drivers.values import Enqueued, Renewal
from windlass.errors import InvalidInput
from windlass.types import NewJob

KEEP_NOTHING = Prune(succeeded=0, cancelled=0, dead=0, limit=10)


def ask_for(*jobs: NewJob) -> Op[list[Enqueued]]:
    return (yield from transaction(keys.enqueue(jobs, NOW)))


def heard(op: Op[T], said: list[str]) -> Op[T]:
    """The same operation; what it says is written down."""
    answer: Any = None
    while True:
        try:
            statement = op.send(answer)
        except StopIteration as end:
            return cast("T", end.value)
        said.append(statement.sql)
        answer = yield statement


def prune(now: int = NOW) -> Op[int]:
    done = yield from transaction(duties.maintain(DIALECT, KEEP_NOTHING, None, now))
    assert done is not None
    return done.rows


def dead(stage: Stage, **fields: Any) -> str:
    [job] = enqueue(stage, new(**fields))
    bury(stage)
    return job


def bury(stage: Stage) -> None:
    units = [decide(job, Rejected("no"), Execution(at=NOW)) for job in claimed(stage)]
    assert set(stage.do(settlement.settle(units, NOW))) == {"applied"}


# ------------------------------------------------------------------------------------------------------------------ keys


@pytest.mark.parametrize(
    "key", [{"idempotency_scope": "s", "idempotency_key": "k"}, {"dedupe_key": "d"}, {"schedule_id": "c", "fire_at": NOW}]
)
@pytest.mark.parametrize("how", ["ignore", "touch", "replace"])
def test_two_who_enqueue_one_key_are_told_one_job(stage: Stage, key: dict[str, Any], how: Any) -> None:
    one, two = new(**key, on_duplicate=how), new(**key, on_duplicate=how)
    for outcome in stage.every(lambda: {"one": ask_for(one), "two": ask_for(two)}):
        [first], [second] = outcome["one"], outcome["two"]
        assert first.id == second.id, outcome
        assert (first.existed, second.existed) in ((False, True), (True, False)), outcome
        assert stage.ask("select id from windlass.jobs") == [(first.id,)], outcome
        check(stage, outcome)


def test_a_key_whose_holder_ends_between_two_looks_is_taken(stage: Stage) -> None:
    """The first look sees who holds it, the second that nobody does; no id is in use, so it is looked for again."""
    enqueue(stage, new(dedupe_key="d"))
    jobs = claimed(stage)

    def end() -> None:
        with closing(Link(stage.place)) as other:
            assert drive(settle(jobs), other.execute) == ["applied"]

    fresh = new(dedupe_key="d")
    assert stage.do(before(SQL.dedupe_holder, keys.enqueue([fresh], NOW), end)) == [Enqueued(fresh.id)]


def test_two_who_enqueue_the_same_keys_in_another_order_do_not_wait_in_a_ring(stage: Stage) -> None:
    one = [new(dedupe_key=key, idempotency_scope="s", idempotency_key=key) for key in "ab"]
    two = [new(dedupe_key=key) for key in "ba"]
    for outcome in stage.every(lambda: {"one": ask_for(*one), "two": ask_for(*two)}):
        assert {answer.id for answer in outcome["one"]} == {answer.id for answer in outcome["two"]}, outcome
        check(stage, outcome)


def test_a_batch_asks_once_whose_its_keys_are_however_many_are_taken(stage: Stage) -> None:
    """It holds keys meanwhile that others wait for."""
    batch = [new(idempotency_scope="s", idempotency_key=f"k{n}") for n in range(9)]
    enqueue(stage, *batch[:8])
    said: list[str] = []
    again = [*batch[:4], *(replace(job, id=f"{job.id}-2") for job in batch[4:])]
    told = stage.do(heard(keys.enqueue(again, NOW), said))
    assert [answer.id for answer in told] == [*(job.id for job in batch[:8]), f"{batch[8].id}-2"]
    assert [answer.existed for answer in told] == [True] * 8 + [False]
    assert sum("held.key = asked.key" in sql for sql in said) == 1


def test_two_who_replace_the_same_jobs_in_another_order_do_not_wait_in_a_ring(stage: Stage) -> None:
    alter(stage, PutLimit("k", 1))
    enqueue(stage, *(new(dedupe_key=key, limit_keys=("k",)) for key in "ab"))
    one = [new(dedupe_key=key, on_duplicate="replace", payload=b"1") for key in "ab"]
    two = [new(dedupe_key=key, on_duplicate="replace", payload=b"2") for key in "ba"]
    for outcome in stage.some(lambda: {"one": ask_for(*one), "two": ask_for(*two)}, rounds=30, seed=4):
        assert all(answer.existed for answer in outcome["one"] + outcome["two"]), outcome
        check(stage, outcome)


def test_a_job_that_is_replaced_while_it_is_let_through_leaves_its_permit_to_the_next(stage: Stage) -> None:
    alter(stage, PutLimit("k", 1))
    enqueue(stage, new(limit_keys=("k",)), new(limit_keys=("k",), dedupe_key="d"), new(limit_keys=("k",)))
    jobs = claimed(stage)
    again = new(dedupe_key="d", on_duplicate="replace", run_at=LATER)
    for outcome in stage.every(lambda: {"one": settle(jobs), "two": ask_for(again)}):
        assert outcome["one"] == ["applied"], outcome
        check(stage, outcome)


def test_a_duplicate_is_told_the_last_link_of_a_long_chain(stage: Stage) -> None:
    key = {"idempotency_scope": "s", "idempotency_key": "k"}
    link = dead(stage, retry_mode="new_job", crash_policy="fail", **key)
    for later in ("second", "third"):
        alter(stage, Replay(link, later))
        link = later
        bury(stage)
    assert enqueue(stage, new(**key)) == ["third"]


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({}, True),
        ({"dedupe_key": "d", "on_duplicate": "raise"}, True),
        ({"idempotency_scope": "s", "idempotency_key": "k"}, True),
        ({"dedupe_key": "d"}, False),
    ],
)
def test_of_a_job_that_is_gone_only_that_is_told_which_is_certain(
    stage: Stage, fields: dict[str, Any], known: bool
) -> None:
    """Its neighbour is there, so the batch was stored; it may be that it was a duplicate, where that was possible."""
    jobs = [new(), new(**fields)]
    enqueue(stage, *jobs)
    bury(stage)
    alter(stage, Delete(jobs[1].id))
    answers = stage.do(keys.answers_of(jobs, {jobs[0].id}, NOW))
    assert answers == ([Enqueued(job.id) for job in jobs] if known else None)


def test_the_key_of_a_job_that_is_gone_answers_for_it_whoever_asks(stage: Stage) -> None:
    job = new(idempotency_scope="s", idempotency_key="k")
    enqueue(stage, job)
    bury(stage)
    alter(stage, Delete(job.id))
    assert stage.do(keys.enqueue([job], NOW)) == [Enqueued(job.id, existed=True)]


@pytest.mark.parametrize("fields", [{}, {"retry_mode": "new_job", "crash_policy": "fail"}])
def test_a_key_that_is_free_again_goes_to_the_replayed_or_to_the_new_job(stage: Stage, fields: dict[str, Any]) -> None:
    job = dead(stage, dedupe_key="d", **fields)
    fresh = new(dedupe_key="d")
    for outcome in stage.every(lambda: {"one": wanted(Replay(job, f"{job}-child")), "two": ask_for(fresh)}):
        answers = (outcome["one"], outcome["two"][0].existed)
        assert answers in ((["applied"], True), (["duplicate"], False)), outcome
        check(stage, outcome)


# ------------------------------------------------------------------------------------------------------ people, retention


@pytest.mark.parametrize("fields", [{}, {"retry_mode": "new_job", "crash_policy": "fail"}, {"group_id": "g"}])
@pytest.mark.parametrize("what", ["prune", "delete"])
def test_a_replayed_job_is_never_deleted_and_a_deleted_one_never_replayed(stage: Stage, fields: Any, what: str) -> None:
    alter(stage, PutGroup("g", 1))
    job = dead(stage, **fields)
    for outcome in stage.every(
        lambda: {"one": wanted(Replay(job, f"{job}-child")), "two": prune() if what == "prune" else wanted(Delete(job))},
        most=1_500,
    ):
        replayed, gone = outcome["one"] == ["applied"], outcome["two"] in (1, ["applied"])
        assert replayed != gone, outcome
        assert outcome["one"] == ["not_found"] or replayed, outcome
        assert outcome["two"] in (1, ["applied"], 0, ["wrong_state"]), outcome
        left = Counter(state for (state,) in stage.ask("select state from windlass.jobs"))
        assert left["queued"] == replayed, outcome
        assert what == "delete" or fields or not outcome.waited("two"), outcome
        if fields.get("group_id") is None or replayed:
            check(stage, outcome)


def test_a_group_goes_whole_or_not_at_all(stage: Stage) -> None:
    alter(stage, PutGroup("g", 2))
    jobs = [dead(stage, group_id="g") for _ in range(2)]
    for outcome in stage.every(lambda: {"one": wanted(Replay(jobs[1], "child")), "two": prune()}):
        assert (outcome["one"], outcome["two"]) in ((["applied"], 0), (["not_found"], 2)), outcome


def test_it_is_not_remembered_that_a_group_may_go_of_which_one_came_back_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It will end anew, and be kept from then."""
    monkeypatch.setattr(retention, "LARGE", 1)
    alter(stage, PutGroup("g", 2))
    jobs = [dead(stage, group_id="g") for _ in range(2)]
    for outcome in stage.every(lambda: {"one": wanted(Replay(jobs[1], "child")), "two": prune(NOW + 1)}, most=1_500):
        assert outcome["one"] in (["applied"], ["not_found"]), outcome
        assert stage.ask("select kept_by from windlass.groups where kept_by < 0") == [], outcome


def test_it_is_not_remembered_that_a_group_may_go_of_which_one_ended_anew_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the same instant at which its members were looked at."""
    monkeypatch.setattr(retention, "LARGE", 0)
    enqueue(stage, new())
    stage.do(settle(claimed(stage)))
    alter(stage, PutGroup("g", 1))
    again = dead(stage, group_id="g")
    now = NOW + 1

    def run_again() -> None:
        with closing(Link(stage.place)) as other:
            assert other.transact(people.alter(DIALECT, [Replay(again, "unused")], now)) == ["applied"]
            jobs = other.transact(leases.claim(wish("other"), now))
            units = [decide(job, Succeeded(), Execution(at=now)) for job in jobs]
            assert other.transact(settlement.settle(units, now)) == ["applied"]

    one = replace(KEEP_NOTHING, limit=1)  # the job that ended first goes; of the group it is only asked
    bite = before(SQL.remember_groups, duties.maintain(DIALECT, one, None, now), run_again)
    assert stage.do(bite) == Done(1, more=True)
    assert stage.ask("select kept_by, finished_at = windlass.at($1::bigint) from windlass.groups", now) == [(None, True)]


def test_a_group_stays_when_another_member_comes_while_it_is_to_go(stage: Stage) -> None:
    """Also one that it did not wait for: it is counted nowhere."""
    alter(stage, PutGroup("g", 1))
    dead(stage, group_id="g")

    def come() -> None:
        with closing(Link(stage.place)) as other:
            other.transact(linking.enqueue([new(group_id="g")], NOW))

    assert stage.do(before(SQL.chains, duties.maintain(DIALECT, KEEP_NOTHING, None, NOW), come)) == Done(0)
    assert stage.ask("select state, remaining from windlass.jobs join windlass.groups using (group_id) order by seq") == [
        ("dead", 0), ("queued", 0),
    ]  # fmt: skip


def test_who_needs_a_member_while_its_group_goes_is_heard(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a group of which it is believed that nothing keeps it."""
    monkeypatch.setattr(retention, "LARGE", 1)
    alter(stage, PutGroup("g", 12))
    for _ in range(12):
        dead(stage, group_id="g")
    assert stage.do(duties.maintain(DIALECT, KEEP_NOTHING, None, NOW + 1)) == Done(10, more=True)
    [_, (last,)] = stage.ask("select id from windlass.jobs order by seq")
    needs = new(after=(last,), after_rule="continue")

    def linked() -> Op[list[Enqueued]]:
        return (yield from transaction(linking.enqueue([needs], NOW)))

    gone = set[int]()
    for outcome in stage.every(lambda: {"one": linked(), "two": prune(NOW + 1)}):
        heard = outcome.error("one") is None
        assert heard or isinstance(outcome.error("one"), InvalidInput), outcome
        gone |= {outcome["two"]} if heard else set()
        assert not heard or stage.do(duties.maintain(DIALECT, KEEP_NOTHING, None, NOW + 2)) == Done(0), outcome
    assert 0 in gone


@pytest.mark.parametrize("later_links", [(), ("second", "third")])
def test_a_link_that_is_replayed_locks_the_group_of_what_its_chain_has_waited_for(
    stage: Stage, later_links: tuple[str, ...]
) -> None:
    """Before any job, as everybody locks: the edges are those of the nearest link before it that has any."""
    alter(stage, PutGroup("g", 1), PutGroup("not doubted", 1))
    parent, other = dead(stage, group_id="g"), dead(stage, group_id="not doubted")
    link = dead(stage, after=(parent, other), after_rule="continue", retry_mode="new_job", crash_policy="fail")
    for later in later_links:
        alter(stage, Replay(link, later))
        link = later
        bury(stage)
    stage.run("update windlass.groups set kept_by = -1 where group_id = 'g'")
    said: list[str] = []
    stage.do(heard(people.alter(DIALECT, [Replay(link, "next")], NOW), said))
    assert stage.ask("select kept_by from windlass.groups where group_id = 'g'") == [(None,)]
    assert said.index(SQL.lock_groups(ids=Texts()).sql) < said.index(SQL.lock_jobs(seqs=Ints()).sql)


@pytest.mark.parametrize("what", ["prune", "delete"])
def test_links_of_one_chain_are_deleted_by_two_at_once(stage: Stage, what: str) -> None:
    job = dead(stage, retry_mode="new_job", crash_policy="fail")
    alter(stage, Replay(job, "child"))
    bury(stage)
    for outcome in stage.every(
        lambda: {"one": wanted(Delete(job)), "two": prune() if what == "prune" else wanted(Delete("child"))}
    ):
        assert stage.ask("select id from windlass.jobs") == [], outcome
        assert outcome["one"] in (["applied"], ["not_found"]), outcome
        assert outcome["two"] in (0, 2, ["applied"], ["not_found"]), outcome


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ([Cancel("a"), Cancel("b")], [Cancel("b"), Cancel("a")]),
        ([Cancel("b"), Revoke("first")], [Cancel("running"), Move("b", "top")]),
        ([SetPaused("p", paused=True), SetPaused("q", paused=True)], [SetPaused("q", paused=True), PutQueue("p")]),
        ([Cancel("a"), PutLimit("k", 2)], [PutLimit("k", 3), Cancel("a")]),
    ],
)
def test_people_who_name_the_same_rows_in_another_order_do_not_wait_in_a_ring(
    stage: Stage, one: list[Alteration], two: list[Alteration]
) -> None:
    alter(stage, PutLimit("k", 5), PutQueue("p"), PutQueue("q"))
    enqueue(stage, new(id="running"))
    claimed(stage)
    enqueue(stage, new(id="a", limit_keys=("k",)), new(id="b"))
    for outcome in stage.some(lambda: {"one": wanted(*one), "two": wanted(*two)}, rounds=25, seed=2):
        assert len(outcome["one"]) == len(outcome["two"]) == 2, outcome
        check(stage, outcome)


def test_settlements_bulk_cancels_and_sweeps_over_the_same_jobs_do_not_wait_in_a_ring(stage: Stage) -> None:
    alter(stage, PutLimit("k1", 9), PutLimit("k2", 9), PutGroup("g", 4))
    kinds: list[dict[str, Any]] = [
        {"limit_keys": ("k2", "k1")},
        {"group_id": "g"},
        {"limit_keys": ("k1",), "group_id": "g"},
    ]
    enqueue(stage, *(new(**kinds[n % 3]) for n in range(6)))
    jobs = claimed(stage)
    random = Random(5)

    def programs() -> dict[str, Any]:
        settled, cancelled = random.sample(jobs, 4), random.sample(jobs, 4)
        end = random.choice([Succeeded(), Failed("no")])
        return {
            "settle": settle(settled, end, now=LATER - 1),
            "cancel": wanted(*(Cancel(job.id) for job in cancelled), now=LATER - 1),
            "sweep": sweep(),
        }

    for outcome in stage.some(programs, rounds=30, seed=3):
        assert len(outcome["settle"]) == len(outcome["cancel"]) == 4, outcome
        outcome["sweep"]
        check(stage, outcome)


def at_full_speed(stage: Stage, work: Callable[[int, Link], None], threads: int) -> None:
    """Each thread with a connection of its own; what any of them raises is raised here."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        link = Link(stage.place)
        try:
            work(number, link)
        except BaseException as error:
            failures.append(error)
        finally:
            link.close()

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not failures
    assert_sound(stage.ask)


def test_settlements_and_extensions_of_overlapping_batches_never_wait_in_a_ring(stage: Stage) -> None:
    """A thousand rounds: two who settle and claim again, two who extend, all of them the same jobs."""
    enqueue(stage, *(new() for _ in range(40)))
    known = {job.id: job for job in claimed(stage, limit=40)}

    def work(number: int, link: Link) -> None:
        random = Random(number)
        for _ in range(250):
            batch = random.sample(list(known.values()), 12)
            if number % 2:
                link.run(leases.extend([Renewal(job.handle, job.token) for job in batch], LEASE, NOW))
            else:
                units = [decide(job, Released(), Execution(at=NOW)) for job in batch]
                link.transact(settlement.settle(units, NOW))
                known.update({job.id: job for job in link.run(leases.claim_at_once(wish("again"), NOW))[0]})

    at_full_speed(stage, work, 4)


def test_large_batches_of_the_same_keys_in_another_order_do_not_wait_in_a_ring(stage: Stage) -> None:
    together = threading.Barrier(2)

    def work(number: int, link: Link) -> None:
        for batch in range(12):
            jobs = [new(dedupe_key=f"{batch}-{key}") for key in range(300)]
            together.wait(10)
            link.transact(keys.enqueue(jobs if number % 2 else jobs[::-1], NOW))

    at_full_speed(stage, work, 2)
    assert stage.ask("select count(*)::int from windlass.jobs") == [(12 * 300,)]
