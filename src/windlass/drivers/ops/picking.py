"""Whom a claim considers next: the one dispatch order over several queues, and turns of orgs where a queue is fair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from windlass.core.fairness import Share, Turns
from windlass.core.limits import keys_of
from windlass.drivers.rows import strings_in
from windlass.drivers.statement import Blocks, Op, Row


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
        known: dict[str, list[Candidate]] = {}
        complete: set[str] = set()  # of which all that there is, is known
        while True:
            order, counts = _simulate(turns, waiting, known, complete, limit)
            missing = {share: n for share, n in counts.items() if share not in complete and n > len(known.get(share, ()))}
            found = (yield from self.of_shares(queue, missing)) if missing else {}
            short = {share for share, count in missing.items() if len(found.get(share, ())) < count}
            known.update((share, found.get(share, [])) for share in missing)
            if not short:
                heads = {share: iter(known[share]) for share in counts}
                return [next(heads[share]) for share in order]
            complete |= short

    def _turns_of(self, queue: str) -> Op[Turns]:
        if queue not in self._turns:
            shares = {row[0]: Share(row[1], row[2]) for row in (yield self.sql.shares_of(queue=queue))}
            weights = {f"={row[0][4:]}": row[1] for row in (yield self.sql.weights())}
            self._turns[queue] = Turns(shares, weights)
        return self._turns[queue]


def _simulate(
    turns: Turns, waiting: Sequence[str], known: Mapping[str, list[Candidate]], complete: set[str], limit: int
) -> tuple[list[str], Counter[str]]:
    """Whose turn it is `limit` times, as far as is known who has how many; and how many that asks of each."""
    heads = [(turns.start(share), share) for share in waiting if share not in complete or known[share]]
    heapify(heads)
    order: list[str] = []
    counts: Counter[str] = Counter()
    while heads and len(order) < limit:
        share = heappop(heads)[1]
        order.append(share)
        counts[share] += 1
        if share not in complete or counts[share] < len(known[share]):
            heappush(heads, (turns.start(share, counts[share]), share))
    return order, counts
