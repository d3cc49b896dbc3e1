"""Admission of a claim's candidates: which get all of their permits, which are parked on a key, and when to stop
parking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from windlass.core import limits as rules
from windlass.core.limits import PARK_BITE
from windlass.drivers.ops.limits import Gate
from windlass.drivers.ops.picking import Candidate
from windlass.drivers.statement import Op
from windlass.types import Limit, Micros

GROWTH: Final = 4  # times as many candidates as before, after some of those had to be parked
Permits = dict[int, tuple[str, ...]]


class Admission:
    """The admission of one transaction. It parks at most `PARK_BITE` jobs: jobs behind a backlog are reached in several
    transactions, each of which keeps what it did and delays others for a moment only."""

    def __init__(self, gate: Gate, now: Micros, *, again: bool) -> None:
        """`again`: the transaction before did as much as it may and took nothing. Mostly it parked, and this one will have
        to, so that it looks at as many as it may park from the start. After one that promoted or took back, that is only a
        guess: what is not needed was read in vain, once."""
        self.books = rules.Books(now)
        self.parked = 0
        self.ahead = PARK_BITE if again else 0  # how many to look at in the next round, also when fewer are wanted
        self._gate = gate
        self._now = now
        self._seen: set[str] = set()
        self._waited_for: dict[str, bool] = {}  # keys that are held: whether anybody is parked on them

    @property
    def is_full(self) -> bool:
        return self.parked >= PARK_BITE

    def unseen(self, candidates: Sequence[Candidate]) -> set[str]:
        """Keys of limits that may concern these and that were not looked for yet. One that is not there now will not be:
        whoever makes a limit waits for claims under way."""
        keys = set[str]().union(*(one.keys for one in candidates))
        return keys.union(*map(rules.caps_of, {one.queue for one in candidates})) - self._seen

    def open(self, limits: Mapping[str, Limit], keys: Iterable[str]) -> None:
        """What was found of these keys, as it stands."""
        self._seen.update(keys)
        self.books.open(limits.values())

    def reach(self, candidates: Sequence[Candidate], wanted: int) -> int:
        """How many of the candidates are considered until so many have their permits, if nobody else is let through."""
        if len(candidates) <= wanted:
            return len(candidates)
        books, parked = self.books.copy(), self.parked
        for n, one in enumerate(candidates):
            if not wanted or parked == PARK_BITE:
                return n
            permits, full = books.admit(one.queue, one.keys)
            if permits is None and full is None:
                return n
            wanted -= permits is not None
            parked += full is not None
        return len(candidates)

    def admit(self, candidates: Sequence[Candidate], wanted: int) -> Op[tuple[int, Permits]]:
        """How many of the candidates were considered, and the permits of those that got all of theirs, `wanted` at most.
        The others are parked; as soon as parking one lets another job through, the rest is left for a fresh pick, because
        that job may stand before them. So it is when a queue may give no more than it did when they were picked."""
        granted: Permits = {}
        places: dict[int, str] = {}
        considered, before = 0, self.parked
        for one in candidates:
            if len(granted) == wanted or self.is_full:
                break
            permits, full = self.books.admit(one.queue, one.keys)
            if permits is None and full is None:
                break
            considered += 1
            if permits is not None:
                granted[one.seq] = permits
                continue
            assert full is not None, "neither admitted nor parked"
            places[one.seq] = full
            self._waited_for[full] = True
            self.parked += 1
            if (yield from self._pass_on([key for key in one.keys if key != full and key in self.books], places)):
                break
        yield from self._write(places)
        self.ahead = min(GROWTH * max(considered, 1), PARK_BITE) if self.parked > before else 0
        return considered, granted

    def _pass_on(self, keys: Sequence[str], places: dict[int, str]) -> Op[bool]:
        """A job that is parked may have been the one that was let through to a permit of another key. Whether anybody else
        is let through in its place. The store is asked once who waits: the rows of the keys are held."""
        unknown = [key for key in keys if key not in self._waited_for]
        if unknown:
            found = {row[0] for row in (yield self._gate.sql.waited_for(keys=self._gate.texts(unknown)))}
            self._waited_for.update((key, key in found) for key in unknown)
        for key in keys:
            self.books.let_through(key, waiting=self._waited_for[key])
        free = [key for key in keys if self._waited_for[key] and self.books.has_room(key)]
        if not free:
            return False
        yield from self._write(places)
        through = yield from self._gate.let_through(free, self._now)
        self.books.open((yield from self._gate.limits(free)).values())
        for key in free:
            del self._waited_for[key]
        return through

    def _write(self, places: dict[int, str]) -> Op[None]:
        changes = self.books.changes()
        if changes:
            yield from self._gate.write(changes)
        if places:
            yield from self._gate.park(places, self._now)
            places.clear()
