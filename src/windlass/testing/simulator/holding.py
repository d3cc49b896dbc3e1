"""Rules of holds: one to a queue, nothing of a held queue starts, nothing of a granted one has a lease that counts.

None of them asks a clock, so that they hold wherever the clocks of holders and workers stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from windlass.core.alterations import Acquire, Grant
from windlass.testing.simulator.calls import Call
from windlass.testing.simulator.conduct import require
from windlass.testing.simulator.history import History
from windlass.types import Hold, Job


class HeldRows(Protocol):
    def jobs(self) -> Mapping[int, Job]: ...
    def holds(self) -> Iterable[Hold]: ...


class Holding:
    def __init__(self, history: History) -> None:
        self._history = history
        self._used = False
        self.held: dict[str, Hold] = {}
        self._expired = 0

    def judge(self, call: Call, rows: HeldRows) -> None:
        changes = call.batch if call.method == "alter" else ()
        self._used = self._used or any(isinstance(change, Acquire) for change in changes)
        if not self._used:
            return
        holds = list(rows.holds())
        active = [hold for hold in holds if hold.status == "ACTIVE"]
        self.held = {hold.queue: hold for hold in active}
        require(len(active) == len(self.held), "a queue is held once")
        if call.method == "claim":
            for job in call.answer:
                require(job.queue not in self.held, "a held queue starts nothing", job.id)
        for job in rows.jobs().values():
            if job.state == "running" and job.queue in self.held and self.held[job.queue].granted_at is not None:
                counts = (job.lease_expires_at or 0) > (job.claimed_at or 0)
                require(not counts, "nothing runs beside a granted hold", f"{job.id} in {job.queue}")
        self._notice(call, holds)

    def _notice(self, call: Call, holds: list[Hold]) -> None:
        if call.method == "alter":
            for change, answer in zip(call.batch, call.answer, strict=True):
                if isinstance(change, Grant) and answer in ("applied", "requested"):
                    self._history.sometimes("hold_granted" if answer == "applied" else "hold_waited")
        expired = sum(hold.status == "EXPIRED" for hold in holds)
        if expired > self._expired:
            self._history.sometimes("hold_expired")
        self._expired = expired
