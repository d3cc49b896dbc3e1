"""The order of a queue under several hands at once, statement by statement on real connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from postgres.programs import NOW, alter, check, claimed, enqueue, held, ids, new, settle, wanted, whole, wish
from postgres.stepping import Stage, transaction
from windlass.core.alterations import (
    Alteration,
    Cancel,
    Move,
    MoveBeside,
    PutQueue,
    Renormalise,
    SetPaused,
    SetPriority,
    Swap,
)
from windlass.core.duties import TidyPositions
from windlass.core.settle import Failed
from windlass.drivers.ops import duties
from windlass.drivers.postgres import keys
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.statement import Op
from windlass.drivers.values import Enqueued
from windlass.types import NewJob

ORDER = "select id from windlass.jobs where state = 'queued' order by priority desc, position, created_at, seq"


def order(stage: Stage) -> list[str]:
    return [row[0] for row in stage.ask(ORDER)]


def places(stage: Stage) -> list[int]:
    return [row[0] for row in stage.ask("select position from windlass.jobs where state = 'queued' order by position")]


def bring(*jobs: NewJob) -> Op[list[Enqueued]]:
    return (yield from transaction(keys.enqueue(jobs, NOW)))


def tidy() -> Op[Any]:
    return (yield from transaction(duties.maintain(DIALECT, TidyPositions(), None, NOW)))


@pytest.mark.parametrize("claimer", [held, whole])
@pytest.mark.parametrize(
    "change",
    [Move("c", "top"), MoveBeside("c", "a", "before"), Swap("a", "c"), SetPriority("c", 5), MoveBeside("b", "c", "after")],
)
def test_a_job_is_moved_while_it_is_queued_or_not_at_all(
    stage: Stage, change: Alteration, claimer: Callable[..., Op[Any]]
) -> None:
    enqueue(stage, *(new(id=name) for name in "abc"))
    for outcome in stage.every(lambda: {"one": wanted(change), "two": claimer(wish("w", limit=1))}):
        [answer] = outcome["one"]
        taken = stage.ask("select id from windlass.jobs where state = 'running'")
        assert len(taken) <= 1, outcome
        assert answer in ("applied", "wrong_state"), outcome
        assert answer == "applied" or taken, outcome
        assert len(order(stage)) == 3 - len(taken), outcome
        check(stage, outcome)


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ((Swap("a", "b"),), (Swap("b", "a"),), ["abcd"]),
        ((Swap("a", "b"),), (Swap("b", "c"),), ["bcad", "cabd"]),
        ((Swap("a", "b"), Swap("c", "d")), (Swap("d", "c"), Swap("b", "a")), ["abcd"]),
        ((MoveBeside("d", "b", "before"),), (MoveBeside("c", "b", "before"),), ["acdb", "adcb"]),
        ((MoveBeside("d", "a", "after"),), (MoveBeside("c", "b", "before"),), ["acdb", "adcb"]),
        ((Move("c", "top"),), (Move("d", "top"),), ["cdab", "dcab"]),
        ((Move("a", "bottom"),), (Move("b", "bottom"),), ["cdab", "cdba"]),
        ((MoveBeside("a", "b", "after"),), (MoveBeside("b", "a", "after"),), ["abcd", "bacd"]),
        ((SetPriority("a", 0), Swap("b", "c")), (Renormalise("default"),), ["acbd"]),
        ((SetPriority("a", 1),), (SetPriority("b", 1),), ["abcd", "bacd"]),
    ],
)
@pytest.mark.parametrize("positions", [None, "dense"])
def test_two_who_change_the_order_do_it_one_after_the_other(
    stage: Stage, one: tuple[Alteration, ...], two: tuple[Alteration, ...], expected: list[str], positions: Any
) -> None:
    if positions is not None:
        alter(stage, PutQueue("default", positions))
    enqueue(stage, *(new(id=name) for name in "abcd"))
    for outcome in stage.some(lambda: {"one": wanted(*one), "two": wanted(*two)}, rounds=30, seed=5):
        assert {*outcome["one"], *outcome["two"]} <= {"applied", "unchanged"}, outcome
        assert "".join(order(stage)) in expected, outcome
        check(stage, outcome)


def crowded(stage: Stage, names: str = "abcdef", *, dense: bool = True) -> None:
    """No room is left anywhere between these."""
    if dense:
        alter(stage, PutQueue("default", "dense"))
    enqueue(stage, *(new(id=name) for name in names))
    for number, name in enumerate(names):
        stage.run(f"update windlass.jobs set position = {100 + number} where id = '{name}'")


@pytest.mark.parametrize("dense", [False, True])
def test_two_who_find_no_room_make_it_one_after_the_other(stage: Stage, dense: bool) -> None:
    crowded(stage, dense=dense)

    def programs() -> dict[str, Any]:
        return {"one": wanted(MoveBeside("f", "b", "before")), "two": wanted(MoveBeside("e", "c", "after"))}

    for outcome in stage.some(programs, rounds=40, seed=3):
        assert (outcome["one"], outcome["two"]) == (["applied"], ["applied"]), outcome
        assert "".join(order(stage)) == "afbced", outcome
        check(stage, outcome)


@pytest.mark.parametrize(
    ("dense", "change", "expected"), [(False, Move("f", "top"), "facbde"), (True, Move("a", "bottom"), "cbdefa")]
)
def test_who_keeps_its_position_while_room_is_made_is_not_moved_meanwhile(
    stage: Stage, dense: bool, change: Alteration, expected: str
) -> None:
    """One of them has its fresh position already, so nobody locks its row: what keeps the two apart is the order's lock."""
    crowded(stage, dense=dense)
    programs = lambda: {"one": wanted(MoveBeside("c", "b", "before")), "two": wanted(change)}  # noqa: E731
    for outcome in stage.some(programs, rounds=12, seed=6):
        assert (outcome["one"], outcome["two"]) == (["applied"], ["applied"]), outcome
        assert "".join(order(stage)) == expected, outcome
        check(stage, outcome)


