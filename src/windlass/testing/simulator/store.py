"""The one real store of a world: calls take effect in it at one instant, and every one of them is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from windlass.core.queries import AllEvents, AllGroups, AllHolds, AllLimits, AllQueues, AllWorkers, DeliveriesOf
from windlass.drivers.memory import MemoryDriver, inspect
from windlass.drivers.paging import every_run
from windlass.drivers.protocol import Driver
from windlass.drivers.values import JobQuery
from windlass.errors import WindlassError
from windlass.records import Delivery, Event
from windlass.testing.simulator.calls import Call
from windlass.testing.simulator.invariants import Checker
from windlass.testing.simulator.loop import SimLoop
from windlass.testing.simulator.telling import WEBHOOK
from windlass.testing.simulator.world import Process, World
from windlass.types import Group, Hold, Job, Limit, Queue, Run

T = TypeVar("T")
OUTSIDE: Final = SimLoop(lambda: 0)  # type: ignore[abstract]  # drivers ask which loop is running, also when no process is


def run_now(call: Coroutine[Any, Any, T]) -> T:
    """Run a call that never waits. Memory does not, and SQLite with `inline=True` does not either."""
    is_outside = asyncio._get_running_loop() is None
    if is_outside:
        asyncio._set_running_loop(OUTSIDE)
    try:
        call.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    finally:
        if is_outside:
            asyncio._set_running_loop(None)
    call.close()
    raise RuntimeError("this driver waits inside a call: simulate memory, or SQLite opened with inline=True")


class DriverRows:
    """The rows of any driver, by asking it."""

    cheap = False

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def jobs(self) -> Mapping[int, Job]:
        page = run_now(self._driver.find(JobQuery(superseded=True, limit=10_000)))
        return {job.seq: job for job in reversed(page.jobs)}

    def runs(self, job: Job) -> list[Run]:
        return run_now(every_run(self._driver, job.id))

    def limits(self) -> Iterable[Limit]:
        return run_now(self._driver.read(AllLimits()))

    def groups(self) -> Iterable[Group]:
        return run_now(self._driver.read(AllGroups()))

    def queue(self, name: str) -> Queue | None:
        return next((queue for queue in run_now(self._driver.read(AllQueues())) if queue.name == name), None)

    def workers(self) -> Collection[str]:
        return [worker.id for worker in run_now(self._driver.read(AllWorkers()))]

    def holds(self) -> Iterable[Hold]:
        return run_now(self._driver.read(AllHolds()))

    def events(self) -> Iterable[Event]:
        return run_now(self._driver.read(AllEvents()))

    def deliveries(self) -> Iterable[Delivery]:
        return run_now(self._driver.read(DeliveriesOf(webhook_id=WEBHOOK.webhook_id, limit=10_000)))


class MemoryRows:
    """The rows of the memory driver, where they are: thousands of seeds a minute leave no time for asking."""

    cheap = True

    def __init__(self, driver: MemoryDriver) -> None:
        self._tables = driver._tables

    def jobs(self) -> Mapping[int, Job]:
        return self._tables.jobs

    def runs(self, job: Job) -> list[Run]:
        return inspect.every_run(self._tables, job)

    def limits(self) -> Iterable[Limit]:
        return self._tables.limits.values()

    def groups(self) -> Iterable[Group]:
        return self._tables.groups.values()

    def queue(self, name: str) -> Queue | None:
        return self._tables.queues.get(name)

    def workers(self) -> Collection[str]:
        return self._tables.workers

    def holds(self) -> Iterable[Hold]:
        return self._tables.holds.values()

    def events(self) -> Iterable[Event]:
        return self._tables.outbox.values()

    def deliveries(self) -> Iterable[Delivery]:
        return self._tables.deliveries.values()


class Store:
    def __init__(self, world: World, driver: Driver) -> None:
        self.world = world
        self.driver = driver
        rows = MemoryRows(driver) if isinstance(driver, MemoryDriver) else DriverRows(driver)
        self.checker = Checker(world, rows)
        self.waiting: list[tuple[Process, asyncio.Future[bool]]] = []
        self.unseen: set[str] = set()  # processes that something was committed for while they did not wait
        self.lose_wakeup = 0.0
        self.calls = 0

    def apply(self, process: Process, method: str, *args: Any, **kwargs: Any) -> Any:
        """Let a call take effect, whole, at this instant; then look at what it did."""
        self.calls += 1
        answer: Any = None
        error: WindlassError | None = None
        try:
            answer = run_now(getattr(self.driver, method)(*args, **kwargs))
        except WindlassError as refused:
            error = refused
        call = Call(
            process.name, method, args[0] if args else None, kwargs.get("now", 0), answer, error, kwargs.get("epoch")
        )
        if self.checker.observe(call) and method != "extend":  # a renewal is no news for anybody else
            self._wake()
        if overflow := process.overflow():
            self.world.history.break_rule("buffers stay within their bounds", overflow, who=process.name)
        if error is not None:
            raise error
        return answer

    def _wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        awake = set()
        for process, told in waiting:
            if self.lose_wakeup and self.world.random.random() < self.lose_wakeup:
                self.world.history.faults["lost wake-up"] += 1
                self.waiting.append((process, told))
            else:
                process.loop.call_soon(_tell, told)
            awake.add(process.name)
        self.unseen.update(p.name for p in self.world.processes if p.name not in awake)


def _tell(told: asyncio.Future[bool]) -> None:
    if not told.done():
        told.set_result(True)
