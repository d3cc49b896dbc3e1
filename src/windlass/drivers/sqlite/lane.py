"""One thread, one connection, one queue of commands: SQLite has a single writer, so give it one that never waits idle.

Commands that arrive while a transaction is being committed are gathered and share the next one (group commit): ten
callers cost one fsync instead of ten. A command is a function that makes an operation; should one of a group fail, the
group is rolled back and each command is run again alone, so that nobody pays for a neighbour's mistake.

Nothing is answered before it is committed. With `inline` there is no thread: the caller's thread does the work, which
is what a simulator wants.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal, NamedTuple

from windlass.drivers.sqlite.files import Identity
from windlass.drivers.sqlite.library import ERRORS, Connection, run, translate
from windlass.drivers.statement import Op, T
from windlass.errors import DriverClosed, DriverForked, InvalidInput

Begin = Literal["begin", "begin immediate"]
Step = Literal["begun", "before_commit", "after_commit"]
Make = Callable[[], Op[Any]]
GROUP_LIMIT: Final = 256
log: Final = logging.getLogger("windlass.sqlite")


class Command:
    """An operation, and the future of an event loop that its answer goes to."""

    __slots__ = ("answer", "error", "future", "loop", "make")

    def __init__(self, make: Make, loop: asyncio.AbstractEventLoop) -> None:
        self.make = make
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.answer: Any = None
        self.error: BaseException | None = None

    def deliver(self) -> None:
        if self.future.cancelled():
            return
        if self.error is None:
            self.future.set_result(self.answer)
        else:
            self.future.set_exception(self.error)


class Place(NamedTuple):
    """The file a lane works on, and how long it waits for the write lock (for the words of an error)."""

    path: str
    identity: Identity
    busy_s: float


class Lane:
    def __init__(
        self, name: str, connection: Connection, place: Place, *, begin: Begin, inline: bool = False,
        between: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self._connection = connection
        self._begin = begin
        self._place = place
        self._between = between  # housekeeping after each transaction
        self._closed = False
        self._pid = os.getpid()
        self._queue: SimpleQueue[Command | None] = SimpleQueue()
        self._lock = threading.Lock()
        self.on_step: Callable[[Step], None] | None = None  # tests kill the process here
        self._thread = None if inline else threading.Thread(target=self._loop, name=f"windlass-{name}", daemon=True)
        if self._thread is not None:
            self._thread.start()

    async def submit(self, make: Callable[[], Op[T]]) -> T:
        """Run an operation and answer once it is committed. A caller that is cancelled before its turn has changed
        nothing; one that is cancelled later may have: what it asked for is done, and nobody hears of it."""
        command = Command(make, asyncio.get_running_loop())
        self._send(command)
        answer: T = await command.future
        return answer

    def _send(self, command: Command) -> None:
        if self._pid != os.getpid():
            raise DriverForked
        with self._lock:  # a command is either refused here or answered, never left behind by a close
            if self._closed:
                raise DriverClosed
            if self._thread is not None:
                self._queue.put(command)
                return
            self._work([command])
        command.deliver()

    def close(self) -> None:
        """Finish what was sent. The connection stays its owner's to close."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._thread is not None:
                self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    # ------------------------------------------------------------------------------------------ on the lane's thread

    def _loop(self) -> None:
        while True:
            commands, last = self._gather()
            if commands:
                self._work(commands)
                _deliver(commands)
                self._housekeeping()
            if last:
                return

    def _gather(self) -> tuple[list[Command], bool]:
        """Wait for one command, then take whatever else is there. True = the lane was closed."""
        commands: list[Command] = []
        command = self._queue.get()
        try:
            while command is not None:
                if not command.future.cancelled():
                    commands.append(command)
                if len(commands) >= GROUP_LIMIT:
                    return commands, False
                command = self._queue.get_nowait()
        except Empty:
            return commands, False
        return commands, True

    def _work(self, commands: list[Command]) -> None:
        """A group that failed because one of its operations did is run again one by one. When the store itself refused
        (locked, full, gone), waiting for it once was enough."""
        culprit, error = self._transaction(commands)
        if culprit is None or len(commands) == 1:
            for command in commands:
                command.error = error
            return
        for command in commands:
            command.error = self._transaction([command])[1]

    def _transaction(self, commands: list[Command]) -> tuple[Command | None, BaseException | None]:
        """All commands in one transaction, or none and the reason why, with the command whose operation it was."""
        culprit: Command | None = None
        try:
            self._place.identity.check()
            self._connection.execute(self._begin)
            self._step("begun")
            for command in commands:
                culprit = command
                command.answer = run(self._connection, command.make())
            culprit = None
            self._step("before_commit")
            self._connection.execute("commit")
            self._step("after_commit")
        except BaseException as error:
            self._roll_back()
            if self._thread is None and not isinstance(error, Exception):
                raise  # a KeyboardInterrupt in the caller's own thread is the caller's
            return culprit, self._told(error)
        return None, None

    def _told(self, error: BaseException) -> BaseException:
        """Foreign exceptions do not leave the driver."""
        told: BaseException = error
        if isinstance(error, ERRORS):
            told = translate(error, self._place.path, self._place.busy_s)
        elif isinstance(error, OverflowError | UnicodeError):
            told = InvalidInput("value", f"cannot be stored: {error}")
        if told is not error:
            told.__cause__ = error
        return told

    def _roll_back(self) -> None:
        with suppress(*ERRORS):  # then SQLite has rolled back by itself; nothing of the transaction is stored either way
            if self._connection.in_transaction():
                self._connection.execute("rollback")

    def _housekeeping(self) -> None:
        if self._between is not None:
            try:
                self._between()
            except Exception:
                log.exception("housekeeping of %s failed; it is tried again later", self._place.path)

    def _step(self, step: Step) -> None:
        if self.on_step is not None:
            self.on_step(step)


def _deliver(commands: list[Command]) -> None:
    """Answers of one group go to each event loop in one call."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Command]] = defaultdict(list)
    for command in commands:
        by_loop[command.loop].append(command)
    for loop, group in by_loop.items():
        with suppress(RuntimeError):  # that loop is closed, and with it whoever waited
            loop.call_soon_threadsafe(_deliver_all, group)


def _deliver_all(commands: list[Command]) -> None:
    for command in commands:
        command.deliver()