@pytest.mark.parametrize(
    "make_room", [lambda: wanted(MoveBeside("c", "b", "before")), lambda: wanted(Renormalise("default")), tidy]
)
def test_whoever_comes_while_positions_are_made_afresh_stands_last(stage: Stage, make_room: Callable[[], Op[Any]]) -> None:
    crowded(stage, "abc")
    fresh = new(id="new")
    for outcome in stage.every(lambda: {"one": make_room(), "two": bring(fresh)}):
        outcome["one"], outcome["two"]
        assert order(stage)[-1] == "new", outcome
        assert len(set(places(stage))) == 4, outcome
        check(stage, outcome)


@pytest.mark.parametrize("change", [Move("a", "bottom"), MoveBeside("a", "c", "after"), SetPriority("low", 0)])
def test_nobody_gets_the_place_of_another_at_the_end_of_a_dense_queue(stage: Stage, change: Alteration) -> None:
    alter(stage, PutQueue("default", "dense"))
    enqueue(stage, *(new(id=name) for name in "abc"), new(id="low", priority=-1))
    fresh = new(id="new")
    for outcome in stage.every(lambda: {"one": wanted(change), "two": bring(fresh)}):
        assert outcome["one"] == ["applied"], outcome
        plain = stage.ask("select position from windlass.jobs where priority = 0")
        assert len(set(plain)) == len(plain), outcome
        check(stage, outcome)


def test_a_claim_beside_fresh_positions_takes_the_first_it_can_have(stage: Stage) -> None:
    crowded(stage, "abc")

    def programs() -> dict[str, Any]:
        return {"one": wanted(Renormalise("default")), "two": held(wish("w", limit=1))}

    for outcome in stage.every(programs):
        taken, _ = outcome["two"]
        assert ids(taken) in ([], ["a"]), outcome
        assert "".join(order(stage)) == ("bc" if taken else "abc"), outcome
        check(stage, outcome)


def test_who_changes_two_queues_while_both_are_tidied_waits_in_no_ring(stage: Stage) -> None:
    alter(stage, PutQueue("p", positions="dense"), PutQueue("q", positions="dense"))
    enqueue(stage, new(queue="p"), new(id="moved", queue="q"))
    changes: list[Alteration] = [SetPaused("p", paused=True), Move("moved", "top")]
    for outcome in stage.every(lambda: {"one": tidy(), "two": wanted(*changes)}):
        outcome["one"]
        assert outcome["two"][0] == "applied", outcome
        check(stage, outcome)


def test_cancelling_many_while_room_is_made_waits_in_no_ring(stage: Stage) -> None:
    """All who get fresh positions are locked together, in the order of numbers."""
    crowded(stage)

    def programs() -> dict[str, Any]:
        return {"one": wanted(MoveBeside("f", "b", "before")), "two": wanted(Cancel("a"), Cancel("d"), Cancel("f"))}

    for outcome in stage.some(programs, rounds=60, seed=9):
        assert outcome["one"] in (["applied"], ["wrong_state"]), outcome
        assert outcome["two"] == ["applied"] * 3, outcome
        assert "".join(order(stage)) == "bce", outcome
        check(stage, outcome)


def test_cancelling_many_while_a_dense_queue_settles_down_waits_in_no_ring(stage: Stage) -> None:
    """Whoever has a place beyond the numbers comes down to them; also where the same batch names some of these jobs."""
    alter(stage, PutQueue("default", "dense"))
    enqueue(stage, *(new(id=name) for name in "abcd"))
    stage.run("update windlass.jobs set position = position + 1000000000")

    def programs() -> dict[str, Any]:
        return {"one": wanted(Cancel("c"), PutQueue("default")), "two": wanted(Cancel("a"), Cancel("c"))}

    for outcome in stage.some(programs, rounds=60, seed=11):
        assert (outcome["one"][1], outcome["two"][0]) == ("applied", "applied"), outcome
        assert {outcome["one"][0], outcome["two"][1]} == {"applied", "unchanged"}, outcome
        assert "".join(order(stage)) == "bd", outcome
        check(stage, outcome)


def test_who_goes_on_in_a_dense_queue_that_is_just_paused_waits_in_no_ring(stage: Stage) -> None:
    """The next link of a chain has its place under the lock of the queue, which comes before that of the job."""
    alter(stage, PutQueue("default", positions="dense"))
    enqueue(stage, new(retry_mode="new_job", crash_policy="fail", max_attempts=3))
    [job] = claimed(stage)
    changes = (SetPaused("default", paused=True), Cancel(job.id))
    for outcome in stage.every(lambda: {"one": settle([job], Failed("no")), "two": wanted(*changes)}):
        assert outcome["one"] == ["applied"], outcome
        assert outcome["two"][0] == "applied", outcome
        check(stage, outcome)
