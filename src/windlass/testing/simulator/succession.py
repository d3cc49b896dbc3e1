"""Rules of a fleet: who is registered, who leads, and what is done in a leader's name.

Kept from the calls that took effect, in other words than the driver's: an epoch has one leader, a new one begins only
when the last has lapsed, and what is asked for under another epoch changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from windlass.core.alterations import Leave
from windlass.core.duties import Prune, RecountLimits, RemoveDeadWorkers, TellDependants
from windlass.testing.simulator.calls import Call
from windlass.testing.simulator.conduct import require
from windlass.testing.simulator.history import History
from windlass.types import TERMINAL, Job, Micros


class FleetRows(Protocol):
    def jobs(self) -> Mapping[int, Job]: ...
    def workers(self) -> Collection[str]: ...


class Succession:
    def __init__(self, history: History, believers: Callable[[], list[str]]) -> None:
        self._history = history
        self._believers = believers
        self.registry: Final[dict[str, Micros]] = {}  # worker → last heartbeat
        self._epoch = 0
        self._leader: str | None = None
        self._until: Micros = 0

    def judge(self, call: Call, rows: FleetRows, changed: Sequence[tuple[Job | None, Job]], gone: Sequence[Job]) -> None:
        match call.method:
            case "beat":
                self.registry[call.batch.id] = max(call.now, self.registry.get(call.batch.id, 0))
            case "lead":
                self._bid(call)
            case "alter":
                for change in call.batch:
                    if isinstance(change, Leave):
                        self._left(change.worker_id, call.now)
            case "maintain":
                self._maintained(call, rows, changed, gone)
            case _:
                return
        require(set(rows.workers()) == set(self.registry), "the registry holds who came and has not gone")

    def _left(self, worker_id: str, now: Micros) -> None:
        if self.registry.pop(worker_id, None) is not None and self._leader == worker_id:
            self._until = min(self._until, now)

    # ------------------------------------------------------------------------------------------------------ leadership

    def _bid(self, call: Call) -> None:
        answer, who = call.answer, call.who
        require(answer.epoch >= self._epoch, "epochs never go back", f"{answer.epoch} after {self._epoch}")
        if answer.epoch > self._epoch:
            require(answer.epoch == self._epoch + 1 and answer.worker_id == who, "an epoch begins with who asked for it")
            require(self._until <= call.now, "no two lead at one instant", f"{who} and {self._leader}")
            require(who in self.registry, "only who is registered leads", who)
            others = [name for name in self._believers() if name != who]
            require(not others, "a leader stops acting before another may lead", f"{', '.join(others)} and {who}")
            if self._leader not in (None, who):
                self._history.sometimes("leader_changed")
            self._leader = who
        require(answer.worker_id in (None, self._leader), "an epoch has one leader", str(answer.worker_id))
        if answer.worker_id == who:
            require(answer.until > call.now, "leadership is granted for a time")
            self._until = answer.until
        self._epoch = answer.epoch

    # ----------------------------------------------------------------------------------------------------------- duties

    def _maintained(
        self, call: Call, rows: FleetRows, changed: Sequence[tuple[Job | None, Job]], gone: Sequence[Job]
    ) -> None:
        in_office = call.epoch == self._epoch and self._until > call.now and self._leader == call.who
        if call.answer is None:
            require(call.epoch is not None and not in_office, "a leader's duty is done", type(call.batch).__name__)
            require(not changed and not gone, "a stale duty changes nothing", type(call.batch).__name__)
            self._history.sometimes("stale_duty")
            return
        require(call.epoch is None or in_office, "only who leads does a leader's duty", f"{call.who} under {call.epoch}")
        duty = call.batch
        require(not gone or isinstance(duty, Prune), "no job vanishes", type(duty).__name__)
        if isinstance(duty, Prune):
            check_pruned(duty, rows.jobs().values(), gone, call.now)
        elif isinstance(duty, RemoveDeadWorkers):
            self._removed(duty, call.now, bool(changed))
        elif isinstance(duty, RecountLimits):
            for old, job in changed:
                lets_through = old is not None and old.parked_on is not None and job.parked_on is None
                require(lets_through and job.state == "queued", "counting lets through who waits, and no more", job.id)
        elif isinstance(duty, TellDependants):
            for old, job in changed:
                waited = old is not None and old.state == "queued" and old.waiting_on > 0
                require(waited or job.state in TERMINAL, "only those who wait are told", job.id)
        else:
            require(not changed, "counting changes no job", type(duty).__name__)

    def _removed(self, duty: RemoveDeadWorkers, now: Micros, ended_leases: bool) -> None:
        silent = [worker_id for worker_id, beat in self.registry.items() if now - beat >= duty.silent_for]
        require(bool(silent) or not ended_leases, "only the leases of who is silent end")
        for worker_id in silent:
            del self.registry[worker_id]
            self._history.sometimes("worker_removed")
        if ended_leases:
            self._history.sometimes("removed_holder")


def check_pruned(duty: Prune, left: Collection[Job], gone: Sequence[Job], now: Micros) -> None:
    """What went was due, with all that belongs to it."""

    def is_due(job: Job) -> bool:
        kept = {"succeeded": duty.succeeded, "cancelled": duty.cancelled, "dead": duty.dead}.get(job.state)
        return kept is not None and job.finished_at is not None and job.finished_at <= now - kept

    groups = {job.group_id for job in gone if job.group_id is not None}
    ids = {job.id for job in left}
    for job in gone:
        if job.superseded_by is None:
            require(is_due(job), "nothing is pruned before its time", job.id)
        else:
            require(job.superseded_by not in ids, "a chain is pruned as one", job.id)
    for job in left:
        if job.group_id in groups and job.superseded_by is None:
            require(is_due(job), "a group is pruned when all of it may be", f"{job.id} of {job.group_id}")
