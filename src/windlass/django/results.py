"""A job in the words of `django.tasks`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from django.conf import settings
from django.utils import timezone

try:
    from django.tasks import TaskResult, TaskResultStatus
    from django.tasks.base import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY, TaskError
except ImportError:
    from django_tasks import TaskResult, TaskResultStatus
    from django_tasks.base import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY, TaskError

from windlass.clock import moment
from windlass.django.past import Past
from windlass.sealing import readable
from windlass.types import Job, Micros, Run

MOST_EARLIER: Final = 100_000  # one entry for each, and a hand may write any number of executions
STATUS: Final = {
    "queued": TaskResultStatus.READY, "running": TaskResultStatus.RUNNING, "succeeded": TaskResultStatus.SUCCESSFUL,
    "dead": TaskResultStatus.FAILED, "cancelled": TaskResultStatus.FAILED,
}  # fmt: skip
OURS: Final = {"TimeoutError": "builtins.TimeoutError", "ProcessDied": "windlass.errors.ProcessDied"}


def at(instant: Micros | None) -> datetime | None:
    """As Django's own times are: aware, or of its time zone when the project does without."""
    if instant is None:
        return None
    return moment(instant) if settings.USE_TZ else timezone.make_naive(moment(instant))


def as_result(task: Any, alias: str, job: Job, past: Past, result_id: str) -> Any:
    """Errors and workers are those of the newest runs; who had the older ones is left empty, so that they are counted."""
    given = msgspec.json.decode(readable(job.payload, "payload"))
    result = TaskResult(
        task=_as_enqueued(task, job), id=result_id, status=STATUS[job.state],
        enqueued_at=at(job.created_at), started_at=_start(past.first),
        finished_at=at(job.finished_at), last_attempted_at=_start(past.last),
        args=given.get("args", []), kwargs=given.get("kwargs", {}), backend=alias, errors=_errors(job, past.newest),
        worker_ids=[""] * min(past.earlier, MOST_EARLIER) + [run.worker_id or "" for run in past.begun],
    )  # fmt: skip
    if job.state == "succeeded" and job.result is not None:
        object.__setattr__(result, "_return_value", msgspec.json.decode(readable(job.result, "result")))
    return result


def _start(run: Run | None) -> datetime | None:
    """One that is on may not have told its start yet."""
    return None if run is None else at(run.started_at or run.claimed_at)


def _as_enqueued(task: Any, job: Job) -> Any:
    """People may have moved it to a queue that its backend does not know: then the task as it was declared."""
    priority = min(max(job.priority, TASK_MIN_PRIORITY), TASK_MAX_PRIORITY)
    queues = task.get_backend().queues
    queue = job.queue if not queues or job.queue in queues else None
    return task.using(priority=priority, queue_name=queue, run_after=at(job.run_at))


def _errors(job: Job, runs: Sequence[Run]) -> list[Any]:
    errors = [
        TaskError(exception_class_path=path_of(run), traceback=run.traceback or run.error or "")
        for run in runs
        if run.status not in (None, "succeeded", "skipped") and run.error is not None
    ]
    if job.state == "cancelled":
        errors.append(TaskError(exception_class_path="windlass.errors.JobCancelled", traceback=job.last_error))
    return errors


def path_of(run: Run) -> str:
    """The class of the exception that ended a run, by the last line of the traceback that names it."""
    name = (run.error or "").split(":")[0].strip()
    for line in reversed((run.traceback or "").splitlines()):
        said = line.split(":")[0].strip()
        if name and not line.startswith(" ") and (said == name or said.endswith(f".{name}")):
            return said if said != name else f"builtins.{name}"
    return OURS.get(name, "windlass.errors.WindlassError")
