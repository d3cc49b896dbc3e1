"""Is the fleet big enough? Each queue with whether it drains, when, and how many workers it takes, in numbers and words.

Everything is read: what waits now, the samples of the last minutes, limits and the registry. `core/pace.py` and
`core/capacity.py` judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from windlass.admin.schedules import alive
from windlass.admin.views import Overview, QueueView
from windlass.client import Client
from windlass.clock import SECOND, duration, moment
from windlass.core.capacity import Bound, Capacity, Load, Need, Room, Stop, Verdict, capacity, caps_on, load_of, room_of
from windlass.core.pace import ENOUGH_RUNS, Pace, pace_of, waiting_of
from windlass.core.queries import AllLimits, AllWorkers, SamplesAt, SamplesSince
from windlass.core.sampling import MINUTE
from windlass.core.trends import minutes_of
from windlass.core.trouble import RECENT
from windlass.errors import InvalidInput, shown
from windlass.policies import Duration
from windlass.records import QueueSample
from windlass.types import Limit, Micros
from windlass.wording import in_words, plural, rate_in_words, relative

WITHIN: Final = "10m"


class CapacityView(Struct, frozen=True, kw_only=True):
    """Rates are runs per second, times seconds; a retry is a run of its own. `text`, `needs` and `rests_on` say it in
    words. None: not known, or no such thing."""

    verdict: Verdict
    text: str
    needs: str
    rests_on: str
    waiting: int  # due, and not begun
    stop: Stop | None
    drain: float | None
    short: float  # by so much arrivals exceed what can be finished
    arrivals: float | None
    steady: float | None  # arrivals of the middling minute
    finished: float | None
    service: float | None  # what the workers there are can finish
    proven: bool  # that was seen while jobs waited, and not only reckoned by slots
    bound: Bound | None
    limit: str | None
    run: float | None  # of one run, on average
    slots: float  # that other queues leave to it
    workers: int  # living ones that serve it
    keep_up: Need | None
    within: Need | None
    minutes: int  # of samples that it rests on
    runs: int  # and so many runs
    sampled_at: datetime | None


class SizedQueue(QueueView, frozen=True, kw_only=True):
    capacity: CapacityView


class Capacities(Struct, frozen=True, kw_only=True):
    """`within`: the seconds in which queues were asked to drain."""

    at: datetime
    within: float
    queues: tuple[SizedQueue, ...]


class Facts(Struct, frozen=True, kw_only=True):
    """What is read once for all queues."""

    now: Micros
    within: Micros
    paces: Mapping[str, Pace]
    load: Load
    limits: Sequence[Limit]
    sampled: int


async def capacities(client: Client, found: Overview, within: Duration = WITHIN) -> Capacities:
    wanted = duration(within, field="within")
    if wanted < SECOND:
        raise InvalidInput("within", f"must be at least a second, got {shown(within)}")
    facts = await facts_of(client, found.queues, wanted)
    return Capacities(at=found.at, within=wanted / SECOND, queues=tuple(sized(queue, facts) for queue in found.queues))


async def facts_of(client: Client, queues: Sequence[QueueView], within: Micros) -> Facts:
    driver, now = client.driver, client.now()
    recent = by_queue(await driver.read(SamplesSince(since=now - RECENT - MINUTE)))
    minutes = sorted({sample.minute for samples in recent.values() for sample in samples})
    older = {}
    if any(waiting_in(queue) and runs_in(recent.get(queue.name, ())) < ENOUGH_RUNS for queue in queues):
        older = by_queue(await driver.read(SamplesAt(minutes=tuple(minutes_of("1h", now, len(recent))))))
    paces = {
        name: pace
        for name in {*recent, *older, *(queue.name for queue in queues)}
        if (pace := pace_of(recent.get(name, ()), minutes, now, older.get(name, ()))) is not None
    }
    living = alive(await driver.read(AllWorkers()), now, client.settings.worker_timeout)
    return Facts(
        now=now, within=within, paces=paces, load=load_of(living, paces),
        limits=await driver.read(AllLimits()), sampled=len(minutes),
    )  # fmt: skip


def by_queue(samples: Sequence[QueueSample]) -> dict[str, list[QueueSample]]:
    found: dict[str, list[QueueSample]] = {}
    for sample in samples:
        found.setdefault(sample.queue, []).append(sample)
    return found


def runs_in(samples: Sequence[QueueSample]) -> int:
    return sum(number for sample in samples for number in sample.runs.values())


def waiting_in(queue: QueueView) -> int:
    return waiting_of({str(label): jobs for label, jobs in queue.counts.items()})


def sized(queue: QueueView, facts: Facts) -> SizedQueue:
    pace, room = facts.paces.get(queue.name), room_of(queue.name, facts.load)
    stop: Stop | None = "paused" if queue.paused_at is not None else "held" if queue.held_by is not None else None
    answer = capacity(
        waiting_in(queue), pace, room, caps_on(queue.name, facts.limits, facts.paces), parked=queue.counts.get("parked", 0),
        stop=stop, within=facts.within,
    )  # fmt: skip
    view = CapacityView(
        verdict=answer.verdict, text=headline(answer, queue, pace), needs=needs(answer, room, facts.within),
        rests_on=rests_on(pace, facts), waiting=answer.waiting, stop=answer.stop,
        drain=None if answer.drain is None else answer.drain / SECOND, short=answer.short,
        arrivals=None if pace is None else pace.arrivals, steady=None if pace is None else pace.steady,
        finished=None if pace is None else pace.finished, service=answer.service, proven=answer.proven,
        bound=answer.bound, limit=answer.limit, run=None if pace is None else pace.run, slots=room.slots,
        workers=room.workers, keep_up=answer.keep_up, within=answer.within,
        minutes=facts.sampled if pace is None else pace.minutes, runs=0 if pace is None else pace.runs,
        sampled_at=None if pace is None else moment(pace.sampled_at),
    )  # fmt: skip
    return SizedQueue(
        name=queue.name, paused_at=queue.paused_at, preset=queue.preset, positions=queue.positions, counts=queue.counts,
        held_by=queue.held_by, capacity=view,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------------ words


def headline(answer: Capacity, queue: QueueView, pace: Pace | None) -> str:
    match answer.verdict:
        case "empty":
            return "nothing waits"
        case "drains":
            assert answer.drain is not None, "it drains"
            return f"drains {time_in_words(answer.drain)}" + ("" if answer.proven else " at best")
        case "grows" if answer.short > 0:
            return f"does not drain: arrivals exceed what is finished by {rate_in_words(answer.short)}"
        case "grows":
            return "does not drain: as much arrives as is finished"
        case "stopped":
            return f"does not drain: {_stopped(answer, queue)}"
        case "unknown" if pace is None:
            return "not enough history yet"
        case "unknown":
            return "not enough history yet: nothing has finished in the last hour"


def time_in_words(drain: Micros) -> str:
    return "within a second" if drain < SECOND else f"in {in_words(drain)}"


def _stopped(answer: Capacity, queue: QueueView) -> str:
    return {
        "paused": "it is paused", "held": f"it is held by {queue.held_by}", "nobody": "no living worker serves it",
        "limit": f"the limit {answer.limit} lets nothing through",
    }[answer.stop or "nobody"]  # fmt: skip


def needs(answer: Capacity, room: Room, within: Micros) -> str:
    """What it takes to keep up, and, where something waits, to drain in time."""
    said = []
    if answer.keep_up is not None:
        there = f"{room.workers} there" if answer.keep_up.workers is not None else "none there"
        said.append(f"to keep up: {amount(answer.keep_up, answer)} ({there})")
    if answer.within is not None and answer.waiting:
        said.append(f"to drain within {in_words(within)}: {amount(answer.within, answer)}")
    if answer.bound == "permits":
        said.append("most of what waits has no permit, so workers do not help")
    elif answer.bound == "other":
        said.append("slots are free while jobs wait, so look at processor and store first")
    return "; ".join(said)


def amount(need: Need, answer: Capacity) -> str:
    if not need.allowed:
        return f"more than the limit {answer.limit} allows" if answer.limit else "more than its limits allow"
    slots = plural(need.slots, "slot")
    return slots if need.workers is None else f"{plural(need.workers, 'worker')}, {slots}"


def rests_on(pace: Pace | None, facts: Facts) -> str:
    if pace is None:
        return f"{plural(facts.sampled, 'sample')} of the last minutes; a worker that leads takes one each minute"
    ago = relative(moment(min(pace.sampled_at, facts.now)), moment(facts.now))
    return f"{plural(pace.minutes, 'sample')}, the last {ago}; {plural(pace.runs, 'run')}"
