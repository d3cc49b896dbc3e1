"""Jobs as a test sees them: by task and arguments instead of rows and bytes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from windlass.errors import InvalidInput, Undecodable
from windlass.options import OF_JOB, check_options
from windlass.tasks import Task
from windlass.types import Job, Micros

SHOWN: Final = 10
_ANY: Final = 1 << 62  # a test may ask for arguments of any size

# Where each option is found in a stored job. The others leave no trace there, or only one that means nothing alone.
_COLUMNS: Final = {
    "id": "id", "queue": "queue", "priority": "priority", "timeout": "timeout_ns", "retry": "retry_policy",
    "max_lost": "max_lost", "retry_mode": "retry_mode", "crash_policy": "crash_policy", "on_unknown": "on_unknown",
    "history": "history", "dedupe": "dedupe_key", "limits": "limit_keys", "tags": "tags", "delay": "run_at",
    "run_at": "run_at", "org_id": "org_id", "headers": "headers", "idempotency_key": "idempotency_key",
    "idempotency_scope": "idempotency_scope",
}  # fmt: skip


@dataclass(frozen=True)
class EnqueuedJob:
    """A stored job with its arguments as its handler gets them. `args` is None if the task no longer takes them."""

    task: str
    args: tuple[Any, ...] | None
    kwargs: dict[str, Any]
    job: Job

    def __str__(self) -> str:
        if self.args is None:
            return f"{self.task}(<{len(self.job.payload)} bytes>)"
        return call(self.task, self.args, self.kwargs)


def call(task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    shown = [f"{value!r:.80}" for value in args] + [f"{name}={value!r:.80}" for name, value in kwargs.items()]
    return f"{task}({', '.join(shown)})"


def read(job: Job, tasks: Mapping[str, Task[..., Any]]) -> EnqueuedJob:
    task = tasks.get(job.type)
    if task is None:
        return EnqueuedJob(job.type, None, {}, job)
    try:
        args, kwargs = task.arguments.decode(job.payload, job.codec)
    except Undecodable:
        return EnqueuedJob(job.type, None, {}, job)
    return EnqueuedJob(job.type, args, kwargs, job)


class Wanted:
    """What a test expects: a task, some or all of its arguments, some options. What is not given may be anything."""

    def __init__(
        self, task: Task[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], using: Mapping[str, Any] | None,
        now: Micros,
    ) -> None:  # fmt: skip
        self._task = task
        self._now = now
        self._text = call(task.name, args, kwargs) + (f" with {dict(using)}" if using else "")
        signature = inspect.signature(task.function)
        if task.takes_context:
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        self._signature = signature
        self._arguments = signature.bind_partial(*args, **kwargs).arguments
        self._using = dict(using or {})
        check_options(self._using, OF_JOB, "using")
        for name in self._using:
            if name not in _COLUMNS:
                raise InvalidInput(name, f"cannot be seen in a stored job; ask for one of {', '.join(_COLUMNS)}")

    def __str__(self) -> str:
        return self._text

    @property
    def task(self) -> str:
        return self._task.name

    def differences(self, found: EnqueuedJob) -> list[str]:
        """How the job differs from what is wanted; empty if it does not."""
        if found.task != self._task.name:
            return [f"is a {found.task}"]
        if found.args is None:
            return ["its arguments do not fit the task"]
        bound = self._signature.bind(*found.args, **found.kwargs)
        bound.apply_defaults()
        wrong = [
            f"{name} is {bound.arguments[name]!r:.80}, not {value!r:.80}"
            for name, value in self._arguments.items()
            if not self._same(bound, name, value)
        ]
        return wrong + self._other_options(found)

    def _same(self, bound: inspect.BoundArguments, name: str, value: Any) -> bool:
        """Whether values are equal, or are equal once stored: if no type says otherwise, a tuple comes back as a list."""
        if bound.arguments[name] == value:
            return True
        other = inspect.BoundArguments(self._signature, {**bound.arguments, name: value})
        encode = self._task.arguments.encode
        try:
            return encode(bound.args, bound.kwargs, limit=_ANY) == encode(other.args, other.kwargs, limit=_ANY)
        except InvalidInput:
            return False

    def _other_options(self, found: EnqueuedJob) -> list[str]:
        if not self._using or found.args is None:
            return []
        made = self._task.using(**self._using).job(*found.args, **found.kwargs).new
        wrong: list[str] = []
        for name in self._using:
            stored, wanted = getattr(found.job, _COLUMNS[name]), getattr(made, _COLUMNS[name])
            if name == "delay" and wanted is not None:
                stored, wanted = stored and stored - found.job.created_at, wanted - self._now
            if stored != wanted and (stored or wanted):
                wrong.append(f"{name} is {stored!r:.80}, not {wanted!r:.80}")
        return wrong


def nearest(wanted: Wanted, enqueued: Sequence[EnqueuedJob]) -> str:
    """The jobs that were enqueued instead, the most similar first, each with its differences."""
    if not enqueued:
        return "nothing was enqueued at all"
    found = [(wanted.differences(one), one) for one in enqueued]
    found.sort(key=lambda pair: (pair[1].task != wanted.task, len(pair[0])))
    lines = [f"  {one}: {'; '.join(wrong)}" for wrong, one in found[:SHOWN]]
    more = [f"  and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "\n".join(["these were, nearest first:", *lines, *more])
