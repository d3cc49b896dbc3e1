"""The executable specification: core's rules applied to dictionaries.

Everything a driver promises is here in its plainest form; SQLite and PostgreSQL are proved equal to it. It is also a
store in its own right (`memory://`) for tests and for work that may be lost with the process.
"""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from windlass.core import rows
from windlass.core.admission import check_job, check_lease, check_limit, check_name, check_progress, check_queues
from windlass.core.changes import (
    OUTCOME_OF,
    AddEvent,
    AlterAnswer,
    Alteration,
    Answer,
    Cancel,
    CountMember,
    Ending,
    Expire,
    FreePermits,
    PutGroup,
    PutLimit,
    PutQueue,
    Replay,
    RetryChild,
    RunNow,
    Settlement,
    effect_of,
)
from windlass.core.counters import count_member, give_back, take
from windlass.core.eligibility import dispatch_order, is_expired, is_promotable, label_of, needs_decision
from windlass.core.guards import judge, rounds
from windlass.core.positions import dense, tail
from windlass.core.retention import prunable
from windlass.core.settle import honour_cancel, riders_of
from windlass.core.uniqueness import enqueue_rounds, is_taken, keys_of, may_replace
from windlass.drivers.protocol import (
    Capabilities,
    Claim,
    Count,
    Enqueued,
    Extended,
    JobQuery,
    Page,
    Renewal,
    Retention,
    Shared,
)
from windlass.errors import DriverClosed, DuplicateId, DuplicateJob
from windlass.types import ACTIVE, Claimed, Event, Group, Handle, Job, Limit, Micros, NewJob, Queue, Run

Order = tuple[int, int, Micros, int]


