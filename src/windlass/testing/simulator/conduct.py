"""How a worker must behave, beyond what rows can show: judged from effects, and from what befell its process.

A store keeps its rows right even for a worker that does nothing, so these rules ask for the rest: whoever is not disturbed
keeps its leases, offers every outcome until it is answered, and heeds those who want it to stop. A process is *excused*
while faults hit it and for some leases after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from windlass.clock import SECOND
from windlass.core.changes import Ack, Cancelled, Fail, Retry, Settlement, Snooze
from windlass.testing.simulator.history import History, Lease
from windlass.testing.simulator.world import Process, World
from windlass.types import Job, Micros

if TYPE_CHECKING:
    from windlass.testing.simulator.invariants import Checker

HELD_AGAINST: Final = ("fail", "reject", "snooze")


class Broken(Exception):
    """A rule does not hold; caught where it is recorded."""


def require(holds: bool, rule: str, detail: str = "") -> None:
    if not holds:
        raise Broken(rule, detail)


def check_said(history: History, change: Settlement, before: Job) -> None:
    """What is stored about an execution is what its handler did."""
    lease = (before.id, change.token)
    how = history.finished.get(lease)
    if isinstance(change, Ack):
        require(how is not None, "an effect comes before its acknowledgement", before.id)
        require(how == "ok", "only a success is acknowledged", before.id)
    elif isinstance(change, Snooze):
        unbegun = lease not in history.begun  # a worker may put off what it has not begun: no attempt is spent
        require(how == "snooze" or unbegun, "a job that has begun is put off by its handler alone", before.id)
    elif isinstance(change, Cancelled):
        require(before.cancel_requested_at is not None, "only what was asked to cancel is cancelled", before.id)
    elif isinstance(change, Retry | Fail) and not change.lapsed:
        # A job that must never run twice cannot be handed back: it ends as interrupted, once its handler has begun, or when
        # it was on its way to a worker that was told to stop and gives no grace.
        is_over = lease in history.begun or before.worker_id in history.told_to_stop
        cut_off = how is None and before.retry_mode == "new_job" and is_over
        require(how in HELD_AGAINST or cut_off, "only what a handler did is held against its job", f"{before.id} {how}")


class Conduct:
    def __init__(self, world: World, checker: Checker, *, lease_for: Micros) -> None:
        self._world = world
        self._history = world.history
        self._checker = checker
        self._lease_for = lease_for
        checker.on_lost = self.lost

    def _is_excused(self, process: Process, since: Micros) -> bool:
        return self._world.clocks_moved or process.excused_until > since

    # -------------------------------------------------------------------------------------------------------- handlers

    def begins(self, job_id: str, token: str, process: Process) -> None:
        """A handler is about to begin. Whatever befell its worker before, it can look at the clock now."""
        job = self._checker.job(job_id)
        is_held = job is not None and job.lease_token == token and (job.lease_expires_at or 0) > self._world.now - SECOND
        if not is_held and not self._world.clocks_moved:
            self._history.break_rule("a handler begins under a valid lease", f"{job_id} under {token}", who=process.name)
        never_twice = job is not None and job.retry_mode == "new_job" and job_id not in self._checker.pruned
        if never_twice and self._history.begins[job_id]:
            self._history.break_rule("a never-twice job begins once", job_id, who=process.name)
        self._check_alone(job_id, process)

    def _check_alone(self, job_id: str, process: Process) -> None:
        """A worker that cannot renew stops its handlers before anybody else may begin. One that was frozen, or whose
        clock was moved, could not know."""
        if self._world.clocks_moved:
            return
        for (other, token), who in self._history.running.items():
            if other == job_id:
                rival = self._world.process(who)
                if rival.life == "live" and rival.longest_stop == 0:
                    detail = f"{job_id} still runs in {who} under {token}"
                    self._history.break_rule("a handler ends before its lease does", detail, who=process.name)

    def finishes(self, job_id: str, token: str, process: Process) -> None:
        """A handler has come to its end, and nobody stopped it."""
        asked_at = self._checker.cancel_asked.get((job_id, token))
        heard_by = self._world.now - self._lease_for // 3 - 2 * SECOND
        if asked_at is not None and asked_at < heard_by and not self._is_excused(process, asked_at):
            self._history.break_rule("a handler that is asked to cancel is stopped", job_id, who=process.name)

    def note_why(self, process: Process, job_id: str, token: str) -> None:
        """A handler was interrupted. When neither a person, nor a signal, nor the store asked for it, it was the worker's
        own fence."""
        job = self._checker.job(job_id)
        asked = job is not None and job.cancel_requested_at is not None
        if not asked and process.signalled_at is None and (job_id, token) not in self._history.refused:
            self._history.sometimes("self_fence")

    # ---------------------------------------------------------------------------------------------- leases and outcomes

    def lost(self, job: Job) -> None:
        """A lease has lapsed. Who lives, or has stopped in good order, must have had a reason to let it."""
        holder = self._world.process(job.worker_id or "")
        lapsed_at = min(self._world.now, job.lease_expires_at or 0)  # it may be noticed much later
        excused = holder.life in ("dead", "stopped") or self._is_excused(holder, lapsed_at - 3 * self._lease_for)
        require(excused, "a lease that nobody disturbs does not lapse", f"{job.id} of {job.worker_id}")

    def unsaid(self) -> list[Lease]:
        """Executions that ended, whose worker is there, and whose outcome the store was not told of yet."""
        done = [lease for lease in self._history.finished if lease not in self._checker.answered]
        return [lease for lease in done if self._world.process(self._history.begun[lease]).life == "live"]

    def check_ended(self) -> None:
        """A worker that stops stores what it knows."""
        for lease in self._history.finished:
            process = self._world.process(self._history.begun[lease])
            kept_back = process.life == "ended" and lease not in self._checker.answered
            if kept_back and not self._is_excused(process, process.ended_at - 3 * self._lease_for):
                self._history.break_rule("a worker that stops stores every outcome", lease[0], who=process.name)
