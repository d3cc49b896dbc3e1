"""An app under test: a store of its own, a clock that stands still, randomness that repeats, the real worker.

    with testing(app) as test:
        await signup("ada@example.com")
        test.assert_enqueued(send_email, "ada@example.com")
        await test.drain()

`test.faults` lets the worker die, the store go away, a reply or a lease be lost.

Nothing is mocked: jobs are encoded, stored, claimed, decoded and settled as they are in production, only at once. Time
moves when the test says so, for delays, retries, schedules and leases alike; what really takes time, a handler's timeout
for instance, still does.
"""

from __future__ import annotations

import asyncio
import copy
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from datetime import datetime
from functools import wraps
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from msgspec.structs import replace

from windlass.apart import apart
from windlass.app import Windlass
from windlass.client import Client, joined
from windlass.clock import ManualClock, SystemClock, duration, instant
from windlass.context import current
from windlass.core.queries import AllSchedules
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Enqueued, JobQuery
from windlass.errors import InvalidInput, NoCurrentJob, WindlassError
from windlass.policies import Duration
from windlass.schedules import declare
from windlass.tasks import Task
from windlass.testing.enqueued import EnqueuedJob, Wanted, nearest, read
from windlass.testing.faults import Faults, WorkerDied
from windlass.testing.faulty import Faulty
from windlass.types import Job, Micros, NewJob
from windlass.urls import url_of_file
from windlass.worker import Stats, Worker
from windlass.worker.recovering import take_back

PAGE: Final = 500
ROUNDS: Final = 1_000  # of drain(retries=True), before it says that this will not end
MOMENTS: Final = 100_000  # of run_for()
LAST_WORDS: Final = 0.02  # seconds for the handler in which a worker dies to come to its end: the log is calmer so


@contextmanager
def testing(
    app: Windlass, *, store: Literal["memory", "sqlite"] = "memory", inline: bool = False, raise_errors: bool = False,
    now: datetime | None = None,
) -> Iterator[Testing]:  # fmt: skip
    """Give the app an empty store and a clock that stands still, for as long as the block lasts. After it the app has its
    own store back, unchanged.

    `now` is where the clock stands; default: the present time. With `inline`, each enqueue runs what is due before it
    returns. An exception of a handler is recorded as usual; with `raise_errors`, the enqueue that ran it raises it too."""
    if store not in ("memory", "sqlite"):
        raise InvalidInput("store", f"must be 'memory' or 'sqlite', got {store!r}")
    if raise_errors and not inline:
        raise InvalidInput("raise_errors", "errors can be raised by the enqueue that runs a job: add inline=True")
    clock = ManualClock(SystemClock().now() if now is None else instant(now))
    with tempfile.TemporaryDirectory(prefix="windlass-") as directory:
        url = "memory://" if store == "memory" else url_of_file(Path(directory) / "jobs.db")
        before, declared = app.client, len(app.declared)
        test = Testing(app, clock, raise_errors=raise_errors)
        client = InlineClient if inline else TestClient
        app.client = ours = client(url, before.settings, clock=clock, random=Random(0))
        ours.faults, ours.tracing = test.faults, before.tracing
        ours.declared = list(app.declared)
        if isinstance(ours, InlineClient):
            ours.run_due = test._run_inline
        try:
            yield test
            test.faults.check()
        finally:
            app.client = before
            before.declared += app.declared[declared:]
            apart(ours.close)


vars(testing)["__test__"] = False  # as with the class below: its name makes test runners curious


