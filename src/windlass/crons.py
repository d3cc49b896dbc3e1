"""`@app.cron(...)`: a schedule that code declares, above a function or a task."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, Protocol, TypedDict, TypeVar, overload

from windlass.client import Client
from windlass.core.admission_of_changes import check_alteration
from windlass.core.schedules import fingerprint
from windlass.definitions import Declared, ScheduleOptions, of_schedule, of_template
from windlass.errors import InvalidInput
from windlass.options import check_options
from windlass.policies import Duration
from windlass.tasks import AsyncTask, SyncTask, Task
from windlass.types import CatchUp, Overlap

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Task[..., Any])


class CronOptions(TypedDict, total=False):
    """Options of `app.cron(...)`: those of a schedule without `enabled`, which people set."""

    tz: str
    params: Mapping[str, Any]
    catch_up: CatchUp
    cap: int
    overlap: Overlap
    jitter: Duration


class CronDecorator(Protocol):
    """What `app.cron(...)` returns: it leaves a task as it is and makes a task of a function."""

    @overload
    def __call__(self, task: T, /) -> T: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...


class Home(Protocol):
    @property
    def client(self) -> Client: ...
    @property
    def crons(self) -> list[Declared]: ...
    def task(self, function: Callable[..., Any], /) -> Any: ...


def declaring(home: Home, rule: str, name: str | None, options: CronOptions) -> CronDecorator:
    check_options(options, frozenset(CronOptions.__annotations__), "cron(...)")

    def decorate(decorated: Any, /) -> Any:
        task: Task[..., Any] = decorated if isinstance(decorated, Task) else home.task(decorated)
        called = name or task.name
        if any(one.schedule.name == called for one in home.crons):
            raise InvalidInput("name", f"{called!r} is already a schedule; name this one apart: name={called + '_2'!r}")
        home.crons.append(declared(called, task, rule, options))
        return task

    return decorate


def declared(name: str, task: Task[..., Any], rule: str, options: CronOptions) -> Declared:
    """A declared schedule and the template of the same name that holds its arguments. Real ids are drawn on storing."""
    said: ScheduleOptions = {key: value for key, value in options.items() if key != "params"}  # type: ignore[assignment]
    template = of_template(name, task.prototype(**options.get("params", {})), "declared")
    schedule = of_schedule(name, name, rule, said, "declared")
    mark = fingerprint(schedule.cron_expression, schedule.timezone, schedule.catch_up, schedule.catch_up_cap,
                       schedule.overlap, schedule.jitter)  # fmt: skip
    schedule = of_schedule(name, name, rule, said, "declared", mark)
    for change in (template, schedule):
        check_alteration(change)
    return Declared(template=template, schedule=schedule)
