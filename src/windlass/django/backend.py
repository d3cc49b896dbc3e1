"""A backend for Django's own tasks: `django.tasks` of Django 6, or its backport `django_tasks` for 5.2.

    TASKS = {"default": {"BACKEND": "windlass.django.backend.WindlassBackend", "QUEUES": ["default", "mail"]}}

A task is a Windlass task of the same name, so workers, dashboard, limits and dead letters know it. An exception ends it, as
that API has no word for a second try; `"OPTIONS": {"retry": Retry(max_retries=3)}` gives it some. A worker that dies is no
exception: another one begins the task anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from django.core import checks

try:
    from django.tasks import TaskContext, TaskResult, TaskResultStatus
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json
except ImportError:
    from django_tasks import TaskContext, TaskResult, TaskResultStatus
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json

from windlass.apart import apart
from windlass.context import current
from windlass.core.events import CANCELLED, DEAD, SUCCEEDED
from windlass.django.past import Past, past_of
from windlass.django.program import DjangoApp, the_app
from windlass.django.results import as_result, at
from windlass.errors import InvalidInput
from windlass.hooks import JobEvent
from windlass.options import OF_JOB, check_options
from windlass.policies import Retry
from windlass.types import Job

ONCE: Final = Retry(max_retries=0, count_lost=False)
SAID_BY_TASKS: Final = frozenset({"queue", "priority", "run_at", "delay", "id", "conn"})


class WindlassBackend(BaseTaskBackend):
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        the_app().django_queues.update(self.queues)

    def check(self, **_: Any) -> Iterable[checks.CheckMessage]:
        try:
            check_options(self.options, OF_JOB - SAID_BY_TASKS, f"TASKS[{self.alias!r}]['OPTIONS']")
        except InvalidInput as error:
            yield checks.Error(str(error), id="windlass.E002")

    # ------------------------------------------------------------------------------------------------------ declaration

    def validate_task(self, task: Any) -> None:
        """Every task comes by here when it is made: that is how a worker learns of it."""
        super().validate_task(task)
        app = the_app()
        known = app.django_tasks.get(task.module_path)
        if known is None or known.func is not task.func:
            app.tasks.pop(task.module_path, None)
            app.django_tasks[task.module_path] = task
            app.task(name=task.module_path, queue=task.queue_name)(_runner(app, task))
            if len(app.django_tasks) == 1:
                for event in (SUCCEEDED, DEAD, CANCELLED):
                    app.on(event)(_tell_finished)

    # ---------------------------------------------------------------------------------------------------------- enqueue

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """In the transaction that is open on this connection, if there is one and the jobs are in its database."""
        self.validate_task(task)
        app = the_app()
        args, kwargs = normalize_json(list(args)), normalize_json(dict(kwargs))
        wanted: dict[str, Any] = {"retry": ONCE, **self.options, "queue": task.queue_name, "priority": int(task.priority)}
        if task.run_after is not None:
            wanted["run_at"] = _aware(task.run_after)
        check_options(self.options, OF_JOB - SAID_BY_TASKS, f"TASKS[{self.alias!r}]['OPTIONS']")
        now = app.client.now_beside(None)
        job = app.find_task(task.module_path).using(**wanted).enqueue_sync(args, kwargs)
        result = TaskResult(
            task=task, id=job.id, status=TaskResultStatus.READY, enqueued_at=at(now), started_at=None, finished_at=None,
            last_attempted_at=None, args=args, kwargs=kwargs, backend=self.alias, errors=[], worker_ids=[],
        )  # fmt: skip
        task_enqueued.send(type(self), task_result=result)
        return result

    # ---------------------------------------------------------------------------------------------------------- results

    def get_result(self, result_id: str) -> Any:
        return apart(lambda: self.aget_result(result_id))

    async def aget_result(self, result_id: str) -> Any:
        return self._result(result_id, *await _read(the_app(), result_id))

    def _result(self, result_id: str, job: Job | None, past: Past) -> Any:
        task = the_app().django_tasks.get(job.type) if job is not None else None
        if job is None or task is None:
            why = "" if job is None else f": {job.type} is no task of django.tasks that this process has imported"
            raise TaskResultDoesNotExist(f"{result_id}{why}")
        return as_result(task, self.alias, job, past, str(result_id))


async def _read(app: DjangoApp, job_id: str) -> tuple[Job | None, Past]:
    links = await app.client.links(str(job_id))
    if not links or links[-1].superseded_by is not None:  # its last link is gone, as all of it will be
        return None, Past()
    return links[-1], await past_of(app.client, links)


def _aware(moment: Any) -> Any:
    """Without time zones Django's times are those of its own zone."""
    from django.utils import timezone

    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment


def _runner(app: DjangoApp, task: Any) -> Callable[..., Any]:
    """What a worker calls."""

    def begun(job: Job | None, past: Past) -> tuple[Any, ...]:
        result = task.get_backend()._result(current().job.id, job, past)
        task_started.send(sender=type(task.get_backend()), task_result=result)
        return (TaskContext(task_result=result),) if task.takes_context else ()

    async def waits(args: list[Any], kwargs: dict[str, Any]) -> Any:
        first = begun(*await _read(app, current().job.id))
        return normalize_json(await task.func(*first, *args, **kwargs))

    def blocks(args: list[Any], kwargs: dict[str, Any]) -> Any:
        job_id = current().job.id
        first = begun(*apart(lambda: _read(app, job_id)))
        return normalize_json(task.func(*first, *args, **kwargs))

    return waits if inspect.iscoroutinefunction(task.func) else blocks


def _tell_finished(told: JobEvent) -> None:
    task = the_app().django_tasks.get(told.type)
    if task is not None:
        backend = task.get_backend()
        task_finished.send(type(backend), task_result=backend.get_result(told.job_id))
