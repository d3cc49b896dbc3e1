"""Eight workers on one store, killed at random and started again, while two more processes enqueue and are killed too."""

from __future__ import annotations

import random
import signal

from windlass.clock import SECOND

from . import tasks
from .chaos import Producer, held_by, recoveries
from .conftest import FleetMaker
from .summary import Told

WORKERS = 8
HITS = 10  # workers that must die with jobs in their hands
EACH = 1_000  # jobs of each of the two enqueueing processes
LEASE = 3 * SECOND


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
        producers = [Producer(fleet, 0, EACH), Producer(fleet, EACH, 2 * EACH)]
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
    lost = recoveries(history, deaths)
    assert len({run.worker for run, _ in lost}) >= HITS
    # The machine is as busy as ten processes on two cores make it, so the bound is on being taken back: from then on a job
    # waits in the queue like any other. Earlier where the living one was too slow for its lease.
    assert max(took for _, took in lost) <= LEASE + 2 * SECOND
    tell_summary(f"workers killed at random, {fleet.on.name}", hits, history, acknowledged)
