"""What may enter the store. Bad input is refused before anything is written, and the error names the field."""

from __future__ import annotations

import math
from typing import Final

from windlass.errors import InvalidInput, InvalidLeaseDuration
from windlass.types import NewJob

NAME_LIMIT: Final = 200
PAYLOAD_LIMIT: Final = 1 << 20
LARGEST: Final = 2**63 - 1
BATCH_LIMIT: Final = 10_000

_known_names: dict[str, None] = {}  # names that were checked before: a queue sees the same few names a million times


def check_name(field: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, got {type(value).__name__}")
    if value in _known_names:
        return
    if not value.strip():
        raise InvalidInput(field, "must not be empty")
    if len(value) > NAME_LIMIT:
        raise InvalidInput(field, f"is {len(value)} characters long, the limit is {NAME_LIMIT}")
    if not value.isprintable():
        raise InvalidInput(field, f"{value!r} holds characters that cannot be printed")
    if len(_known_names) < 10_000:
        _known_names[value] = None


def check_id(value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput("id", "must not be empty")
    if len(value) > NAME_LIMIT or not value.isprintable():
        raise InvalidInput("id", f"must be printable text of at most {NAME_LIMIT} characters, got {value!r:.80}")


def check_job(job: NewJob, payload_limit: int = PAYLOAD_LIMIT) -> None:
    check_id(job.id)
    check_name("type", job.type)
    check_name("queue", job.queue)
    if job.timeout_ns or job.attempts or job.max_attempts or job.max_lost or job.priority or job.run_at:
        _check_numbers(job)
    if len(job.payload) > payload_limit:
        raise InvalidInput(
            "payload", f"is {len(job.payload):,} bytes, the limit is {payload_limit:,}; store a reference instead"
        )
    if (job.idempotency_key is None) != (job.idempotency_scope is None):
        raise InvalidInput("idempotency_key", "a key and its scope are given together")
    if job.limit_keys and len(set(job.limit_keys)) != len(job.limit_keys):
        raise InvalidInput("limit_keys", f"names a key twice: {job.limit_keys}")
    if job.retry_mode == "new_job" and job.crash_policy == "requeue":
        raise InvalidInput("crash_policy", "'requeue' would run a new_job row twice; use 'fail'")


def _check_numbers(job: NewJob) -> None:
    for field in ("timeout_ns", "attempts", "max_attempts", "max_lost"):
        value = getattr(job, field)
        if not 0 <= value <= LARGEST:
            raise InvalidInput(field, f"must be between 0 and 2**63 - 1, got {value}")
    if job.max_attempts and job.attempts > job.max_attempts:
        raise InvalidInput("attempts", f"{job.attempts} is more than max_attempts {job.max_attempts}")
    if not -(2**31) <= job.priority < 2**31:
        raise InvalidInput("priority", f"must fit in 32 bits, got {job.priority}")
    if job.run_at is not None and not 0 <= job.run_at <= LARGEST:
        raise InvalidInput("run_at", f"{job.run_at} is not an instant in microseconds since 1970")


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
