"""What befalls a fleet: each blow is a method, hits somebody who has something to lose if there is one, and is counted."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from faults.chaos import Producer, held_by
from faults.fleet import Fleet, Process
from postgres.proxy import Proxy
from postgres.server import Server

LEASE: Final = 3.0  # seconds
SETTINGS: Final = {
    "lease": f"{LEASE:g}s", "grace": "500ms", "concurrency": "4", "threads": "2", "prefetch": "8", "store_timeout": "3s",
}  # fmt: skip
WORKERS: Final = 4
PAUSE: Final = (0.3, 1.2)  # seconds between two blows
ENDLESS: Final = 10**9
WITH_JOBS: Final = "a worker with jobs"
KILLED, STOPPED, TERMINATED = "kill -9 of {}", "SIGSTOP of {}, past its lease", "SIGTERM of {}"
KILLED_PRODUCER, ENDED_SESSION, CRASHED = "kill -9 of a producer", "session ended by the server", "crash of the server"
RESET, SILENT = "connection reset by the network", "network silent for longer than a lease"
SESSIONS: Final = "select pid from pg_stat_activity where application_name = 'windlass' and backend_type = 'client backend'"


class Blow(NamedTuple):
    name: str  # what is counted when it hits somebody who has something to lose
    strike: Callable[[], None]
    weight: int  # how often the dice choose it
    least: int  # how often it must hit: less shows nothing


class Reached(NamedTuple):
    """A store that is reached over a network, so that both can be hit too."""

    server: Server
    network: Proxy


class Storm:
    def __init__(self, fleet: Fleet, dice: random.Random, reached: Reached | None = None) -> None:
        self.fleet, self._dice = fleet, dice
        self.hits: Counter[str] = Counter()
        self.deaths: dict[int, int] = {}  # pid -> the store's time just before
        self.naps: dict[int, tuple[int, int]] = {}  # pid -> the store's time when it was stopped, and when it went on
        self.outages: list[int] = []  # the store's time at the end of each
        self.blows = [
            Blow(KILLED.format(WITH_JOBS), self._kill_a_worker, 6, 3),
            Blow(KILLED_PRODUCER, self._kill_the_producer, 1, 2),
            Blow(STOPPED.format(WITH_JOBS), self._stop_a_worker, 1, 2),
            Blow(TERMINATED.format(WITH_JOBS), self._tell_a_worker_to_stop, 1, 2),
        ]  # fmt: skip
        if reached is not None:
            self._server, self._network = reached
            self.blows += [
                Blow(ENDED_SESSION, self._end_sessions, 2, 3), Blow(CRASHED, self._crash_the_server, 1, 2),
                Blow(RESET, self._reset_connections, 1, 3), Blow(SILENT, self._silence_the_network, 1, 2),
            ]  # fmt: skip
        self.workers = [fleet.start("run") for _ in range(WORKERS)]
        self._asleep: list[tuple[Process, float]] = []  # who stands still, and until when
        self._producer = Producer(fleet, 0, ENDLESS)

    def rage(self, seconds: float) -> None:
        """As long as that; up to twice as long while a blow has not hit often enough, as on a busy machine."""
        self.fleet.until_started(1)
        began = time.monotonic()
        while (raged := time.monotonic() - began) < seconds or (raged < 2 * seconds and lacking(self.blows, self.hits)):
            self._then(next_blow(self.blows, self.hits, self._dice))
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

    def _then(self, blow: Blow) -> None:
        self._tend()
        blow.strike()
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
        held = self.fleet.until("somebody has jobs", self._held)
        return self._dice.choices(list(held), list(held.values()))[0]

    def _held(self) -> dict[Process, int]:
        return {worker: jobs for worker in self.workers if (jobs := held_by(self.fleet, worker))}

    def _count(self, what: str, held: int) -> None:
        self.hits[what.format(WITH_JOBS if held else "an idle worker")] += 1

    def _replace(self, worker: Process) -> None:
        self.workers[self.workers.index(worker)] = self.fleet.start("run")

    def _kill_a_worker(self) -> None:
        victim = self._victim()
        self.deaths[victim.pid] = self.fleet.kill(victim)
        self._count(KILLED, held_by(self.fleet, victim))
        self._replace(victim)

    def _kill_the_producer(self) -> None:
        self._producer.kill_and_go_on(after=0)
        self.hits[KILLED_PRODUCER] += 1

    def _stop_a_worker(self) -> None:
        """It comes back when its leases are long gone."""
        victim = self._victim()
        self.deaths[victim.pid] = self.fleet.freeze(victim)
        self._count(STOPPED, held_by(self.fleet, victim))
        self._asleep.append((victim, time.monotonic() + 1.5 * LEASE))
        self._replace(victim)

    def _wake(self, *, everybody: bool = False) -> None:
        for sleeper in list(self._asleep):
            worker, until = sleeper
            if everybody:
                time.sleep(max(0.0, until - time.monotonic()))
            if everybody or time.monotonic() > until:
                self._asleep.remove(sleeper)
                self.naps[worker.pid] = (self.deaths[worker.pid], self.fleet.now())
                worker.signal(signal.SIGCONT)
                worker.signal(signal.SIGTERM)  # what it would do from now on is not measured from the moment it stopped

    def _tell_a_worker_to_stop(self) -> None:
        victim = self._victim()
        held = held_by(self.fleet, victim)
        victim.signal(signal.SIGTERM)
        self._count(TERMINATED, held)
        self._replace(victim)

    def _end_sessions(self) -> None:
        pids = [pid for (pid,) in self._server.execute(SESSIONS)]
        for pid in self._dice.sample(pids, min(3, len(pids))):
            [(done,)] = self._server.execute(f"select pg_terminate_backend({int(pid)})")
            self.hits[ENDED_SESSION] += bool(done)

    def _crash_the_server(self) -> None:
        self._server.stop("immediate")
        self._server.start()
        self.outages.append(self.fleet.now())
        self.hits[CRASHED] += 1

    def _reset_connections(self) -> None:
        """Those that there are; whoever comes again is let in."""
        before = self._network.counts["reset"]
        self._network.cut()
        self.hits[RESET] += self._network.counts["reset"] - before

    def _silence_the_network(self) -> None:
        """Nobody hears anything, nor that nobody hears: for longer than a lease, so that all must fence themselves."""
        self._network.blackhole()
        heard = self._heard()
        time.sleep(1.2 * LEASE)
        self.hits[SILENT] += self._heard() == heard
        self._network.heal()
        self.outages.append(self.fleet.now())

    def _heard(self) -> int:
        return self._network.counts["bytes_to_server"] + self._network.counts["bytes_to_client"]


def lacking(blows: Sequence[Blow], hits: Mapping[str, int]) -> list[Blow]:
    """Those that have not hit often enough."""
    return [blow for blow in blows if hits.get(blow.name, 0) < blow.least]


def next_blow(blows: Sequence[Blow], hits: Mapping[str, int], dice: random.Random) -> Blow:
    """First what is lacking, whatever the weights say."""
    if missing := lacking(blows, hits):
        return dice.choice(missing)
    return dice.choices(blows, [one.weight for one in blows])[0]
