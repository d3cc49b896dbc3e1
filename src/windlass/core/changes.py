"""The vocabulary between core and drivers: what core decided, as values that a driver applies or refuses.

A `Settlement` ends one execution. It is applied whole, in one transaction, if and only if its guard holds: the job is
running under this token and the lease has not expired at `now` (with `lapsed`, the opposite: it *has* expired, which is
how recovery closes what nobody holds any more). Its riders are changes to other rows that happen with it or not at all.

A rider that touches a row which others share (a group's counters, a limit's permits) is a delta that the store adds,
never a value computed from an earlier read: two members of a group that end at the same instant both count.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from windlass.clock import LAST_INSTANT
from windlass.core.named import Named
from windlass.errors import ConstraintViolated, DuplicateId, InvalidInput
from windlass.types import (
    DeadKind,
    Handle,
    Micros,
    RunStatus,
    State,
)

Answer = Literal["applied", "repeated", "not_inflight", "expired", "mismatch", "not_lapsed", "never_twice"]
Outcome = Literal["ack", "retry", "fail", "snooze", "release", "cancelled", "expire"]
Ending = Literal["succeeded", "failed", "cancelled"]
UNSTORABLE: Final = (InvalidInput, ConstraintViolated, DuplicateId)  # one unit's fault, not the store's


# -------------------------------------------------------------------------------------------------------------- riders


class RetryChild(Named, frozen=True, gc=False):
    """Insert the next link of a retry chain: the parent's frozen fields, a new id, at the tail of its priority."""

    id: str
    run_at: Micros | None
    attempts: int
    manual: bool = False


class CountMember(Named, frozen=True, gc=False):
    """One member of a group has ended: remaining - 1, and one more of its ending."""

    group_id: str
    ending: Ending


class AddEvent(Named, frozen=True, gc=False):
    """Write an event to the outbox."""

    event: str
    job_id: str
    org_id: str | None
    body: str


Rider: TypeAlias = RetryChild | CountMember | AddEvent


# --------------------------------------------------------------------------------------------------------- settlements


class Report(Struct, frozen=True, gc=False):
    """What the run row keeps beyond its status."""

    traceback: str | None = None
    exit_code: int | None = None
    cpu_us: int | None = None
    peak_rss: int | None = None
    log_path: str | None = None
    artifacts: tuple[str, ...] = ()


class _Settlement(Named, frozen=True, kw_only=True, gc=False):
    handle: Handle
    token: str
    at: Micros  # when the handler ended; the batch's `now` serves only the lease guard
    started_at: Micros | None = None  # the true start, for a job that was claimed before its handler began
    lapsed: bool = False
    riders: tuple[Rider, ...] = ()
    report: Report | None = None


class Ack(_Settlement, frozen=True, kw_only=True, gc=False):
    result: bytes | None = None


class Retry(_Settlement, frozen=True, kw_only=True, gc=False):
    """Back to the queue after a failure; the row keeps its position."""

    run_at: Micros | None
    attempts: int
    error: str
    failed_at: Micros | None = None


class Fail(_Settlement, frozen=True, kw_only=True, gc=False):
    """Dead. `attempts` None leaves the counter alone."""

    kind: DeadKind
    reason: str
    attempts: int | None = None
    error: str | None = None
    run_status: RunStatus = "failed"
    superseded_by: str | None = None


class Snooze(_Settlement, frozen=True, kw_only=True, gc=False):
    """Back to the queue until `run_at`, by the handler's own wish: no attempt is spent."""

    run_at: Micros
    reason: str = "snoozed"


class Release(_Settlement, frozen=True, kw_only=True, gc=False):
    """Back to the queue at once, by a worker that stops: no attempt is spent."""

    reason: str = "released"


class Cancelled(_Settlement, frozen=True, kw_only=True, gc=False):
    """Ended because somebody asked for it. `reason` None: the row has the reason of whoever did."""

    reason: str | None = None


EXPIRED: Final = "lease expired"


class Expire(_Settlement, frozen=True, kw_only=True, gc=False):
    """The one constant change to a job whose lease lapsed and whose policy needs no decision."""

    reason: str = EXPIRED


