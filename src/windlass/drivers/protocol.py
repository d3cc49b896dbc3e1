"""The driver contract. The docstrings below are the promises; `windlass.testing.conformance` tries each of them.

A driver is dumb on purpose. It stores rows, applies values that core computed, and refuses what its guard does not
allow. It never knows what a retry policy is. Four rules hold for every method:

* **Batch first.** Every write takes a sequence and is one transaction: all of the batch's applied units are stored, or
  none is. Units are independent, as if sent one after the other in the order given: one that is refused changes nothing
  and does not disturb its neighbours. `windlass.drivers.singular` offers the one-job calls on top.
* **`now` is a parameter**, in microseconds. A driver never reads a clock. What it compares, it compares with that value:
  due means run_at <= now, expired means lease_expires_at <= now.
* **Guarded.** A change to a job's own row happens only while the guard holds, tested in the same atomic step. A change
  to a row that jobs share (a group's counters, a limit's permits) is a delta made by the store.
* **Closed is closed.** After `close` every method raises `DriverClosed`; closing twice is fine.

Methods may be called from several threads and event loops at once. A caller that is cancelled while it waits may or may
not have been heard: a claim that nobody received lapses like any other lease.

Errors: `InvalidInput` and its kin for bad arguments, before anything is written; `StoreError` and its kin when the store
cannot do it, and then nothing of the call is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from windlass.core.acting import By
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.changes import Answer, Settlement
from windlass.core.duties import Done, Duty
from windlass.core.history import RUNS_LIMIT
from windlass.core.queries import Query, R
from windlass.drivers.untransactional import Untransactional as Untransactional
from windlass.drivers.untransactional import WithoutNetwork as WithoutNetwork
from windlass.drivers.untransactional import no_async_connection as no_async_connection
from windlass.records import WorkerInfo
from windlass.types import Claimed, Handle, Job, Label, Micros, NewJob, OnUnknown, Run, State


class Capabilities(Struct, frozen=True, kw_only=True):
    """Declared facts. Suites and shells ask these, never the name of a database."""

    durable: bool  # what `enqueue` acknowledged survives the death of every process
    shared: bool  # several driver objects, in several processes, may open the same store
    wakeups: Literal["push", "poll"]  # whether `wait` is told of work, or looks for it
    sql: bool  # the store's rules are also enforced against statements that do not come from the driver
    transactional: bool  # `transaction` works: follow-up jobs and a settlement become true together or not at all
    single_writer: bool = False  # while one transaction is open nobody else can write, so it must be short


class Enqueued(Struct, frozen=True, gc=False):
    """`existed`: the key was taken, `id` names the job that holds it (the head of its chain), nothing was inserted."""

    id: str
    existed: bool = False


class Claim(Struct, frozen=True, kw_only=True):
    """A wish for work. `token` must be new for every claim: it is the fence."""

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
    handle: Handle
    token: str
    started_at: Micros | None = None
    progress: float | None = None
    progress_note: str | None = None


class Extended(Struct, frozen=True, gc=False):
    answer: Answer
    expires_at: Micros | None = None
    cancel_requested: bool = False


class JobQuery(Struct, frozen=True, kw_only=True):
    """Which jobs, newest first. A cursor is the seq of the last job of the page before."""

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
    jobs: tuple[Job, ...]
    cursor: int | None  # pass as `before` for the next page; None = this was the last


class Count(Struct, frozen=True, gc=False):
    queue: str
    label: Label
    jobs: int


class WaitingType(Struct, frozen=True, gc=False):
    queue: str
    type: str
    on_unknown: OnUnknown
    jobs: int


class Leadership(Struct, frozen=True, kw_only=True, gc=False):
    """Who leads, since which change of leaders, and until when. The epoch is the fence of everything a leader does."""

    worker_id: str | None = None
    epoch: int = 0
    until: Micros | None = None


class Finding(Struct, frozen=True, gc=False):
    """What a store says of its own health. `status` is ok, warning or problem; `command` is what to type next."""

    name: str
    status: Literal["ok", "warning", "problem"]
    text: str
    command: str | None = None


class Transaction(Protocol):
    """The caller's own statements, follow-up jobs and the end of an execution, all of it stored or none.

    Begin; write your own rows on `connection`; `enqueue`; `settle` last; `commit` when the answer was `applied`, else
    `rollback`. Every method blocks; call them from any thread, one at a time. Nothing is seen by others before `commit`
    returns. A call that raises changed nothing, and what came before it in the transaction stays.

    A store with one writer holds its write lock from `begin` to the end, so keep it short, and do not wait inside for a
    write through the driver. A store without such a lock (memory) answers from its rows as they stand and does all of
    it at `commit`; should an answer that it gave no longer be true then, it raises `TransactionConflict` and keeps
    nothing.
    """

    @property
    def connection(self) -> Any:
        """The store's own connection object, inside this transaction: yours for statements, not for ending it.
        `NoConnection` when there is none."""
        ...

    @property
    def async_connection(self) -> Any:
        """The same for code on an event loop, which its statements never block for a network. A store without a network
        answers `connection`."""
        ...

    def turn(self) -> asyncio.Lock | None:
        """How code on an event loop calls the blocking methods after `begin`: hold this lock, which statements on
        `async_connection` take one by one, and call in a thread. None: they wait for no network; call them as they are."""
        ...

    def begin(self) -> None:
        """Once, before everything else."""
        ...

    def enqueue(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        """As `Driver.enqueue`."""
        ...

    def settle(self, change: Settlement, *, now: Micros) -> Answer:
        """As `Driver.settle` for one unit. A refusal is an answer: what was written before is the caller's to undo."""
        ...

    def commit(self) -> None:
        """Make all of it true. When this raises, none of it is; but for `OutcomeUnknown`, when the connection broke and
        nobody could be asked."""
        ...

    def rollback(self) -> None:
        """Undo everything and give the connection back. Also after the end, and as often as you like."""
        ...


