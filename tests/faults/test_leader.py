"""A leader that is killed, and one that sleeps through its leadership and wakes up in the middle of a duty."""

from __future__ import annotations

import signal
from typing import NamedTuple

from windlass.clock import SECOND

from . import tasks
from .conftest import FleetMaker
from .fleet import Fleet, Process
from .summary import Told

LEADER_LEASE, WORKER_TIMEOUT = SECOND, 3 * SECOND // 2
SETTINGS = {"leader_lease": "1s", "worker_timeout": "1500ms", "lease": "60s", "grace": "200ms"}  # no lease lapses in a test


class Leader(NamedTuple):
    pid: int
    epoch: int


def leader(fleet: Fleet) -> Leader | None:
    """Who leads now; a worker's id holds its pid."""
    rows = fleet.rows(f"select worker_id, epoch from leader where leader_until > {fleet.on.instant}", fleet.now())
    return Leader(int(rows[0][0].split(":")[1]), rows[0][1]) if rows else None


def until_led(fleet: Fleet, *, after: int = 0) -> Leader:
    def look() -> Leader | None:
        found = leader(fleet)
        return found if found is not None and found.epoch > after else None

    found = fleet.until("somebody leads", look)
    assert found is not None
    return found


def registered(fleet: Fleet) -> set[int]:
    return {pid for (pid,) in fleet.rows("select pid from workers")}


def until_registered(fleet: Fleet, *processes: Process) -> None:
    wanted = {process.pid for process in processes}
    fleet.until("they are registered, and nobody else is", lambda: registered(fleet) == wanted)


def test_a_killed_leader_is_succeeded_and_removed_and_its_long_leases_end(
    new_fleet: FleetMaker, tell_summary: Told
) -> None:
    with new_fleet(**SETTINGS) as fleet:
        workers = [fleet.start("run"), fleet.start("run")]
        until_registered(fleet, *workers)
        first = until_led(fleet)
        [victim] = [process for process in workers if process.pid == first.pid]
        [heir] = [process for process in workers if process.pid != first.pid]
        jobs: list[str] = []
        while not fleet.lines("start", victim.pid):
            jobs.append(tasks.slow.enqueue_sync(60).id)
            fleet.until_started(len(jobs))
        killed_at = fleet.kill(victim)
        second = until_led(fleet, after=first.epoch)
        led_at = fleet.now()
        until_registered(fleet, heir)
        removed_at = fleet.now()
        held = [line for line in fleet.lines("start", victim.pid) if line.job in jobs]
        fleet.until("what it held has been done", lambda: fleet.count("state = 'succeeded'") == len(held))
        heir.signal(signal.SIGTERM)
        assert heir.wait() == 0
        history = fleet.history()
        left = registered(fleet)

    assert second == Leader(heir.pid, first.epoch + 1)
    assert led_at - killed_at <= LEADER_LEASE + 2 * SECOND
    assert removed_at - killed_at <= LEADER_LEASE + WORKER_TIMEOUT + 2 * SECOND
    assert history.problems([line.job for line in held], ended=False) == []
    for line in held:
        taken_back, again = history.runs[line.job]
        assert (taken_back.status, again.status) == ("failed", "completed")
        assert taken_back.finished_at is not None
        assert taken_back.finished_at - killed_at <= LEADER_LEASE + WORKER_TIMEOUT + 2 * SECOND
    assert left == set(), "the other one signed off"
    tell_summary(f"a killed leader, {fleet.on.name}", second.epoch - first.epoch, history, [line.job for line in held])


def test_a_leader_that_slept_is_refused_in_the_middle_of_its_duty(new_fleet: FleetMaker, tell_summary: Told) -> None:
    with new_fleet(**SETTINGS) as fleet:
        zombie = fleet.start("stop", "before_duty")
        fleet.until("it stands still", zombie.is_stopped)
        assert leader(fleet) == Leader(zombie.pid, 1)
        other = fleet.start("run")
        fleet.until("another leads", lambda: leader(fleet) == Leader(other.pid, 2))
        until_registered(fleet, other)
        zombie.signal(signal.SIGCONT)
        fleet.until("it is refused", lambda: "was refused under epoch 1" in zombie.errors.read_text())
        until_registered(fleet, zombie, other)
        assert leader(fleet) == Leader(other.pid, 2)
        fresh = tasks.quick.enqueue_sync(1).id
        fleet.until_ended()
        for process in (zombie, other):
            process.signal(signal.SIGTERM)
            assert process.wait() == 0
        history = fleet.history()

    said = zombie.errors.read_text()
    assert "leads no longer" in said
    assert "has failed" not in said
    assert history.problems([fresh]) == []
    tell_summary(f"a leader that slept, {fleet.on.name}", said.count("was refused under epoch 1"), history, [fresh])
