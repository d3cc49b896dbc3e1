"""Dying at a chosen point of a worker's life: once, for real, with SIGKILL to itself (or SIGSTOP, to come back later).

Transactions are met through the lane's own hook on SQLite and at their COMMIT on PostgreSQL, where some operations are one
statement that commits by itself; the rest by standing around a method. The moment is told to the log first, so that
recovery can be measured from it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from windlass.core.alterations import Acquire, Alteration, Fire, Grant, ReleaseHold, Renew
from windlass.core.changes import Ack, Fail, Release, Settlement
from windlass.drivers.ops import people
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.postgres import keys as postgres_keys
from windlass.drivers.postgres import leases as postgres_leases
from windlass.drivers.postgres import settlement as postgres_settlement
from windlass.drivers.postgres.link import COMMIT, Link
from windlass.drivers.sqlite import SqliteDriver, jobs, leases, settlement
from windlass.drivers.sqlite.lane import Step
from windlass.drivers.sqlite.transactions import SqliteTransaction
from windlass.worker.holdings import Held
from windlass.worker.settler import Settler

from . import tasks

STOPPED_BY_NOW: Final = 0.5
Counts = Callable[[Any, Any], bool]  # (what was asked for, answer) -> this is the operation that is meant


def _hands_back(change: Settlement) -> bool:
    """A stopping worker's own doing: not what it recovers of others. A never-twice job is given to a successor instead."""
    return isinstance(change, Release | Fail) and not change.lapsed


def _took(answer: Any) -> bool:
    """PostgreSQL's claim also tells what it met."""
    return bool(answer[0] if isinstance(answer, tuple) else answer)


def _granted(wish: type[Alteration]) -> Counts:
    return lambda changes, answers: any(
        isinstance(change, wish) and answer == "applied" for change, answer in zip(changes, answers, strict=True)
    )


WISHES: Final[dict[str, type[Alteration]]] = {
    "fire": Fire, "acquire": Acquire, "grant": Grant, "renew": Renew, "give_back": ReleaseHold,
}  # fmt: skip
OPERATIONS: Final[dict[str, tuple[Any, str, Counts]]] = {
    "enqueue": (jobs, "enqueue", lambda new, answers: True),
    "claim": (leases, "claim", lambda wish, jobs: _took(jobs)),
    "extend": (leases, "extend", lambda asked, answers: any(answer.answer == "applied" for answer in answers)),
    "settle": (settlement, "settle", lambda changes, _: any(isinstance(change, Ack) for change in changes)),
    "release": (settlement, "settle", lambda changes, _: any(map(_hands_back, changes))),
    "failure": (settlement, "settle", lambda changes, _: any(map(_hands_back, changes))),
    "recovery": (settlement, "settle", lambda changes, _: any(change.lapsed for change in changes)),
    **{name: (people, "alter", _granted(wish)) for name, wish in WISHES.items()},
}  # fmt: skip
POSTGRES: Final[dict[str, list[tuple[Any, str, bool]]]] = {  # (module, name, whether it is one statement)
    "claim": [(postgres_leases, "claim_whole", False), (postgres_leases, "claim_at_once", True)],
    "extend": [(postgres_leases, "extend", True)],
    "settle": [(postgres_settlement, "settle_free", False), (postgres_settlement, "ack_at_once", True)],
    "release": [(postgres_settlement, "settle_free", False)],
    "failure": [(postgres_settlement, "settle_free", False)],
    "recovery": [(postgres_settlement, "settle_free", False)],
    "enqueue": [(postgres_keys, "enqueue", False)],  # of queues with dense positions, and of jobs with keys
    **{name: [(people, "alter", False)] for name in WISHES},
}
CALLS: Final[dict[str, tuple[Any, str]]] = {
    "before_handler": (Held, "begin"),
    "before_settle_is_sent": (Settler, "put"),
    "transaction:before_commit": (SqliteTransaction, "commit"),
}
AFTER: Final[dict[str, tuple[Any, str]]] = {"transaction:after_commit": (SqliteTransaction, "commit")}
LINES: Final[dict[str, str]] = {"inside_handler": "start", "inside_transaction": "done"}


def wrap(owner: Any, name: str, around: Callable[[Any], Any]) -> None:
    setattr(owner, name, around(getattr(owner, name)))


