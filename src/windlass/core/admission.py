"""What may enter the store. Bad input is refused before anything is written, and the error names the field."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, Protocol, TypeGuard, get_args

import msgspec
from msgspec.structs import astuple

from windlass.clock import LAST_INSTANT
from windlass.core.counters import MOST_COUNTED
from windlass.core.limits import is_derived
from windlass.errors import InvalidInput, InvalidLeaseDuration
from windlass.policies import Retry
from windlass.types import (
    AfterRule,
    CrashPolicy,
    GroupMode,
    History,
    NewGroup,
    NewJob,
    OnDuplicate,
    OnFailure,
    OnUnknown,
    RetryMode,
)

NAME_LIMIT: Final = 200
KEY_LIMIT: Final = 1_000
PAYLOAD_LIMIT: Final = 1 << 20
LARGEST: Final = 2**63 - 1
LATEST: Final = LAST_INSTANT // 2  # of `now` and of a lease: their sum must still be an instant
BATCH_LIMIT: Final = 10_000
_PAYLOAD: Final = NewJob.__struct_fields__.index("payload")  # the id is the first

RETRY_MODES: Final = frozenset(get_args(RetryMode))
CRASH_POLICIES: Final = frozenset(get_args(CrashPolicy))
ON_UNKNOWN: Final = frozenset(get_args(OnUnknown))
HISTORIES: Final = frozenset(get_args(History))
ON_DUPLICATE: Final = frozenset(get_args(OnDuplicate))
GROUP_MODES: Final = frozenset(get_args(GroupMode))
ON_FAILURE: Final = frozenset(get_args(OnFailure))
AFTER_RULES: Final = frozenset(get_args(AfterRule))


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
    _check_numbers(job.timeout_ns, job.attempts, job.max_attempts, job.max_lost, job.priority)
    if job.run_at is not None:
        check_instant("run_at", job.run_at)
    _check_payload(job.payload, payload_limit)
    _check_policies(job.retry_mode, job.crash_policy, job.on_unknown, job.on_duplicate, job.retry_policy, job.history)
    if job.org_id is not None or job.tags != () or job.limit_keys != () or job.headers is not None or job.codec != "json":
        _check_texts(job)
    if (
        job.idempotency_key is not None or job.idempotency_scope is not None or job.dedupe_key is not None
        or job.idempotency_expires_at is not None
    ):  # fmt: skip
        _check_keys(job)
    if (
        job.group_id is not None or job.group_seq is not None or job.template_id is not None
        or job.template_version is not None or job.schedule_id is not None or job.fire_at is not None
    ):  # fmt: skip
        _check_origin(job)
    if job.after != () or job.after_rule != "cancel" or job.opens is not None:
        _check_links(job)


def _check_payload(payload: object, limit: int) -> None:
    if not isinstance(payload, bytes):
        raise InvalidInput("payload", f"must be bytes, got {type(payload).__name__}")
    if len(payload) > limit:
        raise InvalidInput("payload", f"is {len(payload):,} bytes, the limit is {limit:,}; store a reference instead")


def check_jobs(jobs: Iterable[NewJob]) -> bool:
    """A batch. One that differs from the job before it in nothing but id and payload is soon done with; whether all do is
    the answer."""
    passed, kinds = None, 0
    for job in jobs:
        fields = astuple(job)
        others = (fields[1:_PAYLOAD], fields[_PAYLOAD + 1 :])
        if others == passed:
            check_id(job.id)
            _check_payload(job.payload, PAYLOAD_LIMIT)
        else:
            check_job(job)
            passed, kinds = others, kinds + 1
    return kinds == 1


def _passed_before(check: Callable[..., None]) -> Callable[..., None]:
    """Jobs of a task have the same values in these fields, a million times. 1 and True are told apart."""
    remembered = lru_cache(maxsize=1024, typed=True)(check)

    def checked(*values: object) -> None:
        try:
            remembered(*values)
        except TypeError:  # one of them cannot be remembered, a list for instance
            check(*values)

    return checked


@_passed_before
def _check_policies(
    retry_mode: object,
    crash_policy: object,
    on_unknown: object,
    on_duplicate: object,
    retry_policy: object,
    history: object,
) -> None:
    check_one_of("retry_mode", retry_mode, RETRY_MODES)
    check_one_of("crash_policy", crash_policy, CRASH_POLICIES)
    check_one_of("on_unknown", on_unknown, ON_UNKNOWN)
    check_one_of("on_duplicate", on_duplicate, ON_DUPLICATE)
    check_one_of("history", history, HISTORIES)
    if retry_mode == "new_job" and crash_policy == "requeue":
        raise InvalidInput("crash_policy", "'requeue' would run a new_job row twice; use 'fail'")
    if retry_mode == "new_job" and history != "full":
        raise InvalidInput("history", "must be 'full' with retry_mode='new_job': each link of a chain is told by its run")
    if retry_policy is not None:
        try:
            Retry.decode(_text(retry_policy))
        except (msgspec.MsgspecError, TypeError, UnicodeEncodeError) as error:
            raise InvalidInput("retry_policy", f"is not an encoded Retry ({error}); use Retry(...).encode()") from None


def _text(value: object) -> str:
    if not isinstance(value, str):  # bytes could be decoded, and not be stored
        raise TypeError(f"it is {type(value).__name__} instead of text")
    return value


@_passed_before
def _check_numbers(timeout_ns: object, attempts: int, max_attempts: int, max_lost: object, priority: object) -> None:
    check_number("timeout_ns", timeout_ns)
    check_number("attempts", attempts, most=MOST_COUNTED)
    check_number("max_attempts", max_attempts)
    check_number("max_lost", max_lost)
    if max_attempts and attempts > max_attempts:
        raise InvalidInput("attempts", f"{attempts} is more than max_attempts {max_attempts}")
    check_priority(priority)


def _check_texts(job: NewJob) -> None:
    check_name("codec", job.codec)
    if job.org_id is not None:
        check_name("org_id", job.org_id)
    for field in ("limit_keys", "tags"):
        values = getattr(job, field)
        if not isinstance(values, tuple):
            raise InvalidInput(field, f"must be a tuple of names, got {shown(values)}")
        for value in values:
            check_name(field, value)
        if len(set(values)) != len(values):
            raise InvalidInput(field, f"names one twice: {values}")
    derived = next((key for key in job.limit_keys if is_derived(key)), None)
    if derived is not None:
        raise InvalidInput(
            "limit_keys", f"{derived!r} concerns a job by its queue, type, org or tags; name keys of your own"
        )
    headers: object = {} if job.headers is None else job.headers
    if not isinstance(headers, dict):
        raise InvalidInput("headers", f"must be a dict of texts, got {shown(headers)}")
    for name, value in headers.items():
        check_name("headers", name)
        check_text("headers", value)


def _check_origin(job: NewJob) -> None:
    for field in ("group_id", "template_id", "schedule_id"):
        if getattr(job, field) is not None:
            check_name(field, getattr(job, field))
    for field in ("group_seq", "template_version"):
        if getattr(job, field) is not None:
            check_number(field, getattr(job, field))
    if job.fire_at is not None:
        check_instant("fire_at", job.fire_at)


def _check_links(job: NewJob) -> None:
    check_one_of("after_rule", job.after_rule, AFTER_RULES)
    if not isinstance(job.after, tuple):
        raise InvalidInput("after", f"must be a tuple of job ids, got {shown(job.after)}")
    for parent_id in job.after:
        check_text("after", parent_id)
        if not parent_id:
            raise InvalidInput("after", "names a job without an id; there is none")
        if parent_id == job.id:
            raise InvalidInput("after", f"the job {job.id!r} cannot wait for itself")
    if job.opens is not None:
        _check_group(job.opens)
        if job.opens.group_id != job.group_id:
            raise InvalidInput("group_id", f"a job opens the group that it is in, not {job.opens.group_id!r}")


def _check_group(group: object) -> None:
    if not isinstance(group, NewGroup):
        raise InvalidInput("opens", f"must be a NewGroup, got {shown(group)}")
    check_name("group_id", group.group_id)
    check_text("name", group.name)
    check_one_of("mode", group.mode, GROUP_MODES)
    check_one_of("on_failure", group.on_failure, ON_FAILURE)


def check_number(field: str, value: object, *, most: int = LARGEST) -> None:
    if type(value) is not int or not 0 <= value <= most:
        bound = "2**63 - 1" if most == LARGEST else f"{most:,}"
        raise InvalidInput(field, f"must be a whole number between 0 and {bound}, got {shown(value)}")


def check_instant(field: str, value: object, *, first: int = 0) -> None:
    if type(value) is not int or not first <= value <= LAST_INSTANT:
        raise InvalidInput(
            field, f"must be a moment from 1970 on and before the year 9999, in microseconds since 1970, got {shown(value)}"
        )


def _check_keys(job: NewJob) -> None:
    if (job.idempotency_key is None) != (job.idempotency_scope is None):
        raise InvalidInput("idempotency_key", "a key and its scope are given together")
    for field in ("idempotency_key", "idempotency_scope", "dedupe_key"):
        value = getattr(job, field)
        if value is not None:
            check_text(field, value, advice="; hash what is longer")
            if not value.strip():
                raise InvalidInput(field, "must not be blank; None means no key")
    if job.idempotency_expires_at is not None:
        check_instant("idempotency_expires_at", job.idempotency_expires_at)


def check_text(field: str, value: object, *, most: int = KEY_LIMIT, advice: str = "") -> None:
    """Any text that every store can keep: no lone surrogates, no NULs, not endless."""
    if not isinstance(value, str) or len(value) > most:
        raise InvalidInput(field, f"must be text of at most {most:,} characters{advice}")
    check_characters(field, value)


def check_characters(field: str, value: object) -> None:
    """Of something that is looked for: what no store can hold is no name of anything."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text, got {shown(value)}")
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInput(field, "holds a NUL or half a character (a lone surrogate)")


