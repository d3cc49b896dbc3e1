"""A child: imports the app, then calls the handlers that it is told to, one at a time, until its worker is gone.

Handlers run in the main thread, async ones in one event loop that lasts as long as the child. A second thread listens: it
passes on the wish to stop, and when the worker's end of the line is closed it ends this process and all that it has
started, because by then somebody else may run the job.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, NoReturn, Protocol, cast

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from windlass.client import Client
from windlass.clock import SystemClock
from windlass.context import Context, enter
from windlass.core.settle import Failed, Outcome
from windlass.drivers.protocol import Driver
from windlass.errors import InvalidInput, ResourceUnavailable, WindlassError
from windlass.parents import Parent, parents_of
from windlass.redaction import scrubber_of
from windlass.resources import NOTHING, Kit, Resources
from windlass.tasks import Task
from windlass.transaction import JobTransaction
from windlass.types import Claimed
from windlass.urls import scheme_of
from windlass.worker.calls import arguments_of, outcome_of_value
from windlass.worker.capture import captured
from windlass.worker.copied import end_as_copy
from windlass.worker.failure import describe, outcome_of, trace
from windlass.worker.processes import measures
from windlass.worker.processes.frames import (
    Artifact,
    Begin,
    Begun,
    Broken,
    Ended,
    Hello,
    Kind,
    Line,
    OfRun,
    Progress,
    Ready,
    encoded,
    packed,
    receive,
    sayable,
    word,
)
from windlass.worker.processes.leftovers import Surroundings

STEP: Final = 0.001  # of progress that is worth a message
UNREACHABLE: Final = (
    "a process handler is in another process than its worker, and memory:// is in the worker's; use a store of another kind"
)
NO_TRANSACTION: Final = (
    "a process handler has no part in the worker's connection, so its success cannot be one transaction with your rows; "
    "make it a plain or an async function of the worker's own process, or enqueue such a task as the last step"
)


class App(Protocol):
    """What a child needs of the app."""

    client: Client

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]: ...
    @property
    def resources(self) -> Resources: ...


class Wire:
    """This child's end of the line. A copy that a handler forks has none: nobody understands two that speak at once, and
    what both of them say would happen twice."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._is_ours = True
        os.register_at_fork(after_in_child=self._let_go)

    def _let_go(self) -> None:
        self._is_ours = False
        self._sock.close()

    def say(self, said: Struct) -> None:
        if not self._is_ours:
            return
        frame = packed(said)
        try:
            with self._lock:
                self._sock.sendall(frame)
        except OSError:
            end_with_all()

    def hear(self) -> Any:
        return receive(self._sock, word)


def end_with_all() -> NoReturn:
    """This process and its whole group: it leads one."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


class ToldContext(Context):
    """The context of a handler in a child. What it reports goes to the worker at once, so that it is known if the child
    dies."""

    __slots__ = ("_execution", "_told")

    def __init__(self, execution: Execution) -> None:
        super().__init__(execution)
        self._execution = execution
        self._told = -1.0

    def progress(self, fraction: float, note: str | None = None) -> None:
        super().progress(fraction, note)
        assert self.progressed is not None, "it was just told"
        if note is not None or self.progressed == 1 or abs(self.progressed - self._told) >= STEP:
            self._told = self.progressed
            self._execution.say(Progress(self.run_id, self.progressed, sayable(self.note)))

    def artifact(self, path: str) -> None:
        super().artifact(path)
        self._execution.say(Artifact(self.run_id, sayable(self.artifacts[-1])))


class Execution:
    """One job in this child, for its context."""

    def __init__(self, job: Claimed, wire: Wire, client: Client, kit: Kit) -> None:
        self.job = job
        self.kit = kit
        self.scrub = scrubber_of(job.payload, job.headers)
        self._wire = wire
        self._client = client
        self._context: Context | None = None
        self._interrupted = False
        self._is_over = False
        self.cancel: Callable[[], object] | None = None  # interrupts an async handler

    def context(self) -> Context:
        if self._context is None:
            self._context = ToldContext(self)
        return self._context

    def is_interrupted(self) -> bool:
        return self._interrupted

    def begin_transaction(self) -> JobTransaction:
        raise InvalidInput("transaction", NO_TRANSACTION)

    async def parents(self) -> list[Parent]:
        return await parents_of(self._client.driver, self.job.id)

    def write_log(self, level: str, text: str) -> None:
        self.say(Line(self.job.run_id, sayable(level), sayable(text)))

    def say(self, said: OfRun) -> None:
        if not self._is_over:
            self._wire.say(said)

    def end(self) -> None:
        """What its threads or tasks say from now on is nobody's."""
        self._is_over = True

    def interrupt(self) -> None:
        self._interrupted = True
        cancel = self.cancel
        if cancel is not None:
            cancel()


