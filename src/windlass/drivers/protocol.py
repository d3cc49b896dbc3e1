"""The driver contract. The docstrings below are the promises; `windlass.testing.conformance` tests each of them.

A driver is dumb on purpose. It stores rows, applies changes that core computed, and refuses a change whose guard does not
hold. It knows nothing of retry policies. Four rules hold for every method:

* **Batch first.** Every write takes a sequence of units and is one transaction: all units that are applied are stored, or
  none is. Units are independent, as if sent one after the other in the given order: a unit that is refused changes
  nothing and does not affect the others. `windlass.drivers.singular` offers calls for one job on top of these.
* **`now` is a parameter**, in microseconds. A driver never reads a clock. It compares times with that value only: due
  means run_at <= now, expired means lease_expires_at <= now.
* **Guarded.** A change to a job's own row is made only if its guard holds, which is tested in the same atomic step. A
  change to a row that jobs share (the counters of a group, the permits of a limit) is a delta that the store computes.
* **Closed is closed.** After `close` every method raises `DriverClosed`; closing twice is allowed.

Methods may be called from several threads and event loops at the same time. If a caller is cancelled while it waits, its
call may or may not take effect; the lease of a claim that nobody received expires like any other.

Errors: `InvalidInput` and its subclasses for bad arguments, before anything is written; `StoreError` and its subclasses if
the store cannot do it, and then nothing of the call is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from windlass.core.acting import By
from windlass.core.alterations import AlterAnswer, Alteration
from windlass.core.changes import Answer, Settlement
from windlass.core.duties import Done, Duty
from windlass.core.history import RUNS_LIMIT
from windlass.core.queries import Query, R
from windlass.drivers.values import (
    Capabilities,
    Claim,
    Count,
    Enqueued,
    Extended,
    JobQuery,
    Leadership,
    Page,
    Renewal,
    WaitingType,
)
from windlass.records import Finding, WorkerInfo
from windlass.types import Claimed, Job, Micros, NewJob, Run


class Transaction(Protocol):
    """The caller's own statements, follow-up jobs and the end of an execution: all of it is stored, or nothing.

    Call `begin`; write your own rows on `connection`; `enqueue`; `settle` last; then `commit` if the answer was
    `applied`, else `rollback`. Every method blocks; call them from any thread, one at a time. Others see nothing before
    `commit` returns. A call that raises has changed nothing, and what came before it in the transaction stays.

    A store with one writer holds its write lock from `begin` to the end, so keep it short, and do not wait inside it for
    a write through the driver. A store without such a lock (memory) answers from its present rows and does everything at
    `commit`; if one of its answers is no longer true then, it raises `TransactionConflict` and keeps nothing."""

    @property
    def connection(self) -> Any:
        """The store's own connection object, inside this transaction. Execute statements on it, but do not end the
        transaction. Raises `NoConnection` if the store has none."""
        ...

    @property
    def async_connection(self) -> Any:
        """The connection for code on an event loop: its statements do not block the loop while they wait for a network. A
        store without a network returns `connection`."""
        ...

    def turn(self) -> asyncio.Lock | None:
        """The lock that code on an event loop must hold while it calls, in a thread, the blocking methods after `begin`.
        Statements on `async_connection` take it one by one. None means that these methods wait for no network and can be
        called directly."""
        ...

    def begin(self) -> None:
        """Begin. To be called once, before everything else."""
        ...

    def enqueue(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        """As `Driver.enqueue`."""
        ...

    def settle(self, change: Settlement, *, now: Micros) -> Answer:
        """As `Driver.settle`, for one unit. If it is refused, the caller decides about what was written before."""
        ...

    def commit(self) -> None:
        """Store everything. If this raises, nothing is stored; except that after `OutcomeUnknown` nobody knows, because
        the connection broke and the store could not be asked."""
        ...

    def rollback(self) -> None:
        """Undo everything and give the connection back. May be called again, and after the end."""
        ...


class Driver(Protocol):
    """Durable storage for jobs."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def enqueue(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        """Store jobs as queued, in the given order, and return the answers in the same order.

        A job is ready at once if run_at is None or <= now; else it waits for its time. Its position is the tail of its
        queue, or on a queue with dense positions the largest of its queue and priority plus the gap.

        Invalid jobs raise `InvalidInput`, an id that is in use `DuplicateId`; then nothing of the batch is stored. A job
        is not inserted if its idempotency key is taken in its scope, if a queued or running job holds its dedupe key, or
        if its schedule has already fired for that time: the answer names the job that holds the key, which may be one of
        the same id. `on_duplicate` says what happens to that job: `ignore` changes nothing; `touch` changes only
        updated_at, and not while it runs (its heartbeats do that); `replace` changes its payload and time while nobody has
        begun it; `raise` raises `DuplicateJob`. An idempotency key stays taken after its job has ended and was pruned,
        until the key expires.

        A job that names others (`after`) is blocked until all of them have ended, that is the last links of their chains;
        they may be in the same batch. Those that have ended already count at once: a success as done, a bad end according
        to `after_rule` (core: verdict), which may end the new job as skipped. An unknown id or a circle raises
        `InvalidInput`. A group that jobs open is created with them; if a member is a duplicate, `DuplicateJob` is
        raised."""
        ...

    def enqueue_sync(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        """The blocking form of `enqueue`. It uses no event loop: for threads, and for programs without a loop."""
        ...

    async def claim(self, claim: Claim, *, now: Micros) -> list[Claimed]:
        """Lease up to `limit` runnable jobs and return them in dispatch order; an empty list if there is none.

        In one transaction: (1) unless told not to, end holds of these queues whose time is over, and take back expired
        leases that need no decision (`Expire`: back to the queue, run_at None, lost + 1, run closed, the event
        `job.recovered` where a webhook asks for it); (2) promote every job whose time has come; (3) pick in the one total
        order over all queues named, skipping paused and held queues, other types, with `unhandled` what does not say
        on_unknown="dead", and jobs without a permit (those are parked, five hundred at most, then it answers what it has,
        or goes on in another transaction when that is nothing: at `now` plus the time it took, where that is much of a
        lease); (4) write state, token, expiry = now + lease_for, worker, claimed_at, executions + 1, started_at (None with
        start=False) and the run row.

        Never returns a job with a valid lease, nor a finished one. `lease_for` <= 0 raises `InvalidLeaseDuration`.
        """
        ...

    async def extend(self, renewals: Sequence[Renewal], *, lease_for: Micros, now: Micros) -> list[Extended]:
        """Set the expiry of leases that are still valid to now + lease_for; the token stays. A renewal that was overtaken
        (the row was changed more than a second after its `now`) shortens nothing, because its holder relies on a later
        one. Nor does its progress replace what is stored.

        Also writes when a prefetched job really began (once) and progress, and returns whether somebody asked to cancel.
        Refused renewals change nothing: not_inflight, expired or mismatch, tested in this order. `expires_at` is the
        expiry as it is stored. A store that does not wait for a row which somebody has locked may leave the lease as it
        is, write nothing, and answer `applied` with the old expiry: the lease was not renewed, and the caller asks
        again."""
        ...

    async def settle(self, changes: Sequence[Settlement], *, now: Micros) -> list[Answer]:
        """End executions: close the run, move the job, apply the riders, each unit whole or not at all.

        `applied` when the guard held: running, lease_expires_at > now, same token (`lapsed`: expired, same token). A
        call that already took effect is answered `repeated` and changes nothing: last_token is this token and
        last_outcome this outcome, or a fail after an ack; but a retry on a finished job is `not_inflight`. Otherwise
        `not_inflight`, `expired`, `mismatch`, in this order (`lapsed`: not_inflight, mismatch, not_lapsed). A change that
        would bring a `new_job` row back to the queue is `never_twice`.

        A change that would bring back a job which somebody asked to cancel ends the job instead (core: honour_cancel) and
        is stored as a cancellation. The riders of a refused unit are not applied. A run that has ended never changes. If it
        ended before the time up to which usage is rolled up (core: late_until), it is added to the usage here.

        Each job that waits for a job is told of its end exactly once, as a delta: it is released, or skipped, and so are
        those that wait for it (core: verdict). This happens in the same transaction up to a bound (core: INLINE); the job
        owes the rest, which `expire` pays. The next link of a chain takes over the jobs that wait. A member that ends badly
        may cause the queued ones of its group to be skipped (core: stops). Skipped jobs, and a group whose last member has
        ended, are announced if a webhook asks for it. Of the events that a change carries, those are written that are true
        of it as it is applied (core: true_of).

        If somebody has locked the row of a unit, the driver may store the other units and then wait for it. If that takes
        too long, the call raises `RowsHeld` with the answers of the units that are stored; a repeated call answers
        `repeated` for these.
        """
        ...

    async def expire(self, *, now: Micros, limit: int) -> tuple[int, list[Claimed]]:
        """Sweep all queues. Take back expired leases that need no decision (at most `limit` jobs), and return their
        number and the jobs that do need one (at most `limit`), unchanged: core decides, `settle` applies. Also tell jobs
        that wait for others what ended jobs still owe them."""
        ...

    async def alter(self, changes: Sequence[Alteration], *, now: Micros, by: By | None = None) -> list[AlterAnswer]:
        """Apply what people and services ask for. Each change is guarded by the state of its row; if the job, group or
        other thing that it names does not exist, the answer is `not_found`.

        * Cancel: queued → cancelled (`applied`), running → `requested`, cancelled → `unchanged`, else `wrong_state`.
          Jobs that wait for it are told as after any other end.
        * Replay: only dead jobs that are not superseded; `duplicate` if another active job has its dedupe key.
        * RunNow: only queued jobs.
        * Move, MoveBeside, Swap, SetPriority: only queued jobs; `unchanged` if the job is there already; `apart` if two
          jobs differ in queue or priority. Jobs that arrive later are not affected. Renormalise: `unchanged` if nothing
          moves.
        * Acquire: `busy` if the queue is held, `unchanged` if it is held by this very hold. Grant: `requested` while a
          job of the queue has a valid lease. Grant, Renew: only an active hold whose time is not over, else
          `wrong_state`. ReleaseHold: `unchanged` if it has ended.
        * Delete: only if the job and every link of its chain are finished and it owes nothing to jobs that wait for it,
          else `wrong_state`; `referred` if rows of another table refer to it, `busy` if somebody has locked it.
        * Revoke: the valid leases of a worker end at `now`, nothing else changes; `unchanged` if it has none. Leave:
          the row of a worker is removed and its leadership ends at `now`; `unchanged` if it is not registered.
        * SetPaused: `unchanged` if it is so already. PutQueue, PutLimit, PutGroup, PutWebhook: insert or change.
        * CancelGroup, RetryGroup: see their docstrings in `windlass.core.alterations`.
        * TakeDelivery: only while it is due at `expected`, else `wrong_state`. EndDelivery: only by the one who has
          taken it until then, else `wrong_state`. ReplayDelivery: `busy` while it is being sent.
        * PutTemplate, PutSchedule: insert or change by name; `unchanged` if it is so already, `duplicate` if the id of
          a new one is in use; `not_found` for a schedule without its template. With `as_of`: `not_found` if the schedule
          is gone, `wrong_state` if it has changed since. DeleteTemplate: `wrong_state` while a schedule uses it.
        * Fire: only while `expected` is the schedule's next time, else `wrong_state`. Its jobs, last_triggered_at and
          next_trigger_at are stored together. A job is left out if its time has one already, or if the overlap rule
          prevents it at that moment.
        * CreateToken: `duplicate` if its name, id or secret is in use. RevokeToken, NoteUse: `unchanged` if that was
          done already.

        If a webhook asks for it, jobs that are cancelled here, groups that end with them and times that a Fire has missed
        are announced. With `by` the call is made in somebody's name (core: acting): each kind of action that changed
        something adds one line to the audit log in the same transaction. For somebody who is bound to an org or to
        queues, rows of others are `not_found`, and changes of shared things raise `OutOfScope` before anything is
        changed."""
        ...

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        """The jobs with these ids, in the same order; None for an id that does not exist."""
        ...

    async def runs(self, job_id: str, *, before: int | None = None, limit: int = RUNS_LIMIT) -> list[Run]:
        """The newest `limit` executions of a job, the oldest of them first; with `before`, of those with a smaller
        attempt_no. `executions` of the job says how many there have been. `params` is always what the run was given."""
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
        """Rows of another kind. The query, from `windlass.core.queries`, says which, and in what order."""
        ...

    async def beat(self, worker: WorkerInfo, *, now: Micros) -> None:
        """The heartbeat of a worker in the registry: write its row with last_heartbeat = now. If the worker is
        registered, everything but started_at is replaced. A heartbeat whose `now` lies before the last one was overtaken
        and changes nothing."""
        ...

    async def lead(self, worker_id: str, *, lease_for: Micros, now: Micros) -> Leadership:
        """Ask for leadership, or renew it, and return who leads now. One write transaction.

        It is granted to a registered worker if nobody leads at `now` (with epoch + 1), and renewed for the worker that
        still leads (same epoch); a renewal that was overtaken by a later one shortens nothing. A worker whose own
        leadership has expired begins a new epoch like any other. A worker that is not registered is refused, and the
        answer says who leads and until when, which may be that worker itself. At the instant of its expiry leadership has
        expired. If nobody leads after the call, `worker_id` and `until` are None and `epoch` is the last one."""
        ...

    async def maintain(self, duty: Duty, *, epoch: int | None, now: Micros) -> Done | None:
        """Do one piece of maintenance (`windlass.core.duties`) in one transaction, if leadership is at this epoch and has
        not expired at `now`; else return None and change nothing. `epoch` is None if a person asks, not a leader."""
        ...

    async def examine(self, *, now: Micros) -> list[Finding]:
        """Findings about the health of the store: space, versions, what blocks it. Only reads; what cannot be known on
        this kind of store is left out."""
        ...

    def transaction(self) -> Transaction:
        """A transaction that has not begun yet. Raises `WrongConnection` if the store is not `transactional`."""
        ...

    def enqueue_within(
        self, connection: object, jobs: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        """`enqueue` inside a transaction of the caller's own connection to this store. Blocks; the caller commits.

        Before the commit nobody sees the jobs, and nobody is woken. A connection that is in no transaction begins one, as
        it would for an INSERT of the caller's. If this raises, the caller's own work is intact. Raises `WrongConnection`
        for a connection that the store cannot share: of another kind, to another store, or without transactions. If
        waking needs a statement in the caller's transaction, `notify=False` leaves it out."""
        ...

    async def enqueue_within_async(
        self, connection: object, jobs: Sequence[NewJob], *, now: Micros, notify: bool = True
    ) -> list[Enqueued]:
        """`enqueue_within` for a connection whose calls are awaited."""
        ...

    async def wait(self, *, timeout: float) -> bool:
        """Return soon after a job may have become claimable, and after `timeout` seconds at the latest. Returns whether
        there is news.

        Made for one claimer per driver: it never misses what is committed between its claim and its wait. All callers
        that wait at the same time are woken; calls that change nothing wake nobody."""
        ...

    async def close(self) -> None:
        """Finish what was begun; then every call raises `DriverClosed`. May be called again."""
        ...
