"""Eight workers on one store, killed at random and started again, while two more processes enqueue and are killed too."""

from __future__ import annotations

import random
import signal

from windlass.clock import SECOND

from . import tasks
from .conftest import FleetMaker
from .fleet import Fleet, Process
from .history import History
from .summary import Told

WORKERS = 8
HITS = 10  # workers that must die with jobs in their hands
EACH = 1_000  # jobs of each of the two enqueueing processes
LEASE = 3 * SECOND


class Producer:
    """A process that enqueues a stretch of numbers, and goes on where it was when it is killed."""

    def __init__(self, fleet: Fleet, first: int) -> None:
        self._fleet, self._first, self._last = fleet, first, first + EACH
        self.process = self._start(first)

    def _start(self, number: int) -> Process:
        return self._fleet.start("enqueue", str(number), str(self._last))

    def acknowledged(self) -> int:
        lines = self._fleet.accepted.read_text().split("\n")[:-1]
        return sum(self._first <= int(line.split()[0]) < self._last for line in lines)

    def kill_and_go_on(self, after: int) -> None:
        self._fleet.until(f"{after} enqueues are acknowledged", lambda: self.acknowledged() >= after)
        self._fleet.kill(self.process)
        self.process = self._start(self._first + self.acknowledged())


def held_by(fleet: Fleet, worker: Process) -> int:
    return fleet.count("state = 'running' and worker_id like ?", f"%:{worker.pid}:%")


def test_nothing_is_lost_or_repeated_when_workers_and_producers_are_killed_at_random(
    new_fleet: FleetMaker, tell_summary: Told
) -> None:
    dice = random.Random()
    seed = dice.randrange(1 << 30)
    print(f"seed {seed}")
    dice.seed(seed)
    deaths: dict[int, int] = {}  # pid -> when
    hits = 0  # deaths that left jobs behind
    with new_fleet(lease="3s", concurrency="4", threads="2", prefetch="8") as fleet:
        producers = [Producer(fleet, 0), Producer(fleet, EACH)]
        workers = [fleet.start("run") for _ in range(WORKERS)]
        producers[0].kill_and_go_on(after=EACH // 10)
        producers[1].kill_and_go_on(after=EACH // 5)
        while hits < HITS and len(deaths) < 3 * HITS:
            fleet.until_started(min(EACH * (len(deaths) + 1) // HITS, EACH))
            holders = fleet.until("somebody holds a job", lambda: [w for w in workers if held_by(fleet, w)])
            victim = dice.choice(holders)
            deaths[victim.pid] = fleet.kill(victim)
            hits += held_by(fleet, victim) > 0
            workers[workers.index(victim)] = fleet.start("run")
        for producer in producers:
            assert producer.process.wait() == 0
        fleet.until_ended()
        for worker in workers:
            worker.signal(signal.SIGTERM)
        assert {worker.wait() for worker in workers} <= {0, -signal.SIGTERM}  # the youngest may not listen yet
        history, acknowledged = fleet.history(), fleet.acknowledged()
        effects = fleet.rows("select job_id from effects") if fleet.on.transactional else []

    assert hits >= HITS
    assert history.problems(acknowledged) == []
    assert len(acknowledged) == 2 * EACH
    written = {job.id for job in history.jobs.values() if job.type == tasks.written.name}
    assert sorted(row[0] for row in effects) == sorted(written), "an effect is missing, or happened twice"
    check_recovery(history, deaths)
    tell_summary(f"workers killed at random, {fleet.on.name}", hits, history, acknowledged)


def check_recovery(history: History, deaths: dict[int, int]) -> None:
    """What the dead held was closed within the lease and two seconds. The machine is as busy as ten processes on two
    cores make it, so the bound is on being taken back: from then on a job waits in the queue like any other."""
    lost = [
        (run, deaths[pid])
        for runs in history.runs.values() for run in runs
        if run.error in ("lease expired", "Scheduler crash recovery")
        for pid in [int((run.worker or "").split(":")[1])] if pid in deaths
    ]  # fmt: skip
    assert len({run.worker for run, _ in lost}) >= HITS
    for run, died_at in lost:
        assert run.finished_at is not None
        assert run.finished_at - died_at <= LEASE + 2 * SECOND  # earlier where the living one was too slow for its lease
