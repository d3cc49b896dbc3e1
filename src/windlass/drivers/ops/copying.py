"""A store as one end of a copy: pages of its tables by key, rows put idempotently, the guard that refuses everybody else.

The guard is triggers that raise. They are made in the transaction that marks the store, and dropped in the one that ends
the mark: while there are none, nobody pays for them, and no write slips between the mark and the guard (docs/adr/0025).
They let pass whoever has put the key `copier` into `meta`. The copier removes it before it commits, so that nobody else
ever sees it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from windlass.copy_errors import CopyRefused
from windlass.core.copying import (
    IN,
    MOVED,
    OTHER_COPIER,
    OUT,
    SAYS,
    TABLES,
    Mark,
    Row,
    Table,
    canonical,
    decoded,
    encoded,
    filled_because,
    paused_because,
)
from windlass.core.duties import RecountLimits
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.duties import maintain
from windlass.drivers.statement import Op, Statement
from windlass.records import Finding
from windlass.types import Micros

Guard = Literal["claims", "writes"]
KEY: Final = "copier"
COUNTED: Final = tuple(table for table in TABLES if table.counted)


class Hand(ABC):
    """The steps of a copy that differ between kinds of stores."""

    mark: str  # of a parameter, before its number
    schema: str  # before the name of a table

    @abstractmethod
    def shown(self, name: str, kind: str) -> str:
        """A column as the value that it is on every store."""

    @abstractmethod
    def given(self, kind: str, parameter: str) -> str:
        """The other way round."""

    @abstractmethod
    def put(self, table: Table, rows: Sequence[Row]) -> Op[None]:
        """Store rows, but for those that are there."""

    @abstractmethod
    def hold_marks(self) -> Op[None]:
        """Prevent others from changing a mark until the transaction ends."""

    @abstractmethod
    def hold_all(self) -> Op[None]:
        """Prevent all other writes until the transaction ends, after waiting for those that are under way."""

    @abstractmethod
    def guard(self, kind: Guard, saying: str) -> Iterator[str]:
        """Statements that make what refuses."""

    @abstractmethod
    def unguard(self) -> Iterator[str]:
        """Statements that drop whatever refuses."""

    @abstractmethod
    def empty(self) -> Op[None]:
        """Forget all rows of all guarded tables, and where their sequences were."""

    @abstractmethod
    def last_number(self, table: Table) -> Op[int]:
        """The highest that the sequence of a table ever gave; 0 for none."""

    @abstractmethod
    def go_on_after(self, table: Table, number: int) -> Op[None]:
        """The sequence gives no number up to this one."""

    # ------------------------------------------------------------------------------------------------- put together here

    def ask(self, question: str, *params: object) -> Statement:
        """`{t}` stands for what is before a table's name, `{1}` for the first parameter."""
        marks = [f"{self.mark}{n}" for n in range(1, len(params) + 1)]
        return Statement(question.format("", *marks, t=self.schema), params)

    def page(self, table: Table, after: Row | None, limit: int) -> Statement:
        columns = ", ".join(self.shown(name, kind) for name, kind in table.columns)
        order, params = ", ".join(table.key), list[object]()
        tests = []
        if after is not None:
            params += after
            places = [
                self.given(kind, f"{self.mark}{n}") for n, kind in enumerate(table.key_kinds, 1)
            ]  # fmt: skip
            tests.append(f"({order}) > ({', '.join(places)})")
        tests += [_among(table)] if table.only else []
        where = f" where {' and '.join(tests)}" if tests else ""
        sql = f"select {columns} from {self.schema}{table.name}{where} order by {order} limit {int(limit)}"  # noqa: S608
        return Statement(sql, params)

    def last_key(self, table: Table) -> Statement:
        columns = ", ".join(self.shown(name, kind) for name, kind in table.columns[: len(table.key)])
        order = ", ".join(f"{name} desc" for name in table.key)
        where = f" where {_among(table)}" if table.only else ""
        return Statement(f"select {columns} from {self.schema}{table.name}{where} order by {order} limit 1", ())  # noqa: S608


def _among(table: Table) -> str:
    names = ", ".join(f"'{name}'" for name in table.only)
    return f"{table.key[0]} in ({names})"


# ------------------------------------------------------------------------------------------------------------- looking


def store_id(hand: Hand) -> Op[str]:
    return str((yield from value_of(hand, "store_id")))


def value_of(hand: Hand, key: str) -> Op[str | None]:
    rows = yield hand.ask("select value from {t}meta where key = {1}", key)
    return rows[0][0] if rows else None


def mark_of(hand: Hand, key: str) -> Op[Mark | None]:
    return decoded((yield from value_of(hand, key)))


def standing(hand: Hand) -> Op[list[Finding]]:
    """Whether the store takes part in a copy, for the doctor."""
    said = yield from value_of(hand, SAYS)
    if said is None:
        return []
    if said.startswith(MOVED):
        return [Finding("copy", "problem", said, "windlass copy SRC DST, to go on with it; --back, to give it up")]
    return [Finding("copy", "warning", said, "windlass copy SRC DST --dry-run")]


def page(hand: Hand, table: Table, after: Row | None, limit: int) -> Op[list[Row]]:
    return canonical(table, (yield hand.page(table, after, limit)))


def last_key(hand: Hand, table: Table) -> Op[Row | None]:
    rows = yield hand.last_key(table)
    return rows[0] if rows else None


def count(hand: Hand, table: Table) -> Op[int]:
    where = f" where {_among(table)}" if table.only else ""
    [(rows,)] = yield hand.ask(f"select count(*) from {{t}}{table.name}{where}")  # noqa: S608 - a name of ours
    return int(rows)


