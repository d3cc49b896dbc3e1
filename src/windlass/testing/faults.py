"""Faults: a test says what goes wrong around a handler, for example `test.faults.crash("after_handler")`.

A fault is armed for the next time that its moment comes; then it happens, on the real store, and is over. If it never
happens, the test fails, because it tested nothing. A worker that dies this way sends nothing more to the store, nor do
the handlers that it ran. `drain` then does what a supervisor does: it takes back what the dead worker held, and starts
another.

A thread cannot be killed, and the `finally` of a coroutine runs; in a real death neither happens. To test what happens to
a process, kill one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, get_args

from windlass.apart import apart
from windlass.clock import LONGEST, ManualClock
from windlass.context import Running, running_now
from windlass.core.changes import Ack, Settlement
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Renewal
from windlass.errors import InvalidInput, OutcomeUnknown, StoreUnreachable, shown
from windlass.tasks import Task
from windlass.testing.faulty import Call, at_once, away
from windlass.types import Claimed, Micros
from windlass.words import did_you_mean

Point = Literal[
    "before_handler", "after_handler", "after_settle", "before_enqueue", "after_enqueue", "before_commit", "after_commit"
]
Operation = Literal["enqueue", "claim", "settle", "commit"]
Act = Literal["refuse", "lose_reply", "die_before", "die_after", "lose_lease"]

_BEFORE: Final[frozenset[Act]] = frozenset({"refuse", "die_before", "lose_lease"})
_DYING: Final[frozenset[Act]] = frozenset({"die_after"})
_LOSING: Final[frozenset[Act]] = frozenset({"lose_reply"})
_OPERATIONS: Final[dict[str, Operation]] = {
    "enqueue": "enqueue", "enqueue_sync": "enqueue", "enqueue_within": "enqueue", "enqueue_within_async": "enqueue",
    "claim": "claim", "settle": "settle", "commit": "commit",
}  # fmt: skip
_POINTS: Final[dict[Point, tuple[Operation, Act]]] = {
    "before_handler": ("claim", "die_after"), "after_handler": ("settle", "die_before"),
    "after_settle": ("settle", "die_after"), "before_enqueue": ("enqueue", "die_before"),
    "after_enqueue": ("enqueue", "die_after"), "before_commit": ("commit", "die_before"),
    "after_commit": ("commit", "die_after"),
}  # fmt: skip
_IN_THE_BLOCK: Final = "a handler that ends its job with ctx.transaction() is met at before_commit and after_commit"
_MISSED: Final[dict[Operation, str]] = {
    "claim": "no such job was claimed", "settle": f"no such job came to a good end of its own; {_IN_THE_BLOCK}",
    "enqueue": "nothing was enqueued there", "commit": "no such handler left a ctx.transaction() block",
}  # fmt: skip


class WorkerDied(BaseException):
    """Raised in a handler whose worker has died. `except Exception` does not catch it."""


@dataclass
class Armed:
    """One fault as the test asked for it, and how often it is still to happen."""

    said: str
    operation: Operation
    act: Act
    type: str | None = None
    left: int = 1
    expected: bool = True
    spared: set[str] | None = None  # with this, each job is met once

    def takes(self, job: Claimed) -> bool:
        if self.spared is not None and (job.id in self.spared or job.crash_policy == "fail" or job.retry_mode == "new_job"):
            return False
        return self.type in (None, job.type)


@dataclass(eq=False)
class Life:
    """One worker from its start to its end. `over`: it is about to die, or its kill came too early; what it tells the
    store now is the last thing, and it does nothing that follows from it. `killed`: it has died."""

    kill: Callable[[], object]
    over: bool = False
    killed: bool = False


class Faults:
    """The faults that a test can arm: `test.faults`."""

    def __init__(self, clock: ManualClock, driver: Callable[[], Driver]) -> None:
        self.happened: Final[list[str]] = []  # what was armed and has struck, in order
        self._clock = clock
        self._driver = driver  # the real one
        self._armed: list[Armed] = []
        self._away = False
        self._claimed: dict[Any, Claimed] = {}  # by their handles, by the present worker
        self._gone: set[str] = set()  # tokens of workers that died
        self._lives: list[Life] = []
        self._lock = threading.Lock()

    # ------------------------------------------------------------------------------------------------ said by a test

    def crash(self, point: Point, *, task: Task[..., Any] | None = None, times: int = 1) -> None:
        """Let the worker die when a job, or a job of this task, comes to a point.

        `before_handler`: the job is claimed, nothing else. `after_handler`: the handler has returned, and the store does
        not know. `after_settle`: the store knows, and the worker does not hear of it. `before_enqueue`, `after_enqueue`:
        at an enqueue of the handler. `before_commit`, `after_commit`: at the end of its `ctx.transaction()`."""
        if point not in _POINTS:
            raise InvalidInput("point", f"must be one of {', '.join(_POINTS)}, got {point!r}{did_you_mean(point, _POINTS)}")
        operation, act = _POINTS[point]
        self._arm(f"crash({point!r}{_of(task)})", operation, act, task, times)

    def die(self, *_: object, **__: object) -> NoReturn:
        """Let the worker die here, in the middle of a handler: put this in the place of something that the handler
        calls."""
        running = running_now()
        if running is None or not self._lives:
            raise AssertionError("faults.die() was called outside of a job that drain() runs")
        self.happened.append("faults.die()")
        self._die(running)
        raise WorkerDied

    def lose_lease(self, *, task: Task[..., Any] | None = None, times: int = 1) -> None:
        """Let the next job that ends well be too slow: its lease is over, another worker may run it, and its end is
        refused."""
        self._arm(f"lose_lease({_of(task)[2:]})", "settle", "lose_lease", task, times)

    def refuse(self, operation: Operation, *, times: int = 1) -> None:
        """Let the next call of this kind raise `StoreUnreachable`; nothing of it is stored."""
        self._arm(f"refuse({operation!r})", operation, "refuse", None, times)

    def lose_reply(self, operation: Operation, *, times: int = 1) -> None:
        """Let the next call of this kind be stored, and its caller get `OutcomeUnknown`."""
        self._arm(f"lose_reply({operation!r})", operation, "lose_reply", None, times)

    @contextmanager
    def store_away(self) -> Iterator[None]:
        """Let every call raise `StoreUnreachable` inside this block. The test itself can still read the store."""
        self._away = True
        try:
            yield
        finally:
            self._away = False

    @contextmanager
    def twice(self) -> Iterator[None]:
        """Let every job inside this block that ends well lose its lease once, and run a second time. Jobs that must never
        run twice are left out."""
        armed = Armed("twice", "settle", "lose_lease", left=1 << 62, expected=False, spared=set())
        self._armed.append(armed)
        try:
            yield
        finally:
            self._armed.remove(armed)

    def check(self) -> None:
        """Fail if an armed fault has not happened. `testing` and the plugin call this at the end of a test."""
        __tracebackhide__ = True
        if (missed := self.missed()) is not None:
            raise AssertionError(missed)

    def missed(self) -> str | None:
        """A text that names the armed faults that have not happened; None if there are none."""
        missed = [f"{one.said}: {_MISSED[one.operation]}" for one in self._armed if one.left > 0 and one.expected]
        return "\n  ".join(["these faults never happened, so nothing was tested:", *missed]) if missed else None

    def clear(self) -> None:
        """Disarm all faults that have not happened."""
        self._armed.clear()

    def _arm(self, said: str, operation: Operation, act: Act, task: Task[..., Any] | None, times: int) -> None:
        if operation not in get_args(Operation):
            raise InvalidInput("operation", f"must be one of {', '.join(get_args(Operation))}, got {operation!r}")
        if type(times) is not int or times < 1:
            raise InvalidInput("times", f"must be a whole number of at least 1, got {shown(times)}")
        self._armed.append(Armed(f"faults.{said}", operation, act, None if task is None else task.name, times))

    # ------------------------------------------------------------------------------------------------ met by the store

    def check_reachable(self) -> None:
        if self._away:
            raise away()

    async def meet(self, name: str, call: Call, args: tuple[Any, ...], running: Running | None = None) -> Any:
        """Every call of the app's, before it reaches the store and after."""
        running = running or running_now()
        self._check_alive(running)
        operation = _OPERATIONS.get(name)
        if operation is None:
            return await call()
        match self._striking(operation, _BEFORE, args, running):
            case Armed(act="refuse"):
                raise away()
            case Armed(act="die_before"):
                self._die(running)
            case Armed() as armed:
                return await self._settle_too_late(armed, args[0])
        if operation == "claim":
            return await self._claim(call, running)
        dying = self._striking(operation, _DYING, args, running)
        ending = [] if dying is None else self._end_lives()
        try:
            answer = await call()
        except BaseException:
            if dying is not None:
                self._spare(dying, ending)
            raise
        if dying is not None:
            self._die(running)
        if self._striking(operation, _LOSING, args, running) is not None:
            raise OutcomeUnknown("the store")
        return answer

    async def _claim(self, call: Call, running: Running | None) -> Any:
        """Whom it meets is told by the answer. One that comes to a worker which has died meanwhile is nobody's."""
        answer = await call()
        self._claimed |= {job.handle: job for job in answer}
        if any(life.over for life in self._lives):
            self._gone |= {job.token for job in answer}
            self._check_alive(running)
        match self._striking("claim", _DYING | _LOSING, (answer,), running):
            case Armed(act="die_after"):
                self._die(running)
            case Armed():
                raise OutcomeUnknown("the store")
        return answer

    def around(self, transaction: Any) -> FaultyTransaction:
        return FaultyTransaction(transaction, self, running_now())

    def is_too_late(self, running: Running | None) -> bool:
        """Whether a test says that the lease of a handler is lost by the end of its transaction."""
        fitting = [one for one in self._armed if one.act == "lose_lease" and one.spared is None]
        return running is not None and any(one.takes(running.job) and self._strikes(one) for one in fitting)

    def lapse(self, job: Claimed) -> None:
        """Its lease ends a moment from now, and that moment passes."""
        now = self._clock.now()
        apart(lambda: self._driver().extend([Renewal(job.handle, job.token)], lease_for=1, now=now))
        self._clock.advance(1)

    def _striking(
        self, operation: Operation, acts: frozenset[Act], args: tuple[Any, ...], running: Running | None
    ) -> Armed | None:
        """The first that is meant here, counted as one that has happened."""
        for armed in list(self._armed):
            fits = armed.operation == operation and armed.act in acts and self._is_meant(armed, args, running)
            if fits and (armed.act == "lose_lease" or self._strikes(armed)):  # that one counts by jobs
                return armed
        return None

    def _is_meant(self, armed: Armed, args: tuple[Any, ...], running: Running | None) -> bool:
        dies = armed.act in ("die_before", "die_after")
        if armed.left < 1 or (dies and not self._lives):
            return False
        match armed.operation:
            case "claim":
                return armed.act == "refuse" or any(map(armed.takes, args[0]))
            case "settle":
                return bool(self._ending_well(armed, args[0]))
            case "enqueue" | "commit":
                return not dies or (running is not None and armed.takes(running.job))

    def _ending_well(self, armed: Armed, changes: Sequence[Settlement]) -> list[Settlement]:
        """Those that this worker's own handlers have returned from. Recovery settles too, of others."""
        return [
            change for change in changes
            if (armed.act in ("refuse", "lose_reply") or isinstance(change, Ack))
            and change.handle in self._claimed and armed.takes(self._claimed[change.handle])
        ]  # fmt: skip

    async def _settle_too_late(self, armed: Armed, changes: Sequence[Settlement]) -> Any:
        """Their leases end a moment from now, and that moment passes: the store refuses by itself."""
        late = [change for change in self._ending_well(armed, changes) if self._strikes(armed)]
        if armed.spared is not None:
            armed.spared |= {self._claimed[change.handle].id for change in late}
        driver, renewals = self._driver(), [Renewal(change.handle, change.token) for change in late]
        await driver.extend(renewals, lease_for=1, now=self._clock.now())
        return await driver.settle(changes, now=self._clock.advance(1))

    def _strikes(self, armed: Armed) -> bool:
        """Handlers of several threads may come to one point at once."""
        with self._lock:
            if armed.left < 1:
                return False
            armed.left -= 1
            if armed.expected:
                self.happened.append(armed.said)
            return True

    # ------------------------------------------------------------------------------------------------ life and death

    @contextmanager
    def alive(self, kill: Callable[[], object]) -> Iterator[Life]:
        """While a worker runs: `kill` ends it from any thread, and says nothing to the store."""
        life = Life(kill)
        if not self._lives:
            self._claimed = {}
        self._lives.append(life)
        try:
            yield life
        finally:
            self._lives.remove(life)

    def _die(self, running: Running | None) -> None:
        """The process does: every worker of it."""
        self._gone |= {job.token for job in list(self._claimed.values())}
        for life in self._end_lives():
            life.killed = True
            life.kill()
        self._check_alive(running)

    def _end_lives(self) -> list[Life]:
        lives = list(self._lives)
        for life in lives:
            life.over = True
        return lives

    def _spare(self, armed: Armed, ending: Sequence[Life]) -> None:
        """They were to die after something that did not come about. Some may have died of something else meanwhile."""
        for life in ending:
            life.over = life.killed
        with self._lock:
            armed.left += 1
            if armed.expected:
                self.happened.remove(armed.said)

    def _check_alive(self, running: Running | None) -> None:
        """The dead say nothing, nor do handlers in threads that outlive them for a moment."""
        dead = any(life.over for life in self._lives)
        if running is not None and (dead or running.job.token in self._gone):
            raise WorkerDied
        if dead:
            raise StoreUnreachable("the store", "this worker is dead")
        self.check_reachable()


