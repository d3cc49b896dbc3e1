"""Checks of new jobs. Bad input is refused before anything is written, and the error names the field."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, Protocol, get_args

import msgspec
from msgspec.structs import astuple

from windlass.core.counters import MOST_COUNTED
from windlass.core.fields import (
    KEY_LIMIT,
    bytes_of,
    check_all,
    check_flag,
    check_id,
    check_instant,
    check_lease,
    check_limit,
    check_limit_key,
    check_name,
    check_now,
    check_number,
    check_once,
    check_one_of,
    check_priority,
    check_queues,
    check_text,
)
from windlass.core.limits import is_derived
from windlass.errors import InvalidInput, shown
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

PAYLOAD_LIMIT: Final = 1 << 20
POLICY_LIMIT: Final = 10_000
_ID: Final = NewJob.__struct_fields__.index("id")
_PAYLOAD: Final = NewJob.__struct_fields__.index("payload")

RETRY_MODES: Final = frozenset(get_args(RetryMode))
CRASH_POLICIES: Final = frozenset(get_args(CrashPolicy))
ON_UNKNOWN: Final = frozenset(get_args(OnUnknown))
HISTORIES: Final = frozenset(get_args(History))
ON_DUPLICATE: Final = frozenset(get_args(OnDuplicate))
GROUP_MODES: Final = frozenset(get_args(GroupMode))
ON_FAILURE: Final = frozenset(get_args(OnFailure))
AFTER_RULES: Final = frozenset(get_args(AfterRule))


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
        others: list[object] = [*astuple(job)]
        others[_ID] = others[_PAYLOAD] = None
        if others == passed and _is_whole(job) and type(job.payload) is bytes and len(job.payload) <= PAYLOAD_LIMIT:
            check_id(job.id)
            _check_not_itself(job)
        else:
            check_job(job)
            passed, kinds = others, kinds + 1
    return kinds == 1


def _is_whole(job: NewJob) -> bool:
    """1.0 and True equal 1, and are none of our numbers."""
    return (
        type(job.priority) is type(job.timeout_ns) is type(job.attempts) is type(job.max_attempts) is int
        and type(job.max_lost) is int
        and (job.run_at is None or type(job.run_at) is int)
        and (job.group_seq is None or type(job.group_seq) is int)
        and (job.fire_at is None or type(job.fire_at) is int)
        and (job.template_version is None or type(job.template_version) is int)
        and (job.idempotency_expires_at is None or type(job.idempotency_expires_at) is int)
    )


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
        _check_retry_policy(retry_policy)


def _check_retry_policy(text: object) -> None:
    if not isinstance(text, str):  # bytes could be decoded, and not be stored
        raise InvalidInput("retry_policy", f"must be text such as Retry(...).encode() gives, got {shown(text)}")
    if len(text) > POLICY_LIMIT:
        raise InvalidInput("retry_policy", f"is {len(text):,} characters long, the limit is {POLICY_LIMIT:,}")
    try:
        Retry.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput("retry_policy", f"is not an encoded Retry ({error!s:.200}); use Retry(...).encode()") from None


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
    for field, check in (("limit_keys", check_limit_key), ("tags", check_name)):
        values = getattr(job, field)
        if not isinstance(values, tuple):
            raise InvalidInput(field, f"must be a tuple of names, got {shown(values)}")
        for value in values:
            check(field, value)
        check_once(field, values)
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
    _check_not_itself(job)
    if job.opens is not None:
        _check_group(job.opens)
        if job.opens.group_id != job.group_id:
            raise InvalidInput("group_id", f"a job opens the group that it is in, not {job.opens.group_id!r}")


def _check_not_itself(job: NewJob) -> None:
    if job.id in job.after:
        raise InvalidInput("after", f"the job {job.id!r} cannot wait for itself")


def _check_group(group: object) -> None:
    if not isinstance(group, NewGroup):
        raise InvalidInput("opens", f"must be a NewGroup, got {shown(group)}")
    check_name("group_id", group.group_id)
    check_text("name", group.name)
    check_one_of("mode", group.mode, GROUP_MODES)
    check_one_of("on_failure", group.on_failure, ON_FAILURE)


def _check_keys(job: NewJob) -> None:
    if (job.idempotency_key is None) != (job.idempotency_scope is None):
        raise InvalidInput("idempotency_key", "a key and its scope are given together")
    for field in ("idempotency_key", "idempotency_scope", "dedupe_key"):
        value = getattr(job, field)
        if value is not None:
            check_text(field, value, advice="; hash what is longer")
            if bytes_of(value) > KEY_LIMIT:
                raise InvalidInput(
                    field, f"takes {bytes_of(value):,} bytes as UTF-8, the limit is {KEY_LIMIT:,}; hash what is longer"
                )
            if not value.strip():
                raise InvalidInput(field, "must not be blank; None means no key")
    if job.idempotency_expires_at is not None:
        check_instant("idempotency_expires_at", job.idempotency_expires_at)


def check_claim(claim: Claim, now: object) -> None:
    check_queues(claim.queues)
    check_limit(claim.limit)
    check_lease(claim.lease_for)
    check_now(now)
    check_name("worker_id", claim.worker_id)
    check_name("token", claim.token)
    if claim.types is not None:
        check_all("types", claim.types)
    for field in ("unhandled", "start", "reclaim", "sure"):
        check_flag(field, getattr(claim, field))


class Claim(Protocol):
    """The fields of a driver's claim that are checked here."""

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
    @property
    def unhandled(self) -> bool: ...
    @property
    def start(self) -> bool: ...
    @property
    def reclaim(self) -> bool: ...
    @property
    def sure(self) -> bool: ...
