"""Limits: letting jobs through that wait for a permit, what people say of limits, counting again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from windlass.core import limits as rules
from windlass.core.alterations import AlterAnswer, PauseLimit, PutLimit, RemoveLimit
from windlass.core.duties import Done, RecountLimits
from windlass.core.fairness import Turns
from windlass.drivers.ops import adopting
from windlass.drivers.ops.picking import in_turn, turns_of
from windlass.drivers.rows import strings_in, to_json
from windlass.drivers.statement import Blocks, Op, Row
from windlass.types import Job, Limit, Micros

Kind = tuple[str, str, str, int]  # key, queue, type, how many of them may try again


def limit_in(row: Row) -> Limit:
    key, max_used, used, per_second, burst, tokens, refilled_at, wake_at, weight, paused_at, declared = row
    return Limit(
        key=key, max_used=max_used, used=used, per_second=per_second, burst=burst, tokens=tokens, refilled_at=refilled_at,
        wake_at=wake_at, weight=weight, paused_at=paused_at, declared=declared,
    )  # fmt: skip


def keys_of(job: Job) -> tuple[str, ...]:
    return rules.keys_of(job.limit_keys, job.type, job.org_id, job.tags)


class Gate(ABC):
    """What the limits of a SQL driver do alike. Whoever calls holds the rows of the keys."""

    sql: Blocks
    passes_over: bool  # jobs that somebody else holds

    @abstractmethod
    def texts(self, values: Iterable[str]) -> Any:
        """A batch of texts as one parameter."""

    @abstractmethod
    def unpark(self, kinds: Sequence[Kind], now: Micros) -> Op[list[int]]:
        """Let so many of each kind be considered again, the first in dispatch order, of those whose queue takes no turns.
        Answers for each that was let through which kind it is of. Never waits for a job that somebody else holds."""

    @abstractmethod
    def parked_firsts(self, key: str, queue: str, kind: str, counts: Mapping[str, int]) -> Op[dict[str, list[int]]]:
        """So many of the first of each org that are parked on a key."""

    @abstractmethod
    def ints(self, values: Iterable[int]) -> Any:
        """A batch of numbers as one parameter."""

    @abstractmethod
    def park(self, places: Mapping[int, str], now: Micros) -> Op[None]:
        """Jobs by seq, each on the key that it waits for."""

    @abstractmethod
    def write(self, changes: Sequence[tuple[Limit, int]]) -> Op[None]:
        """What a claim made of limits: permits as a delta, the bucket as it is under the lock."""

    @abstractmethod
    def set_wakes(self, limits: Sequence[Limit]) -> Op[None]:
        """When those are let through who wait for a token, and nothing else of the limits."""

    @abstractmethod
    def try_hold(self, keys: Sequence[str]) -> Op[list[str]]:
        """Those of the keys whose limits nobody else holds; they are ours from here on. Never waits, so that it may come
        after any other lock."""

    @abstractmethod
    def give_back(self, permits: Mapping[str, int]) -> Op[list[str]]:
        """So many permits of each key, never more than are out. Answers the keys whose limits are looked at again at some
        time."""

    @abstractmethod
    def hold_claims(self) -> Op[None]:
        """Nobody begins a run, or ends one that touches others, until the transaction does. First of all locks."""

    def limits(self, keys: Iterable[str]) -> Op[dict[str, Limit]]:
        rows = yield self.sql.limits_of(keys=self.texts(sorted(set(keys))))
        return {row[0]: limit_in(row) for row in rows}

    def free(self, held: Iterable[Sequence[str]], now: Micros) -> Op[None]:
        """The permits of leases that have ended."""
        permits = Counter(key for keys in held for key in keys)
        if permits:
            timed = yield from self.give_back(permits)
            yield from self.let_through(permits, now, timed)

    def pass_on(self, keys: Iterable[str], now: Micros) -> Op[None]:
        """Of a job that will not run: it may have been the one that was let through to a permit. Which keys it has may be
        known only when their limits can no longer be waited for; what somebody else holds is left to a recount."""
        names = sorted({key for key in keys if not rules.caps(key)})
        if names:
            yield from self.let_through((yield from self.try_hold(names)), now)

    def timed(self, keys: Sequence[str]) -> Op[list[str]]:
        """Those of the keys whose limits are looked at again at some time."""
        return [row[0] for row in (yield self.sql.timed(keys=self.texts(keys)))]

    def let_through(self, keys: Iterable[str], now: Micros, timed: Sequence[str] | None = None) -> Op[bool]:
        """Of those who wait for a key, as many may try again as there is room, of every queue and type: the first ones
        might stand in a queue that nobody serves. The kinds are found by jumping through the index, so the cost does not
        grow with the number of jobs that wait. `timed`: those that are looked at again at some time, if that is known."""
        passed, _ = yield from self._let_through(keys, now, timed)
        return passed

    def go_on(self, queues: Sequence[str], now: Micros) -> Op[bool]:
        """For a claim that has found nothing in these queues: with what a change of them, or the end of a limit, has left
        to others. Whether it may find something now. It ends, because each time fewer are left, whatever somebody holds."""
        through = yield from self._let_more_through(queues, now)
        return (yield from adopting.go_on(self, queues, now)) or through

    def _let_more_through(self, queues: Sequence[str], now: Micros) -> Op[bool]:
        """Who waits in these queues for a limit that was removed: no end lets him through, and no token."""
        said = yield self.sql.unbarred()
        if not said:
            return False
        keys = strings_in(said[0][0])
        kinds = yield self.sql.parked_kinds(keys=self.texts(keys))
        ours = sorted({row[0] for row in kinds if row[1] in queues})
        through = bool(ours) and (yield from self.let_through((yield from self.try_hold(ours)), now))
        limits = yield from self.limits(keys)  # one that is there again looks after those who wait for it
        waiting = {row[0] for row in (yield self.sql.waited_for(keys=self.texts(keys)))}
        left = sorted({key for key in keys if key in waiting and key not in limits})
        if left != list(keys):
            yield self.sql.keep_unbarred(keys=to_json(left))
        return through

    def _let_through(
        self, keys: Iterable[str], now: Micros, timed: Sequence[str] | None = None, bite: int | None = None
    ) -> Op[tuple[bool, bool]]:
        """Whether any were, and whether there is room for more than go at a time. Those are let through by a claim that
        looks again soon, or where there is no limit that could say so, by a recount, or a claim that finds nothing."""
        names = sorted({key for key in keys if not rules.caps(key)})
        if not names:
            return False, False
        somebody = yield self.sql.anybody_waits()
        parked = (yield self.sql.parked_kinds(keys=self.texts(names))) if somebody else []
        timed = (yield from self.timed(names)) if timed is None else [key for key in timed if not rules.caps(key)]
        if not parked and not timed:
            return False, False
        limits = yield from self.limits({row[0] for row in parked} | set(timed))
        passed, short, missed = yield from self._unpark(parked, limits, now, bite or rules.UNPARK_BITE)
        cut = passed and bool(missed)  # else there is no more to do, but for those whom somebody holds
        if short and self.passes_over:
            left = yield self.sql.parked_kinds(keys=self.texts(sorted({kind[0] for kind in short})))
            missed |= {key for key, *kind in left if (key, *kind) in short}
        if timed or missed:
            asked = sorted({*timed, *missed} & limits.keys())
            waiting = {row[0] for row in (yield self.sql.waited_for(keys=self.texts(asked)))}
            missed &= waiting
            after = [rules.let_through(limits[key], now, waiting=key in waiting, missed=key in missed) for key in asked]
            filled = [limit for limit in after if limit.refilled_at != limits[limit.key].refilled_at]
            yield from self.write([(limit, 0) for limit in filled])
            changed = [one for one in after if one not in filled and one.wake_at != limits[one.key].wake_at]
            if changed:
                yield from self.set_wakes(changed)
        return passed, cut

    def _unpark(
        self, parked: Sequence[Row], limits: Mapping[str, Limit], now: Micros, bite: int
    ) -> Op[tuple[bool, set[Row], set[str]]]:
        """Of these kinds (key, queue, type, whether they take turns) as many as there is room for, and as go at a time.
        Whether any were, the kinds of which there were fewer than that, and the keys with room for more than that."""
        rooms = {row[0]: rules.room(limits.get(row[0]), now) for row in parked}
        each = max(bite // max(sum(rooms[row[0]] != 0 for row in parked), 1), 1)
        short = {row for row in parked if rooms[row[0]] is None}
        cut: set[str] = set()
        through: list[Row] = []
        if short:
            free = sorted({row[0] for row in short})
            through += yield self.sql.unpark_all(keys=self.texts(free), limit=bite, now=now)
            cut |= set(free) if len(through) == bite else set()
        plain = [(row, room) for row in parked if not row[3] and (room := rooms[row[0]])]
        got: list[int] = []
        if plain:
            got = yield from self.unpark([(*row[:3], min(room, each)) for row, room in plain], now)
            counts = Counter(got)
            short |= {row for n, (row, room) in enumerate(plain) if counts[n] < min(room, each)}
            cut |= {row[0] for n, (row, room) in enumerate(plain) if counts[n] == each < room}
        fair = [(row, room) for row in parked if row[3] and (room := rooms[row[0]])]
        seqs = yield from self._next_turns([(*row[:3], min(room, each)) for row, room in fair])
        if seqs:
            taken = yield self.sql.unpark_these(seqs=self.ints(seqs), now=now)
            short |= {row for row, _ in fair} if len(taken) < len(seqs) else set()
            cut |= {row[0] for row, room in fair if each < room}
            through += taken
        return bool(through or got), short, cut

    def _next_turns(self, kinds: Sequence[Kind]) -> Op[list[int]]:
        """Of each kind, whose queue is fair, those whose orgs have the next turns."""
        found: list[int] = []
        turns: dict[str, Turns] = {}
        for key, queue, kind, room in kinds:
            if queue not in turns:
                turns[queue] = yield from turns_of(self.sql, queue)
            shares = [row[0] for row in (yield self.sql.parked_shares(key=key, queue=queue, type=kind))]
            first_of = partial(self.parked_firsts, key, queue, kind)
            found += yield from in_turn(turns[queue], shares, room, first_of, int)
        return found

    # ---------------------------------------------------------------------------------------------- what people ask for

    def put(self, change: PutLimit, now: Micros) -> Op[AlterAnswer]:
        if not rules.is_news((yield from self.limits([change.key])).get(change.key), change):
            return "unchanged"
        yield from self.store(rules.described((yield from self.row_of(change.key, now)), change, now))
        yield from self.let_through([change.key], now)
        return "applied"

    def row_of(self, key: str, now: Micros) -> Op[Limit]:
        """The limit. A new one starts from those who run: each is counted in (only here, never in a claim)."""
        before = (yield from self.limits([key])).get(key)
        return before or Limit(key=key, used=(yield from self.count_in(key, now)))

    def count_in(self, key: str, now: Micros) -> Op[int]:
        """Every running job that the key concerns holds a permit of it; answers how many those are."""
        kind, name = rules.kind_of(key)
        yield self.sql.count_in(key=key, kind=kind, name=name, now=now)
        [(holders,)] = yield self.sql.count_holders(key=key)
        return int(holders)

    def store(self, limit: Limit) -> Op[None]:
        yield self.sql.store_limit(
            key=limit.key, max_used=limit.max_used, used=limit.used, per_second=limit.per_second, burst=limit.burst,
            tokens=limit.tokens, refilled_at=limit.refilled_at, wake_at=limit.wake_at, weight=limit.weight,
            paused_at=limit.paused_at, declared=limit.declared,
        )  # fmt: skip

    def remove(self, change: RemoveLimit, now: Micros) -> Op[AlterAnswer]:
        if not (yield self.sql.remove_limit(key=change.key)):
            return "not_found"
        yield from self.let_through([change.key], now)
        if (yield self.sql.waited_for(keys=self.texts([change.key]))):
            yield self.sql.leave_unbarred(key=change.key)
        return "applied"

    def pause(self, change: PauseLimit, now: Micros) -> Op[AlterAnswer]:
        if not change.paused and change.key not in (yield from self.limits([change.key])):
            return "unchanged"
        limit = yield from self.row_of(change.key, now)
        if (limit.paused_at is not None) == change.paused:
            return "unchanged"
        yield from self.store(replace(limit, paused_at=now if change.paused else None))
        yield from self.let_through([change.key], now)
        return "applied"

    # ------------------------------------------------------------------------------------------------------- counting again

    def recount(self, duty: RecountLimits, now: Micros) -> Op[Done]:
        """While something is wrong all else is left to the next bite: claims wait for nothing more."""
        counted = yield from self.count_again(duty.limit, now)
        if counted is not None:
            return Done(counted, more=True)
        more = yield from self.let_overlooked_through(duty.limit, now)
        unshared = yield from adopting.adopt(self, duty.limit, now)
        yield self.sql.drop_shares()
        return Done(0, more=more or unshared)

    def count_again(self, most: int, now: Micros) -> Op[int | None]:
        """How many were wrong, of so many at most; None where nothing is. Looks first, without holding anybody up; what
        seems wrong is looked at again while nobody begins or ends."""
        if not (yield from self.miscounted(most)):
            return None
        yield from self.hold_claims()
        wrong = yield from self.miscounted(most)
        for limit in (yield from self.limits(wrong)).values():
            used = yield from self.count_in(limit.key, now)
            yield from self.store(replace(limit, used=used))
        yield from self.let_through(wrong, now)
        return len(wrong)

    def let_overlooked_through(self, most: int, now: Micros) -> Op[bool]:
        """Who waits although there is room was let through by nobody, because somebody else held what had to be written.
        Whether there are more than go at a time."""
        waited_for = [row[0] for row in (yield self.sql.all_waited_for())]
        limits = yield from self.limits(waited_for)
        overlooked = [key for key in waited_for if rules.is_overlooked(limits.get(key), now)]
        if not overlooked:
            return False
        free = yield from self.try_hold(overlooked)
        _, more = yield from self._let_through(free, now, bite=min(most, rules.UNPARK_BITE))
        return more

    def miscounted(self, most: int) -> Op[list[str]]:
        rows = yield self.sql.miscounted(limit=most)
        return [row[0] for row in rows]
