"""Several worker processes under one: a child that dies is noticed at once, its jobs are taken back, it is replaced.

The supervisor knows which worker id each child has. When the operating system says that a child is gone its leases are
revoked: nobody has to wait for them to lapse. Should the supervisor itself be killed, the children see their end of a
pipe close and stop by themselves. A child tells when its worker is there: several in a row that never did, or that said by
their exit code that the store refuses them for good, cannot start, and are not replaced for ever. One that dies of its jobs
is, whatever its age, since those jobs are counted as lost.

Where a service manager waits for signs of life, each child gives them to its supervisor, which alone speaks to the manager:
a child whose event loop stands still for so long is killed, and replaced like any other that is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from windlass.client import Client
from windlass.copy_errors import StoreMoving
from windlass.errors import (
    OutcomeUnknown,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
    TransactionConflict,
    WindlassError,
)
from windlass.worker.processes.calling import signal_name
from windlass.worker.recovering import take_back
from windlass.worker.worker import Worker

WORKER_ID: Final = "WINDLASS_WORKER_ID"
PARENT_FD: Final = "WINDLASS_PARENT_FD"
READY_FD: Final = "WINDLASS_READY_FD"
SIGN_EVERY: Final = "WINDLASS_SIGN_EVERY"  # seconds between signs of life of a child
SIGNS: Final = 4  # in the time after which a child is given up
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 30.0
HEALTHY_AFTER: Final = 30.0  # seconds of life after which a death is not held against the next child
MISCONFIGURED: Final = 78  # exit code of a child whose store refuses it until somebody changes something (EX_CONFIG)
HOPELESS: Final = 5  # children in a row that ended before their worker was there: no restart will mend that
PASSING: Final = (StoreUnreachable, StoreBusy, StoreFull, StoreReadOnly, StoreMoving, OutcomeUnknown, TransactionConflict)
log: Final = logging.getLogger("windlass.supervisor")


def is_lasting(error: WindlassError) -> bool:
    """Whether trying again is of no use: a wrong password, no schema, no rights."""
    return not isinstance(error, PASSING)


class Supervisor:
    def __init__(
        self, client: Client, command: Sequence[str], processes: int, *, drain: bool = False,
        environment: Mapping[str, str] | None = None, patience: float | None = None,
    ) -> None:  # fmt: skip
        """`environment` is added to this process's own for each child. `patience`: seconds without a sign of life after
        which one is killed; None: they are not watched."""
        self._client = client
        self._command = list(command)
        self._processes = processes
        self._environment = dict(environment or {})
        self._patience = patience
        self._drain = drain  # children that end well are not replaced
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self._signals = 0
        self.started: Final = asyncio.Event()
        self.stopping: Final = asyncio.Event()
        self._hopeless = False

    async def run(self) -> int:
        """Until a signal, or with `drain` until every child is done. Answers an exit code."""
        self._pipe_in, self._pipe_out = os.pipe()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            self.started.set()
            codes = await asyncio.gather(*(self._keep(n) for n in range(self._processes)))
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            os.close(self._pipe_in)
            os.close(self._pipe_out)
        return 1 if self._hopeless or any(codes) else 0

    def stop(self) -> None:
        """Each call is passed on: the first lets the children finish, the second forces them, the third kills them."""
        self._signals += 1
        self.stopping.set()
        for child in self._children.values():
            with suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM if self._signals <= 2 else signal.SIGKILL)

    async def _keep(self, place: int) -> int:
        """One child after the other, in one place."""
        loop = asyncio.get_running_loop()
        pause, stillborn, code = FIRST_PAUSE, 0, 0
        while not self.stopping.is_set():
            worker_id = f"{socket.gethostname()}:{os.getpid()}.{place}:{self._client.ids.token()[:8]}"
            began = loop.time()
            code, was_ready = await self._child(worker_id)
            lived = loop.time() - began
            if self.stopping.is_set() or (self._drain and code == 0):
                break
            stillborn = 0 if was_ready and code != MISCONFIGURED else stillborn + 1
            if stillborn >= HOPELESS:
                log.error("worker process %d could not start, %d times in a row; see its messages above", place, HOPELESS)
                self._hopeless = True
                self.stop()
                break
            pause = FIRST_PAUSE if lived > HEALTHY_AFTER else min(pause * 2, LONGEST_PAUSE)
            log.warning("worker process %d is gone (%s); another starts in %.1f s", place, _cause(code), pause)
            code = 0  # that one was dealt with; how a child ends that nobody replaces is what counts
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), pause)
        return code

    async def _child(self, worker_id: str) -> tuple[int, bool]:
        """Start it and wait for its end. Answers its exit code, and whether its worker had ever been there."""
        ready_in, ready_out = os.pipe()
        signs = _Signs(ready_in)
        try:
            code = await self._life(worker_id, ready_out, signs)
            signs.listen()
        finally:
            os.close(ready_in)
        if code != 0:
            await take_back(self._client, worker_id)
        if code == -signal.SIGTERM and self.stopping.is_set():
            code = 0  # it was told to stop before it could listen, and had taken nothing
        return code, signs.heard

    async def _life(self, worker_id: str, ready_fd: int, signs: _Signs) -> int:
        told = {WORKER_ID: worker_id, PARENT_FD: str(self._pipe_in), READY_FD: str(ready_fd)}
        if self._patience is not None:
            told[SIGN_EVERY] = str(self._patience / SIGNS)
        environment = {**os.environ, **self._environment, **told}
        try:
            child = await asyncio.create_subprocess_exec(
                *self._command, env=environment, pass_fds=(self._pipe_in, ready_fd),
                process_group=0,  # a Ctrl-C reaches the supervisor alone, which passes it on: twice would force
            )  # fmt: skip
        except OSError as error:
            log.error("%s cannot be run: %s", self._command[0], error)
            return 1
        finally:
            os.close(ready_fd)
        self._children[worker_id] = child
        if self.stopping.is_set():
            with suppress(ProcessLookupError):  # it is gone again
                child.send_signal(signal.SIGTERM)
        watching = asyncio.get_running_loop().create_task(self._watch(worker_id, child, signs))
        try:
            return await child.wait()
        finally:
            del self._children[worker_id]
            watching.cancel()

    async def _watch(self, worker_id: str, child: asyncio.subprocess.Process, signs: _Signs) -> None:
        """From its first sign on, since nobody knows how long a program takes to start."""
        if self._patience is None:
            return
        silent = 0  # looks in a row: time in which this process stood still too, as when all are paused, says nothing
        while True:
            await asyncio.sleep(self._patience / SIGNS)
            silent = 0 if signs.listen() else silent + 1
            if signs.ended:
                return
            if signs.heard and silent > SIGNS:
                log.error(
                    "%s gave no sign of life for %g s: its event loop stands still; it is killed", worker_id, self._patience
                )
                with suppress(ProcessLookupError):
                    child.kill()
                return


class _Signs:
    """What a child says over its pipe: that its worker is there, and then that its event loop goes round."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self.heard = False
        self.ended = False  # it has taken its leave, and may need some time to go

    def listen(self) -> bool:
        """Whether it has said something since."""
        try:
            news = os.read(self._fd, 4096) != b""
        except BlockingIOError:  # nothing, or a process that the child left behind still holds the other end
            return False
        self.ended = not news
        self.heard = self.heard or news
        return news


