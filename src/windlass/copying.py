"""`windlass copy`: everything that a live store holds moves to another, and both know at each moment how far it is.

Claims on the source stop; jobs that run are waited for; then the source refuses every write and says where it has moved;
its tables are copied, compared, and the target opens. Whoever is killed at any point is followed by the same command, which
goes on where the target ends: rows come in the order of their key, so the last one there says it all. Until the source is
handed over, `give_up` makes it what it was.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from windlass.clock import SECOND, ticking
from windlass.copy_errors import CopyRefused
from windlass.core.copying import (
    FRESH,
    OTHER_COPIER,
    TABLES,
    Digest,
    Mark,
    Refusal,
    Step,
    Table,
    is_fresh,
    next_step,
    weight,
)
from windlass.drivers.copying import End
from windlass.drivers.statement import T
from windlass.errors import StoreBusy, WindlassError
from windlass.types import Micros
from windlass.wording import are

FIRST_PAGE: Final = 50  # rows; more when they prove to be small
LARGEST_PAGE: Final = 2_000
PAGE_BYTES: Final = 4 << 20
LOOK_EVERY: Final = 0.2  # seconds, at what still runs
SAY_EVERY: Final = FRESH / SECOND / 5
TRIES: Final = 6  # for the moment in which nobody writes


class Copied(Struct, frozen=True):
    table: str
    rows: int
    digest: str  # the same on both sides


class Report(Struct, frozen=True, kw_only=True):
    source: str
    target: str
    tables: tuple[Copied, ...]
    rows: int
    resumed: bool  # a copy that was begun before was gone on with
    abandoned: int = 0  # jobs that still ran, whose leases lapse on the target
    moved_before: bool = False  # all was done already


class Plan(Struct, frozen=True, kw_only=True):
    """What a copy would do."""

    source: str
    target: str
    step: str
    may: bool
    rows: dict[str, int]
    running: int


class Show(Protocol):
    """Who watches is told. `total` is what a phase comes to, where that is known."""

    def phase(self, what: str, total: int = 0) -> None: ...
    def done(self, rows: int) -> None: ...


class Copy:
    def __init__(
        self, source: End, target: End, show: Show, *, wait: Micros = 300 * SECOND, abandon: bool = False,
        sleep: Callable[[float], None] = time.sleep, owner: str | None = None,
    ) -> None:  # fmt: skip
        self._source, self._target = source, target
        self._show = show
        self._wait = wait
        self._abandon = abandon
        self._sleep = sleep
        self._owner = owner or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._mark: Mark | None = None  # of the source, as we last wrote it
        self._said_at = 0.0
        self._abandoned = 0
        self._tables: tuple[Copied, ...] | None = None  # once they were compared

    # ------------------------------------------------------------------------------------------------------------ looking

    def plan(self) -> Plan:
        """Changes nothing."""
        step = self._next()
        mark = self._source.source_mark()
        if step == "begin" and (found := self._in_the_way()):
            step = Refusal(not_empty(found))
        elif not isinstance(step, Refusal) and mark is not None and self._is_at_work(mark):
            step = Refusal(f"another copier is at work: {mark.owner}")
        may, told = (False, step.why) if isinstance(step, Refusal) else (True, step)
        return Plan(
            source=self._source.where, target=self._target.where, step=told, may=may, rows=self._source.counts(),
            running=self._source.leased()[0],
        )  # fmt: skip

    def _next(self) -> Step | Refusal:
        source_id, target_id = self._source.store_id(), self._target.store_id()
        if source_id == target_id:
            return Refusal("source and target are the same store")
        filling, leaving = self._source.target_mark(), self._target.source_mark()
        if filling is not None and filling.phase == "receiving":
            return Refusal(f"the source is itself being filled, from {filling.other}")
        if leaving is not None:
            return Refusal(f"the target has itself moved, or is about to, to {leaving.other}")
        return next_step(self._source.source_mark(), self._target.target_mark(), target_id, source_id)

    def _in_the_way(self) -> list[str]:
        """Tables of the target that hold something, unless that is of a copy from here which was given up."""
        mark = self._target.target_mark()
        return [] if mark is not None and mark.phase == "receiving" else self._target.filled()

    def _is_at_work(self, mark: Mark) -> bool:
        host, _, rest = mark.owner.partition(":")
        if mark.owner == self._owner or not is_fresh(mark, self._source.now()):
            return False
        return host != socket.gethostname() or _is_alive(int(rest.partition(":")[0]))

    # ------------------------------------------------------------------------------------------------------------ copying

    def run(self) -> Report:
        """All of it, from wherever an earlier one ended."""
        resumed = self._source.source_mark() is not None
        try:
            while True:
                step = self._next()
                if isinstance(step, Refusal):
                    raise CopyRefused(step.why)
                if step not in ("begin", "done"):
                    self._take_over()
                match step:
                    case "begin":
                        self._begin()
                    case "clear" | "receive":
                        self._or_reopen(self._clear if step == "clear" else self._receive)
                    case "drain":
                        self._drain()
                    case "copy":
                        self._copy()
                    case "open":
                        tables = self._tables or self._verified()
                        self._open()
                        return self._report(tables, resumed=resumed)
                    case "done":
                        return self._report((), resumed=True, moved_before=True)
        finally:
            self._leave()

    def _report(self, tables: tuple[Copied, ...], *, resumed: bool, moved_before: bool = False) -> Report:
        rows = sum(one.rows for one in tables)
        return Report(
            source=self._source.where, target=self._target.where, tables=tables, rows=rows, resumed=resumed,
            abandoned=self._abandoned, moved_before=moved_before,
        )  # fmt: skip

    def _begin(self) -> None:
        """Claims stop."""
        if found := self._in_the_way():
            raise CopyRefused(not_empty(found))
        mark = Mark(
            copy_id=secrets.token_hex(8), phase="draining", other=self._target.where, other_id=self._target.store_id(),
            owner=self._owner, seen_at=self._source.now(),
        )  # fmt: skip
        self._show.phase("pausing claims")
        if not self._when_free(lambda: self._source.drain(mark)):
            raise CopyRefused("another copier has just begun; look with --dry-run")
        self._mark, self._said_at = mark, ticking()

    def _or_reopen(self, begin: Callable[[], None]) -> None:
        """Claims must not wait for a target that cannot take part: before it receives there is nothing to go on with."""
        try:
            begin()
        except BaseException:
            target = None  # also where it does not say: whoever begins anew clears it
            with suppress(WindlassError):
                target = self._target.target_mark()
            if self._mark is not None and (target is None or target.copy_id != self._mark.copy_id):
                with suppress(WindlassError):
                    self._reopen()
            raise

    def _clear(self) -> None:
        """Left by a copy that was given up while the target could not be reached."""
        mark = self._target.target_mark()
        assert mark is not None, "it was there a moment ago"
        self._show.phase("emptying the target")
        self._when_free(lambda: self._target.clear(mark))

    def _receive(self) -> None:
        assert self._mark is not None
        mark = Mark(
            copy_id=self._mark.copy_id, phase="receiving", other=self._source.where, other_id=self._source.store_id()
        )
        before = self._target.target_mark()  # of an earlier copy that was done
        found = self._when_free(lambda: self._target.receive(before, mark))
        if found:
            self._reopen()
            raise CopyRefused(not_empty(found))

    def _drain(self) -> None:
        """Wait for the jobs that run, then let nobody write any more."""
        assert self._mark is not None
        running, _ = self._source.leased()
        self._show.phase("waiting for running jobs", running)
        until = ticking() + self._wait / SECOND
        while running and ticking() < until:
            self._sleep(LOOK_EVERY)
            self._say()
            left, _ = self._source.leased()
            self._show.done(max(running - left, 0))
            running = left
        if running and not self._abandon:
            target = self._target.target_mark()
            self._reopen()
            if target is not None:
                self._when_free(lambda: self._target.clear(target))
            raise CopyRefused(
                f"{are(running, 'job')} still running after {self._wait / SECOND:g} s; nothing was copied, claims go on. "
                "Wait longer: --wait 1h. Or --abandon them: their leases lapse on the target, where they are recovered"
            )
        was, mark = self._mark, replace(self._mark, phase="moved", seen_at=self._source.now())
        if self._when_free(lambda: self._source.move(was, mark, abandon=self._abandon)):
            self._mark, self._abandoned = mark, running

    def _copy(self) -> None:
        """Whatever the target does not have; then what both have is compared, and the source is handed over."""
        assert self._mark is not None
        counts = self._source.counts()
        self._show.phase("copying", sum(counts.values()))
        for table in TABLES:
            self._copy_table(table)
        numbers = self._source.last_numbers()
        self._target.go_on_after(numbers, self._mark.copy_id)
        self._tables = self._verified()
        self._turn_to(replace(self._mark, phase="handed", seen_at=self._source.now()))

    def _copy_table(self, table: Table) -> None:
        assert self._mark is not None
        after, limit = self._target.last_key(table), FIRST_PAGE
        if after is not None:
            self._show.done(self._target.count(table))
        while rows := self._source.page(table, after, limit):
            self._say()
            self._target.put(table, rows, self._mark.copy_id)
            self._show.done(len(rows))
            after, limit = table.key_of(rows[-1]), next_limit(len(rows), weight(rows))

    def _verified(self) -> tuple[Copied, ...]:
        """Both sides, read again from end to end. `CopyRefused` where they differ."""
        source, target = self._source.counts(), self._target.counts()
        self._show.phase("comparing", sum(source.values()))
        done, wrong = list[Copied](), list[str]()
        for table in TABLES:
            if source[table.name] != target[table.name]:
                wrong.append(f"{table.name} ({source[table.name]:,} rows against {target[table.name]:,})")
                continue
            ours, theirs = self._digest(self._source, table), self._digest(self._target, table)
            if (ours.rows, ours.text) != (theirs.rows, theirs.text):
                wrong.append(f"{table.name} ({ours.text[:12]} against {theirs.text[:12]})")
            done.append(Copied(table.name, ours.rows, ours.text))
        here, there = self._source.last_numbers(), self._target.last_numbers()
        wrong += [f"the sequence of {name}" for name, number in here.items() if there[name] < number]
        if wrong:
            raise CopyRefused(
                f"the two stores differ: {'; '.join(wrong)}. The target stays closed; give the copy up with --back"
            )
        return tuple(done)

    def _digest(self, end: End, table: Table) -> Digest:
        digest, after, limit = Digest(), None, FIRST_PAGE
        while rows := end.page(table, after, limit):
            digest.add(rows)
            if end is self._target:
                self._show.done(len(rows))
            after, limit = table.key_of(rows[-1]), next_limit(len(rows), weight(rows))
            self._say()
        return digest

    def _open(self) -> None:
        mark = self._target.target_mark()
        assert mark is not None, "it was there a moment ago"
        self._show.phase("opening the target")
        self._when_free(lambda: self._target.open(mark, replace(mark, phase="opened")))

    # ----------------------------------------------------------------------------------------------------------- giving up

    def give_up(self, *, reachable: bool = True) -> bool:
        """The source is what it was, the target empty. False when there was nothing to give up. `reachable`: else the
        target is left alone, and stays closed until a copy of this source to it begins anew."""
        mark = self._source.source_mark()
        target = self._target.target_mark() if reachable else None
        if mark is not None:
            if mark.phase == "handed":
                raise CopyRefused(
                    "the source was handed over, and the target may have opened; finish it with the same command without "
                    "--back, and copy the target to a new store to go back"
                )
            if self._is_at_work(mark):
                raise CopyRefused(f"another copier is at work: {mark.owner}; end it first")
            self._mark = mark
            self._reopen()
        left = target is not None and target.phase == "receiving" and target.other_id == self._source.store_id()
        if left and target is not None:
            self._when_free(lambda: self._target.clear(target))
        return mark is not None or left

    def _reopen(self) -> None:
        was = self._mark
        assert was is not None
        if not self._when_free(lambda: self._source.reopen(was)):
            raise CopyRefused("another copier has gone on meanwhile; look with --dry-run")
        self._mark = None

    # -------------------------------------------------------------------------------------------------------------- owning

    def _take_over(self) -> None:
        if self._mark is not None:
            return
        mark = self._source.source_mark()
        assert mark is not None, "it was there a moment ago"
        if self._is_at_work(mark):
            age = (self._source.now() - mark.seen_at) / SECOND
            raise CopyRefused(
                f"another copier is at work: {mark.owner}, heard of {age:.0f} s ago; should it be gone, try again in "
                f"{FRESH / SECOND:.0f} s"
            )
        self._mark = mark
        self._turn_to(replace(mark, owner=self._owner, seen_at=self._source.now()))

    def _say(self) -> None:
        """That we are at work, every now and then; to hear whether it still is ours to do."""
        if self._mark is not None and ticking() - self._said_at > SAY_EVERY:
            self._turn_to(replace(self._mark, seen_at=self._source.now()))

    def _turn_to(self, mark: Mark) -> None:
        was = self._mark
        assert was is not None
        if not self._source.say(was, mark):
            raise CopyRefused(OTHER_COPIER)
        self._mark, self._said_at = mark, ticking()

    def _leave(self) -> None:
        """The next one need not wait to see that we are gone."""
        mark, self._mark = self._mark, None
        if mark is not None and mark.owner:
            with suppress(WindlassError):
                self._source.say(mark, replace(mark, owner=""))

    def _when_free(self, change: Callable[[], T]) -> T:
        """What has to wait for a moment in which nobody writes may come in the way of a long transaction."""
        for _ in range(TRIES - 1):
            try:
                return change()
            except StoreBusy:
                self._show.phase("waiting for a long transaction")
                self._sleep(LOOK_EVERY)
        return change()


def not_empty(tables: list[str]) -> str:
    return f"the target is not empty ({', '.join(tables)}); name a store that holds nothing yet"


def next_limit(rows: int, size: int) -> int:
    """Of a page after one that was so large: at most twice as many rows, and about so many bytes."""
    return max(1, min(LARGEST_PAGE, 2 * rows, rows * PAGE_BYTES // max(size, 1)))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
