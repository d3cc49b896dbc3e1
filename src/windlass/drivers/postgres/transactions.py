"""Transactions that hold a handler's own statements besides ours, on a connection of their own.

Each call runs in a savepoint. A commit whose answer is lost is looked up on another connection: what it stored is there,
or is not there although the server is done with it. Only when neither can be found out the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus

from windlass.clock import ticking
from windlass.core.admission_of_settlements import check_settlements
from windlass.core.changes import OUTCOME_OF, Answer, Cancelled, Settlement
from windlass.drivers.postgres import body, held, jobs, linking, settlement
from windlass.drivers.postgres.deadlines import Watch
from windlass.drivers.postgres.faults import Overdue, is_lost, translate
from windlass.drivers.postgres.lane import FIRST_PAUSE
from windlass.drivers.postgres.link import BEGIN, COMMIT, ROLLBACK, Link, drive
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.savepoints import guarded
from windlass.drivers.statement import Op, Row, Statement, T
from windlass.drivers.values import Enqueued
from windlass.errors import DriverClosed, DriverForked, InvalidInput, OutcomeUnknown, StoreUnreachable, TransactionOver
from windlass.types import Micros, NewJob

SPARES: Final = 4
XID: Final = Statement("select pg_current_xact_id_if_assigned()::text", ())
XACT_STATUS: Final = "select pg_xact_status($1::text::xid8)"
FAILED: Final = (
    "has failed: after a statement that failed PostgreSQL keeps nothing; put what may fail into "
    "`with tx.connection.transaction():`"
)

Stored = tuple[Sequence[NewJob], list[Enqueued], Micros]
Tell = Callable[[Sequence[Stored], Sequence[Settlement], bool], None]


class Held(Link):
    """A link that never changes its connection while a transaction is open on it."""

    in_use = False

    def __init__(self, place: Place) -> None:
        super().__init__(place, plain=True)

    def open(self) -> psycopg.Connection[Row]:
        if self.in_use and (self.connection is None or self.connection.closed):
            raise psycopg.OperationalError("the connection is closed")
        return super().open()

    @property
    def status(self) -> TransactionStatus:
        connection = self.connection
        return TransactionStatus.UNKNOWN if connection is None else connection.info.transaction_status


class Spares:
    """Connections of transactions that have ended, for those to come: opening one takes milliseconds."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._idle: list[Held] = []
        self._out: set[Held] = set()  # also so that a forked child never closes them
        self._closed = False
        self.watch: Final = Watch()  # of its own: a transaction may outlive the driver

    def check_open(self) -> None:
        if self._closed:
            raise DriverClosed

    def take(self, *, fresh: bool = False) -> Held:
        with self._lock:
            self.check_open()
            link = self._idle.pop() if self._idle and not fresh else Held(self._place)
            self._out.add(link)
        return link

    def give(self, link: Held) -> None:
        """Back, in the state of a new session; or closed when that cannot be."""
        if not self._reset(link):
            link.close()
        with self._lock:
            self._out.discard(link)
            keep = not self._closed and link.connection is not None and len(self._idle) < SPARES
            if keep:
                self._idle.append(link)
            done = self._closed and not self._out
        if not keep:
            link.close()
        if done:
            self.watch.close()

    def forget(self, link: Held) -> None:
        """Somebody still looks at it, and is told that it broke; then it goes by itself."""
        link.let_go()
        if link.connection is not None:
            body.detach(link.connection)
        with self._lock:
            self._out.discard(link)

    def _reset(self, link: Held) -> bool:
        if self._closed or self._place.pooled or link.status != TransactionStatus.IDLE:
            return False
        try:
            with self.watch.within(link, self._place.timeout):
                link.execute(Statement("discard all", ()))
        except (psycopg.Error, Overdue):
            return False
        return True

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            done = not self._out
        for link in idle:
            link.close()
        if done:
            self.watch.close()


