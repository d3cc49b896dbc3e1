"""One connection that writes, one queue of commands: SQLite has a single writer, so give it one that never waits idle.

Commands that arrive while a transaction is being committed are gathered and share the next one (group commit): ten
callers cost one fsync instead of ten. A command is a function that makes an operation; should one of a group fail, the
group is rolled back and each command is run again alone, so that nobody pays for a neighbour's mistake.

The lane's thread does the work, and with it whatever may take long. Handing a command over and taking its answer back
costs as much again as a quick commit, so light commands take a shorter way: those that one turn of an event loop sends
are committed together in the loop's own thread, if nobody else holds the connection or the file, and only while commits
have proved to be quick. A blocking caller commits for itself when the connection is free.

Nothing is answered before it is committed. With `inline` there is no thread, which is what a simulator wants.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal, Protocol

from windlass.clock import since_boot
from windlass.drivers.sqlite.breath import Breath
from windlass.drivers.sqlite.command import HEAVY, Command, deliver
from windlass.drivers.sqlite.library import ERRORS, Connection, misfit, run, translate
from windlass.drivers.sqlite.place import Place
from windlass.drivers.statement import Op, T
from windlass.errors import ConstraintViolated, DriverClosed, DriverForked, StoreBusy
from windlass.types import Micros

Begin = Literal["begin", "begin immediate"]
Step = Literal["begun", "before_commit", "after_commit"]
GROUP_LIMIT: Final = 256
LIGHT: Final = 32  # rows of a transaction that an event loop may be asked to wait for
QUICK: Final[Micros] = 2_000
PROOF: Final = 8  # quick commits of light groups in a row, before an event loop is asked to wait for one
log: Final = logging.getLogger("windlass.sqlite")


class Housekeeping(Protocol):
    """What is done between transactions. It may take long, so the thread of the lane does it; the test whether it is due
    must be cheap, because everybody who has committed makes it."""

    def due(self) -> bool: ...
    def __call__(self) -> None: ...


class Lane:
    def __init__(
        self, name: str, connection: Connection, place: Place, *, begin: Begin, inline: bool = False,
        between: Housekeeping | None = None,
    ) -> None:  # fmt: skip
        self._connection = connection
        self._begin = begin
        self._place = place
        self._breath = Breath(connection, place.turns)
        self._between = between
        self._closed = False
        self._pid = os.getpid()
        self._queue: SimpleQueue[Command | None] = SimpleQueue()
        self._ticks: dict[asyncio.AbstractEventLoop, list[Command]] = {}  # light commands of the loops' present turns
        self._lock = threading.Lock()  # of the fields here; held for an instant
        self._turn = threading.Lock()  # of the connection; held for a transaction. Never waited for under the other
        self._busy = False  # the thread has commands in its hands: whoever comes now shares the next transaction
        self._patience = place.busy_s  # with which the connection waits for other processes now
        self._quick = 0  # light groups in a row that were quick
        self.on_step: Callable[[Step], None] | None = None  # tests kill the process here
        self._thread = None if inline else threading.Thread(target=self._loop, name=f"windlass-{name}", daemon=True)
        if self._thread is not None:
            self._thread.start()

    async def submit(self, make: Callable[[], Op[T]], *, weight: int = HEAVY) -> T:
        """Run an operation and answer once it is committed. A caller that is cancelled before its turn has changed
        nothing; one that is cancelled later may have: what it asked for is done, and nobody hears of it. `weight` is the
        number of rows that are written, where it is known to be small."""
        if self._thread is None:
            return self.submit_sync(make, weight=weight)
        loop = asyncio.get_running_loop()
        command = Command(make, weight)
        if weight <= LIGHT and self._quick >= PROOF and self._between is not None:
            future = await self._join(command, loop)
        else:
            future = command.awaited_on(loop)
            self._send(command)
        answer: T = command.result() if future is None else await future
        return answer

    def submit_sync(self, make: Callable[[], Op[T]], *, weight: int = HEAVY) -> T:
        """The blocking form of `submit`, for any thread. Uses no event loop."""
        self._check_process()
        command = Command(make, weight)
        if not self._take_turn(wait=self._thread is None):
            command.event = threading.Event()
            self._send(command)
            command.event.wait()
        else:
            try:
                with self._lock:
                    self._check_open()
                self._work([command])
            finally:
                self._turn.release()
            self._look_after()
        answer: T = command.result()
        return answer

    def _send(self, command: Command) -> None:
        self._check_process()
        with self._lock:  # a command is either refused here or answered, never left behind by a close
            self._check_open()
            self._queue.put(command)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise DriverForked

    def _check_open(self) -> None:
        if self._closed:
            raise DriverClosed

    def _take_turn(self, *, wait: bool = False) -> bool:
        """The connection, unless somebody has it, or the thread is about to."""
        if not wait and (self._busy or not self._queue.empty()):
            return False
        return self._turn.acquire(blocking=wait)

    def close(self) -> None:
        """Finish what was sent. The connection stays its owner's to close."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            while self._ticks:
                loop, commands = self._ticks.popitem()
                self._hand_over(commands, loop)
        with self._turn:  # whoever has it may still hand commands over
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    # ------------------------------------------------------------------------------------- on the thread of an event loop

    async def _join(self, command: Command, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any] | None:
        """The first command of a turn of the loop waits for the turn to end, then commits all that came in it. Answers
        the future to wait for, or None when the command is done."""
        self._check_process()
        with self._lock:
            self._check_open()
            tick = self._ticks.get(loop)
            if tick is not None:
                tick.append(command)
                return command.awaited_on(loop)
            self._ticks[loop] = [command]
        try:
            await asyncio.sleep(0)
        except BaseException:  # its turn has not come, but there may be others in the tick
            command.dropped = True
            raise
        finally:
            self._flush(loop)
        return command.future

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit what this turn of the loop has sent, or hand it over. Commands are in nobody's hands only while the
        connection is in ours, so that a close cannot miss them."""
        if self._pid != os.getpid():  # forked between two turns: no lock here can be trusted
            for command in self._ticks.pop(loop, ()):
                command.error = DriverForked()
                command.deliver()
            return
        taken = self._take_turn()
        try:
            with self._lock:
                commands = [command for command in self._ticks.pop(loop, ()) if not command.gone()]
                if not taken or not _is_light(commands):
                    self._hand_over(commands, loop)
                    return
            if commands and not self._commit_here(commands):
                self._hand_over(commands, loop)
                return
        finally:
            if taken:
                self._turn.release()
        for command in commands:
            command.deliver()
        self._look_after()

    def _commit_here(self, commands: list[Command]) -> bool:
        """False: the thread should do it, since it may wait: for another process, or for one commit after the other."""
        try:
            error = self._timed(commands, patience=0)[1]
        except BaseException:  # an interrupt: the first of them raises it, the others are cancelled with their loop
            for command in commands:
                if command.future is not None:
                    command.future.cancel()
            raise
        if isinstance(error, StoreBusy) or (error is not None and len(commands) > 1):
            return False
        commands[0].error = error
        return True

    def _hand_over(self, commands: Iterable[Command], loop: asyncio.AbstractEventLoop) -> None:
        for command in commands:
            if command.future is None:
                command.awaited_on(loop)
            self._queue.put(command)

    def _look_after(self) -> None:
        if self._thread is None:
            self._housekeeping()
        elif self._between is not None and self._between.due():
            self._queue.put(_NOBODYS)

    # ------------------------------------------------------------------------------------------ on the lane's thread

    def _loop(self) -> None:
        while True:
            commands, last = self._gather()
            if commands:
                with self._turn:
                    self._work(commands)
                    breath = self._begin != "begin" and self._breath.due()  # who reads keeps nobody waiting
                self._busy = False  # before the answers: whoever gets one and asks again finds the connection free
                deliver(commands)
                if breath:
                    self._breath.take()
            self._busy = False
            self._housekeeping()
            if last:
                return

    def _gather(self) -> tuple[list[Command], bool]:
        """Wait for one command, then take whatever else is there. True = the lane was closed."""
        commands: list[Command] = []
        command = self._queue.get()
        self._busy = True
        try:
            while command is not None:
                if not command.gone():
                    commands.append(command)
                if len(commands) >= GROUP_LIMIT:
                    return commands, False
                command = self._queue.get_nowait()
        except Empty:
            return commands, False
        return commands, True

    # --------------------------------------------------------------------- on the thread of whoever has the connection

    def _work(self, commands: list[Command]) -> None:
        """A group that failed because one of its operations did is run again one by one. When the store itself refused
        (locked, full, gone), waiting for it once was enough. What the commit refuses, a deferred foreign key, is one's."""
        culprit, error = self._timed(commands, patience=self._place.busy_s)
        if (culprit is None and not isinstance(error, ConstraintViolated)) or len(commands) == 1:
            for command in commands:
                command.error = error
            return
        for command in commands:
            command.error = self._transaction([command])[1]

    def _timed(self, commands: list[Command], *, patience: float) -> tuple[Command | None, BaseException | None]:
        began = since_boot()
        if patience != self._patience:
            self._connection.wait_at_most(patience)
            self._patience = patience
        answer = self._transaction(commands)
        if _is_light(commands):
            self._quick = self._quick + 1 if since_boot() - began < QUICK else 0
        return answer

    def _transaction(self, commands: list[Command]) -> tuple[Command | None, BaseException | None]:
        """All commands in one transaction, or none and the reason why, with the command whose operation it was."""
        if self._begin == "begin":
            return self._attempt(commands)
        if not self._place.turns.take(self._patience, ahead=True):
            return None, StoreBusy(self._place.path, self._place.busy_s)
        try:
            return self._attempt(commands)
        finally:
            self._place.turns.give()

    def _attempt(self, commands: list[Command]) -> tuple[Command | None, BaseException | None]:
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
            if threading.current_thread() is not self._thread and not isinstance(error, Exception):
                raise  # a KeyboardInterrupt in the caller's own thread is the caller's
            return culprit, self._told(error)
        return None, None

    def _told(self, error: BaseException) -> BaseException:
        """Foreign exceptions do not leave the driver."""
        told: BaseException = error
        if isinstance(error, ERRORS):
            told = translate(error, self._place.path, self._place.busy_s)
        elif isinstance(error, OverflowError | UnicodeError):
            told = misfit(error, self._place.path)
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
                if self._between.due():
                    with self._turn:
                        self._between()
            except Exception:
                log.exception("housekeeping of %s failed; it is tried again later", self._place.path)

    def _step(self, step: Step) -> None:
        if self.on_step is not None:
            self.on_step(step)


def _nothing() -> Op[None]:
    yield from ()


_NOBODYS: Final = Command(_nothing)  # wakes the thread: nobody waits for it, so only the housekeeping is done that follows
_NOBODYS.dropped = True


def _is_light(commands: Sequence[Command]) -> bool:
    return sum([command.weight for command in commands]) <= LIGHT
