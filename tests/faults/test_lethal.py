"""Handlers that end their worker, in every way that code in the worker's own process can: each is set aside when it has
cost as many workers as it may, and the work of others is done."""

from __future__ import annotations

import signal

from . import tasks
from .conftest import FleetMaker
from .summary import Told

WAYS = ("exit", "abort", "kill", "stop the loop", "cancel everything", "exit in a thread", "call a null pointer")
EACH = 5  # other jobs


def test_whatever_ends_a_worker_ends_as_a_dead_letter(new_fleet: FleetMaker, tell_summary: Told) -> None:
    """The lease is a minute long: it is the supervisor who says that they are dead."""
    others: list[str] = []
    lethal: dict[str, str] = {}
    with new_fleet(lease="60s", grace="200ms", concurrency="4") as fleet:
        supervisor = fleet.supervise(1)
        for how in WAYS:
            others += [tasks.quick.enqueue_sync(n).id for n in range(EACH)]
            lethal[tasks.lethal.using(max_lost=1).enqueue_sync(how).id] = how
            fleet.until_ended()
        others.append(tasks.quick.enqueue_sync(1).id)
        fleet.until_ended()
        assert supervisor.popen.poll() is None
        supervisor.signal(signal.SIGTERM)
        assert supervisor.wait() == 0
        history = fleet.history()
        lives = len(fleet.pids())

    assert history.problems([*lethal, *others]) == []
    for job, how in lethal.items():
        assert (history.jobs[job].state, history.jobs[job].dead_kind) == ("dead", "lost"), how
    assert {history.jobs[job].state for job in others} == {"succeeded"}
    assert lives == len(WAYS) + 1
    tell_summary(f"handlers that end their worker, {fleet.on.name}", len(WAYS), history, [*lethal, *others])
