"""What befalls a fleet: each blow is a method, hits somebody who has something to lose if there is one, and is counted."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from faults.chaos import Producer, held_by
from faults.fleet import Fleet, Process
from postgres.server import Server

LEASE: Final = 3.0  # seconds
SETTINGS: Final = {
    "lease": f"{LEASE:g}s", "grace": "500ms", "concurrency": "4", "threads": "2", "prefetch": "8", "store_timeout": "3s",
}  # fmt: skip
WORKERS: Final = 4
PAUSE: Final = (0.3, 1.2)  # seconds between two blows
ENDLESS: Final = 10**9
SESSIONS: Final = "select pid from pg_stat_activity where application_name = 'windlass' and backend_type = 'client backend'"


class Storm:
    """`server`: that of the store, where it has one that can be hit too."""

    def __init__(self, fleet: Fleet, dice: random.Random, server: Server | None = None) -> None:
        self.fleet, self._dice, self._server = fleet, dice, server
        self.hits: Counter[str] = Counter()
        self.deaths: dict[int, int] = {}  # pid -> the store's time just before
        self.outages: list[int] = []  # the store's time at the end of each
        self.workers = [fleet.start("run") for _ in range(WORKERS)]
        self._asleep: list[tuple[Process, float]] = []  # who stands still, and until when
        self._producer = Producer(fleet, 0, ENDLESS)

    def rage(self, seconds: float) -> None:
        blows: list[tuple[Callable[[], None], int]] = [
            (self._kill_a_worker, 6), (self._kill_the_producer, 1), (self._stop_a_worker, 1),
            (self._tell_a_worker_to_stop, 1),
        ]  # fmt: skip
        if self._server is not None:
            blows += [(self._end_sessions, 2), (self._crash_the_server, 1)]
        self.fleet.until_started(1)
        deadline = time.monotonic() + seconds
        for blow, _ in blows:  # each of them once, whatever the dice say
            self._then(blow)
        while time.monotonic() < deadline:
            self._then(self._dice.choices([one for one, _ in blows], [weight for _, weight in blows])[0])
        self._wake(everybody=True)
        self._tend()
        self._producer.process.popen.kill()

    def calm(self) -> str | None:
        """Let everything come to its end. Answers what is in the way, if something is."""
        try:
            self.fleet.until_ended()
        except AssertionError as stuck:
            return str(stuck)
        for worker in self.workers:
            worker.signal(signal.SIGTERM)
        codes = {worker.wait() for worker in self.workers}
        return None if codes <= {0, -signal.SIGTERM} else f"workers ended with {codes}"  # the youngest may not listen yet

    # ---------------------------------------------------------------------------------------------------------- the blows

    def _then(self, blow: Callable[[], None]) -> None:
        self._tend()
        blow()
        self._wake()
        time.sleep(self._dice.uniform(*PAUSE))

    def _tend(self) -> None:
        """Whoever was started while the store was away has said so and ended, as it should: somebody starts it again."""
        unborn = "started while the store was away, and again"
        for worker in [one for one in self.workers if one.popen.poll() is not None and one.pid not in self.fleet.pids()]:
            self.hits[unborn] += 1
            self._replace(worker)
        if self._producer.process.popen.poll() is not None:
            self.hits[unborn] += 1
            self._producer.go_on()

    def _all_there(self) -> bool:
        self._tend()
        return {worker.pid for worker in self.workers} <= set(self.fleet.pids())

    def _victim(self) -> Process:
        """What is promised is promised while somebody lives who can take over: on a busy machine births are waited for."""
        self.fleet.until("everybody has come to life", self._all_there)
        holders = [worker for worker in self.workers if held_by(self.fleet, worker)]
        return self._dice.choice(holders or self.workers)

    def _replace(self, worker: Process) -> None:
        self.workers[self.workers.index(worker)] = self.fleet.start("run")

    def _kill_a_worker(self) -> None:
        victim = self._victim()
        self.deaths[victim.pid] = self.fleet.kill(victim)
        held = held_by(self.fleet, victim)
        self.hits["kill -9 of a worker with jobs" if held else "kill -9 of an idle worker"] += 1
        self._replace(victim)

    def _kill_the_producer(self) -> None:
        self._producer.kill_and_go_on(after=0)
        self.hits["kill -9 of a producer"] += 1

    def _stop_a_worker(self) -> None:
        """It comes back when its leases are long gone."""
        victim = self._victim()
        self.deaths[victim.pid] = self.fleet.freeze(victim)
        self.hits["SIGSTOP past the lease"] += 1
        self._asleep.append((victim, time.monotonic() + 1.5 * LEASE))
        self._replace(victim)

    def _wake(self, *, everybody: bool = False) -> None:
        for sleeper in list(self._asleep):
            worker, until = sleeper
            if everybody:
                time.sleep(max(0.0, until - time.monotonic()))
            if everybody or time.monotonic() > until:
                self._asleep.remove(sleeper)
                worker.signal(signal.SIGCONT)
                worker.signal(signal.SIGTERM)  # what it would do from now on is not measured from the moment it stopped

    def _tell_a_worker_to_stop(self) -> None:
        victim = self._victim()
        victim.signal(signal.SIGTERM)
        self.hits["SIGTERM of a worker"] += 1
        self._replace(victim)

    def _end_sessions(self) -> None:
        assert self._server is not None
        pids = [pid for (pid,) in self._server.execute(SESSIONS)]
        for pid in self._dice.sample(pids, min(3, len(pids))):
            [(done,)] = self._server.execute(f"select pg_terminate_backend({int(pid)})")
            self.hits["session ended by the server"] += bool(done)

    def _crash_the_server(self) -> None:
        assert self._server is not None
        self._server.stop("immediate")
        self._server.start()
        self.outages.append(self.fleet.now())
        self.hits["crash of the server"] += 1
