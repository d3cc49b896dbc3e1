"""Whether a queue drains, when, and how many slots and workers that takes.

What the workers there are can end is what they ended while jobs waited; where none waited lately, as many runs as their
slots have room for. Slots that other queues keep busy are not this queue's, and limits bound both. Nothing decides on the
answer: it is for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Final, Literal

from msgspec import Struct

from windlass.clock import SECOND
from windlass.core.limits import GLOBAL
from windlass.core.pace import Pace
from windlass.records import WorkerInfo
from windlass.types import Limit, Micros

Verdict = Literal["empty", "drains", "grows", "stopped", "unknown"]
Stop = Literal["paused", "held", "nobody", "limit"]
Bound = Literal["slots", "limit", "permits", "other"]  # other: processor or store, since slots stood free meanwhile

USED: Final = 0.8  # of the slots are busy where a queue keeps up: with all of them busy it would never catch up again
FREE: Final = 0.5  # with less of the slots busy while jobs waited, more slots are not what is missing
EXPLAINS: Final = 0.9  # of what a limit allows was ended: so it was the limit that bound
HAIR: Final = 1e-9


class Room(Struct, frozen=True, kw_only=True):
    """What the living workers have for one queue."""

    workers: int = 0
    total: int = 0  # slots of theirs
    slots: float = 0.0  # that other queues leave to it

    @property
    def pool(self) -> float | None:
        """Slots of one worker."""
        return self.total / self.workers if self.workers else None

    @property
    def elsewhere(self) -> float:
        return self.total - self.slots


class Cap(Struct, frozen=True, kw_only=True):
    """What one limit leaves to a queue; None = any number."""

    key: str
    slots: float | None = None
    rate: float | None = None  # runs per second


class Need(Struct, frozen=True, kw_only=True):
    """`rate`: runs per second to be ended. `workers` None: nobody knows how many slots a worker has. `allowed` False: no
    number of workers does it, because a limit forbids it."""

    rate: float
    slots: int
    workers: int | None
    allowed: bool = True


class Capacity(Struct, frozen=True, kw_only=True):
    """The answer for one queue. Rates are runs per second."""

    verdict: Verdict
    waiting: int
    stop: Stop | None = None
    drain: Micros | None = None  # until nothing waits
    short: float = 0.0  # by so much arrivals exceed what can be ended, while it grows
    service: float | None = None  # what the workers there are can end
    proven: bool = False  # it was seen, and not only reckoned by slots
    bound: Bound | None = None
    limit: str | None = None  # the key that bounds it, where one does
    keep_up: Need | None = None
    within: Need | None = None  # None also where most of what waits has no permit: workers do not help them


class Load(Struct, frozen=True, kw_only=True):
    """What all queues do to the workers there are. A queue keeps as much busy of each slot that serves it."""

    paces: Mapping[str, Pace]
    serving: Mapping[str, Sequence[WorkerInfo]]
    shares: Mapping[str, float]  # of one slot, that a queue keeps busy
    busy: Mapping[str, float]  # slots of each worker that all of its queues keep busy


def load_of(living: Iterable[WorkerInfo], paces: Mapping[str, Pace]) -> Load:
    living = list(living)
    serving: dict[str, list[WorkerInfo]] = {}
    for worker in living:
        for queue in worker.queues:
            serving.setdefault(queue, []).append(worker)
    shares = {
        queue: paces[queue].load / max(sum(worker.pool_size for worker in workers), 1)
        for queue, workers in serving.items()
        if queue in paces
    }
    busy = {worker.id: worker.pool_size * sum(shares.get(queue, 0.0) for queue in worker.queues) for worker in living}
    return Load(paces=paces, serving=serving, shares=shares, busy=busy)


def room_of(queue: str, load: Load) -> Room:
    """What others leave, and never less than the queue had itself, or than a slot: its turn comes."""
    workers, share = load.serving.get(queue, ()), load.shares.get(queue, 0.0)
    total = sum(worker.pool_size for worker in workers)
    others = ((worker.pool_size, load.busy[worker.id] - share * worker.pool_size) for worker in workers)
    left = sum(min(max(slots - busy, 0.0), slots) for slots, busy in others)
    own = load.paces[queue].load if queue in load.paces else 0.0
    return Room(workers=len(workers), total=total, slots=max(left, min(max(own, 1.0), total)))


def caps_on(queue: str, limits: Iterable[Limit], paces: Mapping[str, Pace]) -> list[Cap]:
    """Limits of the queue and of all queues. Those of types, orgs, tags and names concern some of its jobs only."""
    own = paces.get(queue)
    found = []
    for limit in limits:
        if limit.key not in (GLOBAL, f"queue:{queue}"):
            continue
        others = [pace for name, pace in paces.items() if name != queue] if limit.key == GLOBAL else []
        slots: float | None = None if limit.max_used is None else limit.max_used
        rate = limit.per_second
        if limit.paused_at is not None:
            slots = 0.0
        if slots is not None:
            slots = max(slots - sum(pace.load for pace in others), min(slots, max(1.0, own.load if own else 0.0)))
        if rate is not None:
            rate = max(rate - sum(pace.finished for pace in others), min(rate, own.finished if own else 0.0))
        found.append(Cap(key=limit.key, slots=slots, rate=rate))
    return found


# ----------------------------------------------------------------------------------------------------------------- answer


def capacity(
    waiting: int, pace: Pace | None, room: Room, caps: Sequence[Cap] = (), *, parked: int = 0, stop: Stop | None = None,
    within: Micros,
) -> Capacity:  # fmt: skip
    """`waiting`: jobs that are due and have not begun, now, of which `parked` have no permit; `within`: the time in which
    somebody would like to see them begun. `stop`: the queue is paused or held."""
    slots, slots_key = least(room.slots, [(cap.slots, cap.key) for cap in caps])
    shut = next((cap.key for cap in caps if cap.slots == 0 or cap.rate == 0), None)
    if stop is None:
        stop = "nobody" if not room.workers else "limit" if shut is not None else None
    if pace is None or (pace.run is None and pace.proven is None):
        verdict: Verdict = "empty" if not waiting else "stopped" if stop else "unknown"
        return Capacity(verdict=verdict, waiting=waiting, stop=stop, drain=None if waiting else 0, limit=shut)
    permits = 2 * parked > waiting
    cost, seen = cost_of(pace, slots, caps)
    if permits and pace.run is not None:  # what kept slots free is not what a run costs
        cost = max(pace.run, HAIR)
    needs = [
        need(rate, slots_for(rate * cost / used), cost, room, caps)
        for rate, used in ((pace.arrivals, USED), (pace.steady + waiting * SECOND / max(within, 1), 1.0))
    ]
    if stop is not None:
        verdict = "stopped" if waiting else "empty"
        return Capacity(
            verdict=verdict, waiting=waiting, stop=stop, drain=None if waiting else 0, service=0.0, keep_up=needs[0],
            within=needs[1], limit=shut,
        )  # fmt: skip
    ended = slots / cost if seen is None else min(slots / cost, seen)
    service, rate_key = least(ended, [(cap.rate, cap.key) for cap in caps])
    limit = rate_key or slots_key
    spare = service - pace.steady
    drain = drained_in(waiting, spare)
    free = pace.run is not None and pace.run < FREE * cost
    bound: Bound = "limit" if limit else "permits" if permits else "other" if free else "slots"
    return Capacity(
        verdict="empty" if not waiting else "grows" if drain is None else "drains", waiting=waiting, drain=drain,
        short=-spare if drain is None else 0.0, service=service, proven=seen is not None, limit=limit,
        bound=bound, keep_up=needs[0], within=None if permits else needs[1],
    )  # fmt: skip


def drained_in(waiting: int, spare: float) -> Micros | None:
    """None: never."""
    if not waiting:
        return 0
    return None if spare <= 0 else round(min(waiting / spare, 1e9) * SECOND)


def cost_of(pace: Pace, slots: float, caps: Sequence[Cap]) -> tuple[float, float | None]:
    """Seconds of a slot that a run takes, all told, and how many were seen to end where it follows from that: while jobs
    wait every slot is there for them. What was ended under a limit does not tell what a slot could do."""
    bound = any(cap.rate is not None and (pace.proven or 0) >= EXPLAINS * cap.rate for cap in caps)
    if pace.proven is None or bound or not slots:
        return max(pace.run or 0.0, HAIR), None
    return max(slots / pace.proven, pace.run or 0.0), pace.proven


def least(value: float, caps: Iterable[tuple[float | None, str]]) -> tuple[float, str | None]:
    """The smallest, and whose it is."""
    key = None
    for bound, name in caps:
        if bound is not None and bound < value:
            value, key = bound, name
    return value, key


def slots_for(busy: float) -> int:
    return ceil(busy - HAIR)


def need(rate: float, slots: int, cost: float, room: Room, caps: Iterable[Cap]) -> Need:
    """Beside what other queues keep busy of the same workers."""
    pool = room.pool
    workers = None if pool is None else slots_for((slots + room.elsewhere) / pool) if slots else 0
    allowed = all(
        (cap.rate is None or rate <= cap.rate + HAIR) and (cap.slots is None or rate * cost <= cap.slots + HAIR)
        for cap in caps
    )
    return Need(rate=rate, slots=slots, workers=workers, allowed=allowed)