class PostgresTransaction:
    def __init__(self, place: Place, spares: Spares, tell: Tell) -> None:
        """`tell` hears of what was stored, after the commit."""
        self._place, self._spares, self._tell = place, spares, tell
        self._pid = os.getpid()
        self._link: Held | None = None
        self._body: body.BodyConnection | None = None
        self._async_body: body.AsyncBodyConnection | None = None
        self._begun = False
        self._xid: str | None = None
        self._stored: list[Stored] = []
        self._settled: list[Settlement] = []
        self._releases = False  # others may be claimable with its end

    # ------------------------------------------------------------------------------------------ the caller's statements

    @property
    def connection(self) -> Any:
        """A `psycopg.Connection`."""
        if self._body is None:
            self._body = body.share(self._held().open().pgconn)
        return self._body

    @property
    def async_connection(self) -> Any:
        """A `psycopg.AsyncConnection`."""
        if self._async_body is None:
            self._async_body = body.share_async(self._held().open().pgconn)
        return self._async_body

    def turn(self) -> asyncio.Lock | None:
        lock: asyncio.Lock = self.async_connection.lock
        return lock

    # ------------------------------------------------------------------------------------------------------------- ours

    def begin(self) -> None:
        if self._begun:
            raise TransactionOver("has begun already" if self._link is not None else "has ended")
        self._check_process()
        self._spares.check_open()
        self._begun = True
        try:
            self._link = self._start()
        except (psycopg.Error, Overdue) as error:
            raise translate(error, self._place) from error

    def _start(self) -> Held:
        fresh = False
        while True:
            link = self._spares.take(fresh=fresh)
            used = link.connection is not None
            try:
                with self._spares.watch.within(link, self._place.timeout):
                    link.execute(BEGIN)
                link.in_use = True
                return link
            except BaseException as error:
                self._spares.give(link)
                if not used or not is_lost(error):
                    raise
                fresh = True  # it broke while nobody used it

    def enqueue(self, new: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        batch = tuple(new)
        self._held()
        jobs.check(batch, now)
        answers = self._run(linking.enqueue(batch, now, ours=False)) if batch else []
        self._stored.append((batch, answers, now))
        return answers

    def settle(self, change: Settlement, *, now: Micros) -> Answer:
        units = (change,)
        self._held()
        check_settlements(units, now)
        [answer] = self._run(settlement.ack_at_once(units, now)) if settlement.is_simple(units, now) else (None,)
        if answer is None:  # it is not so simple, or somebody holds the row
            self._releases = True
            [answer] = self._run(held.among_others(units, now, self._place.lock_timeout))
        if answer == "applied":
            self._settled.append(change)
        return answer

    def _run(self, op: Op[T]) -> T:
        link = self._held()
        try:
            with self._alone(), self._spares.watch.within(link, self._place.timeout):
                return drive(guarded(op), link.execute)
        except (OverflowError, UnicodeError) as error:
            raise InvalidInput("value", f"cannot be stored: {error}") from error
        except Exception as error:
            raise translate(error, self._place) from error

    def _alone(self) -> AbstractContextManager[object]:
        """No statement of the body is under way on another thread."""
        return nullcontext() if self._body is None else self._body.lock

    def commit(self) -> None:
        link = self._held()
        try:
            with self._alone(), self._spares.watch.within(link, self._place.timeout):
                [(self._xid,)] = link.execute(XID)
                link.storing = True
                link.execute(COMMIT)
                link.storing = False
        except Exception as error:
            lost = link.storing and is_lost(error)
            self.rollback()
            if not lost:
                raise translate(error, self._place) from error
            if not self._was_stored():
                raise StoreUnreachable(str(self._place), "the connection broke before the commit took effect") from error
        self.rollback()  # nothing is left to undo
        self._tell(self._stored, self._settled, self._releases)

    def rollback(self) -> None:
        self._begun = True
        link, self._link = self._link, None
        if link is None or self._pid != os.getpid():  # in a child the connection is the parent's
            return
        for shared in (self._body, self._async_body):
            if shared is not None:
                body.detach(shared)
        self._body = self._async_body = None
        if link.status == TransactionStatus.ACTIVE:  # a task of the body still waits for an answer on it
            with suppress(psycopg.Error, OSError):
                link.open().cancel_safe(timeout=self._place.timeout)  # the server would go on with it, and keep its locks
            link.abort()
            self._spares.forget(link)
            return
        if link.status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
            with suppress(psycopg.Error, Overdue), self._spares.watch.within(link, self._place.timeout):
                link.execute(ROLLBACK)
        link.in_use = False
        self._spares.give(link)

    def _held(self) -> Held:
        self._check_process()
        if self._link is None:
            raise TransactionOver("has ended" if self._begun else "has not begun")
        status = self._link.status
        if status == TransactionStatus.IDLE:  # what is written now would be stored at once, and alone
            raise TransactionOver("was ended by a statement of your own")
        if status == TransactionStatus.INERROR:
            raise TransactionOver(FAILED)
        if status == TransactionStatus.UNKNOWN:
            raise StoreUnreachable(str(self._place), "the connection broke, and the transaction with it")
        return self._link

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise DriverForked

    # --------------------------------------------------------------------------------------- when no answer was heard

    def _was_stored(self) -> bool:
        """Look until it is certain, or until time is over."""
        until, pause = ticking() + self._place.timeout, FIRST_PAUSE
        link = Held(self._place)
        try:
            while ticking() < until:
                try:
                    with self._spares.watch.within(link, until - ticking()):
                        found = drive(self._look(), link.execute)
                    if found is not None:
                        return found
                except (psycopg.Error, Overdue):
                    link.close()
                threading.Event().wait(pause)
                pause = min(2 * pause, 0.5)
        finally:
            link.close()
        raise OutcomeUnknown(str(self._place))

    def _look(self) -> Op[bool | None]:
        """Whether what we wrote is there; None = not yet to be said. Asked in this order: one that is over and was not
        there before may have ended in between."""
        if (yield from self._is_there()):
            return True
        [(said,)] = yield Statement(XACT_STATUS, (self._xid or "0",))
        if said == "in progress":
            return None
        if self._settled or any(not answer.existed for _, answers, _ in self._stored for answer in answers):
            there = yield from self._is_there()
            return None if said == "committed" and not there else there
        return {"committed": True, "aborted": False}.get(said)

    def _is_there(self) -> Op[bool]:
        if self._settled:
            change = self._settled[-1]
            seqs, _ = yield from settlement.addressed([change.handle])
            [guard] = (yield from settlement.guards_of(seqs)).values() or [None]
            ends = (OUTCOME_OF[type(change)], OUTCOME_OF[Cancelled])  # somebody's wish to cancel may have turned it
            return guard is not None and guard.last_token == change.token and guard.last_outcome in ends
        for new, answers, now in self._stored:
            fresh = [job for job, answer in zip(new, answers, strict=True) if not answer.existed]
            if fresh:
                return bool((yield from jobs.enqueued_before(fresh, now)))
        return False