def _cause(code: int) -> str:
    return f"killed by {signal_name(-code)}" if code < 0 else f"exit code {code}"


# ------------------------------------------------------------------------------------------------------- in the child


def supervised_worker_id() -> str | None:
    """The name that a supervisor gave to this process."""
    return os.environ.get(WORKER_ID)


def supervised_place() -> int | None:
    """Its number among those that the same supervisor keeps: it stays the same for the one that takes its place."""
    name = supervised_worker_id()
    return None if name is None else int(name.rpartition(":")[0].rpartition(".")[2])


@contextmanager
def stopped_with_parent(worker: Worker) -> Iterator[None]:
    """Tell the supervisor that the worker is there. Stop when it is gone: its end of the pipe closes however it died.

    What was said in the environment is for this process alone: a program that a handler starts must not take itself for
    this worker."""
    os.environ.pop(WORKER_ID, None)
    parent, ready, every = (os.environ.pop(name, None) for name in (PARENT_FD, READY_FD, SIGN_EVERY))
    if parent is None:
        yield
        return
    fd = int(parent)
    loop = asyncio.get_running_loop()
    telling = None if ready is None else _Telling(int(ready), None if every is None else float(every))

    def orphaned() -> None:
        loop.remove_reader(fd)
        log.warning("the supervisor is gone; finishing what runs")
        worker.stop()

    loop.add_reader(fd, orphaned)
    try:
        yield
    finally:
        loop.remove_reader(fd)
        if telling is not None:
            telling.end()


class _Telling:
    """The other end: at once that the worker is there, then signs of life from the event loop, if they are waited for."""

    def __init__(self, fd: int, every: float | None) -> None:
        os.set_blocking(fd, False)
        self._fd, self._every = fd, every
        self._next: asyncio.TimerHandle | None = None
        self._tell()
        if every is None:
            os.close(fd)

    def _tell(self) -> None:
        with suppress(BrokenPipeError, BlockingIOError):  # the supervisor is gone, which the other pipe tells; or it sleeps
            os.write(self._fd, b"1")
        if self._every is not None:
            self._next = asyncio.get_running_loop().call_later(self._every, self._tell)

    def end(self) -> None:
        if self._next is not None:
            self._next.cancel()
            os.close(self._fd)
