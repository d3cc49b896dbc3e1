"""Rows as values in dictionaries, with the indexes that a claim needs, and transactions that can be undone."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

from msgspec.structs import replace

from windlass.core.eligibility import dispatch_order
from windlass.core.fairness import Share
from windlass.core.health import Told
from windlass.core.history import UsageBatch
from windlass.core.rows import run_under_way
from windlass.core.usage import UsageKey
from windlass.drivers.values import Leadership
from windlass.records import ApiToken, AuditLine, Delivery, Event, QueueSample, Usage, Webhook, WorkerInfo
from windlass.types import ACTIVE, Dependency, Group, Handle, Hold, Job, Limit, Micros, Queue, Run, Schedule, Template

K = TypeVar("K")
V = TypeVar("V")
Order = tuple[int, int, Micros, int]


class Tables:
    def __init__(self) -> None:
        self.last_seq = 0
        self.jobs: dict[int, Job] = {}
        self.runs: dict[int, list[Run]] = {}
        self.keys: dict[tuple[str, str], tuple[str, Micros | None]] = {}
        self.queues: dict[str, Queue] = {}
        self.groups: dict[str, Group] = {}
        self.edges: dict[tuple[str, int], Dependency] = {}  # (parent's id, dependant's seq)
        self.limits: dict[str, Limit] = {}
        self.templates: dict[tuple[str, int], Template] = {}  # every version
        self.schedules: dict[str, Schedule] = {}
        self.shares: dict[tuple[str, str], Share] = {}  # by queue and org, of fair queues
        self.webhooks: dict[str, Webhook] = {}
        self.outbox: dict[int, Event] = {}
        self.deliveries: dict[tuple[int, str], Delivery] = {}
        self.last_event = 0
        self.workers: dict[str, WorkerInfo] = {}
        self.leader = Leadership()  # as it was last granted, also after it has lapsed
        self.samples: dict[tuple[Micros, str], QueueSample] = {}
        self.usage: dict[UsageKey, Usage] = {}
        self.batches: dict[int, UsageBatch] = {}  # runs without a row
        self.last_batch = 0
        self.holds: dict[str, Hold] = {}
        self.tokens: dict[str, ApiToken] = {}
        self.audit: list[AuditLine] = []
        self.watermark: Micros | None = None  # up to here all runs are in `usage`
        self.told = Told()  # queues that were announced as not well
        # Derived from the jobs, kept in step by `put`.
        self.seqs: dict[str, int] = {}
        self.dedupe: dict[str, int] = {}
        self.fires: dict[tuple[str, Micros], int] = {}
        self.ready: defaultdict[str, list[Order]] = defaultdict(list)
        self.waiting: defaultdict[str, set[int]] = defaultdict(set)
        self.leased: set[int] = set()
        # Never taken back: what is not in `edges` is not there.
        self.dependants: defaultdict[str, set[int]] = defaultdict(set)
        self.parents: defaultdict[int, set[str]] = defaultdict(set)
        self._undo: list[Callable[[], object]] = []

    @property
    def changed(self) -> bool:
        """Whether the last transaction wrote anything."""
        return bool(self._undo)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that happens inside is kept, or none of it."""
        self._undo.clear()
        try:
            yield
        except BaseException:
            self._roll_back()
            raise

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo everything that happens in this block: to learn what the answers would be."""
        self._undo.clear()
        try:
            yield
        finally:
            self._roll_back()

    def _roll_back(self) -> None:
        for step in reversed(self._undo):
            step()
        self._undo.clear()

    # ---------------------------------------------------------------------------------------------------------- jobs

    def find(self, handle: Handle) -> Job | None:
        return self.jobs.get(self.seq_of(handle))

    def seq_of(self, handle: Handle) -> int:
        """A handle of a claim carries the seq; a job's id is looked up. 0 is nobody."""
        return self.seqs.get(handle, 0) if isinstance(handle, str) else int(handle[0])

    def put(self, job: Job) -> Job:
        before = self.jobs.get(job.seq)
        self._undo.append(lambda: self._move(job, before))
        self._move(before, job)
        return job

    def put_edge(self, seq: int, edge: Dependency) -> None:
        self.dependants[edge.parent_id].add(seq)
        self.parents[seq].add(edge.parent_id)
        self.put_in(self.edges, (edge.parent_id, seq), edge)

    def edges_of(self, seq: int) -> list[Dependency]:
        """The dependencies of a job, sorted by the ids of its parents."""
        keys = [(parent_id, seq) for parent_id in sorted(self.parents.get(seq, ()))]
        return [self.edges[key] for key in keys if key in self.edges]

    def edges_to(self, parent_id: str) -> list[tuple[int, Dependency]]:
        """The jobs that wait for a job, oldest first."""
        keys = [(parent_id, seq) for seq in sorted(self.dependants.get(parent_id, ()))]
        return [(key[1], self.edges[key]) for key in keys if key in self.edges]

    def remove(self, job: Job) -> None:
        for edge in self.edges_of(job.seq):
            self.drop_from(self.edges, (edge.parent_id, job.seq))
        runs = self.runs.pop(job.seq, [])
        self._undo.append(lambda: self._bring_back(job, runs))
        self._move(job, None)

    def _bring_back(self, job: Job, runs: list[Run]) -> None:
        self._move(None, job)
        self.runs[job.seq] = runs

    def _move(self, before: Job | None, after: Job | None) -> None:
        """Replace a row and move it between the indexes."""
        if before is not None:
            self.leased.discard(before.seq)
            self.waiting[before.queue].discard(before.seq)
            if before.state == "queued" and before.ready:
                ready = self.ready[before.queue]
                del ready[bisect_left(ready, dispatch_order(before))]
            if before.dedupe_key is not None and self.dedupe.get(before.dedupe_key) == before.seq:
                del self.dedupe[before.dedupe_key]
            if before.schedule_id is not None and before.fire_at is not None and before.retry_of is None:
                self.fires.pop((before.schedule_id, before.fire_at), None)
            del self.jobs[before.seq], self.seqs[before.id]
        if after is not None:
            self.jobs[after.seq], self.seqs[after.id] = after, after.seq
            if after.state == "running":
                self.leased.add(after.seq)
            elif after.state == "queued" and after.ready:
                insort(self.ready[after.queue], dispatch_order(after))
            elif after.state == "queued":
                self.waiting[after.queue].add(after.seq)
            if after.dedupe_key is not None and after.state in ACTIVE:
                self.dedupe[after.dedupe_key] = after.seq
            if after.schedule_id is not None and after.fire_at is not None and after.retry_of is None:
                self.fires[after.schedule_id, after.fire_at] = after.seq

    def next_seq(self) -> int:
        self.set("last_seq", self.last_seq + 1)
        return self.last_seq

    # -------------------------------------------------------------------------------------------------- everything else

    def put_run(self, seq: int, run: Run) -> None:
        history = self.runs.setdefault(seq, [])
        if run.attempt_no > len(history):
            history.append(run)
            self._undo.append(lambda: self._drop_last_run(seq))
        else:
            before = history[run.attempt_no - 1]
            history[run.attempt_no - 1] = run
            self._undo.append(lambda: history.__setitem__(run.attempt_no - 1, before))

    def _drop_last_run(self, seq: int) -> None:
        self.runs[seq].pop()
        if not self.runs[seq]:
            del self.runs[seq]

    def put_in(self, table: dict[K, V], key: K, value: V) -> None:
        if key in table:
            before = table[key]
            self._undo.append(lambda: table.__setitem__(key, before))
        else:
            self._undo.append(lambda: table.pop(key))
        table[key] = value

    def drop_from(self, table: dict[K, V], key: K) -> None:
        before = table.pop(key)
        self._undo.append(lambda: table.__setitem__(key, before))

    def set(
        self, name: Literal["last_seq", "last_event", "last_batch", "leader", "watermark", "told"], value: object
    ) -> None:
        before = getattr(self, name)
        self._undo.append(lambda: setattr(self, name, before))
        setattr(self, name, value)

    def add_event(self, event: Event) -> Event:
        """Write an event under the next number."""
        self.set("last_event", self.last_event + 1)
        numbered = replace(event, event_id=self.last_event)
        self.put_in(self.outbox, self.last_event, numbered)
        return numbered

    def add_batch(self, batch: UsageBatch) -> None:
        self.set("last_batch", self.last_batch + 1)
        self.put_in(self.batches, self.last_batch, batch)

    def run_of(self, job: Job) -> Run:
        """The run of a job that is running; where no row of it is kept, as it would be."""
        found = self.runs.get(job.seq, ())
        return found[-1] if found and found[-1].attempt_no == job.executions else run_under_way(job)

    def add_audit(self, line: AuditLine) -> None:
        self.audit.append(line)
        self._undo.append(self.audit.pop)
