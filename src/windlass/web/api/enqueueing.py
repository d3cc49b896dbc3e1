"""`POST /api/jobs`: one job or many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from windlass.admin.enqueueing import Wish
from windlass.admin.views import Queued
from windlass.errors import InvalidInput
from windlass.principal import Principal
from windlass.types import AfterRule, OnDuplicate
from windlass.web.answers import Answer
from windlass.web.api.asking import Instant
from windlass.web.identity import is_narrow
from windlass.web.problems import Trouble
from windlass.web.request import Request

KEY: Final = "idempotency-key"


class JobWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to store. What is left out is as its task says, or as usual."""

    type: Annotated[str, Meta(description="the name of its task")]
    payload: Annotated[dict[str, Any], Meta(description="arguments by name")] = {}
    queue: str | UnsetType = UNSET
    priority: Annotated[int | UnsetType, Meta(description="larger goes first")] = UNSET
    delay: Annotated[str | float | UnsetType, Meta(description="not before so long from now: seconds, or 5m")] = UNSET
    run_at: Annotated[Instant | UnsetType, Meta(description="not before this instant")] = UNSET
    timeout: Annotated[str | float | UnsetType, Meta(description="of one execution")] = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    limits: Annotated[tuple[str, ...] | UnsetType, Meta(description="keys of limits, such as gpu")] = UNSET
    org_id: Annotated[str | UnsetType, Meta(description="with a token of one organisation: that, or left out")] = UNSET
    idempotency_key: Annotated[str | UnsetType, Meta(description="or as the header Idempotency-Key")] = UNSET
    idempotency_for: Annotated[str | float | UnsetType, Meta(description="how long the key is remembered")] = UNSET
    dedupe: Annotated[bool | str | UnsetType, Meta(description="true: not while an equal job waits or runs")] = UNSET
    on_duplicate: OnDuplicate | UnsetType = UNSET
    after: Annotated[tuple[str, ...] | UnsetType, Meta(description="ids of jobs that must have ended before")] = UNSET
    on_failure: AfterRule | UnsetType = UNSET
    id: str | UnsetType = UNSET


async def enqueue(request: Request[None, JobWish | tuple[JobWish, ...]]) -> Answer[Queued | tuple[Queued, ...]]:
    """Store one job, or with an array all of them or none. Send an Idempotency-Key and repeat without fear: what was stored
    under it is answered again, with `existed` and the status 200."""
    one = isinstance(request.body, JobWish)
    wishes = (request.body,) if isinstance(request.body, JobWish) else request.body
    if not 1 <= len(wishes) <= request.bounds.batch:
        raise Trouble(422, "invalid-input", f"a batch holds between 1 and {request.bounds.batch:,} jobs")
    key = request.http.headers.get(KEY)
    said = [_options(wish, request.principal, _key(wish, key, None if one else n)) for n, wish in enumerate(wishes)]
    stored = await request.admin.enqueue_many(
        [Wish(wish.type, wish.payload, options) for wish, options in zip(wishes, said, strict=True)]  # type: ignore[arg-type]
    )
    status = 200 if all(job.existed for job in stored) else 201
    return Answer(stored[0] if one else stored, status)


def _key(wish: JobWish, header: str | None, number: int | None) -> str | None:
    """The header's key stands for the whole request: each job of a batch has one of its own by its place."""
    own = None if wish.idempotency_key is UNSET else wish.idempotency_key
    if header is None or not header.strip():
        return own
    if own is not None and number is None and own != header:
        raise InvalidInput("idempotency_key", "says something else than the header Idempotency-Key")
    return own or (header if number is None else f"{header}:{number}")


def _options(wish: JobWish, principal: Principal, key: str | None) -> Mapping[str, Any]:
    said: dict[str, Any] = {
        field.name: value
        for field in msgspec.structs.fields(wish)
        if field.name not in ("type", "payload", "idempotency_key") and (value := getattr(wish, field.name)) is not UNSET
    }
    if key is not None:
        said["idempotency_key"] = key
    return _bound(said, principal) if is_narrow(principal) else said


def _bound(said: dict[str, Any], principal: Principal) -> dict[str, Any]:
    """What `admin` cannot know: which queue is meant by whoever has but some, and what all callers share."""
    if principal.queues is not None:
        said.setdefault("queue", principal.queues[0])
    for name in ("id", "limits"):
        if name in said:
            raise Trouble(403, "forbidden", f"only a token for the whole store may choose {name}", field=name)
    return said
