"""What runs that kill at random share: producers that go on where they were, and how long the work of the dead lay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .fleet import Fleet, Process
from .history import History, RunRow
from .summary import TAKEN_BACK


class Producer:
    """A process that enqueues a stretch of numbers, and goes on where it was when it is killed."""

    def __init__(self, fleet: Fleet, first: int, last: int) -> None:
        self._fleet, self._first, self._last = fleet, first, last
        self.process = self._start(first)

    def _start(self, number: int) -> Process:
        return self._fleet.start("enqueue", str(number), str(self._last))

    def acknowledged(self) -> int:
        lines = self._fleet.accepted.read_text().split("\n")[:-1]
        return sum(self._first <= int(line.split()[0]) < self._last for line in lines)

    def kill_and_go_on(self, after: int) -> None:
        self._fleet.until(f"{after} enqueues are acknowledged", lambda: self.acknowledged() >= after)
        self._fleet.kill(self.process)
        self.go_on()

    def go_on(self) -> None:
        self.process = self._start(self._first + self.acknowledged())


def held_by(fleet: Fleet, worker: Process) -> int:
    return fleet.count("state = 'running' and worker_id like ?", f"%:{worker.pid}:%")


def recoveries(history: History, deaths: Mapping[int, int], outages: Sequence[int] = ()) -> list[tuple[RunRow, int]]:
    """What was taken back from workers that died, or stood still, at these times (by their pids), and the microseconds that
    it took: from the death, or from the end of an outage of the store in which nobody could have done anything."""
    found = []
    for run in (run for runs in history.runs.values() for run in runs if run.error in TAKEN_BACK):
        died_at = deaths.get(int((run.worker or "").split(":")[1]))
        if died_at is not None and run.finished_at is not None and run.finished_at > died_at:
            since = max(died_at, *(over for over in (0, *outages) if over <= run.finished_at))
            found.append((run, run.finished_at - since))
    return found  # what a living one was too slow for is not among them
