"""Whom a claim considers next: the one dispatch order over several queues, and turns of orgs where a queue is fair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from windlass.core.fairness import Share, Turns
from windlass.core.limits import keys_of
from windlass.drivers.rows import strings_in
from windlass.drivers.statement import Blocks, Op, Row, T


class Candidate(NamedTuple):
    order: tuple[int, int, int, int]  # core/eligibility.py: dispatch_order; its last part is the seq
    queue: str
    keys: tuple[str, ...]  # of limits that may concern it
    share: str | None = None  # in a fair queue

    @property
    def seq(self) -> int:
        return self.order[3]


def candidate(queue: str, row: Row) -> Candidate:
    """From the columns of `pick_limited` and `pick_share`."""
    return Candidate(
        (row[0], row[1], row[2], row[3]), queue, keys_of(strings_in(row[4]), row[5], row[6], strings_in(row[7])), row[8]
    )


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
    def line(self, queue: str, limit: int) -> Op[list[Candidate]]:
        """The first ready jobs of a queue that are wanted, in dispatch order."""

    @abstractmethod
    def of_shares(self, queue: str, counts: Mapping[str, int]) -> Op[dict[str, list[Candidate]]]:
        """So many of the first ready jobs of each org that are wanted."""

    def pick(self, queues: Mapping[str, int | None], limit: int, ahead: int = 0) -> Op[list[Candidate]]:
        """The next `limit` over these queues, of each no more than it may give (None = any number). `ahead`: so many at
        least, where those that come first are likely to find no permit."""
        lines: list[list[Candidate]] = []
        for queue, most in queues.items():
            wanted = limit if most is None else min(limit, most)
            wanted = wanted and max(wanted, ahead)
            if wanted and queue in self._fair:
                lines.append((yield from self._in_turn(queue, wanted)))
            elif wanted:
                lines.append((yield from self.line(queue, wanted)))
        return merged(lines, max(limit, ahead)) if lines else []

    def offered(self, candidates: Sequence[Candidate]) -> None:
        for one in candidates:
            if one.share is not None and one.queue in self._turns:
                self._turns[one.queue].offered[one.share] += 1

    def granted(self, candidates: Sequence[Candidate]) -> None:
        for one in candidates:
            if one.share is not None and one.queue in self._turns:
                self._turns[one.queue].granted[one.share] += 1

    def charges(self) -> list[tuple[str, str, float, float, float]]:
        """(queue, share, virtual time of the claim, how much later the last start and the finish are), by queue and
        share."""
        return [
            (queue, share, turns.clock, (count - 1) / weight, count / weight)
            for queue, turns in sorted(self._turns.items())
            for share, count, weight in turns.charges()
        ]

    def _in_turn(self, queue: str, limit: int) -> Op[list[Candidate]]:
        turns = yield from self._turns_of(queue)
        waiting = [row[0] for row in (yield self.sql.fair_shares(queue=queue))]
        return (yield from in_turn(turns, waiting, limit, lambda counts: self.of_shares(queue, counts)))

    def _turns_of(self, queue: str) -> Op[Turns]:
        if queue not in self._turns:
            self._turns[queue] = yield from turns_of(self.sql, queue)
        return self._turns[queue]


def turns_of(sql: Blocks, queue: str) -> Op[Turns]:
    shares = {row[0]: Share(row[1], row[2]) for row in (yield sql.shares_of(queue=queue))}
    weights = {f"={row[0][4:]}": row[1] for row in (yield sql.weights())}
    return Turns(shares, weights)


def in_turn(
    turns: Turns, waiting: Sequence[str], limit: int, first_of: Callable[[Mapping[str, int]], Op[Mapping[str, list[T]]]]
) -> Op[list[T]]:
    """The first `limit` of those that wait, in the turns of their orgs; `first_of` answers so many of each. Who has none,
    as most may where a claim wants few types, is found out of ever more orgs at a time."""
    heads = [(turns.start(share), share) for share in waiting]
    heapify(heads)
    known: dict[str, list[T]] = {}
    complete: set[str] = set()  # of which all that there is, is known
    order: list[T] = []
    counts: Counter[str] = Counter()
    ahead = 0
    while heads and len(order) < limit:
        _, share = heads[0]
        has, used = known.get(share, []), counts[share]
        if used == len(has) and share not in complete:
            ahead = max(limit - len(order), 2 * ahead)
            asked = _foreseen(turns, heads, counts, complete, ahead)
            found = yield from first_of(asked)
            complete |= {share for share, count in asked.items() if len(found.get(share, ())) < count}
            known.update((share, found.get(share, [])) for share in asked)
            continue
        heappop(heads)
        if used < len(has):
            order.append(has[used])
            counts[share] += 1
            heappush(heads, (turns.start(share, counts[share]), share))
    return order


def _foreseen(
    turns: Turns, heads: Sequence[tuple[float, str]], counts: Mapping[str, int], complete: Container[str], limit: int
) -> dict[str, int]:
    """How many of each are to be known for the next `limit` turns, as if all had as many."""
    heads, asked = list(heads), dict[str, int]()
    while heads and limit:
        _, share = heappop(heads)
        if share not in complete:
            asked[share] = asked.get(share, counts.get(share, 0)) + 1
            heappush(heads, (turns.start(share, asked[share]), share))
            limit -= 1
    return asked
