"""What bounds jobs by key: which limits concern a job, how many more of a key may run, what a claim takes.

A limit bounds *valid leases* and, as a token bucket, claims. `global` and `queue:x` cap what a claim may take; without
room under any other key a job is *parked* on that key, so that no later claim walks over it. Drivers hold the rows while
they ask these functions, and write what is taken as deltas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import PutLimit
from windlass.core.counters import refill, wait_for
from windlass.errors import InvalidInput, shown
from windlass.types import Limit, Micros

GLOBAL: Final = "global"
KINDS: Final = ("queue", "type", "key", "tag", "org")
_DERIVED: Final = ("queue:", "type:", "tag:", "org:")  # those a job has by what it is
LOOK_AGAIN: Final = SECOND  # after which a claim lets those through who could not be
PARK_BITE: Final = 500  # how many jobs a claim parks before it keeps what it did and lets others at the rows
UNPARK_BITE: Final = 5_000  # how many that wait may try again at a time; the others are let through a little later


def limit_key(text: object, field: str = "limit") -> str:
    """A key as people write it: `gpu` stands for `key:gpu`."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(field, f"must be text such as 'gpu', 'type:render' or 'org:acme', got {shown(text)}")
    if text == GLOBAL:
        return text
    kind, colon, name = text.partition(":")
    if not colon:
        return f"key:{text}"
    if kind not in KINDS or not name:
        known = ", ".join(f"{kind}:…" for kind in KINDS)
        raise InvalidInput(field, f"{text!r} is no limit key; write a plain name, {GLOBAL}, or one of {known}")
    return text


def is_derived(key: str) -> bool:
    """Whether a job has this key by its queue, type, org or tags, and so cannot name it itself."""
    return key == GLOBAL or key.startswith(_DERIVED)


def kind_of(key: str) -> tuple[str, str]:
    """How a key concerns jobs: `global`; `queue`, `type`, `tag` or `org` and a name; or `key`, because jobs name it."""
    if key == GLOBAL:
        return GLOBAL, ""
    if key.startswith(_DERIVED):
        kind, _, name = key.partition(":")
        return kind, name
    return "key", key


def caps(key: str) -> bool:
    """Whether it caps what a claim takes instead of parking those who find no room."""
    return key == GLOBAL or key.startswith("queue:")


def caps_of(queue: str) -> tuple[str, str]:
    return (GLOBAL, f"queue:{queue}")


def keys_of(limit_keys: Sequence[str], kind: str, org_id: str | None, tags: Sequence[str]) -> tuple[str, ...]:
    """The keys on which a job may be parked, in the order in which it asks for them."""
    org = () if org_id is None else (f"org:{org_id}",)
    return (*limit_keys, f"type:{kind}", *org, *(f"tag:{tag}" for tag in tags))


def concerns(
    key: str, *, queue: str, kind: str, org_id: str | None, tags: Sequence[str], limit_keys: Sequence[str]
) -> bool:
    return key in caps_of(queue) or key in keys_of(limit_keys, kind, org_id, tags)


# ------------------------------------------------------------------------------------------------------------------- room


def tokens_at(limit: Limit, now: Micros) -> float:
    """How many tokens the bucket of a limit with a rate holds at a moment."""
    assert limit.tokens is not None, "no rate"
    assert limit.burst is not None, "no rate"
    assert limit.per_second is not None, "no rate"
    assert limit.refilled_at is not None, "no rate"
    return refill(limit.tokens, limit.burst, limit.per_second, now - limit.refilled_at)


def has_rate(limit: Limit) -> bool:
    return limit.per_second is not None


def is_shut(limit: Limit) -> bool:
    """Whether only somebody's change lets the next one through: an end, a higher maximum, a resumption."""
    return limit.paused_at is not None or (limit.max_used is not None and limit.used >= limit.max_used)


