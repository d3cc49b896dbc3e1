"""An app under test: a store of its own, a clock that stands still, randomness that repeats, the real worker.

    with testing(app) as test:
        await signup("ada@example.com")
        test.assert_enqueued(send_email, "ada@example.com")
        await test.drain()

Nothing is mocked: jobs are encoded, stored, claimed, decoded and settled as they are in production, only at once. Time
moves when the test says so, for delays, retries and leases alike; what really takes time, a handler's timeout for
instance, still does.
"""

from __future__ import annotations

import asyncio
import copy
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from windlass.drivers.protocol import Enqueued, JobQuery
from windlass.errors import InvalidInput, NoCurrentJob
from windlass.policies import Duration
from windlass.tasks import Task
from windlass.testing.enqueued import EnqueuedJob, Wanted, nearest, read
from windlass.types import Job, Micros, NewJob
from windlass.worker import Stats, Worker

PAGE: Final = 500
ROUNDS: Final = 1_000  # of drain(retries=True), before it says that this will not end


@contextmanager
def testing(
    app: Windlass, *, store: Literal["memory", "sqlite"] = "memory", inline: bool = False, raise_errors: bool = False,
    now: datetime | None = None,
) -> Iterator[Testing]:  # fmt: skip
    """Give the app an empty store and a frozen clock for the block; its own are back afterwards, untouched.

    `now`: where the clock stands, else at the present moment. `inline`: each enqueue runs what is due before it returns;
    a handler's exception is recorded as ever, and with `raise_errors` also raised by the enqueue that ran it."""
    if store not in ("memory", "sqlite"):
        raise InvalidInput("store", f"must be 'memory' or 'sqlite', got {store!r}")
    if raise_errors and not inline:
        raise InvalidInput("raise_errors", "errors can be raised by the enqueue that runs a job: add inline=True")
    clock = ManualClock(SystemClock().now() if now is None else instant(now))
    with tempfile.TemporaryDirectory(prefix="windlass-") as directory:
        url = "memory://" if store == "memory" else f"sqlite:///{Path(directory) / 'jobs.db'}"
        before, declared = app.client, len(app.declared)
        test = Testing(app, clock, raise_errors=raise_errors)
        client = InlineClient if inline else Client
        app.client = client(url, before.settings, clock=clock, random=Random(0))
        app.client.declared = list(app.declared)
        if isinstance(app.client, InlineClient):
            app.client.run_due = test._run_inline
        try:
            yield test
        finally:
            ours, app.client = app.client, before
            before.declared += app.declared[declared:]
            apart(ours.close)


vars(testing)["__test__"] = False  # as with the class below: its name makes test runners curious


