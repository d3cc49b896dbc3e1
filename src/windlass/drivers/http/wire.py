"""The worker protocol, version 1: what is said over HTTP, as JSON. Both sides read this page.

Instants are microseconds since 1970 and fit into 53 bits until the year 2255. Bytes are base64. Jobs are named by their id
and a lease by its token; whoever repeats a call with the same words after a lost reply is answered what came of it.

`now` is heard by servers of tests alone. Every other goes by its own clock: a caller that says what time it is could take
every lease for lapsed.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from windlass.core.acting import By
from windlass.core.alterations import Alteration
from windlass.core.changes import Answer, Settlement
from windlass.core.duties import Done, Duty
from windlass.core.history import RUNS_LIMIT
from windlass.core.listing import GlimpseJobs, ListJobs, TallyJobs
from windlass.core.queries import Query, R
from windlass.drivers.values import JobQuery
from windlass.records import WorkerInfo
from windlass.types import Claimed, CrashPolicy, Micros, NewJob, OnUnknown, RetryMode, State

PROTOCOL: Final = 1
ROOT: Final = f"/api/worker/v{PROTOCOL}"

Time: TypeAlias = Annotated[str | float, Meta(description="seconds, or text such as 250ms, 30s, 5m")]
Now: TypeAlias = Annotated[Micros | None, Meta(description="for tests alone; a server goes by its own clock")]
End = Literal["succeeded", "failed", "rejected", "snoozed", "released", "cancelled"]


class Call(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request."""


# ------------------------------------------------------------------------------------- what a worker in any language says


class Store(Struct, frozen=True, kw_only=True):
    """The store that answers. `now` is the time that counts; `wake` is where waiting for work begins."""

    version: str
    protocol: int
    now: Micros
    durable: bool
    wake: str
    longest_wait: float  # seconds
    largest_body: int  # bytes
    longest_lease: float  # seconds


class ClaimCall(Call, frozen=True, kw_only=True):
    """`token` is the fence of the leases, new for every claim. The same claim again, by the same worker with the same
    token, is answered with the jobs that it still holds, by whichever server of the store. Without one the server makes it,
    and then a lost reply is lost."""

    worker_id: str
    queues: tuple[str, ...] = ("default",)
    limit: Annotated[int, Meta(ge=1)] = 1
    lease: Time = 30.0
    token: str | None = None
    types: Annotated[tuple[str, ...] | None, Meta(description="of these only; left out: any")] = None
    unhandled: bool = False
    start: Annotated[bool, Meta(description="false: the work begins later, as extend or finish says")] = True
    reclaim: bool = True
    sure: Annotated[bool, Meta(description="false: that there is nothing may be true of some seconds ago")] = True
    now: Now = None


class Work(Struct, frozen=True):
    """A job that you hold until `lease_expires_at`. `payload` is base64 of what `codec` says: json, or none."""

    id: str
    run_id: str
    token: str
    type: str
    queue: str
    payload: bytes
    codec: str
    headers: dict[str, str]
    claimed_at: Micros
    lease_expires_at: Micros
    org_id: str | None
    priority: int
    due_at: Micros
    timeout_ns: int
    attempts: int
    executions: int
    skipped: int
    lost: int
    max_attempts: int
    max_lost: int
    retry_mode: RetryMode
    crash_policy: CrashPolicy
    on_unknown: OnUnknown
    retry_policy: str | None
    group_id: str | None
    created_at: Micros
    permits: tuple[str, ...]


class Taken(Struct, frozen=True):
    """The jobs that were claimed, in the order in which they should run. `wake` is for the wait that follows."""

    jobs: tuple[Work, ...]
    wake: str


class Beat(Call, frozen=True, kw_only=True):
    """The renewal of one lease."""

    id: str
    token: str
    started_at: Micros | None = None
    progress: float | None = None
    progress_note: str | None = None


class ExtendCall(Call, frozen=True, kw_only=True):
    renewals: tuple[Beat, ...]
    lease: Time = 30.0
    now: Now = None


class Ended(Call, frozen=True, kw_only=True):
    """How one execution ended; what follows from it (another try, when, or none) is decided by the rules in the job.

    failed: with `error`, and `retry_in` where the work itself knows when to try again. rejected: dead at once, with
    `reason`. snoozed: back after `retry_in`, no attempt is spent. released: back at once, by a worker that stops."""

    id: str
    token: str
    outcome: End
    result: Annotated[Any, Meta(description="of a success: any JSON")] = UNSET
    error: str | UnsetType = UNSET
    error_types: Annotated[tuple[str, ...], Meta(description="names that the job's retry rules may know")] = ()
    reason: str | UnsetType = UNSET
    retry_in: Time | UnsetType = UNSET
    started_at: Micros | None = None
    exit_code: int | None = None
    traceback: str | None = None


