"""Errors as `application/problem+json` (RFC 9457). What a caller did wrong is said; what went wrong here is logged under
the correlation id and not told: a message may hold a path, a statement or a DSN."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from windlass.copy_errors import StoreMoved
from windlass.errors import (
    AppClosed,
    DriverClosed,
    DuplicateId,
    DuplicateJob,
    GroupNotFound,
    GroupRefused,
    HoldLost,
    HoldNotFound,
    InUse,
    InvalidInput,
    JobNotFound,
    OutcomeUnknown,
    OutOfScope,
    Refused,
    ResourceBusy,
    StoreError,
    UnknownDelivery,
    UnknownSchedule,
    UnknownTask,
    UnknownTemplate,
    UnknownToken,
    UnknownWebhook,
    WindlassError,
)

MEDIA_TYPE: Final = "application/problem+json"


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`type` names the kind of problem for programs, `detail` tells people, `field` is what was wrong in the input,
    `job_id` the job that is in the way."""

    type: str
    title: str
    status: int
    detail: str
    correlation_id: str
    field: str | None = None
    job_id: str | None = None


class Trouble(WindlassError):
    """An answer that is not a success, raised by whoever notices."""

    def __init__(
        self, status: int, kind: str, detail: str, *, field: str | None = None, retry_after: int | None = None
    ) -> None:
        self.status = status
        self.kind = kind
        self.detail = detail
        self.field = field
        self.job_id: str | None = None
        self.headers: dict[str, str] = {} if retry_after is None else {"Retry-After": str(retry_after)}
        super().__init__(detail)


_STATUS: Final[dict[type[WindlassError], int]] = {
    OutOfScope: 403, InvalidInput: 422, UnknownTask: 422,
    JobNotFound: 404, GroupNotFound: 404, HoldNotFound: 404, UnknownSchedule: 404, UnknownTemplate: 404,
    UnknownToken: 404, UnknownWebhook: 404, UnknownDelivery: 404,
    Refused: 409, GroupRefused: 409, InUse: 409, DuplicateId: 409, DuplicateJob: 409, ResourceBusy: 409, HoldLost: 409,
}  # fmt: skip
_TITLES: Final = {
    400: "Bad request", 401: "Who are you?", 403: "Not allowed", 404: "Not found", 405: "No such method here",
    408: "Too slow",
    409: "Not possible now", 413: "Too large", 414: "Too long", 415: "Wrong content type", 421: "Not this host",
    422: "Not acceptable as it is", 429: "Too many requests", 500: "Something went wrong here", 503: "Not available now",
}  # fmt: skip


def trouble_of(error: Exception) -> Trouble:
    """What to answer. 500 is for what nobody expected."""
    if isinstance(error, Trouble):
        return error
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            found = Trouble(status, _kind(type(error)), str(error), field=getattr(error, "field", None))
            found.job_id = getattr(error, "job_id", None)
            return found
    if isinstance(error, OutcomeUnknown):
        return Trouble(503, "outcome-unknown", "whether it was stored is not known; look before you repeat it")
    if isinstance(error, StoreMoved):
        return Trouble(503, "store-moved", "the store has moved; its operator finds in the log where to")
    if isinstance(error, StoreError) and error.retryable:
        return Trouble(503, "store-unavailable", "the store does not answer now; try again", retry_after=1)
    if isinstance(error, StoreError | AppClosed | DriverClosed):
        return Trouble(503, "store-unavailable", "the store cannot be used; its operator finds the reason in the log")
    return Trouble(500, "internal", "the log tells what it was, under the correlation id")


def problem_of(trouble: Trouble, correlation_id: str) -> Problem:
    return Problem(
        type=f"urn:windlass:{trouble.kind}", title=_TITLES.get(trouble.status, "Problem"), status=trouble.status,
        detail=trouble.detail, correlation_id=correlation_id, field=trouble.field, job_id=trouble.job_id,
    )  # fmt: skip


def _kind(error: type[Exception]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", error.__name__).lower()
