"""Keys that keep the same work from being queued twice, and what a duplicate enqueue is told.

Two separate mechanisms. An *idempotency key* is taken once and stays taken after the job has ended and even after it has
been pruned. A *dedupe key* is only taken while a job that carries it is queued or running.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from windlass.errors import InvalidInput
from windlass.types import Job, Micros, NewJob

Scope = Literal["type", "queue", "org", "global"]
LONGEST_KEY: Final = 200


def stable_json(value: Any) -> str:
    """JSON text with the keys of every object sorted, at any depth; arrays keep their order."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput("payload", f"cannot be written as JSON: {error}") from None


def dedupe_key(type: str, org_id: str | None, payload: Any) -> str:  # noqa: A002 - Harmonyk names it so
    """`<type>::<org_id or "global">::<sorted json>`, exactly as Harmonyk writes it."""
    return f"{type}::{'global' if org_id is None else org_id}::{stable_json(payload)}"


def stored_dedupe_key(type: str, org_id: str | None, payload: Any) -> str:  # noqa: A002
    """The stored form of the default dedupe key. Its parts are escaped, so that keys cannot collide: an organisation
    called `global`, a `::` inside a name, endless length."""
    return bounded("::".join([_escape(type), "" if org_id is None else "=" + _escape(org_id), stable_json(payload)]))


def idempotency_scope(scope: Scope, *, type: str, queue: str, org_id: str | None) -> str:  # noqa: A002
    """Inside which a key is unique. Jobs of an organisation never collide with those of another."""
    within = "" if org_id is None else f"org:{_escape(org_id)}/"
    match scope:
        case "type":
            return bounded(f"{within}type:{_escape(type)}")
        case "queue":
            return bounded(f"{within}queue:{_escape(queue)}")
        case "org" | "global":
            return bounded(f"{within}global" if scope == "org" else "global")


def apart(job: NewJob, *, of_org: bool, of_queue: bool) -> NewJob:
    """The job with keys that find none but jobs of its org, or of its queue, whoever chose them. Whoever is bound to these
    would else be answered about the job of another, or change it (`on_duplicate`)."""
    scope, key = job.idempotency_scope, job.dedupe_key
    if scope is not None and (of_queue or (of_org and scope == _everywhere())):
        within: Scope = "queue" if of_queue else "org"
        scope = idempotency_scope(within, type=job.type, queue=job.queue, org_id=job.org_id)
    if key is not None and of_org and not is_by_arguments(key, job):  # which names the org already
        key = f"org:{_escape(job.org_id or '')}:{key}"
    if key is not None and of_queue:
        key = _in_queue(key, job.queue)
    return replace(job, idempotency_scope=scope, dedupe_key=None if key is None else bounded(key))


def _everywhere() -> str:
    return idempotency_scope("global", type="", queue="", org_id=None)


def _in_queue(key: str, queue: str) -> str:
    return f"queue:{_escape(queue)}:{key}"


def is_by_arguments(key: str, job: NewJob) -> bool:
    """Whether it is made of the job's arguments, which it tells; also where `apart` has put the queue before it."""
    try:
        made = stored_dedupe_key(job.type, job.org_id, msgspec.json.decode(job.payload))
        return key in (made, bounded(_in_queue(made, job.queue)))
    except (msgspec.DecodeError, RecursionError):
        return False


def bounded(key: str) -> str:
    """Long keys are hashed: they only need to be equal or different."""
    return key if len(key) <= LONGEST_KEY else "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def clean_key(key: str | None) -> str | None:
    """Blank means no key."""
    return None if key is None or not key.strip() else key.strip()


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A").replace("/", "%2F")


# ------------------------------------------------------------------------------------------------- answering an enqueue


def keys_of(job: NewJob) -> list[tuple[str, ...]]:
    """What makes this job equal to another: its idempotency key, its dedupe key, its place in a schedule."""
    keys: list[tuple[str, ...]] = []
    if job.idempotency_key is not None and job.idempotency_scope is not None:
        keys.append(("idempotency", job.idempotency_scope, job.idempotency_key))
    if job.dedupe_key is not None:
        keys.append(("dedupe", job.dedupe_key))
    if job.schedule_id is not None and job.fire_at is not None:
        keys.append(("fire", job.schedule_id, str(job.fire_at)))
    return keys


def may_touch(existing: Job) -> bool:
    """`on_duplicate="touch"` renews updated_at but of a running job, whose row is its worker's, and renewed by it."""
    return existing.state != "running"


def may_replace(existing: Job) -> bool:
    """`on_duplicate="replace"` changes a job only while nobody has begun to run it."""
    return existing.state == "queued" and existing.executions == 0


def is_taken(expires_at: Micros | None, now: Micros) -> bool:
    return expires_at is None or expires_at > now
