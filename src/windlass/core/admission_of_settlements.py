"""Checks of what workers report of the jobs that they hold: that they still run, and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, get_args

from windlass.clock import LAST_INSTANT
from windlass.core.changes import (
    OUTCOME_OF,
    Ack,
    AddEvent,
    Cancelled,
    CountMember,
    Ending,
    Expire,
    Fail,
    Release,
    Report,
    Retry,
    RetryChild,
    Rider,
    Settlement,
    Snooze,
)
from windlass.core.counters import MOST_COUNTED
from windlass.core.fields import (
    check_characters,
    check_flag,
    check_id,
    check_instant,
    check_now,
    check_number,
    check_one_of,
    check_progress,
    is_number,
)
from windlass.errors import InvalidInput, shown
from windlass.types import DeadKind, Handle, RunStatus

DEAD_KINDS: Final = frozenset(get_args(DeadKind))
RUN_STATUSES: Final = frozenset(get_args(RunStatus))
ENDINGS: Final = frozenset(get_args(Ending))
ENDLESS: Final = (float("inf"), -float("inf"))


class Renewal(Protocol):
    """The fields of a driver's renewal that are checked here."""

    @property
    def handle(self) -> Handle: ...
    @property
    def token(self) -> str: ...
    @property
    def started_at(self) -> int | None: ...
    @property
    def progress(self) -> float | None: ...
    @property
    def progress_note(self) -> str | None: ...


def check_renewal(renewal: Renewal) -> None:
    _check_lease(renewal.handle, renewal.token)
    if renewal.started_at is not None:
        check_instant("started_at", renewal.started_at)
    check_progress(renewal.progress)
    _check_words("progress_note", renewal.progress_note)


def check_settlements(changes: Sequence[Settlement], now: object) -> None:
    check_now(now)
    for change in changes:
        check_settlement(change)


def check_settlement(change: Settlement) -> None:
    """Check one settlement. For a plain success, which is the hot path, this is a handful of comparisons."""
    if not (
        type(change) is Ack
        and type(change.at) is int
        and 0 <= change.at <= LAST_INSTANT
        and (change.started_at is None or (type(change.started_at) is int and 0 <= change.started_at <= LAST_INSTANT))
        and change.result is None
        and change.report is None
        and change.riders == ()
        and change.lapsed is False
        and type(change.handle) is tuple
        and type(change.token) is str
        and change.token.isprintable()
    ):
        _check_whole(change)


def _check_whole(change: Settlement) -> None:
    if type(change) not in OUTCOME_OF:
        raise InvalidInput("changes", f"are ends of executions such as Ack, got {shown(change)}")
    _check_lease(change.handle, change.token)
    check_instant("at", change.at)
    if change.started_at is not None:
        check_instant("started_at", change.started_at)
    _check_outcome(change)
    _check_company(change)


def _check_lease(handle: object, token: object) -> None:
    """What is in a handle, only the driver that made it knows. Texts may stand in a row by hand, so any will do."""
    if isinstance(handle, str):
        check_characters("handle", handle)
    elif not isinstance(handle, tuple):
        raise InvalidInput("handle", f"must be what the claim gave, or the id of the job, got {shown(handle)}")
    check_characters("token", token)


def _check_outcome(change: Settlement) -> None:
    match change:
        case Ack():
            if change.result is not None and not isinstance(change.result, bytes):
                raise InvalidInput("result", f"must be bytes, got {type(change.result).__name__}")
        case Retry():
            _check_delayed(change.run_at)
            check_number("attempts", change.attempts, most=MOST_COUNTED)
            _check_words("error", change.error, needed=True)
            if change.failed_at is not None:
                check_instant("failed_at", change.failed_at)
        case Fail():
            check_one_of("kind", change.kind, DEAD_KINDS)
            check_one_of("run_status", change.run_status, RUN_STATUSES)
            _check_words("reason", change.reason, needed=True)
            _check_words("error", change.error)
            if change.attempts is not None:
                check_number("attempts", change.attempts, most=MOST_COUNTED)
            if change.superseded_by is not None:
                check_id(change.superseded_by)
        case Snooze():
            _check_delayed(change.run_at)
            _check_words("reason", change.reason, needed=True)
        case Release() | Expire():
            _check_words("reason", change.reason, needed=True)
        case Cancelled():
            _check_words("reason", change.reason)


def _check_company(change: Settlement) -> None:
    """What comes with an end."""
    check_flag("lapsed", change.lapsed)
    if change.report is not None:
        _check_report(change.report)
    riders: object = change.riders
    if not isinstance(riders, tuple | list):
        raise InvalidInput("riders", f"must be a tuple, got {shown(riders)}")
    for rider in change.riders:
        _check_rider(rider)


def _check_rider(rider: Rider) -> None:
    match rider:
        case RetryChild():
            check_id(rider.id)
            _check_delayed(rider.run_at)
            check_number("attempts", rider.attempts, most=MOST_COUNTED)
            check_flag("manual", rider.manual)
        case CountMember():
            check_characters("group_id", rider.group_id)
            check_one_of("ending", rider.ending, ENDINGS)
        case AddEvent():
            for field in ("event", "job_id", "body"):
                check_characters(field, getattr(rider, field))
            if rider.org_id is not None:
                check_characters("org_id", rider.org_id)
        case _:
            raise InvalidInput("riders", f"are such as RetryChild, got {shown(rider)}")


def _check_report(report: object) -> None:
    """Its numbers and words are made fit (`stored_report`), if they are numbers and words at all."""
    if not isinstance(report, Report):
        raise InvalidInput("report", f"must be a Report, got {shown(report)}")
    for field in ("exit_code", "cpu_us", "peak_rss"):
        value = getattr(report, field)
        if value is not None and (not is_number(value) or value != value or value in ENDLESS):
            raise InvalidInput(field, f"must be a number, got {shown(value)}")
    for field in ("traceback", "log_path"):
        _check_words(field, getattr(report, field))
    paths: object = report.artifacts
    if not isinstance(paths, tuple | list) or not all(isinstance(path, str) for path in paths):
        raise InvalidInput("artifacts", f"must be paths, got {shown(paths)}")


def _check_delayed(run_at: object) -> None:
    """However late: a delay of centuries is made an instant (`bounded`)."""
    if run_at is not None and type(run_at) is not int:
        raise InvalidInput("run_at", f"must be microseconds since 1970, got {shown(run_at)}")


def _check_words(field: str, text: object, *, needed: bool = False) -> None:
    """Free words: drivers make of them what they can keep (`storable`), if they are words at all."""
    if not isinstance(text, str) and (needed or text is not None):
        raise InvalidInput(field, f"must be text, got {shown(text)}")