class Child:
    def __init__(self, app: App, wire: Wire) -> None:
        self._app = app
        self._wire = wire
        self._orders: SimpleQueue[Begin] = SimpleQueue()
        self._current: Execution | None = None
        self._pid = os.getpid()
        self._resources = app.resources.opened()  # never closed: a child ends by being killed, with all that it has
        self._kit = NOTHING
        self._surroundings = Surroundings()

    def live(self) -> None:
        with asyncio.Runner() as runner, captured():
            try:
                self._kit = runner.run(self._resources.__aenter__())
            except ResourceUnavailable as error:
                self._wire.say(Broken(sayable(str(error))))
                return
            threading.Thread(target=self._listen, name="windlass-listener", daemon=True).start()
            self._wire.say(Ready(measures.cpu_so_far()))
            while True:
                begin = self._orders.get()
                self._wire.say(Begun(begin.job.run_id))
                self._wire.say(self._execute(begin, runner))

    def _listen(self) -> None:
        while True:
            try:
                said = self._wire.hear()
            except BaseException:  # the worker is gone, or the line is of no use any more
                end_with_all()
            if isinstance(said, Begin):
                self._current = Execution(said.job, self._wire, self._app.client, self._kit)
                self._orders.put(said)
            elif self._current is not None:
                self._current.interrupt()

    def _execute(self, begin: Begin, runner: asyncio.Runner) -> Ended:
        execution = self._current
        assert execution is not None, "it was made before the order was put"
        measures.forget_peak()
        before = measures.cpu_so_far()
        outcome, told = self._outcome(execution, begin.result_limit, runner)
        execution.end()
        spent = not self._surroundings.restored()
        after, (peak, used) = measures.cpu_so_far(), measures.memory()
        kind, run = cast("Kind", type(outcome).__name__), execution.job.run_id
        words = encoded(type(outcome)(*map(sayable, astuple(outcome))))
        return Ended(run, kind, msgspec.Raw(words), sayable(told), after - before, peak, after, used, spent)

    def _outcome(self, execution: Execution, limit: int, runner: asyncio.Runner) -> tuple[Outcome, str | None]:
        task = self._app.tasks.get(execution.job.type)
        if task is None:
            return Failed(
                f"the app has no task {execution.job.type!r} when it is imported anew; declare it on import"
            ), None
        enter(execution)
        try:
            args, kwargs = arguments_of(task, execution)
            if task.is_async:
                awaited = _interruptible(execution, task.handler, args, kwargs)
                value = runner.run(awaited, context=copy_context())
            else:
                value = copy_context().run(task.handler, *args, **kwargs)
            if self._is_copy():
                end_as_copy(None)
            return outcome_of_value(task, value, limit), None
        except BaseException as error:
            if self._is_copy():
                end_as_copy(error)
            return outcome_of(error), trace(error)
        finally:
            enter(None)

    def _is_copy(self) -> bool:
        return os.getpid() != self._pid


async def _interruptible(
    execution: Execution, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    task = asyncio.current_task()
    assert task is not None, "a runner runs it as a task"
    execution.cancel = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
    try:
        if execution.is_interrupted():
            task.cancel()
        return await function(*args, **kwargs)
    finally:
        execution.cancel = None


class OutOfReach:
    """The store of an app whose store is in the memory of another process."""

    def __getattr__(self, name: str) -> Any:
        raise InvalidInput("store", UNREACHABLE)


def live(sock: socket.socket, load: Callable[[str], App]) -> None:
    """What the fork server lets a child do. `load` answers the app by its name."""
    wire = Wire(sock)
    hello = wire.hear()
    assert isinstance(hello, Hello), "a worker introduces itself first"
    sys.path[:], sys.argv[:] = map(os.fsdecode, hello.path), map(os.fsdecode, hello.argv)
    url = os.fsdecode(hello.url)
    try:
        app = load(os.fsdecode(hello.target))
    except BaseException as error:
        wire.say(Broken(sayable(str(error) if isinstance(error, WindlassError) else describe(error))))
        return
    if scheme_of(url) == "memory":
        clock = SystemClock()
        app.client = Client(url, app.client.settings, driver=cast("Driver", OutOfReach()), clock=clock)
    else:
        app.client.url = url
    Child(app, wire).live()
