"""Words of other queues → what to write here. Whoever comes from one of them types its words for a while.

For options of tasks and jobs, and for what a task, a job, a context or an app is asked for that it does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

_RETRY: Final = "retry=Retry(max_retries=3)"
_BACKOFF: Final = 'retry=Retry(max_retries=3, backoff=exponential("1s"), jitter="full")'
_DELAY: Final = 'task.using(delay="5m").enqueue(...)'
_AT: Final = "task.using(run_at=...).enqueue(...), with a datetime that has a time zone"
_TIMEOUT: Final = 'timeout="5m"'
_CRON: Final = '@app.cron("0 9 * * *", tz="Europe/Berlin") above the task'
_ONCE: Final = 'task.using(idempotency_key="...").enqueue(...), or dedupe=True while an equal job waits or runs'
_ENQUEUE: Final = "await task.enqueue(...), or task.enqueue_sync(...) in blocking code"
_USING: Final = 'await task.using(delay="5m", queue="mail").enqueue(...), or enqueue_sync in blocking code'
_RESULT: Final = "await job.result(), or job.result_sync() in blocking code"
_ROW: Final = "(await job.fetch()).state, or job.fetch_sync() in blocking code"
_GROUP: Final = "app.group(...), or task.using(after=[job]).enqueue(...)"
_RATE: Final = 'app.limit("type:NAME", rate="10/m")'
_ALWAYS: Final = "nothing: a job is acknowledged when it has ended, always"
_KEEP: Final = "nothing: ended jobs are kept by the settings keep_succeeded and keep_dead"

OPTIONS: Final[Mapping[str, str]] = {
    "retries": _RETRY, "max_retries": _RETRY, "max_tries": _RETRY, "attempts": _RETRY, "max_attempts": _RETRY,
    "autoretry_for": f"{_RETRY}, with rules by exception: rules=(rule(ValueError, dead=True),)", "retry_for": _RETRY,
    "retry_kwargs": _RETRY, "retry_when": _RETRY, "throws": "rules=(rule(ValueError, dead=True),) in Retry(...)",
    "backoff": _BACKOFF, "retry_backoff": _BACKOFF, "retry_backoff_max": _BACKOFF, "retry_jitter": _BACKOFF,
    "retry_delay": _BACKOFF, "default_retry_delay": _BACKOFF, "retry_policy": _BACKOFF, "retry_strategy": _BACKOFF,
    "min_backoff": _BACKOFF, "max_backoff": _BACKOFF,
    "countdown": _DELAY, "defer_by": _DELAY, "_defer_by": _DELAY, "schedule_in": _DELAY, "seconds_delay": _DELAY,
    "eta": _AT, "defer_until": _AT, "_defer_until": _AT, "schedule_at": _AT, "scheduled": _AT, "when": _AT,
    "time_limit": _TIMEOUT, "soft_time_limit": _TIMEOUT, "hard_time_limit": _TIMEOUT, "job_timeout": _TIMEOUT,
    "max_runtime": _TIMEOUT,
    "expires": "if ctx.job.created_at is too long ago: raise Cancel(...), at the beginning of the handler",
    "rate_limit": _RATE, "throttle": _RATE,
    "concurrency": 'app.limit("type:NAME", 3)', "max_concurrency": 'app.limit("type:NAME", 3)',
    "concurrency_limit": 'app.limit("type:NAME", 3)', "lock": 'limits=("name",), with app.limit("name", 1)',
    "bind": "context=True, and ctx as the first parameter", "pass_context": "context=True, and ctx as the first parameter",
    "context_arg": "context=True, and ctx as the first parameter",
    "acks_late": _ALWAYS, "acks_on_failure_or_timeout": _ALWAYS,
    "reject_on_worker_lost": 'crash_policy="requeue" or "fail"',
    "ignore_result": "nothing: a handler that returns None stores no result",
    "store_results": "nothing: results are stored",
    "track_started": "nothing: a job that runs is told as running",
    "serializer": "nothing: arguments are JSON, by their types",
    "compression": "nothing: arguments are JSON, by their types",
    "result_ttl": _KEEP, "failure_ttl": _KEEP, "keep_result": _KEEP, "result_expires": _KEEP, "ttl": _KEEP,
    "routing_key": 'queue="mail"', "exchange": 'queue="mail"', "queue_name": 'queue="mail"', "_queue_name": 'queue="mail"',
    "task_id": _ONCE, "job_id": _ONCE, "_job_id": _ONCE, "jid": _ONCE, "queueing_lock": _ONCE, "unique": _ONCE,
    "unique_for": _ONCE, "once": _ONCE,
    "depends_on": "task.using(after=[job]).enqueue(...)", "link": "task.using(after=[job]).enqueue(...)",
    "link_error": '@app.on("job.dead")', "on_success": '@app.on("job.succeeded")', "on_retry": '@app.on("job.retried")',
    "crontab": _CRON, "cron": _CRON, "run_every": _CRON, "schedule": _CRON, "timezone": 'tz="Europe/Berlin"',
    "at_front": "priority=9", "meta": "tags=(...), or headers={...} of one job", "description": "tags=(...)",
}  # fmt: skip

TASK: Final[Mapping[str, str]] = {
    "delay": _ENQUEUE, "send": _ENQUEUE, "kiq": _ENQUEUE, "defer": _ENQUEUE, "defer_async": _ENQUEUE, "submit": _ENQUEUE,
    "perform_async": _ENQUEUE, "publish": _ENQUEUE, "perform_later": _ENQUEUE,
    "apply_async": _USING, "send_with_options": _USING, "kicker": _USING, "configure": _USING, "set": _USING,
    "options": _USING,
    "schedule": _USING, "enqueue_in": _USING, "perform_in": _USING, "enqueue_at": _AT, "perform_at": _AT,
    "s": f"task.job(...) with app.enqueue_many, {_GROUP}", "si": f"task.job(...) with app.enqueue_many, {_GROUP}",
    "signature": f"task.job(...) with app.enqueue_many, {_GROUP}", "message": "task.job(...) with app.enqueue_many",
    "map": "app.enqueue_many(task.job(x) for x in ...)", "starmap": "app.enqueue_many(task.job(*x) for x in ...)",
    "chunks": "app.enqueue_many(task.job(x) for x in ...)", "batch_defer": "app.enqueue_many(task.job(x) for x in ...)",
    "then": _GROUP, "apply": "task(...), which calls the function here and now",
    "call_local": "task(...), which calls the function here and now", "original": "task.function", "fn": "task.function",
    "retry": 'raise RetryAfter("1m") in the handler', "request": "ctx.job, with @app.task(context=True)",
}  # fmt: skip

JOB: Final[Mapping[str, str]] = {
    "get": _RESULT, "wait": _RESULT, "join": _RESULT, "return_value": _RESULT, "get_result": _RESULT,
    "wait_result": _RESULT,
    "state": _ROW, "status": _ROW, "get_status": _ROW, "ready": _ROW, "successful": _ROW, "failed": _ROW, "info": _ROW,
    "is_finished": _ROW, "is_failed": _ROW, "refresh": _ROW,
    "revoke": "await job.cancel(), or job.cancel_sync()", "abort": "await job.cancel(), or job.cancel_sync()",
    "terminate": "await job.cancel(), or job.cancel_sync()", "requeue": "await job.retry(), or job.retry_sync()",
    "forget": "await job.delete(), or job.delete_sync()", "task_id": "job.id", "job_id": "job.id",
}  # fmt: skip

CONTEXT: Final[Mapping[str, str]] = {
    "retry": 'raise RetryAfter("1m")', "request": "ctx.job", "update_state": 'ctx.progress(0.4, "...")',
    "meta": 'ctx.progress(0.4, "...")', "job_try": "ctx.attempt", "retries": "ctx.attempt - 1",
    "should_abort": "ctx.cancelled",
    "is_aborted": "ctx.cancelled", "job_id": "ctx.job.id",
}  # fmt: skip

APP: Final[Mapping[str, str]] = {
    "send_task": _ENQUEUE, "enqueue": _ENQUEUE, "enqueue_job": _ENQUEUE, "enqueue_in": _USING, "enqueue_at": _AT,
    "configure_task": _USING, "actor": "@app.task", "register": "@app.task", "shared_task": "@app.task",
    "periodic_task": _CRON, "periodic": _CRON, "add_periodic_task": _CRON, "scheduler": _CRON, "crontab": _CRON,
    "lock_task": 'limits=("name",) of the task, with app.limit("name", 1)', "worker_main": "app.run(), or windlass worker",
    "start": "app.run(), or windlass worker", "run_worker": "app.run(), or windlass worker",
    "run_worker_async": "await app.worker().run(), or async with app.running()",
    "on_startup": "@app.resource", "on_shutdown": "@app.resource", "signal": '@app.on("job.dead")',
    "AsyncResult": "app.job(id)", "fetch_job": "app.job(id)", "control": "windlass jobs, or windlass.admin.Admin",
}  # fmt: skip


class Translates:
    """Asked for something by another queue's word, it tells ours, in the `AttributeError` that there would be anyway."""

    __slots__ = ()
    _foreign: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # which would take every name for one that is there

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            text = f"{kind.__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{text}{in_our_words(name, kind._foreign)}", name=name, obj=self)


def in_our_words(name: str, words: Mapping[str, str] = OPTIONS) -> str:
    """The end of a message about a name that is not known."""
    return f"; here write {words[name]}" if name in words else ""
