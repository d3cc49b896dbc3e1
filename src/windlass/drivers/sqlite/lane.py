"""One thread, one connection, one queue of commands: SQLite has a single writer, so give it one that never waits idle.

Commands that arrive while a transaction is being committed are gathered and share the next one (group commit): ten
callers cost one fsync instead of ten. A command is a function that makes an operation; should one of a group fail, the
group is rolled back and each command is run again alone, so that nobody pays for a neighbour's mistake.

Nothing is answered before it is committed. With `inline` there is no thread: the caller's thread does the work, which
is what a simulator wants.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections import defaultdict
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal, NamedTuple

from windlass.drivers.sqlite.files import Identity
from windlass.drivers.sqlite.library import ERRORS, Connection, run, translate
from windlass.drivers.statement import Op, T
from windlass.errors import DriverClosed, DriverForked

Begin = Literal["begin", "begin immediate"]
Step = Literal["begun", "before_commit", "after_commit"]
Make = Callable[[], Op[Any]]
GROUP_LIMIT: Final = 256


class Command:
    """An operation and where its answer goes: an asyncio future of `loop`, or a blocking one."""

    __slots__ = ("answer", "error", "future", "loop", "make")

    def __init__(self, make: Make, loop: asyncio.AbstractEventLoop | None) -> None:
        self.make = make
        self.loop = loop
        self.future: Any = concurrent.futures.Future() if loop is None else loop.create_future()
        self.answer: Any = None
        self.error: Exception | None = None

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
    def __init__(self, name: str, connection: Connection, place: Place, *, begin: Begin, inline: bool = False) -> None:
        self._connection = connection
        self._begin = begin
        self._place = place
        self._closed = False
        self._pid = os.getpid()
        self._queue: SimpleQueue[Command | None] = SimpleQueue()
        self._lock = threading.Lock()
        self.on_step: Callable[[Step], None] | None = None  # tests kill the process here
        self.between: Callable[[], None] | None = None  # housekeeping after each transaction
        self._thread = None if inline else threading.Thread(target=self._loop, name=f"windlass-{name}", daemon=True)
        if self._thread is not None:
            self._thread.start()

    async def submit(self, make: Callable[[], Op[T]]) -> T:
        command = Command(make, asyncio.get_running_loop())
        self._send(command)
        answer: T = await command.future
        return answer

    def submit_sync(self, make: Callable[[], Op[T]]) -> T:
        command = Command(make, None)
        self._send(command)
        answer: T = command.future.result()
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
            if self._closed or self._pid != os.getpid():
                self._closed = True
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
        error = self._transaction(commands)
        if error is not None and len(commands) == 1:
            commands[0].error = error
        elif error is not None:
            for command in commands:
                command.error = self._transaction([command])
        if self.between is not None:
            self.between()

    def _transaction(self, commands: list[Command]) -> Exception | None:
        """All commands in one transaction, or none and the reason why."""
        try:
            self._place.identity.check()
            self._connection.execute(self._begin)
            self._step("begun")
            for command in commands:
                command.answer = run(self._connection, command.make())
            self._step("before_commit")
            self._connection.execute("commit")
            self._step("after_commit")
        except Exception as error:
            self._roll_back()
            return translate(error, self._place.path, self._place.busy_s) if isinstance(error, ERRORS) else error
        return None

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction():
                self._connection.execute("rollback")
        except ERRORS:  # SQLite has rolled back by itself; nothing of the transaction is stored either way
            pass

    def _step(self, step: Step) -> None:
        if self.on_step is not None:
            self.on_step(step)


def _deliver(commands: list[Command]) -> None:
    """Answers of one group go to each event loop in one call."""
    by_loop: defaultdict[asyncio.AbstractEventLoop | None, list[Command]] = defaultdict(list)
    for command in commands:
        by_loop[command.loop].append(command)
    for loop, group in by_loop.items():
        if loop is None:
            _deliver_all(group)
            continue
        try:
            loop.call_soon_threadsafe(_deliver_all, group)
        except RuntimeError:  # that loop is gone, and with it whoever waited
            continue


def _deliver_all(commands: list[Command]) -> None:
    for command in commands:
        command.deliver()