def room(limit: Limit | None, now: Micros) -> int | None:
    """How many more may be claimed now; None = any number."""
    if limit is None:
        return None
    if is_shut(limit):
        return 0
    free = None if limit.max_used is None else limit.max_used - limit.used
    if not has_rate(limit):
        return free
    tokens = int(tokens_at(limit, now))
    return tokens if free is None else min(free, tokens)


def taken(limit: Limit, now: Micros, count: int = 1) -> Limit:
    """After so many claims; there was room for them."""
    limit = replace(limit, used=limit.used + count)
    if has_rate(limit):
        left = max(tokens_at(limit, now) - count, 0.0)
        limit = replace(limit, tokens=left, refilled_at=max(now, limit.refilled_at or 0))
    return limit


def next_token(limit: Limit, now: Micros) -> Micros:
    """When there will be one more whole token than now if nobody takes any, as if the bucket had no upper bound."""
    assert limit.per_second is not None, "no rate"
    tokens = tokens_at(limit, now)
    return max(now, limit.refilled_at or 0) + wait_for(tokens, limit.per_second, int(tokens) + 1.0)


def parked(limit: Limit, now: Micros) -> Limit:
    """The limit with one more job that waits for it."""
    if has_rate(limit) and not is_shut(limit) and limit.wake_at is None:
        return replace(limit, wake_at=next_token(limit, now))
    return limit


def let_through(limit: Limit, now: Micros, *, waiting: bool, missed: bool = False) -> Limit:
    """Those for whom there is room may try again. While others still wait for a token, the next look is when it comes; when
    one was missed, because somebody held it, it is soon. A token that was waited for is put into the bucket: one of those
    who try again may do so by a clock that lags, and would find it empty, be parked, and be let through again for ever."""
    wake_at = next_token(limit, now) if has_rate(limit) and waiting and not is_shut(limit) else None
    if missed:
        wake_at = now + LOOK_AGAIN if wake_at is None else min(wake_at, now + LOOK_AGAIN)
    if has_rate(limit) and limit.wake_at is not None and limit.wake_at <= now:
        at = max(now, limit.refilled_at or 0)
        return replace(limit, wake_at=wake_at, tokens=tokens_at(limit, now), refilled_at=at)
    return limit if wake_at == limit.wake_at else replace(limit, wake_at=wake_at)


def is_overlooked(limit: Limit | None, now: Micros) -> bool:
    """Whether jobs wait for a key although there is room, and no claim is going to look at it by itself."""
    return room(limit, now) != 0 and (limit is None or limit.wake_at is None)


def declaration(change: PutLimit) -> str:
    return f"{change.max_used} {change.per_second} {change.burst} {change.weight}"


def is_news(limit: Limit | None, change: PutLimit) -> bool:
    """What a program says again is no reason to undo what a person changed since."""
    return limit is None or not change.declared or limit.declared != declaration(change)


def described(limit: Limit, change: PutLimit, now: Micros) -> Limit:
    """A limit after `PutLimit`. A bucket that is new is full; one that is changed keeps its tokens as far as they fit."""
    max_used, per_second, burst, weight = change.max_used, change.per_second, change.burst, change.weight
    if change.declared:
        limit = replace(limit, declared=declaration(change))
    if per_second is None:
        return replace(
            limit,
            max_used=max_used,
            weight=weight,
            per_second=None,
            burst=None,
            tokens=None,
            refilled_at=None,
            wake_at=None,
        )
    brim = max(burst if burst is not None else per_second, 1.0)
    tokens = min(tokens_at(limit, now), brim) if has_rate(limit) else brim
    at = max(now, limit.refilled_at or 0)
    return replace(
        limit, max_used=max_used, weight=weight, per_second=per_second, burst=brim, tokens=tokens, refilled_at=at
    )


def next_refill(limits: Iterable[Limit], now: Micros) -> Micros | None:
    """When a claim may find a token that it, or the parked jobs, found missing."""
    at = [limit.wake_at for limit in limits if limit.wake_at is not None]
    at += [
        next_token(limit, now) for limit in limits
        if caps(limit.key) and has_rate(limit) and not is_shut(limit) and tokens_at(limit, now) < 1
    ]  # fmt: skip
    return min(at, default=None)