class FinishCall(Call, frozen=True, kw_only=True):
    ended: tuple[Ended, ...]
    now: Now = None


class Finished(Struct, frozen=True):
    """`applied`, or `repeated` when it was said before: it counts. Any other answer: the lease is not yours any more, and
    nothing was changed. `state` and `run_at` are the job's after it; `superseded_by` is the job that takes over."""

    id: str
    answer: Answer
    state: State | None = None
    run_at: Micros | None = None
    superseded_by: str | None = None


class WaitCall(Call, frozen=True, kw_only=True):
    timeout: Annotated[float, Meta(ge=0, description="seconds; the server waits no longer than it says of itself")]
    wake: str | None = None


class Woken(Struct, frozen=True):
    """`told`: something may have become claimable since `wake` was given out."""

    told: bool
    wake: str


# --------------------------------------------------------------------------------- what the `http://` driver says besides


class EnqueueCall(Call, frozen=True, kw_only=True):
    jobs: tuple[NewJob, ...]
    now: Now = None


class SettleCall(Call, frozen=True, kw_only=True):
    """Ends of executions with all that follows from them, as the caller's own rules have decided it."""

    changes: tuple[Settlement, ...]
    now: Now = None


class ExpireCall(Call, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=10_000)]
    now: Now = None


class Lapsed(Struct, frozen=True):
    taken_back: int
    undecided: tuple[Work, ...]


class BeatCall(Call, frozen=True, kw_only=True):
    worker: WorkerInfo
    now: Now = None


class Beaten(Struct, frozen=True):
    id: str


class LeadCall(Call, frozen=True, kw_only=True):
    worker_id: str
    lease: Time = 30.0
    now: Now = None


class MaintainCall(Call, frozen=True, kw_only=True):
    duty: Duty
    epoch: int | None = None
    now: Now = None


class Maintained(Struct, frozen=True):
    """The answer of a duty; None if it was refused because somebody else leads."""

    done: Done | None


class AlterCall(Call, frozen=True, kw_only=True):
    changes: tuple[Alteration, ...]
    by: By | None = None
    now: Now = None


def _queries() -> tuple[type[Query[Any]], ...]:
    known: set[type[Query[Any]]] = {GlimpseJobs, ListJobs, TallyJobs, *Query.__subclasses__()}
    return tuple(sorted(known, key=lambda kind: kind.__name__))


QUERIES: Final = _queries()
AnyQuery: Any = Union[QUERIES]  # noqa: UP007 - made of a tuple
ROWS: Final = {kind: list[get_args(kind.__orig_bases__[0])[0]] for kind in QUERIES}  # type: ignore[attr-defined, misc]


class ReadCall(Call, frozen=True, kw_only=True):
    query: AnyQuery


class Rows(Struct, frozen=True):
    rows: list[Any]


class RawRows(Struct, frozen=True):
    """Rows as they arrive. The query knows of which kind they are."""

    rows: Raw


class GetCall(Call, frozen=True, kw_only=True):
    ids: tuple[str, ...]


class RunsCall(Call, frozen=True, kw_only=True, omit_defaults=True):
    job_id: str
    before: int | None = None
    limit: int = RUNS_LIMIT


class FindCall(Call, frozen=True, kw_only=True):
    query: JobQuery


class MomentCall(Call, frozen=True, kw_only=True):
    now: Now = None


class WaitingCall(Call, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=10_000)]
    queues: tuple[str, ...] | None = None


# ---------------------------------------------------------------------------------------------------------- translations


def rows_of(query: Query[R], answer: RawRows) -> list[R]:
    """Each as the kind of row that the query asks for."""
    found: list[R] = msgspec.json.decode(answer.rows, type=ROWS[type(query)])
    return found


_SHARED: Final = tuple(field.name for field in msgspec.structs.fields(Work))


def work_of(job: Claimed) -> Work:
    return Work(*(getattr(job, name) for name in _SHARED))


def claimed_of(work: Work) -> Claimed:
    """The handle of a job over HTTP is its id."""
    return Claimed(handle=work.id, **{name: getattr(work, name) for name in _SHARED})
