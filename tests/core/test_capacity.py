"""Whether a queue drains, when, and with how many: a few plain cases, and what holds for every one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.capacity import HAIR, USED, Cap, Capacity, Room, Stop, capacity, caps_on, load_of, room_of
from windlass.core.pace import Pace
from windlass.records import WorkerInfo
from windlass.types import Limit, Micros

TEN_MINUTES = 600 * SECOND


def pace(**fields: Any) -> Pace:
    told: dict[str, Any] = {
        "minutes": 11, "sampled_at": 0, "arrivals": 0.0, "steady": 0.0, "finished": 0.0, "proven": None, "run": 1.0,
        "runs": 100, **fields,
    }  # fmt: skip
    return Pace(**told)


def worker(name: str, *queues: str, slots: int = 10) -> WorkerInfo:
    return WorkerInfo(
        id=name, hostname="h", pid=1, pool_size=slots, version="1", queues=queues, types=(), wakeups="push", running=0,
        started_at=0,
    )  # fmt: skip


def room(workers: int = 2, slots: float = 20.0, total: int = 20) -> Room:
    return Room(workers=workers, total=total, slots=slots)


def ask(
    waiting: int, seen: Pace | None, there: Room | None = None, *caps: Cap, stop: Stop | None = None,
    within: Micros = TEN_MINUTES,
) -> Capacity:  # fmt: skip
    return capacity(waiting, seen, room() if there is None else there, caps, stop=stop, within=within)


# ------------------------------------------------------------------------------------------------------------ plain cases


def test_a_backlog_drains_with_what_is_left_over_of_what_can_be_finished() -> None:
    found = ask(3_000, pace(proven=20.0, finished=20.0, arrivals=15.0, steady=15.0))
    assert (found.verdict, found.drain, found.service, found.proven) == ("drains", 600 * SECOND, 20.0, True)


def test_where_more_arrives_than_is_finished_it_says_by_how_much() -> None:
    found = ask(3_000, pace(proven=20.0, steady=32.0, arrivals=32.0))
    assert (found.verdict, found.drain, found.short) == ("grows", None, 12.0)


def test_where_as_much_arrives_as_is_finished_it_does_not_drain() -> None:
    found = ask(1, pace(proven=20.0, steady=20.0, arrivals=20.0))
    assert (found.verdict, found.drain, found.short) == ("grows", None, 0.0)


def test_without_proof_slots_and_the_time_of_a_run_are_reckoned_with() -> None:
    found = ask(800, pace(run=0.5))
    assert (found.service, found.proven, found.drain, found.bound) == (40.0, False, 20 * SECOND, "slots")


def test_a_fleet_that_shrank_finishes_no_more_than_its_slots_allow() -> None:
    assert ask(100, pace(proven=20.0, run=1.0), room(1, 5.0, 5)).service == 5.0


def test_to_keep_up_takes_more_slots_than_are_busy() -> None:
    need = ask(0, pace(arrivals=80.0, run=0.5)).keep_up
    assert need is not None
    assert (need.slots, need.workers, need.allowed) == (40 / USED, 5, True)


def test_to_drain_in_time_takes_what_arrives_and_what_waits() -> None:
    need = ask(6_000, pace(steady=10.0, run=1.0), within=TEN_MINUTES).within
    assert need is not None
    assert (need.rate, need.slots, need.workers) == (20.0, 20, 2)


def test_slots_that_stood_free_while_jobs_waited_are_not_what_is_missing() -> None:
    """A run takes a millisecond, twenty slots could end 20,000 a second, and 2,000 was all that was seen."""
    found = ask(4_000, pace(proven=2_000.0, run=0.001))
    assert (found.bound, found.service, found.drain) == ("other", 2_000.0, 2 * SECOND)
    assert found.within is not None
    assert found.within.slots == 1, "and such a run is reckoned at what it took of the fleet, not of a handler"
    assert ask(4_000, pace(proven=16.0, run=1.0)).bound == "slots"


def test_workers_do_not_help_those_who_have_no_permit() -> None:
    """Two of twenty slots are busy, because a limit of some key allows no more."""
    seen = pace(proven=2.0, run=1.0, steady=1.0, arrivals=1.0)
    found = capacity(100, seen, room(), parked=51, within=TEN_MINUTES)
    assert (found.bound, found.service, found.drain, found.within) == ("permits", 2.0, 100 * SECOND, None)
    assert found.keep_up is not None
    assert found.keep_up.slots == 2, "what kept slots free is not what a run costs"
    other = capacity(100, seen, room(), parked=50, within=TEN_MINUTES)
    assert (other.bound, other.within is None) == ("other", False)


@pytest.mark.parametrize("stop", ["paused", "held"])
def test_a_queue_that_stands_still_does_not_drain_and_its_needs_are_told(stop: Stop) -> None:
    found = ask(10, pace(arrivals=8.0), stop=stop)
    assert (found.verdict, found.stop, found.drain, found.service) == ("stopped", stop, None, 0.0)
    assert found.keep_up is not None
    assert found.keep_up.slots == 10


def test_nobody_there_is_said_and_nothing_is_said_of_workers() -> None:
    found = ask(10, pace(arrivals=8.0), Room())
    assert (found.verdict, found.stop) == ("stopped", "nobody")
    assert found.keep_up is not None
    assert (found.keep_up.slots, found.keep_up.workers) == (10, None)


def test_without_history_nothing_is_guessed() -> None:
    for seen in (None, pace(run=None)):
        found = ask(10, seen)
        assert (found.verdict, found.drain, found.service, found.keep_up) == ("unknown", None, None, None)
    assert ask(10, None, stop="paused").verdict == "stopped"


def test_durations_may_be_unknown_where_the_pace_is_proven() -> None:
    assert ask(100, pace(run=None, proven=10.0)).drain == 10 * SECOND
    assert capacity(100, pace(run=None, proven=10.0), room(), parked=51, within=TEN_MINUTES).bound == "permits"


def test_what_comes_needs_a_slot_however_long_it_takes() -> None:
    need = ask(10, pace(run=None, proven=10.0, arrivals=8.0), Room()).keep_up
    assert need is not None
    assert need.slots == 1


def test_with_half_of_the_slots_busy_they_are_what_is_missing() -> None:
    assert ask(100, pace(proven=10.0, run=1.0)).bound == "slots"
    assert ask(100, pace(proven=9.9, run=1.0)).bound == "other"


# ----------------------------------------------------------------------------------------------------------------- limits


def test_a_rate_bounds_what_can_be_finished_and_no_worker_helps() -> None:
    found = ask(600, pace(run=0.1, proven=10.0, arrivals=20.0), room(), Cap(key="queue:q", rate=10.0))
    assert (found.service, found.bound, found.limit) == (10.0, "limit", "queue:q")
    assert found.keep_up is not None
    assert not found.keep_up.allowed
    assert found.within is not None
    assert (found.within.rate, found.within.allowed, found.within.slots) == (1.0, True, 1)


def test_a_cap_bounds_the_slots() -> None:
    found = ask(100, pace(run=2.0, arrivals=1.5), room(), Cap(key="queue:q", slots=4.0))
    assert (found.service, found.limit) == (2.0, "queue:q")
    assert found.keep_up is not None
    assert (found.keep_up.slots, found.keep_up.allowed) == (4, True)


def test_a_cap_forbids_what_takes_more_slots_than_it_leaves() -> None:
    need = ask(0, pace(run=2.0, arrivals=3.0), room(), Cap(key="queue:q", slots=4.0)).keep_up
    assert need is not None
    assert not need.allowed


def test_a_limit_that_allows_what_the_workers_can_do_anyway_does_not_bound() -> None:
    found = ask(100, pace(run=2.0), room(), Cap(key="queue:q", slots=20.0, rate=10.0))
    assert (found.service, found.bound, found.limit) == (10.0, "slots", None)


@pytest.mark.parametrize(("rate", "proven", "service"), [(100.0, True, 18.0), (20.1, True, 18.0), (20.0, False, 20.0)])
def test_what_ended_under_a_rate_tells_nothing_of_slots_where_the_rate_explains_it(
    rate: float, proven: bool, service: float
) -> None:
    found = ask(100, pace(proven=18.0, run=0.1), room(), Cap(key="queue:q", rate=rate))
    assert (found.proven, found.service) == (proven, service)


def test_a_limit_that_lets_nothing_through_stops_the_queue() -> None:
    for shut in (Cap(key="global", slots=0.0), Cap(key="global", rate=0.0)):
        found = ask(5, pace(), room(), shut)
        assert (found.verdict, found.stop, found.limit) == ("stopped", "limit", "global")


def test_the_limits_of_a_queue_are_its_own_and_what_others_leave_of_the_global_one() -> None:
    paces = {"q": pace(finished=1.0), "other": pace(finished=6.0, run=2.0)}
    limits = [
        Limit(key="queue:q", max_used=3), Limit(key="queue:other", max_used=1), Limit(key="type:x", max_used=1),
        Limit(key="global", max_used=20, per_second=10.0),
    ]  # fmt: skip
    assert caps_on("q", limits, paces) == [Cap(key="queue:q", slots=3), Cap(key="global", slots=8.0, rate=4.0)]
    crowded = [Limit(key="global", max_used=5, per_second=5.0)]
    assert caps_on("q", crowded, paces) == [Cap(key="global", slots=1.0, rate=1.0)], "never less than it had"
    assert caps_on("q", [Limit(key="queue:q", max_used=3, paused_at=1)], paces)[0].slots == 0
    assert caps_on("new", [Limit(key="global", max_used=5, per_second=5.0)], paces) == [
        Cap(key="global", slots=1.0, rate=0.0)
    ]
    for one in (Limit(key="global", max_used=20), Limit(key="global", per_second=10.0)):
        assert caps_on("q", [one], paces) == [Cap(key="global", slots=one.max_used and 8.0, rate=one.per_second and 4.0)], (
            "what the limit does not bound stays without bound"
        )


def test_a_queue_is_left_what_it_had_of_a_global_limit_and_never_more_than_the_limit() -> None:
    """Also one that was lowered since."""
    paces = {"q": pace(finished=4.0, run=1.0), "other": pace(finished=6.0, run=1.0)}
    for most, left in ((20, 14.0), (8, 4.0), (3, 3.0)):
        limit = Limit(key="global", max_used=most, per_second=float(most))
        assert caps_on("q", [limit], paces) == [Cap(key="global", slots=left, rate=left)]


# ------------------------------------------------------------------------------------------------------------------ fleet


def room_in(queue: str, fleet: list[WorkerInfo], **loads: float) -> Room:
    return room_of(queue, load_of(fleet, {name: pace(finished=busy) for name, busy in loads.items()}))


def test_only_living_workers_that_serve_a_queue_have_slots_for_it() -> None:
    found = room_in("q", [worker("a", "q", slots=4), worker("b", "q", "r", slots=8), worker("c", "r", slots=16)])
    assert (found.workers, found.total, found.slots, found.pool) == (2, 12, 12, 6)
    assert room_in("nobody", [worker("a", "q")]) == Room()


def test_slots_that_other_queues_keep_busy_are_theirs() -> None:
    fleet = [worker("a", "q", slots=10), worker("b", "q", "r", slots=10), worker("c", "r", slots=10)]
    found = room_in("q", fleet, r=8.0, q=3.0)
    assert found.slots == 16.0, "half of r's eight are on b"
    assert found.elsewhere == 4.0
    need = capacity(0, pace(arrivals=9.6), found, within=TEN_MINUTES).keep_up
    assert need is not None
    assert (need.slots, need.workers) == (12, 2), "twelve of its own beside four of r's: two workers of ten"


def test_a_queue_has_its_turn_however_busy_the_others_are() -> None:
    fleet = [worker("a", "q", "r", slots=10)]
    assert room_in("q", fleet, r=10.0).slots == 1.0
    assert room_in("q", fleet, r=10.0, q=4.0).slots == 4.0


# ----------------------------------------------------------------------------------------------------- whatever is the case

rates = st.floats(0, 5_000, allow_nan=False).map(lambda value: round(value, 3))
durations = st.floats(1e-4, 500.0)
paces = st.builds(
    pace, arrivals=rates, steady=rates, finished=rates, proven=st.none() | st.floats(0.01, 5_000), run=durations
)
rooms = st.integers(1, 50).flatmap(
    lambda workers: st.builds(
        lambda pool, share: Room(workers=workers, total=workers * pool, slots=max(workers * pool * share, 1.0)),
        st.integers(1, 64), st.floats(0, 1),
    )
)  # fmt: skip
waits = st.integers(0, 10**7)
caps = st.lists(
    st.builds(Cap, key=st.just("global"), slots=st.none() | st.floats(1, 100), rate=st.none() | st.floats(0.1, 5_000)),
    max_size=2,
)
times = st.integers(SECOND, 86_400 * SECOND)


@given(st.none() | paces, rooms | st.just(Room()), caps, st.sampled_from([None, "paused", "held"]))
def test_an_empty_queue_has_drained(
    seen: Pace | None, there: Room, bounds: list[Cap], stop: Stop | None
) -> None:  # fmt: skip
    found = ask(0, seen, there, *bounds, stop=stop)
    assert (found.verdict, found.drain, found.short >= 0) == ("empty", 0, True)


@given(waits, paces, rooms, caps, st.integers(1, 20))
def test_more_workers_never_drain_later(waiting: int, seen: Pace, there: Room, bounds: list[Cap], more: int) -> None:
    pool = there.total // there.workers
    grown = Room(workers=there.workers + more, total=there.total + more * pool, slots=there.slots + more * pool)
    before, after = (ask(waiting, seen, one, *bounds) for one in (there, grown))
    assert before.drain is None or (after.drain is not None and after.drain <= before.drain + 1)
    assert before.service is not None
    assert after.service is not None
    assert after.service >= before.service * (1 - HAIR)


@given(waits, st.integers(0, 10**6), paces, rooms, caps)
def test_more_jobs_never_drain_sooner(waiting: int, more: int, seen: Pace, there: Room, bounds: list[Cap]) -> None:
    before, after = (ask(jobs, seen, there, *bounds) for jobs in (waiting, waiting + more))
    assert after.drain is None or (before.drain is not None and before.drain <= after.drain)


@given(waits, paces, rooms, caps, rates)
def test_more_arrivals_never_drain_sooner_and_never_need_less(
    waiting: int, seen: Pace, there: Room, bounds: list[Cap], more: float
) -> None:
    busier = replace(seen, arrivals=seen.arrivals + more, steady=seen.steady + more)
    before, after = ask(waiting, seen, there, *bounds), ask(waiting, busier, there, *bounds)
    assert after.drain is None or (before.drain is not None and before.drain <= after.drain)
    for one, other in ((before.keep_up, after.keep_up), (before.within, after.within)):
        assert one is not None
        assert other is not None
        assert one.slots <= other.slots


@given(st.integers(1, 10**7), paces, rooms, times)
def test_with_the_slots_that_it_needs_it_drains_in_time(waiting: int, seen: Pace, there: Room, within: int) -> None:
    found = ask(waiting, seen, there, within=within)
    assert found.within is not None
    cost = max(seen.run or 0, there.slots / seen.proven if seen.proven else 0)
    ended = found.within.slots / cost
    assert waiting / max(ended - seen.steady, HAIR) <= within / SECOND * (1 + 1e-6)


@given(paces, rooms)
def test_with_the_workers_that_it_needs_it_keeps_up(seen: Pace, there: Room) -> None:
    found = ask(0, seen, there).keep_up
    assert found is not None
    assert found.workers is not None
    pool = there.total / there.workers
    cost = max(seen.run or 0, there.slots / seen.proven if seen.proven else 0)
    assume(found.slots)
    assert (found.workers * pool - there.elsewhere) / cost >= seen.arrivals * (1 - 1e-6)
    assert (found.workers - 1) * pool - there.elsewhere < found.slots, "and not with one less"


@given(waits, paces, rooms, caps)
def test_no_limit_is_exceeded_by_what_is_promised(waiting: int, seen: Pace, there: Room, bounds: list[Cap]) -> None:
    found = ask(waiting, seen, there, *bounds)
    assert found.service is not None
    for cap in bounds:
        assert cap.rate is None or found.service <= cap.rate
        assert cap.slots is None or found.service * (seen.run or 0) <= cap.slots * (1 + HAIR)


@given(st.lists(st.tuples(st.integers(1, 32), st.sets(st.sampled_from("qrs"))), max_size=6), st.integers(1, 32),
       st.sets(st.sampled_from("rs")), st.fixed_dictionaries({name: st.floats(0, 100) for name in "qrs"}))  # fmt: skip
def test_one_more_worker_for_a_queue_never_leaves_it_less(
    others: list[tuple[int, set[str]]], slots: int, served: set[str], loads: dict[str, float]
) -> None:
    fleet = [worker(str(number), *queues, slots=size) for number, (size, queues) in enumerate(others)]
    before = room_in("q", fleet, **loads)
    after = room_in("q", [*fleet, worker("new", "q", *served, slots=slots)], **loads)
    assert after.slots >= before.slots - 1e-6
    assert after.slots <= after.total


def test_what_was_seen_to_end_is_enough_where_no_run_was_timed() -> None:
    found = ask(100, pace(run=None, proven=5.0))
    assert (found.verdict, found.service, found.proven) == ("drains", 5.0, True)
    bound = ask(100, pace(run=None, proven=5.0), None, Cap(key="queue:q", rate=5.0))
    assert (bound.service, bound.proven, bound.limit) == (5.0, False, "queue:q"), "slots were not what bound it"


def test_a_limit_proves_nothing_of_runs_that_nobody_saw_end() -> None:
    found = ask(100, pace(run=2.0, proven=None), None, Cap(key="queue:q", rate=5.0))
    assert (found.service, found.proven, found.limit) == (5.0, False, "queue:q")