class Testing:
    """What `testing(app)` returns, and what the pytest fixture `windlass` is."""

    __test__ = False

    def __init__(self, app: Windlass, clock: ManualClock, *, raise_errors: bool) -> None:
        self.app: Final = app
        self.clock: Final = clock
        self.faults: Final = Faults(clock, lambda: self._store)
        self._raise_errors = raise_errors

    # ------------------------------------------------------------------------------------------------------------- time

    def advance(self, by: Duration) -> None:
        """Let time pass: `advance("5m")`. The next drain runs what is due by then, including schedules."""
        self._advance(duration(by, field="advance"))

    def _advance(self, by: Micros) -> None:
        if self.app.crons:  # a schedule counts from when it is stored, which otherwise the first worker does
            apart(lambda: declare(self.app.client, self.app.crons))
        self.clock.advance(by)

    async def run_for(self, time: Duration) -> Stats:
        """Let time pass, and run each job at the moment at which it is due, including delays, retries and schedules: a
        day of an hourly schedule is twenty-four jobs."""
        end = self.clock.now() + duration(time, field="run_for")
        self._advance(0)
        total = await self.drain()
        for _ in range(MOMENTS):
            due = await self._next_due()
            if due is None or due > end:
                self.clock.advance(max(end - self.clock.now(), 0))
                return total
            self.clock.advance(max(due - self.clock.now(), 0))
            _add(total, await self.drain())
        raise AssertionError(f"after {MOMENTS:,} moments there is still something due; let less time pass")

    def run_for_sync(self, time: Duration) -> Stats:
        """The blocking form of `run_for`."""
        return apart(lambda: self.run_for(time))

    async def _next_due(self) -> Micros | None:
        """The next moment at which something is to happen. What is due already waits for something else."""
        moments = [job.run_at for job in await self._queued()]
        moments += [row.next_trigger_at for row in await self._store.read(AllSchedules())]
        return min((at for at in moments if at is not None and at > self.clock.now()), default=None)

    # ---------------------------------------------------------------------------------------------------------- running

    async def drain(self, *, retries: bool = False, twice: bool = False) -> Stats:
        """Run what is due, and what that enqueues, until nothing is due. With `retries`, also let time pass until failed
        jobs are due again, until all have succeeded or are dead. With `twice`, run every job that ends well a second
        time, as if its worker had died before it could say so: a handler that can bear this is idempotent."""
        with self.faults.twice() if twice else nullcontext():
            return await self._drain_all(retries)

    async def _drain_all(self, retries: bool) -> Stats:
        total = await self._drain(self.app.tasks)
        for _ in range(ROUNDS if retries else 0):
            due = [job.run_at for job in await self._queued() if job.attempts and job.run_at is not None]
            if not due:
                return total
            self.clock.advance(max(min(due) - self.clock.now(), 0))
            _add(total, await self._drain(self.app.tasks))
        if retries:
            raise AssertionError(f"after {ROUNDS:,} rounds there are still retries to come; bound them with Retry(...)")
        return total

    def drain_sync(self, *, retries: bool = False, twice: bool = False) -> Stats:
        """The blocking form of `drain`. It has an event loop of its own, so it also works where one is running already."""
        return apart(lambda: self.drain(retries=retries, twice=twice))

    async def _drain(self, tasks: Mapping[str, Task[..., Any]]) -> Stats:
        """Drain all queues. A worker serves only the queues that it was told of, so look whether jobs have gone to
        others."""
        self.faults.check_reachable()
        total, served, died = Stats(), set[str](), False
        while True:
            queues = {job.queue for job in await self._queued()} | {task.queue for task in tasks.values()}
            if queues <= served and not died and not await self._lapsed():
                return total
            served |= queues
            worker = Worker(
                self.app.client,
                tasks,
                queues=sorted(served),
                target=self.app.child_target(),
                crons=self.app.crons,
                hooks=self.app.hooks,
                resources=self.app.resources,
            )
            died = not await self._lives(worker)
            _add(total, worker.stats)

    async def _lives(self, worker: Worker) -> bool:
        """Run a worker to its end. If it dies, what it held is taken back, as a supervisor does it."""
        loop = asyncio.get_running_loop()
        running = loop.create_task(worker.run(drain=True))

        def end() -> None:
            loop.call_later(LAST_WORDS, running.cancel)

        with self.faults.alive(kill=lambda: loop.call_soon_threadsafe(end)) as life:
            try:
                await running
            except (asyncio.CancelledError, WindlassError, WorkerDied):
                if not life.over or _is_cancelled():
                    raise
        if life.over:
            await take_back(self.app.client, worker.id)
        return not life.over

    @property
    def _store(self) -> Driver:
        """The store itself, which the test may read whatever fault is in the way."""
        driver = self.app.client.driver
        return driver.driver if isinstance(driver, Faulty) else driver

    async def _queued(self) -> list[Job]:
        return await self._find(JobQuery(states=("queued",), limit=PAGE))

    async def _lapsed(self) -> bool:
        """Whether a lease has run out that a worker on its way out may not have decided about."""
        running = await self._find(JobQuery(states=("running",), limit=PAGE))
        return any(job.lease_expires_at is not None and job.lease_expires_at <= self.clock.now() for job in running)

    async def _run_inline(self, ids: Sequence[str]) -> None:
        errors: list[Exception] = []
        tasks: Mapping[str, Task[..., Any]] = self.app.tasks
        if self._raise_errors:
            tasks = {name: _telling(task, errors.append) for name, task in tasks.items()}
        await self._drain(tasks)
        while any(job and job.state == "running" for job in await self._store.get(ids)):  # noqa: ASYNC110
            await asyncio.sleep(0.005)  # another enqueue's worker has it
        if errors:
            raise errors[0]

    # ---------------------------------------------------------------------------------------------------------- looking

    def jobs(self) -> list[Job]:
        """All jobs of the store in the order of their creation. A retry of a `new_job` task is a job of its own."""
        return apart(lambda: self._find(JobQuery(superseded=True, limit=PAGE)))

    async def _find(self, query: JobQuery) -> list[Job]:
        found: list[Job] = []
        before: int | None = None
        while True:
            page = await self._store.find(replace(query, before=before))
            found += page.jobs
            before = page.cursor
            if before is None:
                return found[::-1]

    def enqueued(self, task: Task[..., Any] | None = None) -> list[EnqueuedJob]:
        """The jobs that were enqueued so far, in order, whether they have run or not."""
        return [
            read(job, self.app.tasks)
            for job in self.jobs()
            if job.retry_of is None and (task is None or job.type == task.name)
        ]

    def assert_enqueued(
        self, task: Task[..., Any], /, *args: Any, using: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> EnqueuedJob:
        """Fail unless a job of the task was enqueued with these arguments and options; those that are not given may be
        anything. Returns the last job that matches."""
        __tracebackhide__ = True
        wanted, enqueued = Wanted(task, args, kwargs, using, self.clock.now()), self.enqueued()
        fitting = [one for one in enqueued if not wanted.differences(one)]
        if not fitting:
            raise AssertionError(f"{wanted} was not enqueued; {nearest(wanted, enqueued)}")
        return fitting[-1]

    def assert_not_enqueued(
        self, task: Task[..., Any], /, *args: Any, using: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Fail if a job of the task was enqueued with these arguments and options."""
        __tracebackhide__ = True
        wanted = Wanted(task, args, kwargs, using, self.clock.now())
        fitting = [str(one) for one in self.enqueued() if not wanted.differences(one)]
        if fitting:
            raise AssertionError(f"{wanted} was enqueued: {', '.join(fitting)}")


class TestClient(Client):
    """A client whose store the faults of a test stand in front of."""

    __test__ = False
    faults: Faults

    def dressed(self, driver: Driver) -> Driver:
        store: Any = Faulty(super().dressed(driver), self.faults)
        dressed: Driver = store
        return dressed


class InlineClient(TestClient):
    """A client that runs what is due before an enqueue returns. Inside a handler or an open transaction it does not; then
    the code that runs the handler does, or the next enqueue after the commit."""

    run_due: Callable[[Sequence[str]], Coroutine[Any, Any, None]]

    async def enqueue(self, new: Sequence[NewJob], now: Micros, conn: object = None, notify: bool = True) -> list[Enqueued]:
        answers = await super().enqueue(new, now, conn, notify)
        if _may_run(conn):
            await self.run_due([answer.id for answer in answers])
        return answers

    def enqueue_sync(self, new: Sequence[NewJob], now: Micros, conn: object = None, notify: bool = True) -> list[Enqueued]:
        answers = super().enqueue_sync(new, now, conn, notify)
        if _may_run(conn):
            apart(lambda: self.run_due([answer.id for answer in answers]))
        return answers


def _may_run(conn: object) -> bool:
    try:
        current()
    except NoCurrentJob:
        return conn is None and joined.get() is None
    return False


def _telling(task: Task[..., Any], tell: Callable[[Exception], None]) -> Task[..., Any]:
    """The task, with a handler that also reports its exceptions."""
    function = task.handler

    @wraps(function)
    async def waiting(*args: Any, **kwargs: Any) -> Any:
        try:
            return await function(*args, **kwargs)
        except Exception as error:
            tell(error)
            raise

    @wraps(function)
    def blocking(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            tell(error)
            raise

    twin = copy.copy(task)
    twin.handler = waiting if task.is_async else blocking
    return twin


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _add(total: Stats, more: Stats) -> None:
    for field in fields(Stats):
        setattr(total, field.name, getattr(total, field.name) + getattr(more, field.name))
