"""The class `Windlass`, through which a program uses everything else. It wires parts together and decides nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar, Unpack, overload

from windlass.apart import check_no_loop
from windlass.client import Client
from windlass.clock import Clock
from windlass.config import DEFAULT_URL, SettingsOptions, check_count, settings_from
from windlass.core.admission_of_changes import check_alteration
from windlass.core.alterations import Alteration, PutLimit
from windlass.core.fields import check_name, check_queues
from windlass.crons import CronDecorator, CronOptions, declaring
from windlass.definitions import Declared, rule_of
from windlass.drivers import check_url
from windlass.drivers.protocol import Driver
from windlass.errors import InvalidInput, UnknownTask, shown
from windlass.foreign import APP, Translates
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
from windlass.queues import described_queue
from windlass.repository import Repository
from windlass.resources import F, Resources
from windlass.schedules import Schedules, Templates
from windlass.targets import target_of
from windlass.tasks import (
    AsyncTask,
    CommandTask,
    ContextDecorator,
    Decorator,
    PreparedJob,
    SyncTask,
    Task,
    make_task,
    prepared_jobs,
)
from windlass.telemetry.measures import Measures
from windlass.types import GroupMode, OnFailure, Order, Positions
from windlass.words import System, did_you_mean
from windlass.worker import Stats, Worker
from windlass.worker.serving import serve

if TYPE_CHECKING:
    from windlass.admin import Admin

P = ParamSpec("P")
R = TypeVar("R")


class Windlass(Translates):
    """An application: the store of its jobs, the tasks that it declares, and the workers that run them.

    `url` names the store: `sqlite:///jobs.db`, `postgresql://user@host/database`, `memory://`, or the address of a store
    that `windlass serve` offers. Default: `$WINDLASS_URL`, else `sqlite:///windlass.db`. It is opened on first use.
    Keyword arguments are settings of `windlass.config.Settings`, which can also be given as environment variables
    `WINDLASS_<NAME>`."""

    _foreign = APP

    def __init__(
        self, url: str | None = None, *, driver: Driver | None = None, clock: Clock | None = None,
        random: Random | None = None, **settings: Unpack[SettingsOptions],
    ) -> None:  # fmt: skip
        if driver is None and url not in (None, ""):
            check_url(url)
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
        """Declare a task: `@app.task` or `@app.task(queue="mail", retry=Retry(max_retries=5), timeout="30s")`.

        The options are those of `windlass.options.TaskOptions`. With `context=True` the function receives a `Context` as
        its first argument; callers of `enqueue` do not pass it. Raises `InvalidInput` if the name is taken."""
        if function is None:
            return lambda decorated: self._register(make_task(self, decorated, context=context, options=options))
        return self._register(make_task(self, function, context=context, options=options))

    def cron(
        self, cron: str | None = None, /, *, name: str | None = None, every: Duration | None = None,
        **options: Unpack[CronOptions],
    ) -> CronDecorator:  # fmt: skip
        """Run a task on a schedule: `@app.cron("0 9 * * MON-FRI", tz="Europe/Berlin", catch_up="last")` above a function
        or a task, or `@app.cron(every="15m")` for an interval. `params` holds the task's arguments by name; `name` is the
        name of the schedule (default: the task's). A worker stores it when it starts; a paused one stays paused."""
        return declaring(self, rule_of(cron, every), name, options)

    def on(self, event: str) -> Callable[[H], H]:
        """Call a function, plain or async, when something happens in a worker of this process.

        `@app.on("job.succeeded")`, `job.dead`, `job.retried` and `job.cancelled` pass a `JobEvent`; `worker.started` and
        `worker.stopped` a `WorkerEvent`. The call comes after the commit, at most once: a worker that dies first makes
        none. A webhook is not lost."""
        return lambda hook: self.hooks.add(event, hook)

    def resource(self, function: F) -> F:
        """Declare an object that handlers share. It is opened when a worker starts and closed when the worker has ended:

            @app.resource
            async def pool() -> AsyncIterator[Pool]:
                async with connect() as opened:
                    yield opened

        Handlers get it with `ctx.resource(Pool)`. A plain `def` that returns `Iterator[Pool]` works too. Each child
        process opens its own."""
        return self.resources.add(function)

    def middleware(self, function: M) -> M:
        """Wrap every execution of a handler in a generator function that takes the `Context` and yields once. The first
        one declared is the outermost; an exception that it raises ends the execution. See `windlass.middleware`."""
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
        """Declare a program as a task: `backup = app.command("backup", ["pg_dump", "--file", "{path}"])`, then
        `backup.enqueue(path="jobs.dump")`.

        It runs without a shell; each element of `command` is one argument. `env` is added to the worker's environment.
        Any exit code but 0 is a failure. Output goes to the log of the run; `artifacts` are its files."""
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
        """Declare a queue, before the tasks that use it. Only a queue that differs from the defaults needs this.

        `preset` sets retries, crashes, keys and order to those of an earlier system. At most `max_running` of its jobs
        run at once, on all machines together. With `order="fair"` organisations take turns according to their weights.
        `ageing=("10m", 5)` raises the priority of a waiting job by one every ten minutes, up to 5."""
        chosen = None if preset is None else preset_named(preset)
        changes = described_queue(
            name, preset=preset, chosen=chosen, positions=positions, max_running=max_running, order=order, ageing=ageing
        )
        if any(task.queue == name for task in self.tasks.values()):
            raise InvalidInput("queue", f"describe {name!r} before the tasks that use it: their policies come from it")
        self._presets[name] = chosen
        self._declare(*changes)

    def limit(
        self, key: str, most: int | None = None, *, rate: str | float | None = None, burst: float | None = None,
        weight: float = 1.0,
    ) -> None:  # fmt: skip
        """Declare a limit for all machines together: `app.limit("gpu", 2)`, `app.limit("org:acme", 5, weight=2)`,
        `app.limit("key:api", rate="10/s", burst=20)`. `app.limits` changes one while workers run."""
        change = described(key, most, rate=rate, burst=burst, weight=weight, declared=True)
        check_alteration(change)
        if any(isinstance(other, PutLimit) and other.key == change.key for other in self.declared):
            raise InvalidInput("limit", f"{change.key!r} is described twice")
        self._declare(change)

    @property
    def limits(self) -> Limits:
        """Reads and changes the limits that are stored."""
        return Limits(self.client)

    def _declare(self, *changes: Alteration) -> None:
        self.declared.extend(changes)
        self.client.declared.extend(changes)

    def preset_of(self, queue: str) -> Preset | None:
        """The preset that a queue was declared with."""
        check_name("queue", queue)
        return self._presets.get(queue)

    def find_task(self, name: str) -> Task[..., Any]:
        """The task of this name; raises `UnknownTask`, with a suggestion."""
        if name not in self.tasks:
            raise UnknownTask(name, did_you_mean(name, self.tasks))
        return self.tasks[name]

    # ------------------------------------------------------------------------------------------------------------- jobs

    async def enqueue_many(
        self, jobs: Iterable[PreparedJob[R]], *, conn: object = None, notify: bool = True
    ) -> list[JobHandle[R]]:
        """Store many jobs in one transaction: `await app.enqueue_many(task.job(x) for x in xs)`. With `conn`, in yours."""
        prepared = prepared_jobs(jobs)
        answers = await self.client.enqueue([one.new for one in prepared], self.client.now(), conn, notify)
        return [JobHandle(self.client, a.id, one.results, a.existed) for one, a in zip(prepared, answers, strict=True)]

    def enqueue_many_sync(
        self, jobs: Iterable[PreparedJob[R]], *, conn: object = None, notify: bool = True
    ) -> list[JobHandle[R]]:
        """The blocking form of `enqueue_many`."""
        prepared = prepared_jobs(jobs)
        answers = self.client.enqueue_sync([one.new for one in prepared], self.client.now(), conn, notify)
        return [JobHandle(self.client, a.id, one.results, a.existed) for one, a in zip(prepared, answers, strict=True)]

    def group(
        self, name: str, *, mode: GroupMode = "parallel", on_failure: OnFailure = "stop", id: str | None = None,  # noqa: A002
        conn: object = None, notify: bool = True,
    ) -> OpenGroup:  # fmt: skip
        """Create a group of jobs, stored in one transaction when the block ends (in yours if `conn` is given):

            async with app.group("nightly", mode="sequential") as g:  # or `with`, in blocking code
                g.add(extract.job(day))
                g.add(load.job(day))

        If a member has failed for good, `stop` cancels members that have not begun, `continue` runs them, `skip` runs them
        and does not count the failure against the group."""
        return OpenGroup(self.client, name, mode=mode, on_failure=on_failure, group_id=id, conn=conn, notify=notify)

    def group_by_id(self, group_id: str) -> GroupHandle:
        """A handle of a stored group. Nothing is read until it is used."""
        check_name("group_id", group_id)
        return GroupHandle(self.client, group_id)

    def job(self, job_id: str) -> JobHandle[Any]:
        """A handle of a stored job. Nothing is read until it is used; the types of its result are not known."""
        if not isinstance(job_id, str):
            raise InvalidInput("id", f"must be text, got {shown(job_id)}")
        return JobHandle(self.client, job_id, None)

    def hold(self, queue: str, by: str, expires_in: Duration = "5m", wait: Duration | None = None) -> QueueHold:
        """Keep workers off a queue while a block uses its resource: `async with app.hold("gpu", by="api-7"):`, or `with`.

        From the request on, no job of the queue starts; the block begins when the running ones have ended. After `wait`
        (None: no limit; 0: at once) it raises `ResourceBusy` instead. The hold is renewed every third of `expires_in`; if
        it is lost, the block ends with `HoldLost`."""
        return QueueHold(self.client, queue, by, expires_in, wait)

    @property
    def admin(self) -> Admin:
        """Inspects and changes jobs, queues and everything else in the store. The audit log names `code` as the actor;
        `app.admin.acting_as("ada")` names somebody."""
        from windlass.admin import Admin  # neither workers nor those who enqueue need it: a megabyte and a half

        return Admin(self.client, self.tasks).acting_as("code")

    @property
    def repository(self) -> Repository:
        """The interface of Harmonyk, for programs that move from there: enqueue, mark_success, mark_failure."""
        if self._repository is None or self._repository.client is not self.client:
            self._repository = Repository(self.client, self.tasks)
        return self._repository

    # ----------------------------------------------------------------------------------------------------------- running

    def worker(
        self, *, queues: Sequence[str] | None = None, concurrency: int | None = None, threads: int | None = None,
        children: int | None = None, max_jobs: int | None = None, worker_id: str | None = None, target: str | None = None,
        measures: Measures | None = None,
    ) -> Worker:  # fmt: skip
        """Make a worker; `await worker.run()` starts it. `concurrency`, `threads` and `children` bound how many async,
        blocking and process handlers run at once, `max_jobs` how many jobs it takes. `target` is the `module:attribute`
        by which child processes import this app, if it cannot be found."""
        for field, count in (("concurrency", concurrency), ("threads", threads), ("children", children)):
            if count is not None:
                check_count(field, count)
        if max_jobs is not None:
            _check_limit("max_jobs", max_jobs)
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
        """The `module:attribute` by which a child process imports this app; None if no task runs in one."""
        needing = [task for task in self.tasks.values() if task.run == "process" and task.program is None]
        return target_of(self, needing, given or self.target) if needing else None

    def run(
        self, *, queues: Sequence[str] | None = None, concurrency: int | None = None, threads: int | None = None,
        children: int | None = None, drain: bool = False, target: str | None = None,
    ) -> Stats:  # fmt: skip
        """Run a worker until SIGTERM or Ctrl-C, or with `drain` until no job is due. Blocks; meant for scripts."""
        check_no_loop("app.run()", "await app.worker().run(), or async with app.running()")

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
        """Run a worker in the current event loop while the block lasts, for example in the lifespan of an ASGI app."""
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
        """Claim at most `limit` jobs that are due, run them in this event loop, and return once their ends are stored."""
        _check_limit("limit", limit)
        return await self.worker(max_jobs=limit).run(drain=True)

    # ----------------------------------------------------------------------------------------------------------- closing

    def open(self) -> None:
        """Open the store now. Needed only if the first enqueue happens inside a transaction of your own, which would
        block its creation."""
        self._reopen()
        self.client.open()

    def _reopen(self) -> None:
        if self.client.reopen():
            self.client.declared = list(self.declared)

    async def close(self) -> None:
        """Close the store. Stop workers first; a later `open` or `async with` opens it again."""
        await self.client.close()

    async def __aenter__(self) -> Windlass:
        self._reopen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()


def _check_limit(field: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise InvalidInput(field, f"must be a whole number of at least 1, got {shown(value)}")