Settlement: TypeAlias = Ack | Retry | Fail | Snooze | Release | Cancelled | Expire


class Effect(Struct, frozen=True, gc=False):
    """What a settlement writes, column by column: the one form that every driver applies."""

    outcome: Outcome
    state: State
    run_status: RunStatus
    error: str | None = None  # of the run
    last_error: str | None = None  # of the job; None keeps
    attempts: int | None = None  # None keeps
    failed_at: Micros | None = None  # None keeps
    run_at: Micros | None = None
    keep_run_at: bool = False
    skipped: int = 0
    lost: int = 0
    finished_at: Micros | None = None
    dead_kind: DeadKind | None = None
    dead_reason: str | None = None
    superseded_by: str | None = None
    result: bytes | None = None


ERROR_LIMIT: Final = 64 * 1024
LARGEST_NUMBER: Final = 2**63 - 1


def storable(text: str) -> str:
    """Any text an exception may carry, as every store can keep it: bounded, no lone surrogates, no NUL."""
    text = text[:ERROR_LIMIT].replace("\x00", "\\x00")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def bounded(instant: Micros | None) -> Micros | None:
    """A delay of centuries must not keep its neighbours in a batch from being settled."""
    return None if instant is None else min(max(int(instant), 0), LAST_INSTANT)


def stored_report(report: Report | None) -> Report:
    """What a run row can keep of a report: any text made storable, numbers whole. A file name may hold anything."""
    if report is None:
        return Report()

    def text(value: str | None) -> str | None:
        return None if value is None else storable(value)

    def whole(value: float | None) -> int | None:
        return None if value is None else max(min(int(value), LARGEST_NUMBER), -LARGEST_NUMBER)

    return Report(
        text(report.traceback), whole(report.exit_code), whole(report.cpu_us), whole(report.peak_rss),
        text(report.log_path), tuple(storable(path) for path in report.artifacts),
    )  # fmt: skip


def effect_of(change: Settlement) -> Effect:
    lost = 1 if change.lapsed else 0
    match change:
        case Ack():
            return Effect("ack", "succeeded", "completed", keep_run_at=True, finished_at=change.at, result=change.result)
        case Retry():
            error = storable(change.error)
            return Effect(
                "retry", "queued", "failed", error=error, last_error=error, attempts=change.attempts,
                failed_at=change.at if change.failed_at is None else change.failed_at, run_at=bounded(change.run_at),
                lost=lost,
            )  # fmt: skip
        case Fail():
            error = storable(change.reason if change.error is None else change.error)
            failed = change.run_status == "failed"
            return Effect(
                "fail", "dead", change.run_status, error=error, last_error=error if failed else None,
                attempts=change.attempts, failed_at=change.at if failed else None, keep_run_at=True,
                skipped=0 if failed else 1, lost=lost, finished_at=change.at, dead_kind=change.kind,
                dead_reason=storable(change.reason), superseded_by=change.superseded_by,
            )  # fmt: skip
        case Snooze():
            return Effect(
                "snooze", "queued", "skipped", error=storable(change.reason), run_at=bounded(change.run_at), skipped=1
            )
        case Release():
            return Effect("release", "queued", "skipped", error=storable(change.reason), keep_run_at=True, skipped=1)
        case Cancelled():
            said = None if change.reason is None else storable(change.reason)
            return Effect(
                "cancelled", "cancelled", "skipped", error=said or "cancelled", last_error=said, keep_run_at=True,
                skipped=1, lost=lost, finished_at=change.at,
            )  # fmt: skip
        case Expire():
            return Effect("expire", "queued", "failed", error=change.reason, lost=1)


def due_of(change: Settlement) -> Micros | None:
    """When the job, or the link that takes over, runs again; None if at once, or not at all."""
    if isinstance(change, Retry | Snooze):
        return change.run_at
    return next((rider.run_at for rider in change.riders if isinstance(rider, RetryChild)), None)


OUTCOME_OF: Final[dict[type, Outcome]] = {
    Ack: "ack", Retry: "retry", Fail: "fail", Snooze: "snooze", Release: "release", Cancelled: "cancelled",
    Expire: "expire",
}  # fmt: skip
