"""What may enter the store. Bad input is refused before anything is written, and the error names the field."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, get_args

import msgspec

from windlass.core.changes import Alteration, PutGroup, PutLimit, PutQueue
from windlass.errors import InvalidInput, InvalidLeaseDuration
from windlass.policies import Retry
from windlass.types import CrashPolicy, NewJob, OnDuplicate, OnUnknown, RetryMode

NAME_LIMIT: Final = 200
KEY_LIMIT: Final = 1_000
PAYLOAD_LIMIT: Final = 1 << 20
LARGEST: Final = 2**63 - 1
BATCH_LIMIT: Final = 10_000

RETRY_MODES: Final = frozenset(get_args(RetryMode))
CRASH_POLICIES: Final = frozenset(get_args(CrashPolicy))
ON_UNKNOWN: Final = frozenset(get_args(OnUnknown))
ON_DUPLICATE: Final = frozenset(get_args(OnDuplicate))


def check_name(field: str, value: object) -> None:
    """A name that people read: any printable text, `service:nextjs` and `a/b` included."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, got {type(value).__name__}")
    problem = _problem(value)
    if problem is not None:
        raise InvalidInput(field, problem)


@lru_cache(maxsize=4096)  # a queue sees the same few names a million times
def _problem(value: str) -> str | None:
    if not value.strip():
        return "must not be empty"
    if len(value) > NAME_LIMIT:
        return f"is {len(value)} characters long, the limit is {NAME_LIMIT}"
    if not value.isprintable():
        return f"{value!r} holds characters that cannot be printed"
    return None


def check_id(value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput("id", "must be text and not empty")
    if len(value) > NAME_LIMIT or not value.isprintable():
        raise InvalidInput("id", f"must be printable text of at most {NAME_LIMIT} characters, got {value!r:.80}")


def check_job(job: NewJob, payload_limit: int = PAYLOAD_LIMIT) -> None:
    """Everything a store relies on. The hot path of a plain job is a handful of comparisons."""
    check_id(job.id)
    check_name("type", job.type)
    check_name("queue", job.queue)
    if job.timeout_ns or job.attempts or job.max_attempts or job.max_lost or job.priority or job.run_at is not None:
        _check_numbers(job)
    if not isinstance(job.payload, bytes):
        raise InvalidInput("payload", f"must be bytes, got {type(job.payload).__name__}")
    if len(job.payload) > payload_limit:
        raise InvalidInput(
            "payload", f"is {len(job.payload):,} bytes, the limit is {payload_limit:,}; store a reference instead"
        )
    _check_policies(job)
    if job.org_id is not None or job.tags or job.limit_keys or job.headers or job.group_id is not None:
        _check_texts(job)
    if job.idempotency_key is not None or job.idempotency_scope is not None or job.dedupe_key is not None:
        _check_keys(job)


def _check_policies(job: NewJob) -> None:
    for field, known in (
        ("retry_mode", RETRY_MODES), ("crash_policy", CRASH_POLICIES), ("on_unknown", ON_UNKNOWN),
        ("on_duplicate", ON_DUPLICATE),
    ):  # fmt: skip
        if getattr(job, field) not in known:
            raise InvalidInput(field, f"must be one of {', '.join(sorted(known))}, got {getattr(job, field)!r}")
    if job.retry_mode == "new_job" and job.crash_policy == "requeue":
        raise InvalidInput("crash_policy", "'requeue' would run a new_job row twice; use 'fail'")
    if job.retry_policy is not None:
        try:
            Retry.decode(job.retry_policy)
        except (msgspec.MsgspecError, TypeError) as error:
            raise InvalidInput("retry_policy", f"is not an encoded Retry ({error}); use Retry(...).encode()") from None


def _check_texts(job: NewJob) -> None:
    for field in ("org_id", "group_id"):
        if getattr(job, field) is not None:
            check_name(field, getattr(job, field))
    for field in ("limit_keys", "tags"):
        values = getattr(job, field)
        for value in values:
            check_name(field, value)
        if len(set(values)) != len(values):
            raise InvalidInput(field, f"names one twice: {values}")
    for name, value in (job.headers or {}).items():
        check_name("headers", name)
        check_text("headers", value)


def _check_keys(job: NewJob) -> None:
    if (job.idempotency_key is None) != (job.idempotency_scope is None):
        raise InvalidInput("idempotency_key", "a key and its scope are given together")
    for field in ("idempotency_key", "idempotency_scope", "dedupe_key"):
        value = getattr(job, field)
        if value is not None:
            check_text(field, value)
            if not value.strip():
                raise InvalidInput(field, "must not be blank; None means no key")


def check_text(field: str, value: object) -> None:
    """Any text that every store can keep: no lone surrogates, no NULs, not endless."""
    if not isinstance(value, str) or len(value) > KEY_LIMIT:
        raise InvalidInput(field, f"must be text of at most {KEY_LIMIT:,} characters; hash what is longer")
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInput(field, "holds a NUL or half a character (a lone surrogate)")


def _check_numbers(job: NewJob) -> None:
    for field in ("timeout_ns", "attempts", "max_attempts", "max_lost"):
        value = getattr(job, field)
        if type(value) is not int or not 0 <= value <= LARGEST:
            raise InvalidInput(field, f"must be a whole number between 0 and 2**63 - 1, got {value!r}")
    if job.max_attempts and job.attempts > job.max_attempts:
        raise InvalidInput("attempts", f"{job.attempts} is more than max_attempts {job.max_attempts}")
    if type(job.priority) is not int or not -(2**31) <= job.priority < 2**31:
        raise InvalidInput("priority", f"must be a whole number of 32 bits, got {job.priority!r}")
    if job.run_at is not None and (type(job.run_at) is not int or not 0 <= job.run_at <= LARGEST):
        raise InvalidInput("run_at", f"{job.run_at!r} is not an instant in microseconds since 1970")


def check_lease(lease_for: object) -> None:
    if not isinstance(lease_for, int) or isinstance(lease_for, bool) or lease_for <= 0 or lease_for > LARGEST // 4:
        raise InvalidLeaseDuration(lease_for)


def check_limit(limit: object) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= BATCH_LIMIT:
        raise InvalidInput("limit", f"must be between 1 and {BATCH_LIMIT:,}, got {limit!r}")


def check_queues(queues: object) -> None:
    if not isinstance(queues, tuple | list) or not queues:
        raise InvalidInput("queues", f"give a non-empty sequence of queue names, got {queues!r}")
    for queue in queues:
        check_name("queue", queue)


def check_progress(progress: float | None) -> None:
    if progress is not None and not (math.isfinite(progress) and 0 <= progress <= 1):
        raise InvalidInput("progress", f"must be between 0 and 1, got {progress!r}")


def check_alteration(change: Alteration) -> None:
    match change:
        case PutQueue():
            check_name("queue", change.name)
        case PutLimit():
            check_name("limit key", change.key)
            if change.max_used is not None and (type(change.max_used) is not int or change.max_used < 0):
                raise InvalidInput("max_used", f"must be 0 or more, or None for no cap, got {change.max_used!r}")
        case PutGroup():
            check_name("group_id", change.group_id)
            if type(change.total) is not int or change.total < 0:
                raise InvalidInput("total", f"must be 0 or more, got {change.total!r}")
        case _:
            pass
