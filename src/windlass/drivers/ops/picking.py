"""The order in which a claim considers jobs: dispatch order over several queues, and turns of organisations in fair
ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from windlass.core.fairness import Share, Turns
from windlass.core.limits import keys_of
from windlass.drivers.rows import strings_in
from windlass.drivers.statement import Blocks, Op, Row, T


class Candidate(NamedTuple):
    seq: int
    order: tuple[int, int, int, int]  # core/eligibility.py: dispatch_order
    queue: str
    keys: tuple[str, ...]  # of limits that may concern it
    share: str | None = None  # in a fair queue
    row: Row = ()  # all that a run needs, if that was read with it


def candidate(queue: str, row: Row) -> Candidate:
    """From the columns of `pick_limited`, `pick_share` and those that add what a run needs."""
    keys = keys_of(strings_in(row[4]), row[5], row[6], strings_in(row[7]))
    return Candidate(row[3], row[:4], queue, keys, row[8], row[9:])


def merged(lines: Sequence[list[Candidate]], limit: int) -> list[Candidate]:
    """The heads of several queues, the first in dispatch order each time."""
    if len(lines) == 1:
        return lines[0][:limit]
    heads = [(line[0].order, n, 0) for n, line in enumerate(lines) if line]
    heapify(heads)
    found: list[Candidate] = []
    while heads and len(found) < limit:
        _, n, place = heappop(heads)
        found.append(lines[n][place])
        if place + 1 < len(lines[n]):
            heappush(heads, (lines[n][place + 1].order, n, place + 1))
    return found


class Picking(ABC):
    """One claim's view of its queues."""

    sql: Blocks

    def __init__(self, fair: Sequence[str]) -> None:
        self._fair = fair
        self._turns: dict[str, Turns] = {}

    @abstractmethod
    def line(self, queue: str, limit: int, *, whole: bool) -> Op[list[Candidate]]:
        """The first ready jobs of a queue that are wanted, in dispatch order. `whole`: if all that a run needs can be read
        with them, it may be."""

    @abstractmethod
    def of_shares(self, queue: str, counts: Mapping[str, int], *, whole: bool) -> Op[dict[str, list[Candidate]]]:
        """So many of the first ready jobs of each org that are wanted."""

    def pick(self, queues: Mapping[str, int | None], limit: int, ahead: int = 0) -> Op[list[Candidate]]:
        """The next `limit` over these queues, of each no more than it may give (None = any number). `ahead`: so many at
        least, where those that come first are likely to find no permit; then no more is read of them than that takes."""
        lines: list[list[Candidate]] = []
        for queue, most in queues.items():
            wanted = limit if most is None else min(limit, most)
            wanted = wanted and max(wanted, ahead)
            if wanted and queue in self._fair:
                lines.append((yield from self._in_turn(queue, wanted, whole=not ahead)))
            elif wanted:
                lines.append((yield from self.line(queue, wanted, whole=not ahead)))
        return merged(lines, max(limit, ahead)) if lines else []

    def served(self, candidates: Sequence[Candidate], granted: Container[int]) -> None:
        """These were offered a place; those of the granted numbers have one."""
        for one in candidates if self._turns else ():
            turns = self._turns.get(one.queue)
            if turns is not None and one.share is not None:
                turns.offered[one.share] += 1
                turns.granted[one.share] += one.seq in granted

    def charges(self) -> list[tuple[str, float, list[tuple[str, float, float]]]]:
        """Of each queue, by name: its virtual time at the claim, and (share, how much later its last start and its finish
        are), by share."""
        charged = [(queue, turns.clock, turns.charges()) for queue, turns in sorted(self._turns.items())]
        return [
            (queue, clock, [(share, (count - 1) / weight, count / weight) for share, count, weight in charges])
            for queue, clock, charges in charged if charges
        ]  # fmt: skip

    def _in_turn(self, queue: str, limit: int, *, whole: bool) -> Op[list[Candidate]]:
        turns = yield from self._turns_of(queue)
        waiting = [row[0] for row in (yield self.sql.fair_shares(queue=queue))]
        first_of = partial(self.of_shares, queue, whole=whole)
        return (yield from in_turn(turns, waiting, limit, first_of, lambda one: one.seq))

    def _turns_of(self, queue: str) -> Op[Turns]:
        if queue not in self._turns:
            self._turns[queue] = yield from turns_of(self.sql, queue)
        return self._turns[queue]


def turns_of(sql: Blocks, queue: str) -> Op[Turns]:
    shares = {row[0]: Share(row[1], row[2]) for row in (yield sql.shares_of(queue=queue))}
    weights = {f"={row[0][4:]}": row[1] for row in (yield sql.weights())}
    return Turns(shares, weights)


def in_turn(
    turns: Turns, waiting: Sequence[str], limit: int, first_of: Callable[[Mapping[str, int]], Op[Mapping[str, list[T]]]],
    seq_of: Callable[[T], int],
) -> Op[list[T]]:  # fmt: skip
    """The first `limit` of those that wait, in the turns of their orgs; `first_of` answers so many of each. Who has none,
    as most may where a claim wants few types, is found out of ever more orgs at a time. Who has a place keeps it when an
    org is asked once more: others may have come before it meanwhile, or be gone."""
    heads = turns.heads(waiting)
    heapify(heads)
    known: dict[str, list[T]] = {}
    complete: set[str] = set()  # of which all that there is, is known
    order: list[T] = []
    counts: Counter[str] = Counter()  # turns that each was given
    placed: Counter[str] = Counter()  # and what became of them
    ahead = 0
    while heads and len(order) < limit:
        ahead = max(limit - len(order), 2 * ahead)
        given = _given(turns, heads, counts, {share: len(known[share]) for share in complete}, ahead)
        asked = {share: counts[share] for share in given if share not in complete}
        found = (yield from first_of(asked)) if asked else {}
        for share, count in asked.items():
            has, now = known.get(share, [])[: placed[share]], found.get(share, [])
            seqs = {seq_of(one) for one in has}
            known[share] = [*has, *(one for one in now if seq_of(one) not in seqs)] if has else now
            if len(now) < count:
                complete.add(share)
        for share in given:
            place = placed[share]
            placed[share] = place + 1
            if place < len(known[share]):
                order.append(known[share][place])
    return order[:limit]


def _given(
    turns: Turns, heads: list[tuple[float, str]], counts: Counter[str], ends: Mapping[str, int], limit: int
) -> list[str]:
    """Whose the next `limit` turns are, as if all had as many, but for those of whom it is known where they end."""
    given: list[str] = []
    while heads and len(given) < limit:
        share = heads[0][1]
        count = counts[share] + 1
        if count > ends.get(share, count):
            heappop(heads)
            continue
        given.append(share)
        counts[share] = count
        heapreplace(heads, (turns.start(share, count), share))
    return given
