"""One child, as the worker sees it: it is started, given a job, listened to, and replaced when it is worn out or gone."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from windlass.client import Client
from windlass.core.changes import Report
from windlass.core.settle import Failed, Outcome
from windlass.errors import ChildUnstartable, ProcessDied
from windlass.policies import qualified_name
from windlass.worker.failure import outcome_of, trace
from windlass.worker.holdings import Held
from windlass.worker.processes.frames import (
    HEAD,
    Artifact,
    Begin,
    Begun,
    Broken,
    Ended,
    Garbled,
    Gone,
    Hello,
    Line,
    OfRun,
    Progress,
    Ready,
    Stop,
    length_in,
    packed,
    portable,
    raw,
    report,
    understood,
)
from windlass.worker.processes.nursery import Nursery, Offspring
from windlass.worker.processes.stopping import Stopper

STARTS_WITHIN: Final = 60.0  # seconds for importing the app
SIGNALLED_WITHIN: Final = 1.0  # seconds in which a signal is sent, else another child is made
GARBLED: Final = "its line is garbled"  # a library has closed or written to what is not its own
DIED: Final = tuple(qualified_name(kind) for kind in ProcessDied.__mro__ if issubclass(kind, BaseException))
log: Final = logging.getLogger("windlass.worker")


class Child:
    def __init__(self, client: Client, offspring: Offspring, sock: socket.socket) -> None:
        self._client = client
        self._offspring = offspring
        self._sock = sock
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._jobs = 0
        self._cpu = 0  # that it has used in all
        self._memory = 0  # that it used when it was last heard of
        self._spent = False  # what a job has left behind goes on in it
        self._strangers = False  # somebody has said what is not of the run that it was given

    @staticmethod
    async def start(client: Client, nursery: Nursery, target: str) -> Child:
        """Once it has imported the app. Raises `ChildUnstartable`."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                offspring = await nursery.fork(theirs, client.settings.child_memory)
            child = Child(client, offspring, ours)
            child._reader, child._writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        try:
            async with asyncio.timeout(STARTS_WITHIN):
                child._say(introduction(target, client.url))
                said = await child._hear()
        except TimeoutError:
            child.end()
            raise ChildUnstartable(f"importing {target} took longer than {STARTS_WITHIN:g} s") from None
        except Garbled as error:
            child.end()
            raise ChildUnstartable(f"a child process that imports {target}: {GARBLED} ({error})") from None
        except BaseException:
            child.end()
            raise
        if isinstance(said, Ready):
            child._cpu = said.cpu_so_far
            return child
        if not isinstance(said, Broken):  # how it ended, before we end it
            await asyncio.wait({offspring.gone}, timeout=1.0)
        child.end()
        why = said.why if isinstance(said, Broken) else cause_of(await offspring.gone)
        raise ChildUnstartable(f"a child process of {target} cannot begin: {why}")

    @property
    def worn(self) -> bool:
        """It should make room for another one: it is gone or being killed, is not alone, has run many jobs, or has kept
        much memory."""
        settings = self._client.settings
        return (
            self._offspring.gone.done() or self._offspring.doomed or self._strangers or self._spent
            or self._jobs >= settings.child_jobs or 0 < settings.child_memory < 2 * self._memory
        )  # fmt: skip

    async def fit(self) -> bool:
        """It may be given another job. A signal that was meant for the one before, and is sent late, must not hit that."""
        return not self.worn and await self._offspring.quiet(SIGNALLED_WITHIN) and not self.worn

    def stopper(self, held: Held) -> Stopper:
        return Stopper(held, self._offspring, self._client.settings, lambda: self._say(Stop()))

    async def call(self, held: Held) -> Ending | None:
        """Run its handler. None when the child was gone before it could begin: then nothing has happened."""
        self._jobs += 1
        try:
            begin = packed(Begin(portable(held.job), self._client.settings.result_limit))
        except Exception as error:  # it cannot be put into words, or there are too many
            return Ending(outcome_of(error), Report(), trace(error))
        self._writer.write(begin)
        try:
            return await self._heard_out(held)
        except Garbled as error:
            log.error("job %s (%s): %s, so its process is killed: %s", held.job.id, held.task.name, GARBLED, error)
            self.end()
            return self._death(await self._offspring.gone, GARBLED)

    async def _heard_out(self, held: Held) -> Ending | None:
        begun = False
        while True:
            said = await self._hear()
            if said is None:
                gone = await self._offspring.gone
                return self._death(gone, cause_of(gone)) if begun else None
            if not isinstance(said, OfRun) or said.run != held.job.run_id:
                self._hear_stranger(held, said)
                continue
            match said:
                case Begun():
                    begun = True
                case Progress():
                    context = held.context()
                    context.progressed, context.note = said.fraction, said.note
                case Line():
                    held.write_log(said.level, said.text)
                case Artifact():
                    held.context().artifact(said.path)
                case Ended():
                    self._cpu, self._memory, self._spent = said.cpu_so_far, said.memory, said.spent
                    return Ending(said.told(), Report(cpu_us=said.cpu_us, peak_rss=said.peak_rss), said.traceback)

    def _hear_stranger(self, held: Held, said: Struct) -> None:
        """It counts for nobody. But somebody else is on this line, so no other job is given to this child."""
        if not self._strangers:
            kind = type(said).__name__
            log.warning("job %s (%s): its process says %s for another run", held.job.id, held.task.name, kind)
        self._strangers = True

    def _death(self, gone: Gone, cause: str) -> Ending:
        cpu = None if gone.cpu_us is None else max(gone.cpu_us - self._cpu, 0)
        return Ending(Failed(f"ProcessDied: {cause}", DIED), Report(None, gone.code, cpu, gone.peak_rss))

    def end(self) -> None:
        """It ends by itself when its line is closed, and whatever it has started with it. One that holds Python's lock in
        a library does not notice, so it is killed."""
        self._writer.close()
        self._offspring.signal(signal.SIGKILL)

    # ------------------------------------------------------------------------------------------------------------- line

    def _say(self, said: Struct) -> None:
        self._writer.write(packed(said))

    async def _hear(self) -> Any:
        """What it says next; None when it is gone. Raises `Garbled`. A process that it has left behind may hold its end of
        the line open, so its death is listened for as well; but what it said before that comes first."""
        reading = asyncio.ensure_future(self._frame())
        try:
            await asyncio.wait({reading, self._offspring.gone}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait({reading}, timeout=0.2)
            return reading.result() if reading.done() else None
        finally:
            if not reading.done():
                reading.cancel()

    async def _frame(self) -> Any:
        try:
            head = await self._reader.readexactly(HEAD)
            return understood(report, await self._reader.readexactly(length_in(head)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


class Ending(Struct, frozen=True):
    """How a run in a process has ended, and what it cost."""

    outcome: Outcome
    measured: Report
    traceback: str | None = None


def introduction(target: str, url: str) -> Hello:
    """Modules are looked for where this process looks: what is no text in `sys.path` is passed over here as well."""
    path, argv = (tuple(raw(part) for part in _texts(parts)) for parts in (sys.path, sys.argv))
    return Hello(raw(target), path, argv, raw(url))


def _texts(parts: Iterable[object]) -> list[str]:
    return [part for part in parts if isinstance(part, str)]


def cause_of(gone: Gone) -> str:
    """In words: `killed by SIGSEGV`."""
    if gone.code is None:
        return "its process is gone, and nobody can tell why"
    if gone.code >= 0:
        return f"its process ended with the exit code {gone.code} before its handler did"
    name = signal_name(-gone.code)
    hint = "; the kernel does that to a process when memory runs out" if gone.code == -signal.SIGKILL else ""
    return f"killed by {name}{hint}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has a number only
        return f"signal {number}"