# ------------------------------------------------------------------------------------------------------------------ claim


class Books:
    """The limits of one claim as they become while it grants: rows that are held, and what to write of them. A claim may
    take hundreds of permits, so what is free is kept at hand and a row is made once of all that was taken."""

    def __init__(self, now: Micros) -> None:
        self._now = now
        self._limits: dict[str, Limit] = {}  # without what was taken of those that have no rate
        self._before: dict[str, Limit] = {}
        self._free: dict[str, int | None] = {}
        self._taken: dict[str, int] = {}
        self._touched: set[str] = set()
        self._caps: dict[str, tuple[str, ...]] = {}  # by queue

    def open(self, limits: Iterable[Limit]) -> None:
        """Rows as they stand, which nobody else changes from here on."""
        self._caps.clear()
        for limit in limits:
            key = limit.key
            self._limits[key] = self._before[key] = limit
            self._free[key] = room(limit, self._now)
            self._taken[key] = 0

    def copy(self) -> Books:
        """To try what would become of them; nothing of it is written."""
        books = Books(self._now)
        books._limits.update(self._limits)
        books._free.update(self._free)
        books._taken.update(self._taken)
        return books

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._limits)

    def __contains__(self, key: str) -> bool:
        return key in self._limits

    def has_room(self, key: str) -> bool:
        return self._free[key] != 0

    def cap(self, queue: str) -> int | None:
        """How many more the queue may give."""
        rooms = [self._free[key] for key in self._caps_of(queue)]
        return min((free for free in rooms if free is not None), default=None)

    def admit(self, queue: str, keys: Sequence[str]) -> tuple[tuple[str, ...] | None, str | None]:
        """All permits of a job, or the key on which it is parked. Neither: its queue may give no more."""
        free = self._free
        if not free:
            return (), None
        caps = self._caps_of(queue)
        if any(free[key] == 0 for key in caps):
            return None, None
        mine = [key for key in keys if key in free]
        for key in mine:
            if free[key] == 0:
                self._change(key, parked(self._limits[key], self._now))
                return None, key
        mine += caps
        for key in mine:
            self._take(key)
        return tuple(mine), None

    def let_through(self, key: str, *, waiting: bool) -> None:
        """Of a limit with a rate: nobody else is let through now; while some wait for a token, when to look again."""
        if has_rate(self._limits[key]):
            self._change(key, let_through(self._limits[key], self._now, waiting=waiting))

    def changes(self) -> list[tuple[Limit, int]]:
        """Rows that are other than they were, each with how many permits were taken; in the order of keys. They count as
        written."""
        changed: list[tuple[Limit, int]] = []
        for key in sorted(self._touched):
            limit, before, count = self._limits[key], self._before[key], self._taken[key]
            if not has_rate(limit):
                limit = taken(limit, self._now, count)
            if limit != before:
                changed.append((limit, count))
            self._limits[key] = self._before[key] = limit
            self._taken[key] = 0
        self._touched.clear()
        return changed

    def _caps_of(self, queue: str) -> tuple[str, ...]:
        found = self._caps.get(queue)
        if found is None:
            found = self._caps[queue] = tuple(key for key in caps_of(queue) if key in self._limits)
        return found

    def _take(self, key: str) -> None:
        limit, free = self._limits[key], self._free[key]
        self._touched.add(key)
        self._taken[key] += 1
        if limit.per_second is not None:  # whose bucket is what became of it, token by token
            self._change(key, taken(limit, self._now))
        elif free is not None:
            self._free[key] = free - 1

    def _change(self, key: str, limit: Limit) -> None:
        if limit is not self._limits[key]:
            self._touched.add(key)
            self._limits[key] = limit
            self._free[key] = room(limit, self._now)
