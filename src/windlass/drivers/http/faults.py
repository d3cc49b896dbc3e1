"""The errors in the answers of a server → the errors that the same store would raise in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from windlass.copy_errors import StoreMoved
from windlass.core.changes import Answer
from windlass.drivers.values import RowsHeld
from windlass.errors import (
    DuplicateId,
    DuplicateJob,
    InvalidInput,
    InvalidLeaseDuration,
    OutcomeUnknown,
    OutOfScope,
    StoreError,
    StoreForbidden,
    StoreUnavailable,
    StoreUnreachable,
    WindlassError,
)

MAKE: Final = "windlass tokens create NAME --scope work"
PROBLEM: Final = "application/problem+json"
_SAME: Final[dict[str, type[WindlassError]]] = {
    "duplicate-id": DuplicateId,
    "duplicate-job": DuplicateJob,
    "invalid-input": InvalidInput,
    "invalid-lease-duration": InvalidLeaseDuration,
    "out-of-scope": OutOfScope,
}


TOO_LARGE: Final = 413


class TooLarge(InvalidInput):
    """The server, or a proxy before it, takes no request of this size. The same again would be refused again."""

    def __init__(self, where: str, problem: Problem | None) -> None:
        text = (
            "a proxy before it takes no request of this size; let it take larger ones"
            if problem is None
            else problem.detail
        )
        super().__init__("request", f"{where}: {text} (HTTP {TOO_LARGE})")


class Problem(Struct, frozen=True):
    type: str = ""
    detail: str = ""
    field: str | None = None
    job_id: str | None = None
    correlation_id: str = ""


def problem_in(content_type: str, body: bytes) -> Problem | None:
    """The problem in an answer; None if somebody else answered, such as a proxy."""
    if content_type.partition(";")[0].strip() != PROBLEM:
        return None
    try:
        return msgspec.json.decode(body, type=Problem)
    except msgspec.DecodeError:
        return None


def error_of(where: str, status: int, problem: Problem | None) -> WindlassError:
    if status == TOO_LARGE:
        return TooLarge(where, problem)
    if problem is None:
        return StoreUnavailable(f"{where}: no Windlass answers there (HTTP {status}); check the address, also its path")
    kind = problem.type.removeprefix("urn:windlass:")
    if kind in _SAME:
        return _made(_SAME[kind], problem.detail, field=problem.field or "", job_id=problem.job_id or "")
    match status, kind:
        case 401, _:
            return StoreForbidden(where, "it does not know your token", MAKE)
        case 403, _:
            return StoreForbidden(where, problem.detail, MAKE)
        case 404, "no-such-path":
            return StoreUnavailable(f"{where}: that server does not speak our worker protocol; bring it up to date")
        case 400 | 422, _:
            return InvalidInput(problem.field or "request", problem.detail)
        case 503, "outcome-unknown":
            return OutcomeUnknown(where)
        case 503, "store-moved":
            return _made(StoreMoved, f"{where}: {problem.detail}", moved_to="")
        case 503, _:
            return StoreUnreachable(where, problem.detail)
        case _:
            return StoreError(f"{where}: {problem.detail} (HTTP {status}, request {problem.correlation_id})")


def all_told(where: str, answers: Sequence[Answer | None]) -> list[Answer]:
    """The answers to the ends of executions, if all of them were answered."""
    told = [answer for answer in answers if answer is not None]
    if len(told) < len(answers):
        raise RowsHeld(where, answers)
    return told


def _made(kind: type[WindlassError], text: str, **known: Any) -> WindlassError:
    """The error as it was raised at the server, with its words."""
    error = kind.__new__(kind)
    Exception.__init__(error, text)
    for name, value in known.items():
        setattr(error, name, value)
    return error