def die_at(point: str, number: signal.Signals = signal.SIGKILL) -> None:
    """Arm this process. A worker that is to die while it releases its jobs is told to stop once a handler has begun."""
    done: list[str] = []
    operation = point.partition(":")[0]
    driver = tasks.app.client.driver
    turn: AbstractContextManager[object] = nullcontext()
    if isinstance(driver, SqliteDriver) and operation not in OPERATIONS and number == signal.SIGSTOP:
        # Whoever is stopped while it writes keeps the only write lock of the file, and nobody could take anything over.
        turn = driver._writer._turn

    def die() -> None:
        if not done:
            done.append(point)
            with turn:
                tasks.tell("died", point)
                os.kill(os.getpid(), number)
                # Another thread may be the one that takes the signal, and until it has this one runs on: whoever gave up
                # the turn now could begin to write, and be stopped with the file's only write lock in its hands.
                time.sleep(STOPPED_BY_NOW)

    if operation in OPERATIONS:
        at_commit(driver, point, die)
        if operation == "release":
            _after_line("start", lambda: os.kill(os.getpid(), signal.SIGTERM))
    elif point == "before_duty":
        wrap(type(driver), "maintain", lambda real: _around(real, before=die))
    elif point in CALLS:
        wrap(*CALLS[point], lambda real: _around(real, before=die))
    elif point in AFTER:
        wrap(*AFTER[point], lambda real: _around(real, after=die))
    else:
        _after_line(LINES[point], die)


def at_commit(driver: Any, point: str, die: Callable[[], None]) -> None:
    """`operation:before_commit` or `operation:after_commit`."""
    operation, _, step = point.partition(":")
    if isinstance(driver, SqliteDriver):
        _at_commit(driver, OPERATIONS[operation], step, die)
    else:
        _at_commit_on_postgres(POSTGRES[operation], OPERATIONS[operation][2], step, die)


def _asked(args: Sequence[Any]) -> Any:
    """Of an operation's arguments, what it was asked for: the first, after the dialect where several stores share it."""
    return next(arg for arg in args if not isinstance(arg, Dialect))


def _nothing() -> None:
    pass


def _around(
    real: Callable[..., Any], before: Callable[[], None] = _nothing, after: Callable[[], None] = _nothing
) -> Callable[..., Any]:
    def observed(*args: Any, **kwargs: Any) -> Any:
        before()
        answer = real(*args, **kwargs)
        after()
        return answer

    return observed


def _at_commit(driver: SqliteDriver, operation: tuple[Any, str, Counts], step: str, die: Callable[[], None]) -> None:
    owner, name, counts = operation
    meant: list[bool] = []  # whether the present transaction holds the operation

    def around(real: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Generator[Any, Any, Any]]:
        def observed(*args: Any, **options: Any) -> Generator[Any, Any, Any]:
            answer = yield from real(*args, **options)
            if counts(_asked(args), answer):
                meant.append(True)
            return answer

        return observed

    def on_step(reached: Step) -> None:
        if reached == "begun":
            meant.clear()
        elif reached == step and meant:
            die()

    wrap(owner, name, around)
    driver._writer.on_step = on_step


def _at_commit_on_postgres(
    operations: list[tuple[Any, str, bool]], counts: Counts, step: str, die: Callable[[], None]
) -> None:
    present = threading.local()  # `meant`: whether this thread's transaction holds the operation

    def around(at_once: bool) -> Callable[[Any], Any]:
        def wrapped(real: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Generator[Any, Any, Any]]:
            def observed(*args: Any, **options: Any) -> Generator[Any, Any, Any]:
                if at_once and step == "before_commit":
                    die()
                answer = yield from real(*args, **options)
                if counts(_asked(args), answer):
                    if at_once:
                        die()
                    present.meant = True
                return answer

            return observed

        return wrapped

    def commits(real: Callable[..., Any]) -> Callable[..., Any]:
        def observed(self: Link, statement: Any) -> Any:
            meant = statement is COMMIT and getattr(present, "meant", False)
            if meant and step == "before_commit":
                die()
            answer = real(self, statement)
            if meant:
                die()
            return answer

        return observed

    for module, name, at_once in operations:
        wrap(module, name, around(at_once))
    wrap(Link, "execute", commits)


def _after_line(what: str, then: Callable[[], None]) -> None:
    def around(real: Callable[[str], None]) -> Callable[[str], None]:
        def told(said: str) -> None:
            real(said)
            if said == what:
                then()

        return told

    wrap(tasks, "write", around)
