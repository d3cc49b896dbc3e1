"""Operations on real connections, statement by statement, through every interleaving.

A *side* is one connection that is driven through a program: an operation, or several, as a generator of statements. Who
goes next is chosen after every statement; a side that waits for a lock is found out by asking the server, and the others
go on. `every` tries all choices, one after the other, from the same rows each time.

Two orders that nobody can tell apart are tried once: a plain read commutes with everything that others cannot see yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import psycopg

from windlass.drivers.postgres.faults import Taken
from windlass.drivers.postgres.link import BEGIN, COMMIT, ROLLBACK, Link, drive
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.schema import migrate
from windlass.drivers.statement import Block, Op, Row, Statement, T

Program = Generator[Statement, list[Row], Any]

TABLES = (
    "jobs", "runs", "groups", "limits", "shares", "queues", "idempotency_keys", "workers", "leader", "usage_hourly",
    "usage_daily", "reservations", "api_tokens", "templates", "schedules", "dependencies", "webhooks", "outbox",
    "deliveries",
)  # fmt: skip
EMPTIED = (*TABLES, "audit")  # which nobody may write into as it was
MOMENT = 0.004  # how long a statement may take before anybody asks whether it waits
LOCKS = re.compile(r"\bpg_(locks|advisory)")  # looked at, or taken: seen by others who look
WRITES = re.compile(r"\b(insert into|update windlass|delete from)\b")

UNBEGUN: Final = "delete from windlass.meta where key = 'retention_place'"  # which the first bite under its rules writes

ALL: Final = bool(os.environ.get("WINDLASS_ALL_ORDERS"))  # `make test-all` and planted bugs
FEW: Final = 30


def transaction(op: Op[T]) -> Op[T]:
    """As `Link.transact` does it."""
    yield BEGIN
    result = yield from op
    yield COMMIT
    return result


def before(block: Block, op: Op[T], meanwhile: Callable[[], None]) -> Op[T]:
    """The same operation; others do something when it comes to a statement."""
    answer: Any = None
    while True:
        try:
            statement = op.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        if statement.sql == block.sql:
            meanwhile()
        answer = yield statement


class Side:
    def __init__(self, name: str, number: int, link: Link, program: Program) -> None:
        self.name, self.number = name, number
        self.link = link
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = self.waited = False
        self.pending: Future[list[Row]] | None = None
        self._program = program
        self._inside = False
        self.next: Statement | None = None
        self._advance(lambda: next(program))

    def is_visible(self) -> bool:
        """Whether others may notice that the next statement was executed (but for its locks)."""
        sql = self._text()
        return sql == "commit" or "pg_locks" in sql or (not self._inside and WRITES.search(sql) is not None)

    def is_read(self) -> bool:
        sql = self._text()
        if WRITES.search(sql) or LOCKS.search(sql):
            return False
        return sql != "commit" and "for no key update" not in sql and "for update" not in sql and "lock table" not in sql

    def _text(self) -> str:
        return "" if self.next is None else self.next.sql

    def start(self, pool: ThreadPoolExecutor) -> None:
        assert self.next is not None
        self.pending = pool.submit(self.link.execute, self.next)

    def absorb(self) -> None:
        """Take the answer of the statement that has ended, and come to the next one."""
        assert self.pending is not None
        future, self.pending = self.pending, None
        try:
            rows = future.result()
        except (Taken, psycopg.Error) as error:
            refusal = error
            self._advance(lambda: self._program.throw(refusal))
        else:
            if self._text() == "commit":
                self._inside = False
            self._advance(lambda: self._program.send(rows))

    def _advance(self, step: Callable[[], Statement]) -> None:
        try:
            self.next = step()
            if self.next is BEGIN:  # which nobody can notice
                self._inside = True
                self.link.execute(BEGIN)
                self.next = self._program.send([])
        except StopIteration as stop:
            self.result, self.done, self.next = stop.value, True, None
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.error, self.done, self.next = error, True, None
        self.roll_back()

    def roll_back(self) -> None:
        self._program.close()
        if self._inside:
            self.link.execute(ROLLBACK)
            self._inside = False


@dataclass
class Choice:
    options: int
    taken: int = 0


@dataclass
class Outcome:
    """What one interleaving came to."""

    sides: Mapping[str, Side]
    story: list[str]
    failed: bool = False

    def __getitem__(self, name: str) -> Any:
        side = self.sides[name]
        assert side.error is None, f"{name}: {side.error!r}\n{self}"
        return side.result

    def error(self, name: str) -> BaseException | None:
        return self.sides[name].error

    def waited(self, name: str) -> bool:
        return self.sides[name].waited

    def __str__(self) -> str:
        return "\n".join(self.story)


@dataclass
class Stage:
    """A schema with rows, and as many connections as sides need."""

    dsn: str
    schema: str
    links: list[Link] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.place = Place(f"{self.dsn}?options=-c%20deadlock_timeout%3D50ms", self.schema, "none", 20.0)
        self.own = Link(self.place)
        migrate(self.place)
        self.pool = ThreadPoolExecutor(max_workers=4)

    def close(self) -> None:
        self.pool.shutdown()
        for link in (self.own, *self.links):
            link.close()

    # ------------------------------------------------------------------------------------------------------------ rows

    def do(self, op: Op[T]) -> T:
        """An operation at once, in a transaction of its own."""
        return self.own.transact(op)

    def ask(self, sql: str, *params: Any) -> list[Row]:
        return self.own.execute(Statement(sql, params))

    def run(self, sql: str) -> None:
        self.own.open().execute(self.place.text(sql).encode(), prepare=False)

    def clear(self) -> None:
        rest = "delete from windlass.meta where key = 'usage_watermark'"
        self.run(self._without_triggers([rest, UNBEGUN, *(f"delete from windlass.{table}" for table in EMPTIED)]))

    def save(self) -> None:
        """Keep the rows as they are now: every interleaving begins with them."""
        [filled] = self.ask("select " + ", ".join(f"exists (select from windlass.{table})" for table in TABLES))
        kept = [table for table, there in zip(TABLES, filled, strict=True) if there]
        self.run("; ".join(
            f"drop table if exists windlass.saved_{table}; create table windlass.saved_{table} as table windlass.{table}"
            for table in kept
        ))  # fmt: skip
        self._restore = self._without_triggers(
            [UNBEGUN, *(f"delete from windlass.{table}" for table in EMPTIED)]
            + [f"insert into windlass.{table} overriding system value table windlass.saved_{table}" for table in kept]
        )

    def restore(self) -> None:
        self.run(self._restore)

    def _without_triggers(self, statements: Sequence[str]) -> str:
        return f"begin; set local session_replication_role = replica; {'; '.join(statements)}; commit"

    # -------------------------------------------------------------------------------------------------- interleavings

    def every(self, programs: Callable[[], Mapping[str, Program]], *, most: int = 600) -> Iterator[Outcome]:
        """Each interleaving of the programs, from the rows as they are now; of many, unless ALL are wanted, the first ones
        and as many drawn at random."""
        self.save()
        trail: list[Choice] = []
        for number in range(most):
            if number == FEW and not ALL:
                yield from self._drawn(programs, FEW, Random(number))
                return
            self.restore()
            outcome = self.play(programs(), trail)
            if not outcome.failed:
                yield outcome
            while trail and trail[-1].taken == trail[-1].options - 1:
                trail.pop()
            if not trail:
                return
            trail[-1].taken += 1
        raise AssertionError(f"more than {most} interleavings: make the programs shorter")

    def some(self, programs: Callable[[], Mapping[str, Program]], *, rounds: int, seed: int) -> Iterator[Outcome]:
        """Interleavings drawn at random, where there are too many to try each."""
        self.save()
        yield from self._drawn(programs, rounds, Random(seed))

    def _drawn(self, programs: Callable[[], Mapping[str, Program]], rounds: int, random: Random) -> Iterator[Outcome]:
        for _ in range(rounds):
            self.restore()
            yield self.play(programs(), [], random)

    def play(self, programs: Mapping[str, Program], trail: list[Choice], random: Random | None = None) -> Outcome:
        """Along the choices of the trail, then always the first that is left; the trail is written on. Or at random."""
        sides = self.sides(programs)
        outcome = Outcome({side.name: side for side in sides}, [])
        depth, last = 0, None
        while not all(side.done for side in sides):
            ready = [side for side in sides if not side.done and side.pending is None]
            options = [side for side in ready if random or last is None or not _same_as_swapped(last, side)]
            if not ready:
                wait([side.pending for side in sides if side.pending], return_when=FIRST_COMPLETED)
                self._gather(sides)
                continue
            if not options:
                outcome.failed = True  # tried already, in another order
                break
            if depth == len(trail):
                trail.append(Choice(len(options), random.randrange(len(options)) if random else 0))
            side = options[trail[depth].taken]
            depth += 1
            last = self._step(side, sides, outcome)
        self._end(sides)
        return outcome

    def _step(self, side: Side, sides: Sequence[Side], outcome: Outcome) -> tuple[int, bool, bool] | None:
        what = (side.number, side.is_read(), side.is_visible())
        waiting = any(other.pending for other in sides)
        outcome.story.append(f"{side.name}: {side._text()[:90]!r}")
        side.start(self.pool)
        self._gather(sides)
        if side.pending is not None:
            side.waited = True
            outcome.story.append(f"{side.name} waits")
        return None if waiting or side.pending is not None else what

    def sides(self, programs: Mapping[str, Program]) -> list[Side]:
        while len(self.links) < len(programs):
            link = Link(self.place)
            link.open()
            self.links.append(link)
        return [
            Side(name, number, link, program)
            for number, ((name, program), link) in enumerate(zip(programs.items(), self.links, strict=False))
        ]

    def _gather(self, sides: Sequence[Side]) -> None:
        """Until every statement under way has ended or waits for somebody. A side that waited before is asked about as soon
        as another has ended: whatever that one gave back, it gave back before it answered."""
        while True:
            under_way = [side for side in sides if side.pending is not None]
            wait([side.pending for side in under_way if side.pending], MOMENT, FIRST_COMPLETED)
            for side in under_way:
                if side.pending and side.pending.done():
                    side.absorb()
            left = [side for side in under_way if side.pending is not None]
            if all(self._is_blocked(side) for side in left):
                return

    def _is_blocked(self, side: Side) -> bool:
        connection = side.link.connection
        assert connection is not None
        [(blocked,)] = self.ask("select cardinality(pg_blocking_pids($1::int)) > 0", connection.info.backend_pid)
        return bool(blocked)

    def _end(self, sides: Sequence[Side]) -> None:
        for side in sides:
            if side.pending is None and not side.done:
                side.roll_back()
        for side in sides:
            if side.pending is not None:
                wait([side.pending])
                side.absorb()
                if not side.done:
                    side.roll_back()


def _same_as_swapped(last: tuple[int, bool, bool], side: Side) -> bool:
    number, was_read, was_visible = last
    if number <= side.number:
        return False
    return (was_read and not side.is_visible()) or (side.is_read() and not was_visible)


@contextmanager
def staged(dsn: str, schema: str) -> Iterator[Stage]:
    stage = Stage(dsn, schema)
    try:
        yield stage
    finally:
        with suppress(psycopg.Error):
            stage.close()


__all__ = ["Outcome", "Stage", "before", "drive", "staged", "transaction"]