def check_priority(priority: object) -> None:
    if type(priority) is not int or not -(2**31) <= priority < 2**31:
        raise InvalidInput("priority", f"must be a whole number of 32 bits, got {shown(priority)}")


def check_claim(claim: Claim, now: object) -> None:
    check_queues(claim.queues)
    check_limit(claim.limit)
    check_lease(claim.lease_for)
    check_now(now)
    check_name("worker_id", claim.worker_id)
    check_name("token", claim.token)
    if claim.types is not None:
        check_all("types", claim.types)


class Claim(Protocol):
    """The part of a driver's claim that is checked here."""

    @property
    def queues(self) -> tuple[str, ...]: ...
    @property
    def types(self) -> tuple[str, ...] | None: ...
    @property
    def limit(self) -> int: ...
    @property
    def lease_for(self) -> int: ...
    @property
    def worker_id(self) -> str: ...
    @property
    def token(self) -> str: ...


def check_lease(lease_for: object) -> None:
    if type(lease_for) is not int or not 0 < lease_for <= LATEST:
        raise InvalidLeaseDuration(shown(lease_for))


def check_now(now: object) -> None:
    if type(now) is not int or not 0 <= now <= LATEST:
        raise InvalidInput("now", f"must be microseconds since 1970, got {shown(now)}")


