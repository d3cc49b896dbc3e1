"""The options of tasks and jobs, and how they become the row of a new job.

An option given to `using(...)` overrides that of `@app.task(...)`, which overrides the preset of the queue, which
overrides the settings. The result is a `Plan`: a row that is made once; each enqueue fills in the id, the payload and the
times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypedDict

import msgspec
from msgspec.structs import replace

from windlass.clock import duration, instant
from windlass.config import Settings
from windlass.core.admission import AFTER_RULES, HISTORIES
from windlass.core.fields import check_name, check_one_of
from windlass.core.limits import is_derived, limit_key
from windlass.core.uniqueness import clean_key, idempotency_scope, stored_dedupe_key
from windlass.errors import InvalidInput, shown
from windlass.foreign import in_our_words
from windlass.policies import Duration, Retry
from windlass.presets import AckMode, KeyScope, Preset
from windlass.redaction import MARK
from windlass.types import AfterRule, CrashPolicy, History, Micros, NewJob, OnDuplicate, OnUnknown, RetryMode
from windlass.words import did_you_mean

Runner = Literal["async", "thread", "process"]


class SharedOptions(TypedDict, total=False):
    """Options that a task may have, and that `using(...)` may override for one job."""

    queue: str  # default: "default"
    priority: int  # larger runs first
    timeout: Duration  # of one execution
    retry: Retry  # how often a failed job is tried again, and after which pauses
    max_lost: int  # a job whose workers died this often is dead; 0 = no limit
    retry_mode: RetryMode  # "same_job", or "new_job": each retry is a job of its own
    crash_policy: CrashPolicy  # when its worker has died: "requeue" the job, or "fail" it
    on_unknown: OnUnknown  # when a worker of its queue does not know its type: "wait" for one that does, or "dead"
    history: History  # "full", or "failures": executions that succeed are counted, and leave no run
    on_duplicate: OnDuplicate  # what enqueue does when its key is taken
    dedupe: bool | str  # only one active job has this key; True: a key made of its arguments
    limits: tuple[str, ...]  # keys of limits that its jobs need a permit of
    debounce: Duration  # with dedupe: runs so long after the last call, with that call's arguments
    tags: tuple[str, ...]  # to search by, and for limits


class CommandOptions(SharedOptions, total=False):
    """Options of `app.command(...)`."""

    ack: AckMode  # "batched", or "sync": the slot stays taken until the end of the job is stored
    redact: tuple[str, ...]  # names of arguments, and of fields inside them, whose values are never shown


class TaskOptions(CommandOptions, total=False):
    """Options of `@app.task(...)`."""

    name: str  # the type of its jobs; default: the name of the function
    run: Runner  # default: "async" for async functions, else "thread"


class JobOptions(SharedOptions, total=False):
    """Options of `task.using(...)`, for one job."""

    id: str  # default: a new one
    delay: Duration  # how long it waits before it is due
    run_at: datetime  # when it is due, instead of `delay`; must have a time zone
    org_id: str  # the organisation that it belongs to
    headers: dict[str, str]  # stored with the job and readable by its handler
    idempotency_key: str  # at most one job per key, also after it has ended
    idempotency_scope: KeyScope  # within what the key is unique
    idempotency_for: Duration  # how long the key is remembered; default: for ever
    after: Sequence[object]  # jobs that must have ended before: handles, prepared jobs, ids
    on_failure: AfterRule  # when one of those ends badly: "cancel" (this one as well) or "continue"
    conn: object  # a connection of yours: the job is stored in its transaction
    notify: bool  # with conn: False sends no wake-up with the caller's transaction


SHARED: Final = frozenset(SharedOptions.__annotations__)
OF_COMMAND: Final = SHARED | CommandOptions.__annotations__.keys()
OF_TASK: Final = OF_COMMAND | TaskOptions.__annotations__.keys()
OF_JOB: Final = SHARED | JobOptions.__annotations__.keys()


def check_options(given: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for name in given:
        if name not in known:
            hint = in_our_words(name) or _elsewhere(name) or did_you_mean(name, known)
            raise InvalidInput(name, f"is not an option of {where}{hint}; known: {', '.join(sorted(known))}")


def _elsewhere(name: str) -> str:
    if name in OF_JOB:
        return f", but of one job: task.using({name}=...).enqueue(...)"
    return f", but of the task: @app.task({name}=...)" if name in OF_TASK else ""


def misplaced(name: str) -> str:
    """Where an option belongs that was given among the arguments of a call."""
    if name in OF_JOB:
        return f"; an option is said before: task.using({name}=...).enqueue(...)"
    return in_our_words(name)


@dataclass(frozen=True)
class Plan:
    """How to make jobs with one set of options: that of a task, or of what its `using(...)` returns."""

    prototype: NewJob
    said: Mapping[str, Any]  # the merged options, for a further using(...)
    delay: Micros = 0
    dedupe: bool | str = False
    key_life: Micros | None = None
    conn: object = None
    notify: bool = True
    plain: bool = True  # nothing but id and payload differs from job to job

    def make(self, job_id: str, payload: bytes, now: Micros) -> NewJob:
        if self.plain:
            return replace(self.prototype, id=job_id, payload=payload)
        proto, changes = self.prototype, dict[str, Any]()
        if self.delay:
            changes["run_at"] = now + self.delay
        if self.dedupe is True:
            changes["dedupe_key"] = stored_dedupe_key(proto.type, proto.org_id, msgspec.json.decode(payload))
        if self.key_life is not None:
            changes["idempotency_expires_at"] = now + self.key_life
        return replace(proto, id=self.said.get("id", job_id), payload=payload, **changes)


def plan(task: str, said: Mapping[str, Any], preset: Preset | None, settings: Settings) -> Plan:
    """The plan for jobs of the type `task` with the options `said`. Raises `InvalidInput`, naming the option."""
    if "delay" in said and "run_at" in said:
        raise InvalidInput("delay", "give delay or run_at, not both")
    if "run_at" in said and not isinstance(said["run_at"], datetime):
        raise InvalidInput("run_at", f"must be a datetime with a time zone, got {shown(said['run_at'])}; or use delay='5m'")
    check_name("queue", said.get("queue", "default"))
    if said.get("org_id") is not None:
        check_name("org_id", said["org_id"])
    retry = _retry(said, preset, settings)
    key = clean_key(_text("idempotency_key", said.get("idempotency_key")))
    dedupe = said.get("dedupe", False)
    if not isinstance(dedupe, bool | str):
        raise InvalidInput("dedupe", f"must be True (by arguments) or a key, got {shown(dedupe)}")
    check_one_of("history", said.get("history", "full"), HISTORIES)
    retry_mode = said.get("retry_mode", preset.retry_mode if preset else "same_job")
    usual_crash = "fail" if retry_mode == "new_job" else preset.crash_policy if preset else "requeue"
    prototype = NewJob(
        id="", type=task, queue=said.get("queue", "default"), org_id=said.get("org_id"), priority=said.get("priority", 0),
        run_at=instant(said["run_at"], field="run_at") if "run_at" in said else None,
        timeout_ns=1_000 * (duration(said["timeout"], field="timeout") if "timeout" in said else settings.timeout),
        max_attempts=retry.executions, max_lost=said.get("max_lost", preset.max_lost if preset else settings.max_lost),
        retry_mode=retry_mode, crash_policy=said.get("crash_policy", usual_crash), retry_policy=retry.encode(),
        on_unknown=said.get("on_unknown", preset.on_unknown if preset else settings.on_unknown),
        history=said.get("history", "full" if retry_mode == "new_job" else settings.history),
        on_duplicate=said.get("on_duplicate", preset.on_duplicate if preset else settings.on_duplicate),
        idempotency_key=key, idempotency_scope=None if key is None else _scope(task, said, preset, settings),
        dedupe_key=clean_key(dedupe) if isinstance(dedupe, str) else None,
        limit_keys=_limits(said), tags=_names("tags", said), headers=_headers(said), after=_after(said),
        after_rule=_on_failure(said),
    )  # fmt: skip
    delay = duration(said["delay"], field="delay") if "delay" in said else 0
    if "debounce" in said:
        delay = _debounce(said)
        prototype = replace(prototype, on_duplicate="replace")
    life = duration(said["idempotency_for"], field="idempotency_for") if "idempotency_for" in said else None
    plain = not delay and dedupe is not True and life is None and "id" not in said
    return Plan(prototype, said, delay, dedupe, life, said.get("conn"), _flag("notify", said), plain)


def _retry(said: Mapping[str, Any], preset: Preset | None, settings: Settings) -> Retry:
    retry = said.get("retry", preset.retry() if preset else settings.retry)
    if not isinstance(retry, Retry):
        raise InvalidInput("retry", f"must be a windlass.Retry such as Retry(max_retries=3), got {shown(retry)}")
    return retry


def _scope(task: str, said: Mapping[str, Any], preset: Preset | None, settings: Settings) -> str:
    scope = said.get("idempotency_scope", preset.idempotency_scope if preset else settings.idempotency_scope)
    if scope not in ("type", "queue", "org", "global"):
        raise InvalidInput("idempotency_scope", f"must be one of type, queue, org, global, got {shown(scope)}")
    return idempotency_scope(scope, type=task, queue=said.get("queue", "default"), org_id=said.get("org_id"))


def _names(field: str, said: Mapping[str, Any]) -> tuple[str, ...]:
    value = said.get(field, ())
    if isinstance(value, str) or not isinstance(value, tuple | list):
        raise InvalidInput(field, f"must be a tuple of names such as ('gpu',), got {shown(value)}")
    return tuple(value)


def _limits(said: Mapping[str, Any]) -> tuple[str, ...]:
    """`gpu` is short for `key:gpu`. Limits of its type, org, tags or queue apply to a job without being named."""
    keys = tuple(limit_key(name, "limits") for name in _names("limits", said))
    derived = next((key for key in keys if is_derived(key)), None)
    if derived is not None:
        raise InvalidInput("limits", f"{derived!r} concerns a job by what it is; name keys of your own, such as 'gpu'")
    return keys


def _debounce(said: Mapping[str, Any]) -> Micros:
    if not said.get("dedupe"):
        raise InvalidInput("debounce", "needs dedupe, which tells the calls that stand for the same work")
    other = next((name for name in ("delay", "run_at", "on_duplicate") if name in said), None)
    if other is not None:
        raise InvalidInput("debounce", f"says when the job runs and what a duplicate does; leave out {other}")
    return duration(said["debounce"], field="debounce")


def _after(said: Mapping[str, Any]) -> tuple[str, ...]:
    jobs = said.get("after", ())
    if isinstance(jobs, str) or not isinstance(jobs, Sequence):
        raise InvalidInput("after", f"must be a list of jobs such as [job] or [job.id], got {shown(jobs)}")
    ids = [job if isinstance(job, str) else getattr(job, "id", None) for job in jobs]
    for job, job_id in zip(jobs, ids, strict=True):
        if not isinstance(job_id, str):
            raise InvalidInput("after", f"takes what enqueue(...) or task.job(...) answered, or ids, got {shown(job)}")
    return tuple(dict.fromkeys(str(job_id) for job_id in ids))


def _on_failure(said: Mapping[str, Any]) -> AfterRule:
    rule: AfterRule = said.get("on_failure", "cancel")
    check_one_of("on_failure", rule, AFTER_RULES)
    return rule


def _headers(said: Mapping[str, Any]) -> dict[str, str] | None:
    """A copy, because the caller may change theirs later. The names of `redact` travel in a header."""
    headers, marks = said.get("headers"), _names("redact", said)
    if headers is not None and not isinstance(headers, dict):
        raise InvalidInput("headers", f"must be a dict of text such as {{'trace': '1'}}, got {shown(headers)}")
    if not marks:
        return None if headers is None else dict(headers)
    for name in marks:
        check_name("redact", name)
        if "," in name:
            raise InvalidInput("redact", f"{name!r} holds a comma; give each name by itself")
    return {**(headers or {}), MARK: ",".join(sorted(set(marks)))}


def _flag(field: str, said: Mapping[str, Any]) -> bool:
    value = said.get(field, True)
    if not isinstance(value, bool):
        raise InvalidInput(field, f"must be True or False, got {shown(value)}")
    return value


def _text(field: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidInput(field, f"must be text, got {shown(value)}")
    return value
