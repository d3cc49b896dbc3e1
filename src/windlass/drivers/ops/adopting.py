"""Jobs without a turn in a queue that takes turns get one: somebody else wrote them, or the queue has just become fair.

They are not to be told from others by an index, so a bite looks at so many jobs, and the next one goes on from there. Of a
queue that has become fair the next one is the leader's, or that of a claim which finds nothing before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec

from windlass.drivers.rows import note_in
from windlass.drivers.statement import Block, Blocks, Op, Row
from windlass.types import Micros

AT_ONCE: Final = 10_000  # jobs, when a queue becomes fair or strict; the others follow
FOR_A_CLAIM: Final = 1_000  # of those, when one finds nothing
VISITS: Final = 10  # times as many as get a turn: jobs that a bite looks at
FEWEST: Final = 1_000  # of those
KEY: Final = "adopting_place"
LANES_AT_ONCE: Final = 100  # through which a bite comes where each ends before that
TOP: Final = 2**31  # above all priorities

Place = list[int]
Places = dict[str, dict[str, Place]]  # by queue, and by where in it
END: Final[Place] = []  # for this time round
READY: Final[Place] = [TOP]  # the priority below which to go on, or one and a place in it
LEVEL: Final[Place] = [-(2**62), 0, 0]  # before all that have one priority
WAITING: Final[Place] = [-1, 0]
BLOCKED: Final[Place] = [0]
AGAIN: Final = "again"  # those that are ready are looked at for the second time


class Batches(Protocol):
    sql: Blocks

    def texts(self, values: Iterable[str]) -> Any: ...
    def ints(self, values: Iterable[int]) -> Any: ...


def adopt(db: Batches, limit: int, now: Micros) -> Op[bool]:
    """So many of all fair queues, and of those that were fair. Whether there is more."""
    said = yield db.sql.duty_place(duty=KEY)
    before: Places = (note_in(said[0][0], Places) if said else None) or {}
    fair = [row[0] for row in (yield db.sql.fair_queues())]
    bite = Bite(db, limit, max(VISITS * limit, FEWEST), now)
    turning = yield from bite.go_on(fair)
    kinds = yield from bite.parked_kinds()
    yield from bite.go_on_strictly(kinds)
    moved: Places = {}
    for queue in (name for name in fair if name not in turning):
        moved[queue] = yield from bite.share(queue, before.get(queue, {}))
    yield from bite.share_parked(fair, kinds)
    turned = {row[0] for row in (yield db.sql.shared_queues())} | {queue for _, queue, _, turns in kinds if turns}
    for queue in sorted(turned):
        if queue not in fair:
            yield from bite.unshare(queue, kinds)
    after = moved if bite.more else {}
    if after != before:
        yield db.sql.set_duty_place(duty=KEY, place=msgspec.json.encode(after).decode())
    return bite.more


def turn(db: Batches, queue: str, *, fair: bool, now: Micros) -> Op[None]:
    """A queue has become fair, or strict."""
    bite = Bite(db, AT_ONCE, AT_ONCE, now)
    at: dict[str, Place] = {}
    if fair:
        at = yield from bite.turn(queue, at)
    else:
        at = yield from bite.turn_strict(queue, at, (yield from bite.parked_kinds()))
    yield db.sql.set_turning(queue=queue, place=place_of(at))


def go_on(db: Batches, queues: Iterable[str], now: Micros) -> Op[bool]:
    """For a claim that has found nothing in these queues. Whether some were not fair as a whole yet: it looks again. Each
    time they are more so, whatever somebody holds, so there is an end to it."""
    return bool((yield from Bite(db, FOR_A_CLAIM, AT_ONCE, now).go_on(queues)))


def place_of(at: dict[str, Place]) -> str | None:
    return msgspec.json.encode(at).decode() if at else None


class Bite:
    def __init__(self, db: Batches, room: int, visits: int, now: Micros) -> None:
        self._cut = False
        self._db = db
        self._room = room
        self._visits = self._most = visits
        self._now = now

    @property
    def more(self) -> bool:
        """Whether it has not looked everywhere."""
        return self._cut or not self._room

    def go_on(self, queues: Iterable[str]) -> Op[set[str]]:
        """With those of the queues that have become fair, but not as a whole; answers them. Who changes a queue is not
        waited for: he may wait for a limit that is held by who asks."""
        begun = yield self._db.sql.turning(queues=self._db.texts(queues))
        for queue, place in begun:
            at = yield from self.turn(queue, note_in(place, dict[str, Place]) or {})
            yield self._db.sql.set_turning(queue=queue, place=place_of(at))
        return {queue for queue, _ in begun}

    def turn(self, queue: str, at: dict[str, Place]) -> Op[dict[str, Place]]:
        """A queue that becomes fair, from these places on. Answers how far it has come, nothing at the end. Between two
        bites some become ready behind the place to which those had come: that is looked at once more, when nobody is left
        who could become so without a turn."""
        after = yield from self.share(queue, at)
        yield from self.share_parked([queue], (yield from self.parked_kinds()))
        if self.more or not at or AGAIN in at:
            return after if self.more else {}
        self._cut = True
        return {AGAIN: END, "blocked": END, "waiting": END}

    def go_on_strictly(self, kinds: Sequence[Row]) -> Op[None]:
        """The same with queues that have become strict."""
        for queue, place in (yield self._db.sql.turning_strict()):
            at = yield from self.turn_strict(queue, note_in(place, dict[str, Place]) or {}, kinds)
            yield self._db.sql.set_turning(queue=queue, place=place_of(at))

    def turn_strict(self, queue: str, at: dict[str, Place], kinds: Sequence[Row]) -> Op[dict[str, Place]]:
        """A queue that becomes strict, from these places on: those first whose turn counts. Answers how far it has come,
        nothing at the end. Who becomes ready meanwhile is found by an index."""
        yield from self.unshare(queue, kinds)
        after = yield from self._unready(queue, {"blocked": BLOCKED} | at, shared=True)
        return after if self.more else {}

    def share(self, queue: str, at: dict[str, Place]) -> Op[dict[str, Place]]:
        """Jobs of a queue from these places on, those that are ready first, then what becomes so, in the order in which it
        does. Answers how far it has come."""
        after = dict(at)
        after["ready"] = yield from self._share_ready(queue, at.get("ready", READY))
        return (yield from self._unready(queue, after, shared=False))

    def _unready(self, queue: str, at: dict[str, Place], *, shared: bool) -> Op[dict[str, Place]]:
        """Those with a turn, which they lose, or those without one, which they get."""
        sql, after = self._db.sql, dict(at)
        if self._room:
            rows = yield sql.running_with(queue=queue, shared=shared, limit=self._room)
            yield from self._write_all(rows, shared=shared)
        place = at.get("blocked", BLOCKED)
        if place != END and self._goes_on():
            span = {"queue": queue, "after": place[0]}
            after["blocked"] = yield from self._look(sql.blocked_edge, sql.blocked_with, span, shared=shared)
        place = at.get("waiting", WAITING)
        if place != END and self._goes_on():
            span = {"queue": queue, "run_at": place[0], "after": place[1]}
            after["waiting"] = yield from self._look(sql.waiting_edge, sql.waiting_with, span, shared=shared)
        return after

    def _share_ready(self, queue: str, place: Place) -> Op[Place]:
        """One priority after the other: a place in all of them is found by walking over all of its priority."""
        sql = self._db.sql
        while place != END and self._goes_on():
            if len(place) == 1:
                level = yield sql.ready_level(queue=queue, priority=place[0])
                place = [level[0][0], *LEVEL] if level else END
            else:
                priority, position, created_at, seq = place
                span = {"queue": queue, "priority": priority, "position": position, "created_at": created_at, "after": seq}
                place = [priority, *(yield from self._look(sql.ready_edge, sql.ready_with, span, shared=False))]
        return place

    def _goes_on(self) -> bool:
        if self._visits <= 0 or not self._room:
            self._cut = True
        return not self._cut

    def _look(self, last: Block, those: Block, span: dict[str, Any], *, shared: bool) -> Op[Place]:
        """At so many jobs, of which some get a turn or lose it. Answers the place of the last one."""
        edge = yield last(visits=self._most, **span)
        found = yield those(visits=self._most, shared=shared, **span)
        part = found[: self._room]
        yield from self._write(part, shared=shared)
        self._cut = self._cut or bool(edge)
        self._visits -= self._most // LANES_AT_ONCE
        return list(part[-1] if len(part) < len(found) else edge[0] if edge else END)

    def parked_kinds(self) -> Op[list[Row]]:
        """On which key, in which queue and of which type jobs wait for permits, and whether those have turns."""
        keys = [row[0] for row in (yield self._db.sql.all_waited_for())]
        return (yield self._db.sql.parked_kinds(keys=self._db.texts(keys))) if keys else []

    def share_parked(self, queues: Collection[str], kinds: Sequence[Row]) -> Op[None]:
        sql = self._db.sql
        for key, queue, kind, turns in kinds:
            if turns or queue not in queues:
                continue
            if not self._room:
                return
            rows = yield sql.unshared_parked(key=key, queue=queue, type=kind, limit=self._room)
            yield from self._write_all(rows, shared=False)

    def unshare(self, queue: str, kinds: Sequence[Row]) -> Op[None]:
        """Those of a strict queue whose turn counts: they wait for a permit; and those by whom it is found out."""
        sql = self._db.sql
        for key, _, kind, _ in (row for row in kinds if row[1] == queue and row[3] and self._room):
            rows = yield sql.shared_parked(key=key, queue=queue, type=kind, limit=self._room)
            yield from self._write_all(rows, shared=True)
        if self._room:
            yield from self._write_all((yield sql.shared_ready(queue=queue, limit=self._room)), shared=True)

    def _write_all(self, rows: Sequence[Row], *, shared: bool) -> Op[None]:
        """As many as there was room for, and perhaps there are more, which only those that are written no longer hide."""
        full = len(rows) == self._room
        self._cut = ((yield from self._write(rows, shared=shared)) > 0 and full) or self._cut

    def _write(self, rows: Sequence[Row], *, shared: bool) -> Op[int]:
        """How many of them: what somebody holds is passed over."""
        written = 0
        if rows:
            these = self._db.sql.unshare_these if shared else self._db.sql.share_these
            written = len((yield these(seqs=self._db.ints(row[-1] for row in rows), now=self._now)))
            self._room -= written
        return written