class Testing:
    """What `testing(app)` gives."""

    __test__ = False

    def __init__(self, app: Windlass, clock: ManualClock, *, raise_errors: bool) -> None:
        self.clock: Final = clock
        self._app = app
        self._raise_errors = raise_errors

    # ------------------------------------------------------------------------------------------------------------- time

    def advance(self, by: Duration) -> None:
        """Let time pass: `advance("5m")`. What is due by then runs with the next drain."""
        self.clock.advance(duration(by, field="advance"))

    # ---------------------------------------------------------------------------------------------------------- running

    async def drain(self, *, retries: bool = False) -> Stats:
        """Run what is due, and what that enqueues, until nothing is. With `retries`, let the time pass until failed jobs
        are due again, until all have succeeded or are dead."""
        total = await self._drain(self._app.tasks)
        for _ in range(ROUNDS if retries else 0):
            due = [job.run_at for job in await self._queued() if job.attempts and job.run_at is not None]
            if not due:
                return total
            self.clock.advance(max(min(due) - self.clock.now(), 0))
            _add(total, await self._drain(self._app.tasks))
        if retries:
            raise AssertionError(f"after {ROUNDS:,} rounds there are still retries to come; bound them with Retry(...)")
        return total

    def drain_sync(self, *, retries: bool = False) -> Stats:
        """The same, blocking. It has an event loop of its own, also where one is running already."""
        return apart(lambda: self.drain(retries=retries))

    async def _drain(self, tasks: Mapping[str, Task[..., Any]]) -> Stats:
        """A worker only serves the queues it was told of, so look whether jobs have gone to others."""
        total, served = Stats(), set[str]()
        while True:
            queues = {job.queue for job in await self._queued()} | {task.queue for task in tasks.values()}
            if queues <= served and not await self._lapsed():
                return total
            served |= queues
            worker = Worker(
                self._app.client, tasks, queues=sorted(served), target=self._app.child_target(), crons=self._app.crons
            )
            _add(total, await worker.run(drain=True))

    async def _queued(self) -> list[Job]:
        return await self._find(JobQuery(states=("queued",), limit=PAGE))

    async def _lapsed(self) -> bool:
        """Whether somebody has let a lease run out, which a worker on its way out may not have decided about."""
        running = await self._find(JobQuery(states=("running",), limit=PAGE))
        return any(job.lease_expires_at is not None and job.lease_expires_at <= self.clock.now() for job in running)

    async def _run_inline(self, ids: Sequence[str]) -> None:
        errors: list[Exception] = []
        tasks: Mapping[str, Task[..., Any]] = self._app.tasks
        if self._raise_errors:
            tasks = {name: _telling(task, errors.append) for name, task in tasks.items()}
        await self._drain(tasks)
        while any(job and job.state == "running" for job in await self._app.client.driver.get(ids)):  # noqa: ASYNC110
            await asyncio.sleep(0.005)  # another enqueue's worker has it
        if errors:
            raise errors[0]

    # ---------------------------------------------------------------------------------------------------------- looking

    def jobs(self) -> list[Job]:
        """Every row of the store, in the order of their creation, retries of `new_job` tasks included."""
        return apart(lambda: self._find(JobQuery(superseded=True, limit=PAGE)))

    async def _find(self, query: JobQuery) -> list[Job]:
        found: list[Job] = []
        before: int | None = None
        while True:
            page = await self._app.client.driver.find(replace(query, before=before))
            found += page.jobs
            before = page.cursor
            if before is None:
                return found[::-1]

    def enqueued(self, task: Task[..., Any] | None = None) -> list[EnqueuedJob]:
        """What was enqueued so far, in order, whether it has run by now or not."""
        return [
            read(job, self._app.tasks)
            for job in self.jobs()
            if job.retry_of is None and (task is None or job.type == task.name)
        ]

    def assert_enqueued(
        self, task: Task[..., Any], /, *args: Any, using: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> EnqueuedJob:
        """Fail unless a job of the task was enqueued with these arguments and options; those not named may be anything.

        Answers the last one that fits."""
        wanted, enqueued = Wanted(task, args, kwargs, using, self.clock.now()), self.enqueued()
        fitting = [one for one in enqueued if not wanted.differences(one)]
        if not fitting:
            raise AssertionError(f"{wanted} was not enqueued; {nearest(wanted, enqueued)}")
        return fitting[-1]

    def assert_not_enqueued(
        self, task: Task[..., Any], /, *args: Any, using: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Fail if a job of the task was enqueued with these arguments and options."""
        wanted = Wanted(task, args, kwargs, using, self.clock.now())
        fitting = [str(one) for one in self.enqueued() if not wanted.differences(one)]
        if fitting:
            raise AssertionError(f"{wanted} was enqueued: {', '.join(fitting)}")


class InlineClient(Client):
    """Runs what is due before an enqueue returns, unless that would be inside a handler or an open transaction: then
    whoever runs the handler, or the next enqueue after the commit, does."""

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
    """The same task, which also tells of its handler's exceptions."""
    function = task.function

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
    vars(twin)["function"] = waiting if task.is_async else blocking
    return twin


def _add(total: Stats, more: Stats) -> None:
    for field in fields(Stats):
        setattr(total, field.name, getattr(total, field.name) + getattr(more, field.name))