class Driver(Protocol):
    """Durable storage for jobs."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def enqueue(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        """Store jobs as queued, in the order given; answer in the same order.

        A job is ready at once when run_at is None or <= now, else it waits for its time. Its position is the tail of its
        queue, or on a queue with dense positions the largest of its queue and priority plus the gap.

        Invalid jobs raise `InvalidInput`, a used id `DuplicateId`; then nothing of the batch is stored. A job whose
        idempotency key is taken in its scope, whose dedupe key is held by a queued or running job, or whose schedule has
        fired for that time already, is not inserted: the answer names the job that holds the key. `on_duplicate`:
        `ignore` changes no byte of it, `touch` only updated_at and not while it runs (its heartbeats do), `replace` its
        payload and time while nobody has begun it, `raise` raises `DuplicateJob`. An idempotency key stays taken after the
        job has ended and after it was pruned, until it expires.

        A job that names others (`after`) is blocked until all of them have ended: the last links of their chains, of the
        same batch too. What has ended already counts at once: a success as done, a bad end by `after_rule` (core:
        verdict), which may end the new job as skipped. An id that is not there, or a circle, is `InvalidInput`. A group
        that jobs open comes into being with them; a member that is a duplicate raises `DuplicateJob`.
        """
        ...

    def enqueue_sync(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        """The same, blocking; never touches an event loop. For threads, and for programs that have no loop."""
        ...

    async def claim(self, claim: Claim, *, now: Micros) -> list[Claimed]:
        """Lease up to `limit` runnable jobs and answer them in dispatch order; an empty list when there is none.

        In one transaction: (1) unless told not to, end holds of these queues whose time is over, and take back expired
        leases that need no decision (`Expire`: back to the queue, run_at None, lost + 1, run closed, the event
        `job.recovered` where a webhook asks for it); (2) promote every job whose time has come; (3) pick in the one total
        order over all queues named, skipping paused and held queues, other types, with `unhandled` what does not say
        on_unknown="dead", and jobs without a permit (those are parked, five hundred at most, then it answers what it has,
        or goes on in another transaction when that is nothing); (4) write state, token, expiry = now + lease_for,
        worker, claimed_at, executions + 1, started_at (None with start=False) and the run row.

        Never answers a job under a valid lease or a finished one. `lease_for` <= 0 raises `InvalidLeaseDuration`.
        """
        ...

    async def extend(self, renewals: Sequence[Renewal], *, lease_for: Micros, now: Micros) -> list[Extended]:
        """Set the expiry of leases that are still valid to now + lease_for; the token stays. A renewal that was overtaken
        (the row was changed more than a second after its `now`) shortens nothing: its holder counts on a later one. Nor
        does its progress take the place of what is stored.

        Also writes the true start of a prefetched job (once) and progress, and tells whether somebody asked to cancel.
        Refused renewals change nothing: not_inflight, expired or mismatch, in this order. `expires_at` is the expiry as it
        is stored. A store that does not wait for a row which somebody holds may leave the lease as it is, write nothing,
        and answer `applied` with the old expiry: whoever asked was not renewed, and asks again.
        """
        ...

    async def settle(self, changes: Sequence[Settlement], *, now: Micros) -> list[Answer]:
        """End executions: close the run, move the job, apply the riders, each unit whole or not at all.

        `applied` when the guard held: running, lease_expires_at > now, same token (`lapsed`: expired, same token). A
        call that already took effect is answered `repeated` and changes nothing: last_token is this token and
        last_outcome this outcome, or a fail after an ack; but a retry on a finished job is `not_inflight`. Otherwise
        `not_inflight`, `expired`, `mismatch`, in this order (`lapsed`: not_inflight, mismatch, not_lapsed). A change that
        would bring a `new_job` row back to the queue is `never_twice`.

        A change that would bring back a job which somebody asked to cancel ends it instead (core: honour_cancel) and is
        stored as a cancellation. A refused unit's riders leave no trace. An ended run never changes again. One that ended
        so long ago that the roll-up of usage has passed it (core: late_until) is added to the usage here.

        The end of a job is told to those who wait for it, once each, as a delta: they are released, or skipped and so on
        down (core: verdict), in the same transaction up to a bound (core: INLINE); the job owes the rest, which `expire`
        pays. The next link of a chain takes over who waits for it. A member's bad end may skip the queued ones of its
        group (core: stops). Who is skipped, and a group whose last member has ended, is announced where a webhook asks for
        it. Of the events that a change brings along those are written that are true of it as it is applied (core: true_of).

        A unit whose row somebody holds may be waited for after the others were stored. Should that take too long, the call
        raises although they are; the same call again tells so: `repeated`.
        """
        ...

    async def expire(self, *, now: Micros, limit: int) -> tuple[int, list[Claimed]]:
        """The sweep over all queues: take back what needs no decision, at most `limit` jobs, and answer how many;
        with them the lapsed jobs that do need one (at most `limit`), as they stand. Core decides, `settle` applies.
        Also pays what ended jobs owe to those who wait for them."""
        ...

    async def alter(self, changes: Sequence[Alteration], *, now: Micros, by: By | None = None) -> list[AlterAnswer]:
        """Apply what people and services ask for, each guarded by the state of its row.

        Cancel: queued → cancelled (`applied`), running → `requested`, cancelled → `unchanged`, else `wrong_state`.
        Replay: dead and not superseded; `duplicate` when its dedupe key is active elsewhere. RunNow: queued only.
        Move, MoveBeside, Swap, SetPriority: queued only, `unchanged` when it stands there already, `apart` where the
        two have not one queue and priority; later arrivals are not bound by it. Renormalise: `unchanged` when nothing
        moves. Acquire: `busy` when the queue is held, `unchanged` when it is by this very hold. Grant: `requested`
        while a job of the queue has a valid lease. Renew, Grant: an active hold whose time is not over, else
        `wrong_state`. ReleaseHold: `unchanged` when it has ended. Delete: finished, with every link of its chain, else
        `wrong_state`. Revoke: the valid leases of a worker end at `now` and nothing else changes; `unchanged` when it
        holds none. Leave: a worker's row goes, and its leadership ends at `now`; `unchanged` when it is not
        registered. SetPaused: `unchanged` when it is so already. PutQueue, PutLimit, PutGroup, PutWebhook: insert or
        change. A job that is cancelled here, and a group that ends with it, is announced where a webhook asks for it; so
        is what a Fire has missed. TakeDelivery: only while `expected` is when it is due, else `wrong_state`. EndDelivery:
        only by who took it until then, else `wrong_state`. ReplayDelivery: `busy` while somebody sends it. CancelGroup,
        RetryGroup: as they say of themselves. A job, or a group, that is not there is `not_found`. A cancelled job's
        dependants are told like those of any other end; one that owes is not deleted.

        PutTemplate, PutSchedule: insert or change by name, `unchanged` when it is so already, `duplicate` when the id of a
        new one is in use; a schedule without its template is `not_found`. DeleteTemplate: `wrong_state` while a schedule
        uses it. Fire: only while `expected` is the schedule's next time, else `wrong_state`; its jobs, last_triggered_at
        and next_trigger_at become true together. A job whose time has one already, or that the overlap rule holds back as
        the store stands at that moment, is left out.

        CreateToken: `duplicate` when its name, id or secret is in use. RevokeToken, NoteUse: `unchanged` when that was
        done already. With `by` the call is in somebody's name (core: acting): each kind of action that changed something
        leaves one line in the audit log, in the same transaction; of whoever is bound to an org or to queues, rows of
        others are `not_found`, and what all share raises `OutOfScope` before anything is changed.
        """
        ...

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        """The rows as they stand, in the order asked, None where there is none."""
        ...

    async def runs(self, job_id: str, *, before: int | None = None, limit: int = RUNS_LIMIT) -> list[Run]:
        """The newest `limit` executions of a job, first to last; with `before`, of those whose attempt_no is smaller. There
        may have been any number of them: `executions` of the job says how many. `params` is always what the run was
        given."""
        ...

    async def find(self, query: JobQuery) -> Page:
        """A page of jobs, newest (largest seq) first."""
        ...

    async def count(self, *, now: Micros) -> list[Count]:
        """Exact numbers of jobs that have not ended, by queue and label, and of dead letters; superseded rows are not
        counted. Finished successes are history, not load: they are not counted here."""
        ...

    async def waiting_types(self, queues: Sequence[str] | None, *, limit: int) -> list[WaitingType]:
        """The types among the first `limit` ready jobs of each queue in dispatch order, by queue, type and on_unknown (and
        sorted so). None = every queue that has ready jobs. Paused and held queues are left out."""
        ...

    async def read(self, query: Query[R]) -> list[R]:
        """Rows of another kind, as they stand; `windlass.core.queries` says which and in what order."""
        ...

    async def beat(self, worker: WorkerInfo, *, now: Micros) -> None:
        """The registry's heartbeat: write the worker's row with last_heartbeat = now. Of a worker that is there already
        everything is renewed but started_at. One whose `now` lies before the last says nothing: it was overtaken."""
        ...

    async def lead(self, worker_id: str, *, lease_for: Micros, now: Micros) -> Leadership:
        """Ask for leadership, or renew it; answer who leads now. One write transaction.

        Granted to a registered worker when nobody leads at `now` (with epoch + 1), and renewed for the one that leads
        still (same epoch). One whose own leadership has lapsed begins a new epoch like anybody else. A worker that is not
        in the registry is refused. The instant of expiry is expired. When nobody leads after the call, `worker_id` and
        `until` are None and `epoch` is the last one."""
        ...

    async def maintain(self, duty: Duty, *, epoch: int | None, now: Micros) -> Done | None:
        """Do one piece of maintenance (`windlass.core.duties`) in one transaction, if leadership is at this epoch and
        has not expired at `now`; None = refused, and nothing was changed. `epoch` None: a person asks, not a leader."""
        ...

    async def examine(self, *, now: Micros) -> list[Finding]:
        """What the store knows of its own health: space, versions, what holds it up. Only reads; what cannot be known on
        this kind of store is left out."""
        ...

    def transaction(self) -> Transaction:
        """A transaction that has not begun. `WrongConnection` when the store is not `transactional`."""
        ...

    def enqueue_within(
        self, connection: object, jobs: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        """`enqueue` inside a transaction of the caller's own connection to this store. Blocking; the caller commits.

        Nothing is seen by anybody, and nobody is woken, before that. A connection that is in no transaction begins one as
        it would for an INSERT of the caller's. When this raises, the caller's own work is intact. `WrongConnection` for a
        connection that this store cannot share: of another kind, on another store, or without transactions. Where waking
        needs a statement in the caller's transaction, `notify=False` leaves it out."""
        ...

    async def enqueue_within_async(
        self, connection: object, jobs: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        """The same on a connection whose calls are awaited."""
        ...

    async def wait(self, *, timeout: float) -> bool:
        """Return soon after something may have become claimable, at the latest after `timeout` seconds. True = told.

        Made for one claimer per driver: what is committed between its claim and its wait is never missed. All who wait at
        the same time are woken; calls that change nothing wake nobody."""
        ...

    async def close(self) -> None:
        """Finish what was begun, then refuse everything. Twice is fine."""
        ...
