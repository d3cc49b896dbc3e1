"""The values that are passed to a driver and returned by it. `windlass.drivers.protocol` says what happens with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from windlass.core.changes import Answer
from windlass.errors import StoreBusy, WindlassError
from windlass.types import Handle, Job, Label, Micros, OnUnknown, State


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a driver can do. Callers and test suites ask this, never the name of the database."""

    durable: bool  # what `enqueue` acknowledged survives the death of every process
    shared: bool  # several driver objects, in several processes, may open the same store
    wakeups: Literal["push", "poll"]  # whether `wait` is told of work, or looks for it
    sql: bool  # the store's rules are also enforced against statements that do not come from the driver
    transactional: bool  # `transaction` works: follow-up jobs and a settlement become true together or not at all
    single_writer: bool = False  # while one transaction is open nobody else can write, so it must be short


class Enqueued(Struct, frozen=True, gc=False):
    """The answer for one enqueued job. If `existed`, nothing was inserted: its key was taken, and `id` is the job that
    holds the key (the last link of its chain)."""

    id: str
    existed: bool = False


class Claim(Struct, frozen=True, kw_only=True):
    """A request for jobs. `token` must be new for every claim: it is what tells one holder of a job from the next."""

    queues: tuple[str, ...]
    limit: int
    lease_for: Micros
    worker_id: str
    token: str
    types: tuple[str, ...] | None = None  # None = any
    unhandled: bool = False  # True: only jobs with on_unknown="dead", by a worker that has no handler and rejects them
    start: bool = True  # False: taken ahead of a free slot, the handler begins later
    reclaim: bool = True  # False: leave expired leases alone (the caller distrusts its clock)
    sure: bool = True  # False: "nothing" may be said without a look everywhere, for 5 s and until the next claim at most


class Renewal(Struct, frozen=True, gc=False):
    """A request to extend one lease, with what is to be stored of the running job."""

    handle: Handle
    token: str
    started_at: Micros | None = None
    progress: float | None = None
    progress_note: str | None = None


class Extended(Struct, frozen=True, gc=False):
    """The answer to a renewal: the expiry as it is stored, and whether somebody asked to cancel the job."""

    answer: Answer
    expires_at: Micros | None = None
    cancel_requested: bool = False


class RowsHeld(StoreBusy):
    """Somebody has locked rows of jobs that a settlement would end, for too long. `answers` has an answer for each unit
    that is stored, and None for each of which nothing was changed."""

    def __init__(self, where: str, answers: Sequence[Answer | None]) -> None:
        left = list(answers).count(None)
        some = f"{left} of {len(answers)} ends are not stored, the others are answered" if left < len(answers) else ""
        told = f"{some}; try those again" if some else "nothing is stored; try it again"
        what = f"somebody holds rows of jobs that have ended, and has not let go in time: {told}"
        WindlassError.__init__(self, f"{where}: {what}, and see who it is with: windlass doctor")
        self.answers = answers


class JobQuery(Struct, frozen=True, kw_only=True):
    """Which jobs to list, newest first. The cursor `before` is the seq of the last job of the page before."""

    states: tuple[State, ...] = ()
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    org_id: str | None = None
    group_id: str | None = None
    retry_of: str | None = None
    superseded: bool = False  # include rows that a later link of their chain took over
    before: int | None = None
    limit: int = 50


class Page(Struct, frozen=True):
    """A page of jobs."""

    jobs: tuple[Job, ...]
    cursor: int | None  # pass as `before` for the next page; None = this was the last


class Count(Struct, frozen=True, gc=False):
    """How many jobs of a queue have a label."""

    queue: str
    label: Label
    jobs: int


class WaitingType(Struct, frozen=True, gc=False):
    """How many ready jobs of a queue have a type, with what is to happen if no worker knows it."""

    queue: str
    type: str
    on_unknown: OnUnknown
    jobs: int


class Leadership(Struct, frozen=True, kw_only=True, gc=False):
    """Who leads, and until when. Each change of leaders begins a new epoch; what an earlier leader does is refused by
    it."""

    worker_id: str | None = None
    epoch: int = 0
    until: Micros | None = None
