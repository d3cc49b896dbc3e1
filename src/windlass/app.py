"""`Windlass`: tasks, a client and a worker under one name. The composition root; every rule is elsewhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from types import TracebackType
from typing import Any, Final, Literal, ParamSpec, TypeVar, Unpack, overload

from windlass.admin import Admin
from windlass.client import Client
from windlass.clock import Clock, duration
from windlass.config import DEFAULT_URL, SettingsOptions, settings_from
from windlass.core.admission import check_name, check_one_of, check_queues
from windlass.core.admission_of_changes import POSITIONS, check_alteration
from windlass.core.alterations import Alteration, PutLimit, PutQueue
from windlass.crons import CronDecorator, CronOptions, declaring
from windlass.definitions import Declared, rule_of
from windlass.drivers.protocol import Driver
from windlass.errors import InvalidInput, UnknownTask
from windlass.groups import GroupHandle, OpenGroup
from windlass.handles import JobHandle
from windlass.holds import QueueHold
from windlass.hooks import H, Hooks
from windlass.limits import Limits, described
from windlass.middleware import M, Middleware
from windlass.options import CommandOptions, TaskOptions
from windlass.policies import Duration
from windlass.presets import Preset
from windlass.presets import preset as preset_named
from windlass.programs import program
from windlass.repository import Repository
from windlass.resources import F, Resources
from windlass.schedules import Schedules, Templates
from windlass.targets import target_of
from windlass.tasks import AsyncTask, CommandTask, ContextDecorator, Decorator, PreparedJob, SyncTask, Task, make_task
from windlass.telemetry.measures import Measures
from windlass.types import GroupMode, Micros, OnFailure, Order, Positions
from windlass.words import System, did_you_mean
from windlass.worker import Stats, Worker
from windlass.worker.serving import serve

P = ParamSpec("P")
R = TypeVar("R")


class Windlass:
    """A program's jobs: where they are stored, which tasks there are, how they are run.

    `url` is `sqlite:///jobs.db`, `postgresql://user@host/database` or `memory://`; left out it is `$WINDLASS_URL`, else
    `sqlite:///windlass.db`. Nothing is opened before the first use. Settings are those of `windlass.config.Settings`, also
    as `WINDLASS_<NAME>`."""

    def __init__(
        self, url: str | None = None, *, driver: Driver | None = None, clock: Clock | None = None,
        random: Random | None = None, **settings: Unpack[SettingsOptions],
    ) -> None:  # fmt: skip
        if url is not None and not isinstance(url, str):
            raise InvalidInput("url", f"must be text such as 'sqlite:///jobs.db', got {url!r}")
        url = url or os.environ.get("WINDLASS_URL") or DEFAULT_URL
        self.client: Client = Client(url, settings_from(settings), driver=driver, clock=clock, random=random)
        self.tasks: Final[dict[str, Task[..., Any]]] = {}
        self.declared: Final[list[Alteration]] = []  # queues and limits as the program describes them
        self.crons: Final[list[Declared]] = []  # schedules as the program describes them
        self.templates: Final = Templates(self)
        self.schedules: Final = Schedules(self)
        self.target: str | None = None  # module:attribute by which child processes import this app
        self.hooks: Final = Hooks()
        self.resources: Final = Resources()
        self.layers: Final = Middleware()
        self._presets: dict[str, Preset | None] = {}
        self._repository: Repository | None = None

    # ---------------------------------------------------------------------------------------------------- declarations

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, *, context: Literal[True], **options: Unpack[TaskOptions]) -> ContextDecorator: ...
    @overload
    def task(self, *, context: Literal[False] = False, **options: Unpack[TaskOptions]) -> Decorator: ...
    def task(  # type: ignore[misc]
        self, function: Callable[..., Any] | None = None, /, *, context: bool = False, **options: Any
    ) -> Any:
        """Make a function a task: `@app.task` or `@app.task(queue="mail", retry=Retry(max_retries=5), timeout="30s")`.

        With `context=True` the function takes a `Context` first, which is not part of `enqueue`'s signature."""
        if function is None:
            return lambda decorated: self._register(make_task(self, decorated, context=context, options=options))
        return self._register(make_task(self, function, context=context, options=options))

    def cron(
        self, cron: str | None = None, /, *, name: str | None = None, every: Duration | None = None,
        **options: Unpack[CronOptions],
    ) -> CronDecorator:  # fmt: skip
        """Run a task by a rule: `@app.cron("0 9 * * MON-FRI", tz="Europe/Berlin", catch_up="last")` above a function or a
        task. `every="15m"` is an interval. `params` are the task's arguments by name; `name` is the schedule's, else the
        task's. It is stored when a worker starts; whether it is paused is for people to say."""
        return declaring(self, rule_of(cron, every), name, options)

    def on(self, event: str) -> Callable[[H], H]:
        """Call a function, plain or async, with a `JobEvent` when a worker of this process has settled a job so:
        `@app.on("job.dead")`, also job.succeeded, job.retried, job.cancelled; or with a `WorkerEvent` at worker.started and
        worker.stopped.

        It runs after the commit, beside the work, at most once: a worker that dies in between does not make up for it. A
        webhook does."""
        return lambda hook: self.hooks.add(event, hook)

    def resource(self, function: F) -> F:
        """What handlers share, opened when a worker starts and closed when it has ended; `ctx.resource(Pool)` answers it:

            @app.resource
            async def pool() -> AsyncIterator[Pool]:
                async with connect() as opened:
                    yield opened

        A plain `def` with `Iterator[Pool]` does as well. Each child process opens them anew."""
        return self.resources.add(function)

    def middleware(self, function: M) -> M:
        """Go around every execution of a handler, with a generator that takes the `Context` and yields once; the first
        that is declared is the outermost. What it raises is how the execution ends. See `windlass.middleware`."""
        self.layers.add(function)
        for task in self.tasks.values():
            self._surround(task)
        return function

    def _surround(self, task: Task[..., Any]) -> None:
        if task.program is None:
            task.handler = self.layers.around(task.function, is_async=task.is_async)

    def command(
        self, name: str, command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None,
        artifacts: Sequence[str] = (), **options: Unpack[CommandOptions],
    ) -> CommandTask:  # fmt: skip
        """Make a program a task: `backup = app.command("backup", ["pg_dump", "--file", "{path}"], artifacts=["{path}"])`,
        then `backup.enqueue(path="jobs.dump")`.

        There is no shell, and each element of `command` becomes one argument. `env` is added to the worker's environment.
        Another exit code than 0 is a failure; what the program prints is the run's log."""
        check_name("name", name)
        task = CommandTask(self, program(name, command, env, cwd, artifacts), options)
        self._register(task)
        return task

    def _register(self, task: Task[..., Any]) -> Task[..., Any]:
        if task.name in self.tasks:
            other = self.tasks[task.name].function
            raise InvalidInput(
                "name", f"{task.name!r} is already the task {other.__module__}.{other.__qualname__}; "
                f"name this one apart: @app.task(name={task.name + '_2'!r})"
            )  # fmt: skip
        self._surround(task)
        self.tasks[task.name] = task
        return task

    def queue(
        self, name: str, *, preset: System | None = None, positions: Positions | None = None,
        max_running: int | None = None, order: Order = "strict", ageing: tuple[Duration, int] | None = None,
    ) -> None:  # fmt: skip
        """Describe a queue. A preset makes it behave as one of the source systems: retries, crashes, keys, order.

        `max_running` jobs of it run at once, on all machines. With `order="fair"` orgs take turns by their weights.
        `ageing=("10m", 5)` raises the priority of jobs by one for every ten minutes they wait, up to 5."""
        check_name("queue", name)
        chosen = None if preset is None else preset_named(preset)
        if any(task.queue == name for task in self.tasks.values()):
            raise InvalidInput("queue", f"describe {name!r} before the tasks that use it: their policies come from it")
        if positions is not None:
            check_one_of("positions", positions, POSITIONS)
        placed = positions or (chosen.positions if chosen else "tail")
        after, to = _ageing(ageing)
        most = max_running if max_running is not None or chosen is None else chosen.max_running
        changes: list[Alteration] = [
            PutQueue(name, positions=placed, preset=preset, order=order, age_after=after, age_to=to)
        ]
        if most is not None:
            changes.append(PutLimit(f"queue:{name}", most, declared=True))
        for change in changes:
            check_alteration(change)
        self._presets[name] = chosen
        self._declare(*changes)

    def limit(
        self, key: str, most: int | None = None, *, rate: str | float | None = None, burst: float | None = None,
        weight: float = 1.0,
    ) -> None:  # fmt: skip
        """Describe a limit: `app.limit("gpu", 2)`, `app.limit("org:acme", 5, weight=2)`,
        `app.limit("key:api", rate="10/s", burst=20)`. It holds for all machines. `app.limits` changes one at run time."""
        change = described(key, most, rate=rate, burst=burst, weight=weight, declared=True)
        check_alteration(change)
        if any(isinstance(other, PutLimit) and other.key == change.key for other in self.declared):
            raise InvalidInput("limit", f"{change.key!r} is described twice")
        self._declare(change)

    @property
    def limits(self) -> Limits:
        """Look at limits and change them, now."""
        return Limits(self.client)

    def _declare(self, *changes: Alteration) -> None:
        self.declared.extend(changes)
        self.client.declared.extend(changes)

    def preset_of(self, queue: str) -> Preset | None:
        check_name("queue", queue)
        return self._presets.get(queue)

    def find_task(self, name: str) -> Task[..., Any]:
        if name not in self.tasks:
            raise UnknownTask(name, did_you_mean(name, self.tasks))
        return self.tasks[name]

    # ------------------------------------------------------------------------------------------------------------- jobs

    async def enqueue_many(
        self, jobs: Iterable[PreparedJob[R]], *, conn: object = None, notify: bool = True
    ) -> list[JobHandle[R]]:
        """All of them in one transaction, or with `conn` in yours: `await app.enqueue_many(task.job(x) for x in xs)`."""
        prepared = _prepared(jobs)
        answers = await self.client.enqueue([one.new for one in prepared], self.client.now(), conn, notify)
        return [JobHandle(self.client, a.id, one.results, a.existed) for one, a in zip(prepared, answers, strict=True)]

    def enqueue_many_sync(
        self, jobs: Iterable[PreparedJob[R]], *, conn: object = None, notify: bool = True
    ) -> list[JobHandle[R]]:
        """The same, blocking."""
        prepared = _prepared(jobs)
        answers = self.client.enqueue_sync([one.new for one in prepared], self.client.now(), conn, notify)
        return [JobHandle(self.client, a.id, one.results, a.existed) for one, a in zip(prepared, answers, strict=True)]

    def group(
        self, name: str, *, mode: GroupMode = "parallel", on_failure: OnFailure = "stop", id: str | None = None,  # noqa: A002
        conn: object = None, notify: bool = True,
    ) -> OpenGroup:  # fmt: skip
        """Jobs that belong together, stored in one transaction when the block ends, or with `conn` in yours:

            async with app.group("nightly", mode="sequential") as g:
                g.add(extract.job(day))
                g.add(load.job(day))

        `with` does the same from blocking code. When a member fails for good: `stop` cancels those that have not begun,
        `continue` goes on, `skip` goes on and forgives."""
        return OpenGroup(self.client, name, mode=mode, on_failure=on_failure, group_id=id, conn=conn, notify=notify)

    def group_by_id(self, group_id: str) -> GroupHandle:
        """A group that is stored."""
        check_name("group_id", group_id)
        return GroupHandle(self.client, group_id)

    def job(self, job_id: str) -> JobHandle[Any]:
        """A job by its id. Every call on it follows a retry chain to its last link."""
        if not isinstance(job_id, str):
            raise InvalidInput("id", f"must be text, got {job_id!r}")
        return JobHandle(self.client, job_id, None)

    def hold(self, queue: str, by: str, expires_in: Duration = "5m", wait: Duration | None = None) -> QueueHold:
        """A queue for oneself, for direct execution: `async with app.hold("gpu", by="api-7"):` or plain `with`.

        Nothing of the queue starts from the moment it is asked for; the block begins when what runs has ended. `wait` is
        how long that may take (None: for ever, 0: not at all), then `ResourceBusy`. The hold is renewed every third of
        `expires_in`; a block whose hold is lost ends with `HoldLost`."""
        return QueueHold(self.client, queue, by, expires_in, wait)

    @property
    def admin(self) -> Admin:
        """Look at jobs and queues, and change them; the audit log says that `code` did. In somebody's name:
        `app.admin.acting_as("ada")`."""
        return Admin(self.client, self.tasks).acting_as("code")

    @property
    def repository(self) -> Repository:
        """Harmonyk's three calls: enqueue, mark_success, mark_failure."""
        if self._repository is None or self._repository.client is not self.client:
            self._repository = Repository(self.client, self.tasks)
        return self._repository

    # ----------------------------------------------------------------------------------------------------------- running

    def worker(
        self, *, queues: Sequence[str] | None = None, concurrency: int | None = None, threads: int | None = None,
        children: int | None = None, max_jobs: int | None = None, worker_id: str | None = None, target: str | None = None,
        measures: Measures | None = None,
    ) -> Worker:  # fmt: skip
        """`children`: process handlers and commands at once. `target`: the module:attribute by which child processes can
        import this app, where it is not a name in an imported module. `measures`: where waits and runs are counted."""
        counts = {"concurrency": concurrency, "threads": threads, "children": children, "max_jobs": max_jobs}
        for field in [field for field, count in counts.items() if count is not None]:
            _check_count(field, counts[field])
        if queues:
            check_queues(queues)
        self.layers.check([(task.name, task.is_async) for task in self.tasks.values() if task.program is None])
        if worker_id is not None:
            check_name("worker_id", worker_id)
        return Worker(
            self.client, self.tasks, queues=queues, concurrency=concurrency, threads=threads, children=children,
            max_jobs=max_jobs, worker_id=worker_id, target=self.child_target(target), crons=self.crons,
            hooks=self.hooks, resources=self.resources, measures=measures,
        )  # fmt: skip

    def child_target(self, given: str | None = None) -> str | None:
        """How a child process finds this app. None when no task needs it to."""
        needing = [task for task in self.tasks.values() if task.run == "process" and task.program is None]
        return target_of(self, needing, given or self.target) if needing else None

    def run(
        self, *, queues: Sequence[str] | None = None, concurrency: int | None = None, threads: int | None = None,
        children: int | None = None, drain: bool = False, target: str | None = None,
    ) -> Stats:  # fmt: skip
        """Be a worker until SIGTERM or Ctrl-C; with `drain`, until nothing is due. For scripts."""

        async def main() -> Stats:
            worker = self.worker(queues=queues, concurrency=concurrency, threads=threads, children=children, target=target)
            try:
                return await serve(worker, drain=drain)
            finally:
                await self.close()

        return asyncio.run(main())

    @asynccontextmanager
    async def running(
        self, *, queues: Sequence[str] | None = None, concurrency: int | None = None, threads: int | None = None,
        children: int | None = None, target: str | None = None,
    ) -> AsyncIterator[Worker]:  # fmt: skip
        """A worker inside this event loop, for as long as the block lasts: in an ASGI app's lifespan, for instance."""
        worker = self.worker(queues=queues, concurrency=concurrency, threads=threads, children=children, target=target)
        self._reopen()
        await self.client.ready()  # whoever has no store should hear of it here, not when the block ends
        loop = asyncio.get_running_loop()
        task = loop.create_task(worker.run(), name="windlass-worker")
        started = loop.create_task(worker.started.wait())
        try:
            await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)  # or a resource that does not open
            if not task.done():
                yield worker
        finally:
            started.cancel()
            worker.stop()
            await task

    async def tick(self, limit: int = 10) -> Stats:
        """Claim at most `limit` runnable jobs, execute them here, settle them with backoff; then return what happened."""
        _check_count("limit", limit)
        return await self.worker(max_jobs=limit).run(drain=True)

    # ----------------------------------------------------------------------------------------------------------- closing

    def open(self) -> None:
        """Open the store now, rather than on first use. Needed only before a first enqueue inside your own transaction,
        which would keep the store from being made."""
        self._reopen()
        self.client.open()

    def _reopen(self) -> None:
        if self.client.reopen():
            self.client.declared = list(self.declared)

    async def close(self) -> None:
        await self.client.close()

    async def __aenter__(self) -> Windlass:
        self._reopen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()


def _check_count(field: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise InvalidInput(field, f"must be a whole number of at least 1, got {value!r}")


def _ageing(said: object) -> tuple[Micros | None, int | None]:
    if said is None:
        return None, None
    if not isinstance(said, tuple) or len(said) != 2 or type(said[1]) is not int:
        raise InvalidInput("ageing", f"must be how long a job waits and the highest priority, as ('10m', 5), got {said!r}")
    return duration(said[0], field="ageing"), said[1]


def _prepared(jobs: Iterable[PreparedJob[R]]) -> list[PreparedJob[R]]:
    if not isinstance(jobs, Iterable):
        raise InvalidInput("jobs", f"takes what task.job(...) makes, in a list or the like, got {jobs!r}")
    prepared: list[Any] = list(jobs)
    if strange := [one for one in prepared if not isinstance(one, PreparedJob)]:
        raise InvalidInput("jobs", f"takes what task.job(...) makes, got {strange[0]!r}")
    return prepared
