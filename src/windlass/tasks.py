"""Tasks: functions whose calls can be enqueued. `enqueue` has the signature of the function; calling a task calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import update_wrapper
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from msgspec import Struct

from windlass.client import Client
from windlass.codec import Arguments, Results
from windlass.context import Context
from windlass.core.admission import check_job
from windlass.core.fields import check_name
from windlass.errors import InvalidInput, shown
from windlass.foreign import TASK, Translates
from windlass.handles import JobHandle
from windlass.options import OF_COMMAND, OF_JOB, OF_TASK, JobOptions, Plan, Runner, check_options, misplaced, plan
from windlass.presets import AckMode, Preset
from windlass.programs import Program
from windlass.types import NewJob

P = ParamSpec("P")
R = TypeVar("R")


class Home(Protocol):
    """What a task needs of its app."""

    @property
    def client(self) -> Client: ...
    def preset_of(self, queue: str) -> Preset | None: ...


class PreparedJob(Struct, Generic[R], frozen=True, eq=False, gc=False):
    """A job that is not stored yet: what `task.job(...)` returns, for `app.enqueue_many` and for groups."""

    new: NewJob
    results: Results

    @property
    def id(self) -> str:
        return self.new.id


def prepared_jobs(jobs: Iterable[PreparedJob[R]]) -> list[PreparedJob[R]]:
    """The jobs given to `app.enqueue_many`, as a list; raises `InvalidInput` for anything else."""
    if not isinstance(jobs, Iterable):
        raise InvalidInput("jobs", f"takes what task.job(...) makes, in a list or the like, got {shown(jobs)}")
    prepared: list[Any] = list(jobs)
    if strange := [one for one in prepared if not isinstance(one, PreparedJob)]:
        raise InvalidInput("jobs", f"takes what task.job(...) makes, got {shown(strange[0])}")
    return prepared


class Enqueuer(Translates, Generic[P, R]):
    """A task with a fixed set of options: the task itself, or what its `using(...)` returns. Immutable; keep and share
    it."""

    _foreign = TASK

    def __init__(self, home: Home, arguments: Arguments, results: Results, made: Plan) -> None:
        self._home = home
        self._arguments = arguments
        self._results = results
        self._plan = made

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Store a call of this task as a job, and return once it is durable.

        The arguments are those of the function. Raises `InvalidInput` if one of them could not be restored exactly, or is
        too large; `DuplicateJob` with `on_duplicate="raise"`. If an equal job was there already, the handle is of that
        job and its `existed` is True. Inside `ctx.transaction()` the job becomes part of the transaction."""
        client = self._home.client
        now = client.now()
        new = self._new(client, args, kwargs, now)
        [answer] = await client.enqueue((new,), now, self._plan.conn, self._plan.notify)
        return JobHandle(client, answer.id, self._results, answer.existed)

    def enqueue_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """The blocking form of `enqueue`. Needs no event loop."""
        client = self._home.client
        now = client.now_beside(self._plan.conn)
        new = self._new(client, args, kwargs, now)
        [answer] = client.enqueue_sync((new,), now, self._plan.conn, self._plan.notify)
        return JobHandle(client, answer.id, self._results, answer.existed)

    def job(self, /, *args: P.args, **kwargs: P.kwargs) -> PreparedJob[R]:
        """Make a job without storing it: `app.enqueue_many(task.job(x) for x in ...)`, `group.add(task.job(x))`."""
        if self._plan.conn is not None:
            raise InvalidInput("conn", "give it to enqueue_many(jobs, conn=...) instead: a batch is one transaction")
        client = self._home.client
        return PreparedJob(self._new(client, args, kwargs, client.now()), self._results)

    def prototype(self, /, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The call as a row without an id, which templates keep. Does not open the store."""
        payload = self._arguments.encode(args, kwargs, limit=self._home.client.settings.payload_limit)
        return self._plan.make("prototype", payload, 0)

    def using(self, **options: Unpack[JobOptions]) -> Enqueuer[P, R]:
        """This task with other options: `task.using(delay="5m", priority=9).enqueue(...)`.

        The options are those of `windlass.options.JobOptions`; they override the options of the task. Raises
        `InvalidInput` for an unknown option or a bad value."""
        check_options(options, OF_JOB, "using(...)")
        said = {**self._plan.said, **options}
        if "delay" in options and "run_at" not in options:
            said.pop("run_at", None)
        if "run_at" in options and "delay" not in options:
            said.pop("delay", None)
        return Enqueuer(self._home, self._arguments, self._results, self._planned(said))

    def _planned(self, said: Mapping[str, Any]) -> Plan:
        name = self._plan.prototype.type
        made = plan(name, said, self._home.preset_of(said.get("queue", "default")), self._home.client.settings)
        check_job(made.make("check", b"{}", 0))
        return made

    def _new(self, client: Client, args: tuple[Any, ...], kwargs: Mapping[str, Any], now: int) -> NewJob:
        try:
            payload = self._arguments.encode(args, kwargs, limit=client.settings.payload_limit)
        except InvalidInput as error:
            if error.field not in kwargs or error.field in self._arguments.names or not misplaced(error.field):
                raise
            raise InvalidInput(error.field, f"{error}{misplaced(error.field)}".removeprefix(f"{error.field}: ")) from None
        return self._plan.make(client.ids.job(now), payload, now)


class Task(Enqueuer[P, R]):
    """A function that was declared with `@app.task`. Its name is the type of its jobs."""

    def __init__(
        self, home: Home, function: Callable[..., Any], *, context: bool, options: Mapping[str, Any],
        program: Program | None = None,
    ) -> None:  # fmt: skip
        check_options(options, frozenset(OF_TASK), "task(...)")
        self.function: Final = function
        self.handler: Callable[..., Any] = function  # the same within the app's middleware: what a worker calls
        self.name: Final[str] = options.get("name", getattr(function, "__name__", ""))
        check_name("name", self.name)
        if self.name == "<lambda>":
            raise InvalidInput("name", "a lambda has none of its own; give one: app.task(name=...)")
        self.takes_context: Final = context
        self.is_async: Final = inspect.iscoroutinefunction(function)
        self.run: Final[Runner] = _runner(options.get("run"), self.is_async, self.name)
        self.program: Final[Program | None] = program
        if self.run == "process" and program is None:
            _check_importable(function, self.name)
        self.ack: Final[AckMode | None] = _ack(options.get("ack"))
        self.metered = 0  # so many of its next runs have their CPU measured: see worker/metering.py
        self.arguments: Final = Arguments(function, skip_context=context, task=self.name)
        self.results: Final = Results(function, task=self.name)
        said = {name: value for name, value in options.items() if name not in ("name", "run", "ack")}
        if secrets := self.arguments.secrets + self.results.secrets:
            said["redact"] = (*secrets, *said.get("redact", ()))
        preset = home.preset_of(said.get("queue", "default"))
        made = plan(self.name, said, preset, home.client.settings)
        check_job(made.make("check", b"{}", 0))
        super().__init__(home, self.arguments, self.results, made)
        self.texts: Final = self.arguments.texts if program is None else frozenset(program.fields)
        update_wrapper(cast("Callable[..., Any]", self), function)

    @property
    def queue(self) -> str:
        return self._plan.prototype.queue

    @property
    def careful(self) -> bool:
        """Whether its jobs are claimed only for free slots, because they hold permits or must never be handed back."""
        prototype = self._plan.prototype
        return bool(prototype.limit_keys) or prototype.retry_mode == "new_job"

    def __repr__(self) -> str:
        return f"<task {self.name}>"


class AsyncTask(Task[P, R]):
    """A task that is an async function."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function directly. Nothing is stored."""
        made: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return made


class SyncTask(Task[P, R]):
    """A task that is a plain function."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly. Nothing is stored."""
        value: R = self.function(*args, **kwargs)
        return value


class AsyncContextTask(Task[P, R]):
    """A task that is an async function with a `Context` as its first argument."""

    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        made: Coroutine[Any, Any, R] = self.function(ctx, *args, **kwargs)
        return made


class SyncContextTask(Task[P, R]):
    """A task that is a plain function with a `Context` as its first argument."""

    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R:
        value: R = self.function(ctx, *args, **kwargs)
        return value


class CommandTask(SyncTask[..., None]):
    """A task that is a program. Its arguments are the fields in braces of its command line."""

    def __init__(self, home: Home, program: Program, options: Mapping[str, Any]) -> None:
        check_options(options, frozenset(OF_COMMAND), "command(...)")
        given = {**options, "run": "process", "name": program.name}
        super().__init__(home, program.signature(), context=False, options=given, program=program)


class Decorator(Protocol):
    """What `app.task(...)` returns."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...


class ContextDecorator(Protocol):
    """What `app.task(context=True, ...)` returns."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncContextTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> SyncContextTask[P, R]: ...


def make_task(
    home: Home, function: Callable[..., Any], *, context: bool, options: Mapping[str, Any]
) -> Task[..., Any]:  # fmt: skip
    if not callable(function):
        raise InvalidInput("task", f"decorates a function, got {shown(function)}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput("task", f"{function.__name__} is a generator; a task returns its result")
    if inspect.iscoroutinefunction(function):
        kind: type[Task[..., Any]] = AsyncContextTask if context else AsyncTask
    else:
        kind = SyncContextTask if context else SyncTask
    return kind(home, function, context=context, options=options)


def _runner(run: object, is_async: bool, name: str) -> Runner:
    if run is None:
        return "async" if is_async else "thread"
    if run == "async" and not is_async:
        raise InvalidInput("run", f"{name} is a plain function; run='async' is for async functions, use run='thread'")
    if run == "thread" and is_async:
        raise InvalidInput("run", f"{name} is an async function and runs in the event loop; leave run out")
    if run not in ("async", "thread", "process"):
        raise InvalidInput("run", f"must be 'async', 'thread' or 'process', got {run!r}")
    return run


def _check_importable(function: Callable[..., Any], name: str) -> None:
    """A child process finds a task by importing the module that declares it, so the task must be at the top level."""
    where = getattr(function, "__qualname__", "")
    if "<lambda>" in where or "<locals>" in where or not where:
        kind = "a lambda" if "<lambda>" in where else "defined inside a function" if where else "not a plain function"
        raise InvalidInput(
            "run", f"{name} is {kind}, and the child process of run='process' finds its tasks by importing their module; "
            "define it with def at the top level of a module, or use run='thread'"
        )  # fmt: skip


def _ack(ack: object) -> AckMode | None:
    if ack not in (None, "batched", "sync"):
        raise InvalidInput("ack", f"must be 'batched' or 'sync', got {shown(ack)}")
    return ack
