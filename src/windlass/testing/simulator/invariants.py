"""What must hold after every call that reached the store, whatever failed before it.

Judged from rows and from the history of effects, never from what the code under test says about itself; the guards are
written once more here, in other words than in `core`, so that a mistake there is not a mistake here.

Conservation, one lease per job, stale calls change nothing, liveness, attempts, terminal is final, finished ⇔ terminal,
uniqueness, valid leases within limits, dispatch order and kept places (`same_job`), pause, holds, pruning, and batches of
settlements that are cut off at any point. Schedules: each time once, none missed. Rates, turns of orgs, paused keys. Left
out: ageing, which the model checks; dependencies, enqueueing in the caller's transaction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from windlass.core.alterations import Cancel, Replay, Revoke
from windlass.core.changes import OUTCOME_OF, Release, Settlement
from windlass.core.dependencies import FAILED_BEFORE
from windlass.core.eligibility import dispatch_order
from windlass.drivers.values import Claim, Renewal
from windlass.testing.simulator.bounds import Bounds
from windlass.testing.simulator.calls import Call, told
from windlass.testing.simulator.conduct import Broken, check_said, require
from windlass.testing.simulator.history import History, Lease
from windlass.testing.simulator.holding import Holding
from windlass.testing.simulator.rhythm import Rhythm
from windlass.testing.simulator.soundness import check_maxima, check_row
from windlass.testing.simulator.succession import Succession
from windlass.testing.simulator.telling import Leaving, Telling
from windlass.types import ACTIVE, TERMINAL, Group, Handle, Hold, Job, Limit, Micros, Queue, Run

LATE: Final = ("expired", "mismatch", "not_inflight")
FROZEN: Final = (
    "id", "queue", "type", "created_at", "retry_mode", "crash_policy", "max_attempts", "max_lost", "retry_of",
    "group_id", "limit_keys", "dedupe_key", "idempotency_key",
)  # fmt: skip
OWNED: Final = (
    "state", "lease_token", "lease_expires_at", "executions", "attempts", "skipped", "lost", "last_token", "last_outcome",
    "finished_at",
)  # fmt: skip


class Rows(Leaving, Protocol):
    cheap: bool

    def jobs(self) -> Mapping[int, Job]: ...
    def runs(self, job: Job) -> list[Run]: ...
    def limits(self) -> Iterable[Limit]: ...
    def groups(self) -> Iterable[Group]: ...
    def queue(self, name: str) -> Queue | None: ...
    def workers(self) -> Collection[str]: ...
    def holds(self) -> Iterable[Hold]: ...


class Place(Protocol):
    """What the checker needs to know of the world."""

    @property
    def history(self) -> History: ...
    @property
    def now(self) -> Micros: ...
    def believers(self) -> list[str]: ...


class Checker:
    def __init__(self, world: Place, rows: Rows) -> None:
        self._world = world
        self._history = world.history
        self.rows = rows
        self._known: dict[int, Job] = {}
        self.ids: dict[str, int] = {}
        self._handles: dict[Handle, str] = {}
        self._tokens: defaultdict[str, set[str]] = defaultdict(set)
        self._ended: dict[str, Run] = {}
        self._replayed: set[str] = set()
        self._generous: set[str] = set()  # links that follow a replay, which may have kept the attempts spent before it
        self._keys: dict[tuple[str, str], str] = {}
        self.open: dict[int, None] = {}  # jobs that have not ended
        self.pruned: set[str] = set()
        self._waited: set[str] = set()  # jobs that had to wait for others
        self._members: Counter[tuple[str | None, str]] = Counter()  # of groups, that were deleted: how they had ended
        self.answered: set[Lease] = set()  # executions whose outcome the store has judged, whatever it said
        self.cancel_asked: dict[Lease, Micros] = {}  # executions that somebody wanted to stop, and when
        self.on_lost: Callable[[Job], None] = lambda job: None
        self.succession: Final = Succession(world.history, world.believers)
        self.rhythm: Final = Rhythm(world.history)
        self.holding: Final = Holding(world.history)
        self.telling: Final = Telling(world.history)
        self.bounds: Final = Bounds(world.history, rows)
        self._latest: Micros = 0  # a job that one clock found due stays due for a clock that lags behind

    def observe(self, call: Call) -> bool:
        """Judge what a call did. Answers whether it changed a job."""
        rows = self.rows.jobs()
        known = self._known
        changed = [(old, job) for seq, job in rows.items() if (old := known.get(seq)) is not job and old != job]
        born = sum(old is None for old, _ in changed)
        gone = [job for seq, job in known.items() if seq not in rows] if len(rows) < len(known) + born else []
        self._latest = max(self._latest, call.now)
        self._note(call)
        try:
            self._judge(call, changed, gone)
        except Broken as broken:
            rule, detail = broken.args
            self._history.break_rule(rule, f"{detail} ({call.method} by {call.who})", who=call.who)
        for job in gone:
            del self._known[job.seq]
            self.pruned.add(job.id)
            self._members[job.group_id, ending_of(job)] += 1
        for _, job in changed:
            self._known[job.seq] = job
            self.ids[job.id] = job.seq
            if job.state in ACTIVE:
                self.open[job.seq] = None
            else:
                self.open.pop(job.seq, None)
        return bool(changed or gone)

    def _judge(self, call: Call, changed: list[tuple[Job | None, Job]], gone: list[Job]) -> None:
        require(call.error is None or not changed, "a call that was refused stores nothing", str(call.error))
        for job in gone:
            require(call.method in ("maintain", "alter"), "no job vanishes", job.id)
            require(job.state in TERMINAL, "only finished jobs are removed", job.id)
        if call.error is None:
            self.succession.judge(call, self.rows, changed, gone)
            self.rhythm.judge(call)
            self.holding.judge(call, self.rows)
            self.bounds.judge(call, self._known)
        match call.method:  # answers are judged against the rows as they were before the call
            case "claim" if call.error is None:
                self._claimed(call)
            case "extend" | "settle" if call.error is None:
                self._guarded(call)
            case "alter" if call.error is None:
                self._altered(call)
            case "expire" if call.error is None:
                self._handles.update((job.handle, job.id) for job in call.answer[1])
            case "enqueue" if call.error is None:
                self._enqueued(call)
        for old, job in changed:
            check_row(job)
            if old is None:
                self._born(job)
            else:
                self._moved(call, old, job)
            self.telling.ended(old, job)
            if self.rows.cheap:
                self._check_runs(job, last=2)
        self.telling.judge(call, self.rows)
        if any(job.state == "running" or (old is not None and old.state == "running") for old, job in changed):
            self.bounds.check()
        if any(job.dedupe_key is not None for _, job in changed):
            self.check_unique()

    # ------------------------------------------------------------------------------------------------- by kind of call

    def _enqueued(self, call: Call) -> None:
        for new, answer in zip(call.batch, call.answer, strict=True):
            if answer.existed:
                self._history.sometimes("duplicate")
            require(answer.existed or answer.id == new.id, "an enqueue answers the job it stored", new.id)
            if new.idempotency_key is not None and new.idempotency_expires_at is None:
                key = (new.idempotency_scope or "", new.idempotency_key)
                require(answer.existed or key not in self._keys, "an idempotency key is taken once", str(key))
                self._keys.setdefault(key, answer.id)

    def _claimed(self, call: Call) -> None:
        wish: Claim = call.batch
        rows, last, fair = self.rows.jobs(), None, self.bounds.fair(wish.queues)
        for claimed in call.answer:
            self._handles[claimed.handle] = claimed.id
            job = rows[self.ids[claimed.id]]
            require(claimed.token not in self._tokens[claimed.id], "every lease has a token of its own", claimed.id)
            self._tokens[claimed.id].add(claimed.token)
            before = self._known[job.seq]
            free = before.state == "queued" or (before.state == "running" and lapsed(before, call.now))
            require(free, "at most one valid lease per job", f"{job.id} was {before.state} until {before.lease_expires_at}")
            require(before.cancel_requested_at is None, "a job that was asked to cancel never runs again", job.id)
            require(before.waiting_on == 0, "nobody runs before those that it waits for have ended", job.id)
            if job.id in self._waited:
                self._history.sometimes("unblocked")
            came_back = before.state == "running" or before.run_at is None
            require(came_back or (before.run_at or 0) <= self._latest, "nothing runs before its time", job.id)
            queue = self.rows.queue(job.queue)
            require(queue is None or queue.paused_at is None, "a paused queue starts nothing", job.id)
            require(job.queue in wish.queues, "a claim answers what it was asked for", job.id)
            if job.queue not in fair:
                require(last is None or last < dispatch_order(job), "a claim answers in dispatch order", job.id)
                last = dispatch_order(job)
        require(len(call.answer) <= wish.limit, "a claim answers no more than it was asked for")
        if last is not None:
            self._nobody_was_passed_over(wish, last, fair)
        if not wish.start and call.answer:
            self._history.sometimes("prefetched")

    def _nobody_was_passed_over(self, wish: Claim, last: tuple[int, int, Micros, int], fair: Collection[str]) -> None:
        full = self.bounds.full(wish.queues)
        for job in self.rows.jobs().values():
            if job.state != "queued" or not job.ready or job.queue not in wish.queues or wish.unhandled:
                continue
            queue = self.rows.queue(job.queue)
            is_open = (queue is None or queue.paused_at is None) and job.queue not in self.holding.held
            suits = (wish.types is None or job.type in wish.types) and is_open and job.queue not in fair
            if suits and job.queue in full:
                self._history.sometimes("capped")
                continue
            require(not suits or dispatch_order(job) > last, "no ready job is passed over", job.id)

    def _guarded(self, call: Call) -> None:
        """A call under a token: applied exactly when the lease was the caller's, and otherwise without a trace."""
        rows, touched = self.rows.jobs(), set()
        named = [self._handles.get(unit.handle, str(unit.handle)) for unit in call.batch]
        for job_id, unit, reply in zip(named, call.batch, call.answer, strict=True):
            answer = reply if isinstance(reply, str) else reply.answer
            if not isinstance(unit, Renewal):
                self.answered.add((job_id, unit.token))
            seq = self.ids.get(job_id, 0)
            before, after = self._known.get(seq), rows.get(seq)
            if before is None or after is None or job_id in touched:
                continue
            if answer == "applied":
                touched.add(job_id)
                require(holds(before, unit, call.now), "only the holder of a valid lease changes a job", job_id)
            elif named.count(job_id) == 1:
                same = all(getattr(before, field) == getattr(after, field) for field in OWNED)
                stopped = before.group_id if (before.state, after.state) == ("queued", "cancelled") else None
                mates = [one for one, said in zip(named, call.answer, strict=True) if said == "applied"]  # may stop it
                by_another = stopped is not None and any(rows[self.ids[one]].group_id == stopped for one in mates)
                require(same or by_another, "a stale call changes nothing", f"{job_id} was answered {answer}")
            if isinstance(unit, Renewal):
                if answer in LATE and (job_id, unit.token) in self._history.running:
                    self._history.sometimes("lease_lost")
                    self._history.refused.add((job_id, unit.token))
            else:
                self._settled(unit, answer, before, after)

    def _settled(self, change: Settlement, answer: str, before: Job, after: Job) -> None:
        history, lease = self._history, (before.id, change.token)
        if answer in ("applied", "repeated"):
            check_said(history, change, before)
        if answer == "repeated":
            history.sometimes("repeated")
        elif answer in LATE and not change.lapsed:
            history.sometimes("settled_late")
        if answer != "applied":
            return
        if isinstance(change, Release):
            history.sometimes("released" if lease in history.begun else "released_unbegun")
        if after.last_outcome == "cancelled" and OUTCOME_OF[type(change)] != "cancelled":
            history.sometimes("cancel_instead")
        if after.dead_kind == "lost":
            history.sometimes("lost_too_often")
        if change.lapsed and before.crash_policy == "fail":
            history.sometimes("crash_is_failure")
        if after.last_outcome == "snooze":
            history.sometimes("snoozed")
        if after.superseded_by is not None:
            history.sometimes("chained")

    def _altered(self, call: Call) -> None:
        for change, answer in zip(call.batch, call.answer, strict=True):
            if isinstance(change, Replay) and answer == "applied":
                self._replayed.add(change.job_id)
                self._history.sometimes("replayed")
            if isinstance(change, Cancel) and answer == "requested":
                self._history.sometimes("cancel_running")
                job = self._known[self.ids[change.job_id]]
                self.cancel_asked[job.id, job.lease_token or ""] = self._world.now
            if isinstance(change, Revoke) and answer == "applied":
                self._history.sometimes("revoked")

    # ------------------------------------------------------------------------------------------------------- by row

    def _born(self, job: Job) -> None:
        skipped = job.state == "cancelled" and job.last_error == FAILED_BEFORE
        require(skipped or (job.state == "queued" and job.executions == 0), "a job begins as queued", job.id)
        if skipped or job.waiting_on:
            self._history.sometimes("skipped_with" if skipped else "blocked")
            self._waited.add(job.id)
        self.rhythm.born(job, self.rows.jobs())
        if job.manual or job.retry_of in self._generous:
            self._generous.add(job.id)
        if job.retry_of is not None and not job.manual:
            parent = self.rows.jobs()[self.ids[job.retry_of]]
            require(parent.superseded_by == job.id, "a failure has one automatic retry", f"{job.id} of {parent.id}")

    def _moved(self, call: Call, old: Job, job: Job) -> None:
        require(job.updated_at > old.updated_at, "every change shows in updated_at", job.id)
        for field in FROZEN:
            require(getattr(old, field) == getattr(job, field), "what identifies a job never changes", f"{job.id} {field}")
        require(job.position == old.position or call.method == "alter", "a job keeps its place", job.id)
        if job.parked_on is not None:
            self._history.sometimes("parked")
        if job.state == "cancelled" and old.state == "queued" and job.last_error == FAILED_BEFORE:
            self._history.sometimes("skipped_with")
            require(job.executions == old.executions + 1, "who is skipped has a run that says so", job.id)
        if job.id in self._replayed:  # a person may begin anew
            return
        if old.state in TERMINAL:
            require((job.state, job.finished_at) == (old.state, old.finished_at), "terminal is final", job.id)
        require(job.executions - old.executions in (0, 1), "a claim is one execution", job.id)
        require(job.attempts - old.attempts in (0, 1), "a failure is one attempt", job.id)
        if old.lease_token is not None and job.last_token == old.lease_token:
            self._ended_execution(call, old, job)
        if job.id not in self._generous:
            check_maxima(job)

    def _ended_execution(self, call: Call, old: Job, job: Job) -> None:
        if job.last_outcome in ("snooze", "release", "cancelled", "expire"):
            require(job.attempts == old.attempts, "only a failure spends an attempt", f"{job.id} {job.last_outcome}")
        if job.last_outcome in ("snooze", "release"):
            # The same settlement may end a member of its group: handed back first, then skipped with the failed one.
            runs = 2 if job.last_error == FAILED_BEFORE else 1
            require(job.skipped == old.skipped + runs, "a run handed back is counted as skipped", job.id)
        lost = 1 if lapsed(old, call.now) else 0
        require(job.lost == old.lost + lost, "a lapsed lease is counted, and only that", f"{job.id} {old.lost} {job.lost}")
        if lost:
            self.on_lost(old)
        back = job.state in ACTIVE
        require(not back or job.retry_mode == "same_job", "a never-twice row does not come back", job.id)

    def _check_runs(self, job: Job, last: int) -> None:
        runs = self.rows.runs(job)
        unkept = job.history == "failures" and job.state == "succeeded" and len(runs) == job.executions - 1
        require(len(runs) == job.executions or unkept, "executions are run rows", job.id)
        require(not unkept or all(run.status != "completed" for run in runs), "a job succeeds once", job.id)
        if unkept:
            self._history.sometimes("unkept" if job.executions == 1 else "unkept_at_last")
        for run in runs[-last:] if last else runs:
            ended = self._ended.get(run.run_id)
            require(ended is None or ended == run, "an ended run never changes", run.run_id)
            if run.status is not None:
                self._ended[run.run_id] = run
        is_open = bool(runs) and runs[-1].status is None
        require(is_open == (job.state == "running"), "running has an open run, others have none", job.id)

    def _note(self, call: Call) -> None:
        self._history.add(call.who, call.method, *told(call, self._handles))

    # ----------------------------------------------------------------------------------------------------- as a whole

    def check_unique(self) -> None:
        seen: dict[str, str] = {}
        for job in self.rows.jobs().values():
            if job.dedupe_key is not None and job.state in ACTIVE:
                other = seen.setdefault(job.dedupe_key, job.id)
                require(other == job.id, "one active job per dedupe key", f"{job.id} and {other}")

    def check_groups(self) -> None:
        """A member is counted once, by its last link."""
        members = self._members.copy()
        for job in self.rows.jobs().values():
            members[job.group_id, ending_of(job)] += 1
        for group in self.rows.groups():
            counted = (group.succeeded, group.failed, group.cancelled)
            there = tuple(members[group.group_id, state] for state in ("succeeded", "dead", "cancelled"))
            require(counted == there, "the counters of a group add up", f"{counted}, and there are {there}")
            require(group.total - group.remaining == sum(there), "the counters of a group add up", str(group.remaining))

    def check_all(self) -> None:
        """The whole store, once the world has come to rest."""
        try:
            for job in self.rows.jobs().values():
                check_row(job)
                self._check_runs(job, last=0)
                require(job.state in TERMINAL, "what was acknowledged ends", f"{job.id} is {job.state}")
                done = any(lease[0] == job.id and how == "ok" for lease, how in self._history.finished.items())
                require(done or job.state != "succeeded", "a success has an effect", job.id)
            ids = {job.id for job in self.rows.jobs().values()} | self.pruned
            for job_id in self._history.acknowledged:
                require(job_id in ids, "nothing acknowledged is lost", job_id)
            self.bounds.check()
            self.check_unique()
            self.check_groups()
            missed = self.rhythm.outstanding()
            self.telling.check(self.rows)
            require(not missed, "no time is missed under catch_up=all", ", ".join(str(at) for at in sorted(missed)))
        except Broken as broken:
            self._history.break_rule(*broken.args)

    def job(self, job_id: str) -> Job | None:
        return self._known.get(self.ids.get(job_id, 0))

    def unfinished(self) -> list[Job]:
        return [self._known[seq] for seq in self.open]


def ending_of(job: Job) -> str:
    return "superseded" if job.dead_kind == "superseded" else job.state


def lapsed(job: Job, now: Micros) -> bool:
    return job.lease_expires_at is not None and job.lease_expires_at <= now


def holds(job: Job, unit: Settlement | Renewal, now: Micros) -> bool:
    mine = job.state == "running" and job.lease_token == unit.token
    return mine and lapsed(job, now) == (not isinstance(unit, Renewal) and unit.lapsed)
