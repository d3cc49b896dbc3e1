"""The fleet's part of the state machine in `model.py`: heartbeats, leadership, maintenance under right and wrong epochs.

It keeps a ledger of its own: which epoch belongs to whom, and which ended runs the roll-up must have counted.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from windlass.clock import SECOND
from windlass.core.alterations import Leave
from windlass.core.changes import Settlement
from windlass.core.duties import (
    AgeJobs,
    Done,
    Duty,
    ForgetKeys,
    ForgetUsage,
    Prune,
    RecountLimits,
    RemoveDeadWorkers,
    ReturnSpace,
    RollUpUsage,
    SampleQueues,
    TellDependants,
)
from windlass.core.history import MINUTE, keeps_run
from windlass.core.queries import AllWorkers, SamplesSince, UsageSince
from windlass.core.usage import DAY, LATE
from windlass.drivers.values import Leadership
from windlass.records import Usage, WorkerInfo
from windlass.testing.model_machine import Machine
from windlass.types import Micros, Run

WORKERS = ("w", "v")
TERM = 20 * SECOND

times = st.sampled_from((0, 1, SECOND, 31 * SECOND, 100 * SECOND))
limits = st.sampled_from((1, 2, 5, 100))
duties: st.SearchStrategy[Duty] = st.one_of(
    st.builds(lambda kept, limit: Prune(succeeded=kept, cancelled=0, dead=kept, limit=limit), st.none() | times, limits),
    st.builds(lambda limit: ForgetKeys(limit=limit), limits),
    st.builds(lambda silent: RemoveDeadWorkers(silent_for=silent), times),
    st.builds(lambda keep: SampleQueues(keep=keep * 10), times),
    st.builds(lambda limit: RecountLimits(limit=limit), limits),
    st.builds(lambda limit: AgeJobs(limit=limit), limits),
    st.builds(lambda limit: TellDependants(limit=limit), limits),
    st.builds(lambda limit: ReturnSpace(limit=limit), limits),
    st.just(ForgetUsage(keep=400 * DAY)),  # nothing is so old; but a store may make room for what is to come
    st.builds(lambda ago, limit: RollUpUsage(until=ago, limit=limit), times, limits),  # `until` is made of it
)


class FleetRules(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.leaders: dict[int, str] = {}
        self.led: Leadership = Leadership()
        self.watermark: Micros | None = None
        self.batches: list[tuple[Micros, int]] = []  # of runs that left no row: when the last ended, and how many they are

    def _forget(self) -> None:
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------------------- rules

    @rule(name=st.sampled_from(WORKERS), running=st.integers(0, 2), queues=st.sampled_from(((), ("a", "b"))))
    def beat(self, name: str, running: int, queues: tuple[str, ...]) -> None:
        worker = WorkerInfo(
            id=name, hostname="host", pid=1, pool_size=1, version="1", queues=queues, types=("x",), wakeups="push",
            running=running, started_at=self.now,
        )  # fmt: skip
        self.both("beat", worker, now=self.now)

    @rule(name=st.sampled_from((*WORKERS, "nobody")))
    def lead(self, name: str) -> None:
        answer: Leadership
        answer, _ = self.both("lead", name, lease_for=TERM, now=self.now)
        assert answer.epoch >= self.led.epoch, "an epoch went back"
        if answer.worker_id is not None:
            assert self.leaders.setdefault(answer.epoch, answer.worker_id) == answer.worker_id, "one epoch, two leaders"
        self.led = answer

    @rule(name=st.sampled_from((*WORKERS, "nobody")))
    def leave(self, name: str) -> None:
        self.both("alter", [Leave(name)], now=self.now)

    @rule(duty=duties, epoch=st.sampled_from((None, None, 0, 0, -1, 1)))
    def maintain(self, duty: Duty, epoch: int | None) -> None:
        """`epoch`: none, or counted from that of the leader which was seen last."""
        if isinstance(duty, RollUpUsage):
            duty = RollUpUsage(until=self.now - duty.until, limit=duty.limit)
        asked = None if epoch is None else self.led.epoch + epoch
        done: Done | None
        done, _ = self.both("maintain", duty, epoch=asked, now=self.now)
        assert done is not None or epoch is not None, "a person was refused"
        assert epoch in (None, 0) or done is None, "a wrong epoch was let through"
        if isinstance(duty, RollUpUsage) and done is not None:
            self._count(duty)
        self._forget()

    def _count(self, duty: RollUpUsage) -> None:
        until = min(duty.until, self.now - LATE)
        if self.watermark is not None and until <= self.watermark:
            return
        edges = [until]
        for ends in (run.finished_at or 0 for run in self.ended.values()), (at for at, _ in self.batches):
            open_ends = sorted(end for end in ends if (self.watermark is None or end > self.watermark) and end <= until)
            edges += open_ends[duty.limit - 1 : duty.limit]
        self.watermark = min(edges)

    def ended_unkept(self, applied: list[Settlement]) -> None:
        """Of what was settled together, those that succeeded and leave no row: a batch for each kind and minute."""
        kinds: dict[object, list[Micros]] = {}
        for change in applied:
            job = self.spec._tables.find(change.handle)
            if job is not None and job.history == "failures" and not keeps_run(change, self.now):
                kinds.setdefault((change.at // MINUTE, job.org_id, job.queue, job.type), []).append(change.at)
        self.batches += [(max(ends), len(ends)) for ends in kinds.values()]

    def uncounted(self, run: Run) -> bool:
        return self.watermark is None or (run.finished_at or 0) > self.watermark

    # ----------------------------------------------------------------------------------------------------- invariants

    @invariant()
    def both_see_the_same_fleet(self) -> None:
        workers: list[WorkerInfo]
        workers, _ = self.both("read", AllWorkers())
        assert sum(worker.is_leader for worker in workers) <= 1, "two lead"
        self.both("read", SamplesSince())

    def check_usage(self) -> None:
        """Asked when the ended runs have been looked at."""
        usage: list[Usage]
        usage, _ = self.both("read", UsageSince())
        due = sum(not self.uncounted(run) for run in self.ended.values())
        due += sum(runs for at, runs in self.batches if self.watermark is not None and at <= self.watermark)
        assert sum(row.runs for row in usage) == due, f"{due} runs ended up to the watermark"
