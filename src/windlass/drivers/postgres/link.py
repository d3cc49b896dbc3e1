"""One connection, used by one thread at a time: opened when it is needed, thrown away when it breaks.

Operations are generators of statements; `run` lets each statement commit by itself, `transact` puts all of them into one
transaction. Nothing here waits for ever: whoever holds a link may `abort` it from another thread, which ends the call that
is under way at once, whatever state the network is in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.abc import AdaptContext, Buffer, PQGen
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.waiting import Ready

from windlass.drivers.postgres.arrays import KINDS, Array, Texts, packed
from windlass.drivers.postgres.faults import Overdue, Taken
from windlass.drivers.postgres.opening import Opening
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.wire import Wire
from windlass.drivers.statement import Op, Row, Statement, T


def _dumper(kind: type, array_oid: int) -> type[Dumper]:
    class ArrayDumper(Dumper):
        oid = array_oid
        format = Format.BINARY

        def __init__(self, cls: type, context: AdaptContext | None = None) -> None:
            super().__init__(cls, context)
            self._encoding = self.connection.info.encoding if kind is Texts and self.connection is not None else "utf-8"

        def dump(self, obj: Array) -> Buffer:
            return packed(obj, self._encoding)

    ArrayDumper.__name__ = f"{kind.__name__}Dumper"
    return ArrayDumper


log: Final = logging.getLogger("windlass.postgres")
FEW: Final = 1  # rows, each of which may be a payload
MOST_CURSORS: Final = 50
_DUMPERS: Final = {kind: _dumper(kind, oid) for kind, oid in KINDS.items()}


def adapt(adapters: AdaptersMap) -> None:
    """Register how our parameters are written."""
    for kind, dumper in _DUMPERS.items():
        adapters.register_dumper(kind, dumper)
    adapters.register_dumper(int, Int8BinaryDumper)


class Exchange(NamedTuple):
    """A statement, as steps between which one waits for the server: a step answers for what."""

    link: Link
    text: str
    cursor: psycopg.Cursor[Row]
    steps: PQGen[None]

    def rows(self) -> list[Row]:
        return self.link.answer(self.text, self.cursor)


class Link:
    def __init__(
        self, place: Place, *, switches: bool = False, plain: bool = False, opened: Callable[[Link], None] | None = None
    ) -> None:
        """`opened` is called with every new connection, before anything else is. `plain`: somebody else's statements come
        this way too, so the session is as the server makes it, and the names of prepared statements are theirs."""
        self._place = place
        self._switches = switches
        self._plain = plain
        self._opened = opened
        self._aborted = False
        self._opening: Opening | None = None  # begun by a call that had to give up
        self._wire: Wire | None = None
        self._cursors: dict[str, psycopg.Cursor[Row]] = {}
        self._unheard: Exchange | None = None  # what was said, and nobody has waited for the answer
        self.connection: psycopg.Connection[Row] | None = None
        self.storing = False  # a change was sent, and its answer has not come

    def open(self) -> psycopg.Connection[Row]:
        self._aborted = False
        self.hear()
        if self.connection is None or self.connection.closed:
            self.close()
            self.storing = False
            connection = self._connected()
            self._wire = Wire(connection.fileno())
            self.connection = connection
            if self._opened is not None:
                self._opened(self)
        return self.connection

    @property
    def _prepares(self) -> bool:
        return not (self._place.pooled or self._plain)

    def _connected(self) -> psycopg.Connection[Row]:
        if self._opening is None:
            self._opening = Opening(self._place.parameters(switches=self._switches, plain=self._plain))
        opening, self._opening = self._opening, None
        try:
            return self._prepared(opening.go_on(lambda: self._aborted))
        except Overdue:
            self._opening = opening  # where the network is slow, the next call finds half of the way done
            raise

    def _prepared(self, connection: psycopg.Connection[Row]) -> psycopg.Connection[Row]:
        """As the statements of this driver want it."""
        connection.autocommit = True
        connection.prepare_threshold = 0 if self._prepares else None
        connection.cursor_factory = psycopg.RawCursor
        adapt(connection.adapters)
        return connection

    def execute(self, statement: Statement) -> list[Row]:
        self.open()
        text, cursor = self._for(statement)
        try:
            cursor.execute(text, statement.params, prepare=self._prepares)
        except psycopg.Error as error:
            told = self.understood(error)
            if told is error:
                raise
            raise told from error
        return self.answer(text, cursor)

    def _for(self, statement: Statement) -> tuple[str, psycopg.Cursor[Row]]:
        """Its text here, and a cursor: one that has said the same before knows how, which is half of its work."""
        assert self.connection is not None
        text = self._place.text(statement.sql)
        return text, self._cursors.pop(text, None) or self.connection.cursor(binary=True)

    def answer(self, text: str, cursor: psycopg.Cursor[Row]) -> list[Row]:
        """A cursor keeps its last answer, so that one with a long answer is not kept; nor on a session that others change,
        since it also remembers how texts are written there."""
        result = cursor.pgresult
        if result is None or result.status != ExecStatus.TUPLES_OK:  # not `description`: an object of each column
            return []
        rows = cursor.fetchall()
        if self._prepares and len(rows) <= FEW and len(self._cursors) < MOST_CURSORS:
            self._cursors[text] = cursor
        return rows

    def understood(self, error: Exception) -> Exception:
        """The error as operations know it."""
        if isinstance(error, psycopg.errors.UniqueViolation):
            return Taken(error.diag.constraint_name or "", error.diag.message_detail or "")
        return Overdue() if self._aborted and isinstance(error, psycopg.Error) else error

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, as far as is known without asking."""
        return self.connection is not None and not self.connection.closed and not self.was_cut

    @property
    def session(self) -> int:
        """The server's number of this connection."""
        assert self.connection is not None
        return self.connection.info.backend_pid

    def fileno(self) -> int:
        assert self.connection is not None
        return self.connection.fileno()

    def exchange(self, statement: Statement, *, prepares: bool = True) -> Exchange:
        """For whoever knows by other means when the server has answered."""
        text, cursor = self._for(statement)
        steps = cursor._execute_gen(text, statement.params, prepare=prepares and self._prepares)
        return Exchange(self, text, cursor, steps if self._unheard is None else self._after_hearing(steps))

    def speak(self, statement: Statement) -> None:
        """Without waiting for the answer: that is heard by whoever uses the connection next. Never prepared: that takes an
        answer first, and whether it was done before is the library's secret."""
        exchange = self.exchange(statement, prepares=False)
        next(exchange.steps)
        self._unheard = exchange

    def hear(self) -> None:
        """The answer to what was spoken, if there is one to come."""
        if self._unheard is not None and self.connection is not None:
            self.connection.wait(self._hear())

    def _hear(self) -> PQGen[None]:
        """Nobody minds what the answer was; if the connection is broken, the next statement meets that too."""
        assert self._unheard is not None
        exchange, self._unheard = self._unheard, None
        ready: Ready | int = Ready.R  # most likely it has come long ago
        try:
            while True:
                ready = yield exchange.steps.send(ready)
        except StopIteration:
            exchange.rows()
        except psycopg.Error as error:
            log.debug("what was said after a call was lost: %s", error)

    def _after_hearing(self, steps: PQGen[None]) -> PQGen[None]:
        """Until it was heard nothing is sent, and so nothing stored."""
        storing, self.storing = self.storing, False
        yield from self._hear()
        if not self.is_open:
            raise psycopg.OperationalError("the connection is lost")
        self.storing = storing
        yield from steps

    def read(self, op: Op[T]) -> T:
        """Changes nothing, so that a lost answer leaves nothing open."""
        self.open()
        self.storing = False
        return drive(op, self.execute)

    def run(self, op: Op[T]) -> T:
        """Every statement commits by itself."""
        self.open()
        self.storing = True
        try:
            return drive(op, self.execute)
        finally:
            self.storing = self.connection is None or self.connection.closed

    def transact(self, op: Op[T]) -> T:
        """All of it or nothing."""
        self.open()
        self.storing = False
        try:
            self.execute(BEGIN)
            result = drive(op, self.execute)
            self.storing = True
            self.execute(COMMIT)
            self.storing = False
            return result
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self.connection is None or self.connection.closed:
            return
        if self.connection.info.transaction_status != TransactionStatus.IDLE:
            with suppress(psycopg.Error, Overdue):
                self.execute(ROLLBACK)

    def abort(self) -> None:
        """Make the call that is under way fail now. From another thread."""
        self._aborted = True
        wire = self._wire
        if wire is not None:
            wire.cut()

    @property
    def was_cut(self) -> bool:
        """Whether this connection was aborted: it carries nothing any more, although nobody may have noticed yet."""
        return self._wire is not None and self._wire.was_cut

    def let_go(self) -> None:
        """The connection belongs to somebody else from now on, and cannot be aborted from here."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.let_go()

    def give_up(self) -> None:
        """Close for good, including what was begun for a later call."""
        self.close()
        if self._opening is not None:
            self._opening.close()

    def close(self) -> None:
        connection, self.connection = self.connection, None
        self._cursors.clear()
        unheard, self._unheard = self._unheard, None
        self.let_go()
        if connection is not None:
            with suppress(psycopg.Error):
                if unheard is not None:
                    connection.pgconn.consume_input()  # what nobody has read would make of the end a reset
                connection.close()


# Named, whatever the database or the role begins with: our statements look again after they had to wait for a lock, and
# must see then what they waited for.
BEGIN: Final = Statement("begin isolation level read committed", ())
COMMIT: Final = Statement("commit", ())
ROLLBACK: Final = Statement("rollback", ())


def drive(op: Op[T], execute: Callable[[Statement], Any]) -> T:
    """Run an operation to its end on a connection that blocks."""
    try:
        statement = next(op)
        while True:
            try:
                rows = execute(statement)
            except BaseException as error:
                statement = op.throw(error)
            else:
                statement = op.send(rows)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        op.close()