def filled(hand: Hand) -> Op[list[str]]:
    """The tables that hold rows which a copy would meet."""
    found = []
    for table in TABLES:
        where = f" where {_among(table)}" if table.only else ""
        [(there,)] = yield hand.ask(f"select exists (select 1 from {{t}}{table.name}{where})")  # noqa: S608 - a name of ours
        found += [table.name] if there else []
    return found


def leased(hand: Hand, now: Micros) -> Op[tuple[int, Micros]]:
    """How many jobs have a valid lease, and when the last of them ends."""
    until, at = hand.shown("lease_expires_at", "instant"), hand.given("instant", "{1}")
    [(jobs, last)] = yield hand.ask(
        f"select count(*), max({until}) from {{t}}jobs where state = 'running' and lease_expires_at > {at}",  # noqa: S608
        now,
    )
    return int(jobs), int(last or 0)


def last_numbers(hand: Hand) -> Op[dict[str, int]]:
    found = {}
    for table in COUNTED:
        found[table.name] = yield from hand.last_number(table)
    return found


# ----------------------------------------------------------------------------------------------------------- changing


def turn(
    hand: Hand, key: str, was: Mark | None, will_be: Mark | None, guard: tuple[Guard, str] | Literal["as it is"] | None
) -> Op[bool]:
    """Change the mark and the guard together, if the mark is what one believes; else nothing. Whose reply was lost asks
    once more, and finds it done."""
    yield from (hand.hold_marks() if guard == "as it is" else hand.hold_all())
    found = yield from value_of(hand, key)
    if found == encoded(will_be):
        return True
    if found != encoded(was):
        return False
    yield from remember(hand, key, encoded(will_be))
    if guard == "as it is":
        return True
    yield from remember(hand, SAYS, guard[1] if guard is not None else None)
    statements = [*hand.unguard(), *(hand.guard(*guard) if guard is not None else ())]
    for sql in statements:
        yield Statement(sql, ())
    return True


def remember(hand: Hand, key: str, value: str | None) -> Op[None]:
    yield hand.ask("delete from {t}meta where key = {1}", key)
    if value is not None:
        yield hand.ask("insert into {t}meta (key, value) values ({1}, {2})", key, value)


def drain(hand: Hand, mark: Mark) -> Op[bool]:
    """No more claims from now on, in any process."""
    return (yield from turn(hand, OUT, None, mark, ("claims", paused_because(mark.other))))


def move(hand: Hand, was: Mark, mark: Mark, now: Micros, *, abandon: bool) -> Op[bool]:
    """No more writes. `CopyRefused` when the mark is another; False while jobs run, unless those are to be abandoned.
    Nobody leads from then on, so that no duty that is under way drops what is being copied."""
    yield from hand.hold_all()
    if (yield from value_of(hand, OUT)) == encoded(mark):
        return True
    if not abandon and (yield from leased(hand, now))[0]:
        return False
    yield hand.ask("update {t}leader set worker_id = null, leader_until = null, epoch = epoch + 1")
    if not (yield from turn(hand, OUT, was, mark, ("writes", MOVED + mark.other))):
        raise CopyRefused(OTHER_COPIER)
    return True


def reopen(hand: Hand, was: Mark) -> Op[bool]:
    """End the mark of a source, so that the store is as it was before."""
    return (yield from turn(hand, OUT, was, None, None))


def receive(hand: Hand, was: Mark | None, mark: Mark) -> Op[list[str]]:
    """Begin to receive a copy: from now on only the copier writes. If tables are not empty, change nothing and return
    them."""
    yield from hand.hold_all()
    found = yield from filled(hand)
    if not found and not (yield from turn(hand, IN, was, mark, ("writes", filled_because(mark.other)))):
        raise CopyRefused(OTHER_COPIER)
    return found


def put(hand: Hand, table: Table, rows: Sequence[Row], copy_id: str) -> Op[None]:
    yield from _check_receiving(hand, copy_id)
    yield from remember(hand, KEY, "")
    yield from hand.put(table, rows)
    yield from remember(hand, KEY, None)


def clear(hand: Hand, was: Mark) -> Op[bool]:
    """Empty a target that was never opened, and leave it free for anybody."""
    yield from hand.hold_all()
    if (yield from value_of(hand, IN)) != encoded(was):
        return False
    yield from remember(hand, KEY, "")
    yield from hand.empty()
    for table in TABLES:
        for key in table.only:
            yield from remember(hand, key, None)
    yield from remember(hand, KEY, None)
    return (yield from turn(hand, IN, was, None, None))


def go_on_after(hand: Hand, numbers: dict[str, int], copy_id: str) -> Op[None]:
    yield from _check_receiving(hand, copy_id)
    for table in COUNTED:
        if numbers[table.name]:
            yield from hand.go_on_after(table, numbers[table.name])


def open_(hand: Hand, db: Dialect, was: Mark, mark: Mark, now: Micros) -> Op[bool]:
    """Make a target a store like any other. The permits that leases hold are counted again."""
    if not (yield from turn(hand, IN, was, mark, None)):
        return False
    yield from maintain(db, RecountLimits(), None, now)
    return True


def _check_receiving(hand: Hand, copy_id: str) -> Op[None]:
    """And stays so until the transaction ends: whoever gives the copy up meanwhile waits for that."""
    yield from hand.hold_marks()
    mark = yield from mark_of(hand, IN)
    if mark is None or mark.copy_id != copy_id or mark.phase != "receiving":
        raise CopyRefused(OTHER_COPIER)
