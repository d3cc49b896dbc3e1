"""What may be said about a task and about one job of it, and how the row of a new job follows from all that was said.

Precedence: `using(...)` over `@app.task(...)` over the preset of the queue over the settings. The result is a `Plan`: a
prototype row, made once, of which each enqueue fills in the id, the payload and whatever depends on the moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypedDict

import msgspec
from msgspec.structs import replace

from windlass.clock import duration, instant
from windlass.config import Settings
from windlass.core.admission import AFTER_RULES, HISTORIES, check_name, check_one_of
from windlass.core.limits import is_derived, limit_key
from windlass.core.uniqueness import clean_key, idempotency_scope, stored_dedupe_key
from windlass.errors import InvalidInput
from windlass.policies import Duration, Retry
from windlass.presets import AckMode, KeyScope, Preset
from windlass.redaction import MARK
from windlass.types import AfterRule, CrashPolicy, History, Micros, NewJob, OnDuplicate, OnUnknown, RetryMode
from windlass.words import did_you_mean

Runner = Literal["async", "thread", "process"]


class SharedOptions(TypedDict, total=False):
    """What may be said of a task, and again of one of its jobs."""

    queue: str
    priority: int
    timeout: Duration
    retry: Retry
    max_lost: int
    retry_mode: RetryMode
    crash_policy: CrashPolicy
    on_unknown: OnUnknown
    history: History  # failures: executions that succeed are counted, and leave no run
    on_duplicate: OnDuplicate
    dedupe: bool | str
    limits: tuple[str, ...]
    debounce: Duration  # with dedupe: runs so long after the last call, with that call's arguments
    tags: tuple[str, ...]


class CommandOptions(SharedOptions, total=False):
    """Of a program: `app.command(...)`."""

    ack: AckMode
    redact: tuple[str, ...]  # names of arguments, and of what is in them, that are never shown


class TaskOptions(CommandOptions, total=False):
    """Of a task: `@app.task(...)`."""

    name: str
    run: Runner


class JobOptions(SharedOptions, total=False):
    """Of one job: `task.using(...)`."""

    id: str
    delay: Duration
    run_at: datetime
    org_id: str
    headers: dict[str, str]
    idempotency_key: str
    idempotency_scope: KeyScope
    idempotency_for: Duration
    after: Sequence[object]  # jobs that must have ended before: handles, prepared jobs, ids
    on_failure: AfterRule  # when one of those ends badly: "cancel" (this one as well) or "continue"
    conn: object
    notify: bool  # with conn: False sends no wake-up with the caller's transaction


SHARED: Final = frozenset(SharedOptions.__annotations__)
OF_COMMAND: Final = SHARED | CommandOptions.__annotations__.keys()
OF_TASK: Final = OF_COMMAND | TaskOptions.__annotations__.keys()
OF_JOB: Final = SHARED | JobOptions.__annotations__.keys()


def check_options(given: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InvalidInput(name, f"is not an option of {where}{hint}; known: {', '.join(sorted(known))}")


@dataclass(frozen=True)
class Plan:
    """How the jobs of one task, or of one `using(...)` of it, are made."""

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
    """The plan for jobs of `task` given all that was said of them."""
    if "delay" in said and "run_at" in said:
        raise InvalidInput("delay", "give delay or run_at, not both")
    if "run_at" in said and not isinstance(said["run_at"], datetime):
        raise InvalidInput("run_at", f"must be a datetime with a time zone, got {said['run_at']!r}; or use delay='5m'")
    check_name("queue", said.get("queue", "default"))
    if said.get("org_id") is not None:
        check_name("org_id", said["org_id"])
    retry = _retry(said, preset, settings)
    key = clean_key(_text("idempotency_key", said.get("idempotency_key")))
    dedupe = said.get("dedupe", False)
    if not isinstance(dedupe, bool | str):
        raise InvalidInput("dedupe", f"must be True (by arguments) or a key, got {dedupe!r}")
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
        raise InvalidInput("retry", f"must be a windlass.Retry such as Retry(max_retries=3), got {retry!r}")
    return retry


def _scope(task: str, said: Mapping[str, Any], preset: Preset | None, settings: Settings) -> str:
    scope = said.get("idempotency_scope", preset.idempotency_scope if preset else settings.idempotency_scope)
    if scope not in ("type", "queue", "org", "global"):
        raise InvalidInput("idempotency_scope", f"must be one of type, queue, org, global, got {scope!r}")
    return idempotency_scope(scope, type=task, queue=said.get("queue", "default"), org_id=said.get("org_id"))


def _names(field: str, said: Mapping[str, Any]) -> tuple[str, ...]:
    value = said.get(field, ())
    if isinstance(value, str) or not isinstance(value, tuple | list):
        raise InvalidInput(field, f"must be a tuple of names such as ('{value}',)")
    return tuple(value)


def _limits(said: Mapping[str, Any]) -> tuple[str, ...]:
    """`gpu` stands for `key:gpu`. What a job has by its type, org, tags or queue needs no name here."""
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
        raise InvalidInput("after", f"must be a list of jobs such as [job] or [job.id], got {jobs!r}")
    ids = [job if isinstance(job, str) else getattr(job, "id", None) for job in jobs]
    for job, job_id in zip(jobs, ids, strict=True):
        if not isinstance(job_id, str):
            raise InvalidInput("after", f"takes what enqueue(...) or task.job(...) answered, or ids, got {job!r}")
    return tuple(dict.fromkeys(str(job_id) for job_id in ids))


def _on_failure(said: Mapping[str, Any]) -> AfterRule:
    rule: AfterRule = said.get("on_failure", "cancel")
    check_one_of("on_failure", rule, AFTER_RULES)
    return rule


def _headers(said: Mapping[str, Any]) -> dict[str, str] | None:
    """A copy: what the caller does to it later must not reach jobs that are made later."""
    headers, marks = said.get("headers"), _names("redact", said)
    if headers is not None and not isinstance(headers, dict):
        raise InvalidInput("headers", f"must be a dict of text such as {{'trace': '1'}}, got {headers!r}")
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
        raise InvalidInput(field, f"must be True or False, got {value!r}")
    return value


def _text(field: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidInput(field, f"must be text, got {value!r}")
    return value