class MemoryDriver:
    capabilities = Capabilities(durable=False, shared=False, wakeups="push", sql=False)

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._closed = False
        self._last_seq = 0
        self._jobs: dict[int, Job] = {}
        self._runs: dict[int, list[Run]] = {}
        self._seqs: dict[str, int] = {}
        self._keys: dict[tuple[str, str], tuple[str, Micros | None]] = {}
        self._dedupe: dict[str, int] = {}
        self._queues: dict[str, Queue] = {}
        self._groups: dict[str, Group] = {}
        self._limits: dict[str, Limit] = {}
        self._outbox: list[Event] = []
        self._ready: defaultdict[str, list[Order]] = defaultdict(list)
        self._waiting: defaultdict[str, set[int]] = defaultdict(set)
        self._leased: set[int] = set()
        self._undo: list[Callable[[], object]] = []
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    # ------------------------------------------------------------------------------------------------- transactions

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise DriverClosed
            self._undo.clear()
            try:
                yield
            except BaseException:
                for step in reversed(self._undo):
                    step()
                raise

    def _put(self, job: Job) -> Job:
        """Store a row and move it between the indexes, as one step that can be undone."""
        before = self._jobs.get(job.seq)
        self._undo.append(lambda: self._index(job, before))
        self._index(before, job)
        return job

    def _index(self, before: Job | None, after: Job | None) -> None:
        if before is not None:
            self._leased.discard(before.seq)
            self._waiting[before.queue].discard(before.seq)
            if before.state == "queued" and before.ready:
                ready = self._ready[before.queue]
                del ready[bisect_left(ready, dispatch_order(before))]
            if before.dedupe_key is not None and self._dedupe.get(before.dedupe_key) == before.seq:
                del self._dedupe[before.dedupe_key]
            del self._jobs[before.seq], self._seqs[before.id]
        if after is not None:
            self._jobs[after.seq], self._seqs[after.id] = after, after.seq
            if after.state == "running":
                self._leased.add(after.seq)
            elif after.state == "queued" and after.ready:
                insort(self._ready[after.queue], dispatch_order(after))
            elif after.state == "queued":
                self._waiting[after.queue].add(after.seq)
            if after.dedupe_key is not None and after.state in ACTIVE:
                self._dedupe[after.dedupe_key] = after.seq

    def _put_run(self, seq: int, run: Run) -> None:
        history = self._runs.setdefault(seq, [])
        before = history[run.attempt_no - 1] if run.attempt_no <= len(history) else None
        if before is None:
            history.append(run)
            self._undo.append(history.pop)
        else:
            history[run.attempt_no - 1] = run
            self._undo.append(lambda: history.__setitem__(run.attempt_no - 1, before))

    def _next_place(self, queue: str, priority: int) -> tuple[int, int]:
        self._last_seq += 1
        self._undo.append(self._return_seq)
        if self._queues.get(queue, Queue(name=queue)).positions == "tail":
            return self._last_seq, tail(self._last_seq)
        peers = (
            j.position for j in self._jobs.values() if (j.queue, j.priority, j.state) == (queue, priority, "queued")
        )
        return self._last_seq, dense(max(peers, default=None))

    def _return_seq(self) -> None:
        self._last_seq -= 1

    # ------------------------------------------------------------------------------------------------------- enqueue

    async def enqueue(self, jobs: Sequence[NewJob], *, now: Micros) -> list[Enqueued]:
        with self._transaction():
            for job in jobs:
                check_job(job)
            answers: list[Enqueued | None] = [None] * len(jobs)
            for turn in enqueue_rounds(jobs):
                for index in turn:
                    answers[index] = self._enqueue(jobs[index], now)
            done = [answer for answer in answers if answer is not None]
        self._wake()
        return done

    def _enqueue(self, new: NewJob, now: Micros) -> Enqueued:
        holder = self._holder(new, now)
        if holder is not None:
            return self._duplicate(new, holder, now)
        if new.id in self._seqs:
            raise DuplicateId(new.id)
        seq, position = self._next_place(new.queue, new.priority)
        self._put(rows.enqueued(new, seq=seq, position=position, now=now))
        if new.idempotency_scope is not None and new.idempotency_key is not None:
            key = (new.idempotency_scope, new.idempotency_key)
            before = self._keys.get(key)
            self._keys[key] = (new.id, new.idempotency_expires_at)
            self._undo.append(lambda: self._keys.pop(key) if before is None else self._keys.__setitem__(key, before))
        return Enqueued(new.id)

    def _holder(self, new: NewJob, now: Micros) -> str | None:
        """The id of the job that holds one of the new job's keys, at the head of its chain."""
        for kind, *key in keys_of(new):
            if kind == "dedupe":
                if key[0] in self._dedupe:
                    return self._jobs[self._dedupe[key[0]]].id
                continue
            held = self._keys.get((key[0], key[1]))
            if held is not None and is_taken(held[1], now):
                return self._head(held[0])
        return None

    def _head(self, job_id: str) -> str:
        job = self._find(job_id)
        while job is not None and job.superseded_by is not None:
            job_id, job = job.superseded_by, self._find(job.superseded_by)
        return job_id

    def _duplicate(self, new: NewJob, holder: str, now: Micros) -> Enqueued:
        job = self._find(holder)
        if new.on_duplicate == "raise":
            raise DuplicateJob(holder, new.idempotency_key or new.dedupe_key or "")
        if job is not None and new.on_duplicate == "touch":
            self._put(replace(job, updated_at=rows.touched(job, now)))
        if job is not None and new.on_duplicate == "replace" and may_replace(job):
            self._put(rows.replaced(job, new, now))
        return Enqueued(holder, existed=True)

    # -------------------------------------------------------------------------------------------------------- leases

    async def claim(self, claim: Claim, *, now: Micros) -> list[Claimed]:
        with self._transaction():
            check_queues(claim.queues)
            check_limit(claim.limit)
            check_lease(claim.lease_for)
            if claim.reclaim:
                self._take_back(now, queues=claim.queues)
            queues = [q for q in dict.fromkeys(claim.queues) if self._queues.get(q, Queue(name=q)).paused_at is None]
            for queue in queues:
                for seq in list(self._waiting[queue]):
                    if is_promotable(self._jobs[seq], now):
                        job = self._jobs[seq]
                        self._put(replace(job, ready=True, updated_at=rows.touched(job, now)))
            prefix = rows.run_prefix(claim.token, now)
            taken: list[Claimed] = []
            while len(taken) < claim.limit:
                job = self._first(queues, claim.types)
                if job is None:
                    break
                if self._take_permits(job, now):
                    taken.append(self._lease(job, claim, prefix, now))
            return taken

    def _first(self, queues: Sequence[str], types: tuple[str, ...] | None) -> Job | None:
        heads = (
            next((o for o in self._ready[q] if types is None or self._jobs[o[3]].type in types), None) for q in queues
        )
        first = min((order for order in heads if order is not None), default=None)
        return None if first is None else self._jobs[first[3]]

    def _lease(self, job: Job, claim: Claim, prefix: str, now: Micros) -> Claimed:
        leased = self._put(rows.claimed(job, token=claim.token, worker_id=claim.worker_id, lease_for=claim.lease_for, start=claim.start, now=now))  # fmt: skip
        run = rows.run_of(leased, f"{prefix}{job.seq:012x}")
        self._put_run(job.seq, run)
        return rows.as_claimed(leased, run.run_id, (job.seq, leased.executions))

    async def extend(self, renewals: Sequence[Renewal], *, lease_for: Micros, now: Micros) -> list[Extended]:
        with self._transaction():
            check_lease(lease_for)
            for renewal in renewals:
                check_progress(renewal.progress)
            return [self._extend(renewal, now + lease_for, now) for renewal in renewals]

    def _extend(self, renewal: Renewal, expires_at: Micros, now: Micros) -> Extended:
        job = self._find(renewal.handle)
        answer = judge(job, token=renewal.token, outcome=None, lapsed=False, now=now)
        if job is None or answer != "applied":
            return Extended(answer)
        if job.started_at is None and renewal.started_at is not None:
            self._put_run(job.seq, replace(self._runs[job.seq][-1], started_at=renewal.started_at))
        self._put(rows.extended(job, expires_at=expires_at, started_at=renewal.started_at, progress=renewal.progress, note=renewal.progress_note, now=now))  # fmt: skip
        return Extended("applied", expires_at, job.cancel_requested_at is not None)

    async def expire(self, *, now: Micros, limit: int) -> tuple[int, list[Claimed]]:
        with self._transaction():
            check_limit(limit)
            taken_back = self._take_back(now, limit=limit)
            lapsed = [self._jobs[seq] for seq in sorted(self._leased) if is_expired(self._jobs[seq], now)]
            undecided = sorted((j for j in lapsed if needs_decision(j)), key=lambda j: (j.lease_expires_at or 0, j.seq))
            answer = [
                rows.as_claimed(j, self._runs[j.seq][-1].run_id, (j.seq, j.executions)) for j in undecided[:limit]
            ]
        if taken_back:
            self._wake()
        return taken_back, answer

    def _take_back(self, now: Micros, *, queues: Sequence[str] | None = None, limit: int | None = None) -> int:
        lapsed = [self._jobs[seq] for seq in self._leased if is_expired(self._jobs[seq], now)]
        lapsed = [j for j in lapsed if not needs_decision(j) and (queues is None or j.queue in queues)]
        lapsed.sort(key=lambda j: (j.lease_expires_at or 0, j.seq))
        for job in lapsed[:limit]:
            assert job.lease_token is not None, "running without a lease"
            change = Expire(
                handle=(job.seq, job.executions),
                token=job.lease_token,
                at=now,
                lapsed=True,
                riders=riders_of(job, None),
            )
            self._ride(job, self._apply(job, change, now), now)
        return len(lapsed[:limit])

    # ------------------------------------------------------------------------------------------------------- permits

    def _take_permits(self, job: Job, now: Micros) -> bool:
        """All of a job's permits, or none: then it is parked on the first key that has no room."""
        limits = [self._limits[key] for key in job.limit_keys if key in self._limits]
        full = next((limit.key for limit in limits if take(limit.used, limit.max_used) is None), None)
        if full is None:
            for limit in limits:
                self._put_limit(replace(limit, used=limit.used + 1))
            return True
        self._put(replace(job, ready=False, parked_on=full, updated_at=rows.touched(job, now)))
        self._unpark([limit.key for limit in limits if limit.key != full], now)
        return False

    def _put_limit(self, limit: Limit) -> None:
        before = self._limits.get(limit.key)
        self._limits[limit.key] = limit
        self._undo.append(lambda: self._limits.pop(limit.key) if before is None else self._limits.__setitem__(limit.key, before))  # fmt: skip

    def _free_permits(self, keys: Sequence[str], now: Micros) -> None:
        for key in keys:
            if key in self._limits:
                limit = self._limits[key]
                self._put_limit(replace(limit, used=give_back(limit.used)))
        self._unpark(keys, now)

    def _unpark(self, keys: Sequence[str], now: Micros, *, most: int | None = 1) -> None:
        """Let the first jobs that wait for a key with room be considered again."""
        for key in keys:
            limit = self._limits.get(key)
            if limit is not None and take(limit.used, limit.max_used) is None:
                continue
            parked = sorted((j for j in self._jobs.values() if j.parked_on == key), key=dispatch_order)
            for job in parked[:most]:
                self._put(replace(job, ready=True, parked_on=None, updated_at=rows.touched(job, now)))

    # ---------------------------------------------------------------------------------------------------- settlement

    async def settle(self, changes: Sequence[Settlement], *, now: Micros) -> list[Answer]:
        with self._transaction():
            answers: dict[int, Answer] = {}
            addressed = [(self._seq_of(change.handle), (index, change)) for index, change in enumerate(changes)]
            for turn in rounds(addressed):
                applied: list[tuple[Job, Settlement]] = []
                for seq, (index, change) in turn:
                    job = self._jobs.get(seq)
                    answers[index] = judge(
                        job, token=change.token, outcome=OUTCOME_OF[type(change)], lapsed=change.lapsed, now=now
                    )
                    if job is not None and answers[index] == "applied":
                        applied.append((job, self._apply(job, change, now)))
                for job, change in applied:
                    self._ride(job, change, now)
        self._wake()
        return [answers[index] for index in range(len(changes))]

    def _apply(self, job: Job, change: Settlement, now: Micros) -> Settlement:
        change = honour_cancel(change, cancel_requested=job.cancel_requested_at is not None, group_id=job.group_id)
        effect = effect_of(change)
        self._put_run(job.seq, rows.closed(self._runs[job.seq][-1], change, effect))
        self._put(rows.settled(job, change, effect, now))
        return change

    def _ride(self, job: Job, change: Settlement, now: Micros) -> None:
        for rider in change.riders:
            match rider:
                case RetryChild():
                    self._insert_child(job, rider, now)
                case CountMember():
                    self._count_member(rider.group_id, rider.ending, now)
                case FreePermits():
                    self._free_permits(rider.keys, now)
                case AddEvent(event=event, job_id=job_id, org_id=org_id, body=body):
                    self._outbox.append(Event(event=event, job_id=job_id, org_id=org_id, body=body, created_at=now))
                    self._undo.append(self._outbox.pop)

    def _insert_child(self, parent: Job, child: RetryChild, now: Micros) -> None:
        if child.id in self._seqs:
            raise DuplicateId(child.id)
        seq, position = self._next_place(parent.queue, parent.priority)
        self._put(rows.child_of(parent, child, seq=seq, position=position, now=now))

    def _count_member(self, group_id: str, ending: Ending, now: Micros) -> None:
        before = self._groups.get(group_id)
        if before is not None:
            self._groups[group_id] = count_member(before, ending, now)
            self._undo.append(lambda: self._groups.__setitem__(group_id, before))

    # --------------------------------------------------------------------------------------------- people and services

    async def alter(self, changes: Sequence[Alteration], *, now: Micros) -> list[AlterAnswer]:
        with self._transaction():
            answers = [self._alter(change, now) for change in changes]
        self._wake()
        return answers

    def _alter(self, change: Alteration, now: Micros) -> AlterAnswer:
        match change:
            case Cancel():
                return self._cancel(change, now)
            case Replay():
                return self._replay(change, now)
            case RunNow():
                job = self._find(change.job_id)
                if job is None or job.state != "queued":
                    return "not_found" if job is None else "wrong_state"
                self._put(rows.brought_forward(job, now))
                return "applied"
            case PutQueue():
                check_name("queue", change.name)
                before = self._queues.get(change.name)
                paused_at = (
                    None
                    if not change.paused
                    else now
                    if before is None or before.paused_at is None
                    else before.paused_at
                )
                self._queues[change.name] = Queue(name=change.name, positions=change.positions, preset=change.preset, settings=change.settings, paused_at=paused_at)  # fmt: skip
                return "applied"
            case PutLimit():
                return self._set_limit(change, now)
            case PutGroup():
                if change.group_id in self._groups:
                    return "unchanged"
                self._groups[change.group_id] = Group(group_id=change.group_id, name=change.name, mode=change.mode, on_failure=change.on_failure, total=change.total, remaining=change.total, created_at=now)  # fmt: skip
                return "applied"

    def _cancel(self, change: Cancel, now: Micros) -> AlterAnswer:
        job = self._find(change.job_id)
        if job is None:
            return "not_found"
        if job.state == "cancelled" or (job.state == "running" and job.cancel_requested_at is not None):
            return "unchanged"
        if job.state == "running":
            self._put(rows.cancel_requested(job, now))
            return "requested"
        if job.state != "queued":
            return "wrong_state"
        self._put(rows.cancelled(job, change.reason, now))
        if job.group_id is not None:
            self._count_member(job.group_id, "cancelled", now)
        self._unpark(job.limit_keys, now)
        return "applied"

    def _replay(self, change: Replay, now: Micros) -> AlterAnswer:
        job = self._find(change.job_id)
        if job is None:
            return "not_found"
        if job.state != "dead" or job.dead_kind == "superseded":
            return "wrong_state"
        if job.dedupe_key is not None and job.dedupe_key in self._dedupe:
            return "duplicate"
        if job.retry_mode == "same_job":
            self._put(rows.replayed(job, change, now))
            return "applied"
        child = RetryChild(change.child_id, None, 0 if change.reset_attempts else job.attempts, manual=True)
        self._insert_child(job, child, now)
        self._put(replace(job, dead_kind="superseded", superseded_by=child.id, updated_at=rows.touched(job, now)))
        return "applied"

    def _set_limit(self, change: PutLimit, now: Micros) -> AlterAnswer:
        limit = self._limits.get(change.key)
        if limit is None:
            holding = sum(change.key in self._jobs[seq].limit_keys for seq in self._leased)
            limit = Limit(key=change.key, max_used=None, used=holding)
        self._put_limit(replace(limit, max_used=change.max_used))
        room = None if change.max_used is None else max(change.max_used - limit.used, 0)
        self._unpark([change.key], now, most=room)
        return "applied"

    # ------------------------------------------------------------------------------------------------------- reading

    def _seq_of(self, handle: Handle) -> int:
        return self._seqs.get(handle, 0) if isinstance(handle, str) else int(handle[0])

    def _find(self, handle: Handle) -> Job | None:
        return self._jobs.get(self._seq_of(handle))

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        with self._transaction():
            return [self._find(job_id) for job_id in ids]

    async def runs(self, job_id: str) -> list[Run]:
        with self._transaction():
            return list(self._runs.get(self._seqs.get(job_id, 0), ()))

    async def find(self, query: JobQuery) -> Page:
        with self._transaction():
            check_limit(query.limit)
            found = [job for seq, job in sorted(self._jobs.items(), reverse=True) if _matches(job, query)]
            page = tuple(found[: query.limit])
            return Page(page, page[-1].seq if len(found) > query.limit else None)

    async def count(self, *, now: Micros) -> list[Count]:
        with self._transaction():
            jobs = (
                j
                for j in self._jobs.values()
                if j.state in ("queued", "running", "dead") and j.dead_kind != "superseded"
            )
            counted = Counter((job.queue, label_of(job, now)) for job in jobs)
            return [Count(queue, label, number) for (queue, label), number in sorted(counted.items())]

    async def shared(self) -> Shared:
        with self._transaction():
            return Shared(
                queues=tuple(self._queues[name] for name in sorted(self._queues)),
                groups=tuple(self._groups[name] for name in sorted(self._groups)),
                limits=tuple(self._limits[key] for key in sorted(self._limits)),
                outbox=tuple(self._outbox),
            )

    async def prune(self, retention: Retention, *, now: Micros, limit: int) -> int:
        with self._transaction():
            check_limit(limit)
            doomed = prunable(
                list(self._jobs.values()), retention.succeeded, retention.cancelled, retention.dead, now, limit
            )
            for job in doomed:
                self._index(job, None)
                self._runs.pop(job.seq, None)
            return len(doomed)

    # ---------------------------------------------------------------------------------------------- waking and closing

    async def wait(self, *, timeout: float) -> bool:
        if self._closed:
            raise DriverClosed
        told = asyncio.Event()
        waiter = (asyncio.get_running_loop(), told)
        self._waiters.add(waiter)
        try:
            await asyncio.wait_for(told.wait(), timeout)
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
        return True

    def _wake(self) -> None:
        for loop, told in list(self._waiters):
            loop.call_soon_threadsafe(told.set)

    async def close(self) -> None:
        with self._lock:
            self._closed = True
        self._wake()


def _matches(job: Job, query: JobQuery) -> bool:
    return (
        (not query.states or job.state in query.states)
        and (not query.queues or job.queue in query.queues)
        and (not query.types or job.type in query.types)
        and (query.org_id is None or job.org_id == query.org_id)
        and (query.group_id is None or job.group_id == query.group_id)
        and (query.retry_of is None or job.retry_of == query.retry_of)
        and (query.superseded or job.dead_kind != "superseded")
        and (query.before is None or job.seq < query.before)
    )
