"""The worker's end of its fork server: start children and programs, signal them, and hear how each has ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from windlass.errors import ChildUnstartable
from windlass.worker.processes.frames import (
    HEAD,
    Awake,
    Fork,
    Garbled,
    Gone,
    Kill,
    News,
    Signalled,
    Spawn,
    Started,
    length_in,
    news,
    packed,
    understood,
)
from windlass.worker.processes.server import kill_group

ENTRY: Final = "windlass.cli.children"
ENDS_WITHIN: Final = 2.0  # seconds for the fork server to end those that it has left
log: Final = logging.getLogger("windlass.worker")


class Offspring:
    """One child or program."""

    def __init__(self, number: int, nursery: Nursery) -> None:
        self.number: Final = number
        self.pid: int | None = None
        self._nursery = nursery
        loop = asyncio.get_running_loop()
        self.started: Final[asyncio.Future[None]] = loop.create_future()
        self.gone: Final[asyncio.Future[Gone]] = loop.create_future()
        self.doomed = False  # it is being killed
        self._under_way = 0  # signals of which nobody knows yet that they were sent
        self._quiet = asyncio.Event()
        self._quiet.set()

    def signal(self, number: int) -> None:
        """To its whole group. The fork server sends it, since only who waits for a process knows that its number is still
        its own."""
        if not self.gone.done():
            self.doomed = self.doomed or number == signal.SIGKILL
            self._under_way += 1
            self._quiet.clear()
            self._nursery.kill(self, number)

    def was_signalled(self) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._quiet.set()

    async def quiet(self, seconds: float) -> bool:
        """Whether no signal is under way to it any more, after so much patience."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._quiet.wait()
        return self._quiet.is_set()


class Nursery:
    """Makes the fork server when it is first needed, and another one should it die."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._reading: asyncio.Task[None] | None = None
        self._awake = asyncio.Event()
        self._numbers = 0
        self._all: dict[int, Offspring] = {}
        self._lock = asyncio.Lock()
        self._kills: list[bytes] = []  # that wait for the order which is being sent

    async def ready(self) -> None:
        """The fork server is there: what is started next takes no longer than it takes itself."""
        async with self._lock:
            if self._control is None:
                self._open()
            reading = self._reading
            assert reading is not None, "it is read from as long as it is open"
            awake = asyncio.ensure_future(self._awake.wait())
            await asyncio.wait({awake, reading}, return_when=asyncio.FIRST_COMPLETED)
            awake.cancel()
            self._send_kills()
            if not self._awake.is_set():
                raise ChildUnstartable("the process that starts others does not come up")

    async def fork(self, sock: socket.socket, memory: int) -> Offspring:
        """A child that has this end of a socket. The caller closes its own copy."""
        number = self._next_number()
        return await self._start(number, packed(Fork(number, memory)), sock.fileno())

    async def spawn(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: str | None, output: int, memory: int
    ) -> Offspring:
        """A program. Raises `ChildUnstartable` when there is none of that name, or it may not be run, and `ValueError` when
        no program could be given such words."""
        number = self._next_number()
        words = tuple(map(os.fsencode, command))
        variables = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
        order = packed(Spawn(number, memory, words, variables, None if cwd is None else os.fsencode(cwd)))
        return await self._start(number, order, output)

    def kill(self, offspring: Offspring, number: int) -> None:
        self._kills.append(packed(Kill(offspring.number, number)))
        try:
            if not self._lock.locked():
                self._send_kills()
        except OSError as error:
            log.error("the process that starts others cannot be told to end one (%s); it is ended from here", error)
            if offspring.pid is not None:
                kill_group(offspring.pid, number)

    def _send_kills(self) -> None:
        """So short that each is sent whole or not at all."""
        kills, self._kills = self._kills, []
        if self._control is not None:
            for frame in kills:
                self._control.send(frame)

    async def close(self) -> None:
        """Whatever is left is killed."""
        server, control, reading = self._server, self._control, self._reading
        self._server = self._control = self._reading = None
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})
        if control is not None:
            control.close()
        if server is not None:
            await asyncio.to_thread(_reaped, server)
        self._lose_all()

    # --------------------------------------------------------------------------------------------------------- orders

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    async def _start(self, number: int, frame: bytes, fd: int) -> Offspring:
        loop = asyncio.get_running_loop()
        offspring = self._all[number] = Offspring(number, self)
        async with self._lock:  # the frames of two orders must not mix
            control = self._control or self._open()
            try:
                socket.send_fds(control, [frame[:HEAD]], [fd])
                await loop.sock_sendall(control, frame[HEAD:])
                self._send_kills()
            except OSError as error:
                self._all.pop(offspring.number, None)
                raise ChildUnstartable(f"the process that starts others does not answer: {error}") from None
        try:
            await offspring.started
        except asyncio.CancelledError:
            offspring.signal(signal.SIGKILL)
            raise
        return offspring

    def _open(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            self._server = subprocess.Popen(  # noqa: S603 - this very interpreter
                [sys.executable, "-m", ENTRY, str(theirs.fileno())], pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C is the worker's alone
            )  # fmt: skip
        self._control = ours
        self._awake.clear()
        self._reading = asyncio.get_running_loop().create_task(self._read(ours), name="windlass-nursery")
        return ours

    # ----------------------------------------------------------------------------------------------------------- news

    async def _read(self, control: socket.socket) -> None:
        try:
            await self._listen(control)
        except Garbled:  # then it is of no use any more, and closing the line ends it
            log.exception("what the process that starts others says cannot be understood")
        log.error("the process that starts others is gone; what ran under it is ended, another one is started")
        control.close()
        self._control = None
        self._awake.clear()
        if self._server is not None:
            await asyncio.to_thread(_reaped, self._server)
        for offspring in self._all.values():
            if offspring.pid is not None:
                kill_group(offspring.pid, signal.SIGKILL)
        self._lose_all()

    async def _listen(self, control: socket.socket) -> None:
        """Until it is gone."""
        loop = asyncio.get_running_loop()
        buffer = bytearray()
        while part := await _received(loop, control):
            buffer += part
            while len(buffer) >= HEAD and len(buffer) >= (end := HEAD + length_in(bytes(buffer[:HEAD]))):
                self._hear(understood(news, bytes(buffer[HEAD:end])))
                del buffer[:end]

    def _hear(self, said: News) -> None:
        if isinstance(said, Awake):
            self._awake.set()
            return
        offspring = self._all.get(said.number)
        if offspring is None:
            return
        if isinstance(said, Started):
            offspring.pid = said.pid
            if not offspring.started.done():
                offspring.started.set_result(None)
            return
        if isinstance(said, Signalled):
            offspring.was_signalled()
            return
        del self._all[said.number]
        if isinstance(said, Gone):
            offspring.gone.set_result(said)
        elif not offspring.started.done():
            offspring.started.set_exception(ChildUnstartable(said.why))

    def _lose_all(self) -> None:
        for offspring in self._all.values():
            if not offspring.started.done():
                offspring.started.set_exception(ChildUnstartable("the process that starts others is gone"))
            elif not offspring.gone.done():
                offspring.gone.set_result(Gone(offspring.number, None))
        self._all.clear()


async def _received(loop: asyncio.AbstractEventLoop, control: socket.socket) -> bytes:
    try:
        return await loop.sock_recv(control, 65_536)
    except ConnectionError:
        return b""


def _reaped(server: subprocess.Popen[bytes]) -> None:
    try:
        server.wait(ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def surroundings(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program: the worker's own, and what the command adds."""
    return {**os.environ, **extra}