class FaultyTransaction:
    """A transaction of a handler on the real store, with faults at its commit."""

    def __init__(self, transaction: Any, faults: Faults, running: Running | None) -> None:
        self._transaction = transaction
        self._faults = faults
        self._running = running  # a commit may be made in a thread that does not know whose it is
        self._late = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def begin(self) -> None:
        self._meet("begin", self._transaction.begin)

    def settle(self, change: Settlement, *, now: Micros) -> Any:
        """Too late, as far as the store is told. The lease itself ends when its row is free again: before, somebody might
        take the job, and the handler would be stopped on its way here."""
        self._late = self._faults.is_too_late(self._running)
        return self._transaction.settle(change, now=now + LONGEST if self._late else now)

    def rollback(self) -> None:
        self._transaction.rollback()
        if self._late and self._running is not None:
            self._late = False
            self._faults.lapse(self._running.job)

    def enqueue(self, jobs: Any, *, now: Micros) -> Any:
        return self._meet("enqueue", lambda: self._transaction.enqueue(jobs, now=now))

    def commit(self) -> None:
        self._meet("commit", self._transaction.commit)

    def _meet(self, name: str, call: Callable[[], Any]) -> Any:
        async def waiting() -> Any:
            return call()

        return at_once(self._faults.meet(name, waiting, (), self._running))


def _of(task: Task[..., Any] | None) -> str:
    return "" if task is None else f", task={task.name}"
