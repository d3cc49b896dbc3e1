"""Which statement a claim is made with: one that commits by itself, a transaction where there is more to do, or a short one
while claims are slow (cursor.py)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg

from windlass.clock import ticking
from windlass.drivers.postgres import leases
from windlass.drivers.postgres.arrays import Ints
from windlass.drivers.postgres.cursor import Cursor
from windlass.drivers.postgres.faults import Overdue, Taken
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.postgres.wakeups import log
from windlass.drivers.statement import Op
from windlass.drivers.values import Claim
from windlass.types import Claimed, Micros

HELPED: Final = (
    "claims from %s took %.0f ms, because an old transaction keeps dead rows alive; they begin behind those for now. "
    "windlass doctor names whose it is"
)
TELL_EVERY: Final = 600.0  # seconds
KINDS: Final = 1_000  # of claims that are remembered

Kind = tuple[str, tuple[str, ...] | None, bool]


class Claiming:
    """Makes claims, one after the other, for the lane of claims."""

    def __init__(self, time: Callable[[], float] = ticking) -> None:
        self._time = time
        self._told = -TELL_EVERY
        self._cursors: dict[Kind, Cursor] = {}
        self.limited = False  # the last claim met limits

    def claim_quickly(self, wish: Claim, now: Micros) -> Op[leases.Took | None]:
        """By statements that commit by themselves. None when it takes more."""
        cursor = self._cursor(wish)
        if cursor is not None and (taken := (yield from self._short(cursor, wish, now))) is not None:
            return leases.Took(taken)
        began = self._time()
        took = yield from leases.claim_quickly(wish, now)
        if took is not None and cursor is not None:
            yield from self._measure(cursor, wish, took, began)
        return took

    def claim(self, link: Link, wish: Claim, now: Micros, *, again: bool = False) -> leases.Took:
        cursor = None if again or self.limited else self._cursor(wish)
        if cursor is not None and (taken := link.run(self._short(cursor, wish, now))) is not None:
            return leases.Took(taken)
        began = self._time()
        took = self._whole(link, wish, now, again=again)
        if cursor is not None:
            link.run(self._measure(cursor, wish, took, began))
        return took

    def _short(self, cursor: Cursor, wish: Claim, now: Micros) -> Op[list[Claimed] | None]:
        """None when a whole one is to be made: it is due, or this one met limits, or found nothing and must be sure."""
        began = self._time()
        spans = cursor.spans(began)
        if spans is None:
            return None
        taken, reached, todo = yield from leases.claim_short(wish, now, spans)
        if taken:
            if cursor.was_short(self._time(), self._time() - began):
                self._tell(wish.queues[0], cursor.took)
            cursor.reached(reached, full=len(taken) == wish.limit)
        return None if not taken and (wish.sure or todo == leases.LIMITED) else taken

    def _measure(self, cursor: Cursor, wish: Claim, took: leases.Took, began: float) -> Op[None]:
        """After a whole claim: how long it took, and how far it came."""
        cursor.was_whole(self._time(), self._time() - began, len(took.jobs))
        if cursor.is_slow and took.jobs:
            with suppress(psycopg.Error, Overdue):  # the jobs are ours already
                rows = yield SQL.reached(seqs=Ints(job.handle[0] for job in took.jobs))
                if rows:  # else they are gone already
                    positions = {priority: position for priority, position, _ in rows}
                    cursor.reached(positions, full=len(took.jobs) == wish.limit, dead=rows[0][2])

    def _tell(self, queue: str, took: float) -> None:
        if self._time() >= self._told + TELL_EVERY:
            self._told = self._time()
            log.warning(HELPED, queue, took * 1000)

    def _cursor(self, wish: Claim) -> Cursor | None:
        """One queue alone: what stands first in several is found over all of them."""
        queues = set(wish.queues)
        if len(queues) != 1:
            return None
        kind = (wish.queues[0], wish.types, wish.unhandled)
        if kind not in self._cursors and len(self._cursors) >= KINDS:
            self._cursors.clear()
        return self._cursors.setdefault(kind, Cursor())

    def _whole(self, link: Link, wish: Claim, now: Micros, *, again: bool = False) -> leases.Took:
        for _ in range(leases.TRIES):
            if not self.limited:
                taken, todo = link.run(leases.claim_at_once(wish, now))
                if taken or todo == leases.NOTHING_ELSE:
                    return leases.Took(taken)
                if todo == leases.CONTENDED:
                    continue
            try:
                took = link.transact(leases.claim_whole(wish, now, again=again))
            except Taken as taken:
                if not leases.is_hand_made(taken):
                    raise
                took = link.transact(leases.leaving_runs(leases.claim_whole(wish, now, again=again)))
            self.limited = took.limited
            return took
        return leases.Took([])

    def claim_again(self, link: Link, wish: Claim, now: Micros) -> leases.Took:
        """What a first try takes that is still being stored, nobody sees and nobody renews: it lapses like any lease."""
        taken = link.run(leases.claimed_before(wish, now))
        return leases.Took(taken) if taken else self.claim(link, wish, now)
