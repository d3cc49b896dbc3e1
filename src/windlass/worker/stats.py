"""Counters of what a worker has done so far."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.core.changes import Ack, Cancelled, Fail, Release, Retry, Settlement, Snooze


@dataclass
class Stats:
    claimed: int = 0
    succeeded: int = 0
    retried: int = 0
    dead: int = 0
    snoozed: int = 0
    cancelled: int = 0
    released: int = 0
    recovered: int = 0  # lapsed leases of anybody that this worker took back
    leases_lost: int = 0  # of its own, while it held them
    settled_late: int = 0  # outcomes that the store refused
    stuck: int = 0  # handlers that did not stop after their time
    store_errors: int = 0

    @property
    def finished(self) -> int:
        return self.succeeded + self.retried + self.dead + self.snoozed + self.cancelled

    def count(self, change: Settlement) -> None:
        kind = type(change)
        if kind is Ack:
            self.succeeded += 1
        elif kind is Retry:
            self.retried += 1
        elif kind is Snooze:
            self.snoozed += 1
        elif kind is Release:
            self.released += 1
        elif kind is Cancelled:
            self.cancelled += 1
        elif isinstance(change, Fail):
            if change.kind == "superseded":
                self.retried += 1
            else:
                self.dead += 1