def check_limit(limit: object) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= BATCH_LIMIT:
        raise InvalidInput("limit", f"must be between 1 and {BATCH_LIMIT:,}, got {shown(limit)}")


def check_queues(queues: object) -> None:
    if not isinstance(queues, tuple | list) or not queues:
        raise InvalidInput("queues", f"give a non-empty sequence of queue names, got {shown(queues)}")
    for queue in queues:
        check_name("queue", queue)


def check_progress(progress: object) -> None:
    if progress is not None and not (is_number(progress) and 0 <= progress <= 1):
        raise InvalidInput("progress", f"must be between 0 and 1, got {shown(progress)}")


def check_all(field: str, names: object) -> None:
    if not isinstance(names, tuple | list):  # a text is a sequence of characters
        raise InvalidInput(field, f"must be a sequence of names, got {shown(names)}")
    for name in names:
        check_name(field, name)


def check_one_of(field: str, value: object, known: frozenset[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise InvalidInput(field, f"must be one of {', '.join(sorted(known))}, got {shown(value)}")


def check_flag(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidInput(field, f"must be True or False, got {shown(value)}")


def is_number(value: object) -> TypeGuard[float]:
    """What is compared with bounds afterwards: nan and infinities pass none, and whole numbers may be beyond all floats."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: object) -> str:
    """A value in a message: not endless, and what Python refuses to write out is described."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):  # it holds a number of thousands of digits, or itself many times over
        return f"a {type(value).__name__}"
