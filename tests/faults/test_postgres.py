"""Workers on PostgreSQL while its sessions, its processes and its network fail under load.

Every scenario has the same shape. Workers and a producer run; the fault hits, at least so many times; it ends, and the
speed comes back; every job comes to its end; and the history checker finds store and handlers' log in agreement.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from postgres.pgbouncer import PgBouncer
from postgres.proxy import Proxy
from postgres.server import Server
from windlass import Windlass
from windlass.clock import SECOND
from windlass.errors import StoreError

from . import tasks
from .fleet import Fleet, Process
from .stores import PostgresStore
from .summary import TAKEN_BACK, Told

LEASE = 3 * SECOND
SETTINGS = {"lease": "3s", "grace": "500ms", "concurrency": "8", "threads": "2", "store_timeout": "2s"}
JOBS = 400
AGAIN = 200  # jobs that measure the speed before and after
LYING = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), Path("libfaketimeMT.so.1"))
SPEED = 3.0  # at most so many times slower than before: the machine is shared
SAYS = "does not exist; make the schema with: windlass migrate"
SECONDS_OF_SPEED = 5.0  # below this nobody compares


@dataclass
class Scene:
    server: Server
    proxy: Proxy
    fleet: Fleet
    workers: list[Process]
    hits: int = 0

    def alive(self) -> None:
        for worker in self.workers:
            assert worker.popen.poll() is None, f"{worker.name} gave up: exit {worker.popen.poll()}"


@contextmanager
def scene(server: Server, directory: Path, *, workers: int = 2, by_proxy: bool = True) -> Iterator[Scene]:
    with Proxy(server.port) as proxy:
        store = PostgresStore(server)
        with Fleet(directory, store, **SETTINGS) as fleet:
            way = store.direct.replace(str(server.port), str(proxy.port)) if by_proxy else None
            yield Scene(server, proxy, fleet, [fleet.start("run", url=way) for _ in range(workers)])
            proxy.heal()


def burst(fleet: Fleet) -> float:
    """Seconds that so many quick jobs take, from their enqueue to the last end."""
    began = time.monotonic()
    jobs = tasks.app.enqueue_many_sync([tasks.quick.job(n) for n in range(AGAIN)])
    ids = [handle.id for handle in jobs]
    fleet.until("they are done", lambda: fleet.count("id = any(?) and state = 'succeeded'", ids) == AGAIN)
    return time.monotonic() - began


def trial(stage: Scene, name: str, fault: Callable[[Scene], int], *, hits: int, tell: Told) -> None:
    """`fault` makes it happen while jobs stream in, ends it, and answers how often it hit."""
    fleet = stage.fleet
    fleet.until_born(*stage.workers)
    before = burst(fleet)
    way = fleet.on.url if not isinstance(fleet.on, PostgresStore) else fleet.on.direct
    producer = fleet.start("enqueue", "0", str(JOBS), url=way)
    fleet.until_started(AGAIN + JOBS // 8)
    hit = fault(stage)
    healed_at = fleet.now()
    stage.proxy.heal()
    assert producer.wait() == 0
    fleet.until_ended()
    stage.alive()
    after = burst(fleet)
    for worker in stage.workers:
        worker.signal(signal.SIGTERM)
    assert {worker.wait() for worker in stage.workers} == {0}
    history, accepted = fleet.history(), fleet.acknowledged()

    assert hit >= hits, f"the fault hit {hit} times"
    assert len(accepted) == JOBS
    assert history.problems(accepted) == []
    recoveries = [
        run for runs in history.runs.values() for run in runs
        if run.error in TAKEN_BACK and run.finished_at is not None
    ]  # fmt: skip
    for run in recoveries:
        assert run.finished_at is not None
        assert run.finished_at - max(run.claimed_at, healed_at) <= LEASE + 2 * SECOND, "taken back too late"
    assert after <= max(SPEED * before, SECONDS_OF_SPEED), f"{before:.1f} s before, {after:.1f} s after"
    tell(f"{name}, PostgreSQL", hit, history, accepted)


# ------------------------------------------------------------------------------------------------------------- the faults


def sessions(stage: Scene) -> list[int]:
    rows = stage.server.execute(
        "select pid from pg_stat_activity where application_name = 'windlass' and backend_type = 'client backend'"
    )
    return [pid for (pid,) in rows]


def terminated_sessions(stage: Scene) -> int:
    dice, hit = random.Random(11), 0
    for _ in range(12):
        for pid in dice.sample(sorted(pids), 2) if len(pids := sessions(stage)) >= 2 else []:
            [(done,)] = stage.server.execute(f"select pg_terminate_backend({pid})")
            hit += bool(done)
        time.sleep(0.1)
    return hit


def killed_backends(stage: Scene) -> int:
    """The server drops everybody and recovers."""
    for _ in range(2):
        stage.server.kill_backend(sessions(stage)[0])
        time.sleep(0.2)
        stage.server.until_ready()
        time.sleep(0.5)
    return stage.server.log().count("all server processes terminated; reinitializing")


def immediate_stops(stage: Scene) -> int:
    for _ in range(2):
        stage.server.stop("immediate")
        time.sleep(0.5)
        stage.server.start()
        time.sleep(0.5)
    return 2


def black_holes(stage: Scene) -> int:
    """Twice: shorter than two thirds of a lease, and longer than a lease."""
    for seconds in (1.0, 4.0):
        stage.proxy.blackhole()
        time.sleep(seconds)
        stage.proxy.heal()
        time.sleep(0.5)
    return 2


def resets(stage: Scene) -> int:
    before = stage.proxy.counts["reset"]
    for _ in range(4):
        stage.proxy.reset()
        time.sleep(0.3)
        stage.proxy.heal()
        time.sleep(0.2)
    return stage.proxy.counts["reset"] - before


def latency(stage: Scene) -> int:
    stage.proxy.delay(0.2)
    before = stage.proxy.counts["bytes_to_client"]
    time.sleep(4)
    return int(stage.proxy.counts["bytes_to_client"] > before)


def fast_restarts(stage: Scene) -> int:
    for _ in range(2):
        stage.server.stop("fast")
        stage.server.start()
        time.sleep(0.5)
    return 2


def outage(stage: Scene) -> int:
    """For longer than any lease lasts."""
    stage.server.stop("fast")
    time.sleep(LEASE / SECOND + 2)
    stage.server.start()
    return 1


def standing_still(stage: Scene) -> int:
    """Backends that answer nothing and drop nobody."""
    stopped = sessions(stage)[:4]
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(4)
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    return len(stopped)


def one_way_holes(stage: Scene) -> int:
    """What is asked arrives, and no answer comes back; and the other way round."""
    for direction in ("to_client", "to_server"):
        stage.proxy.blackhole(direction)
        time.sleep(2.5)
        stage.proxy.heal()
        time.sleep(0.5)
    return 2


def cut_commits(stage: Scene) -> int:
    traps = []
    for n in range(6):
        traps.append(stage.proxy.cut_in_commit(when="before" if n % 2 else "after"))
        traps.append(stage.proxy.trap(rb"^\s*with.*update \S*jobs", when="after" if n % 2 else "before"))
        for trap in traps[-2:]:
            trap.sprung.wait(2)
    return sum(trap.sprung.is_set() for trap in traps)


QUICK = {"terminated sessions": (terminated_sessions, 10), "cut commits": (cut_commits, 4)}
FULL = {
    "killed backends": (killed_backends, 2), "immediate stops": (immediate_stops, 2), "black holes": (black_holes, 2),
    "resets": (resets, 4), "latency of 200 ms": (latency, 1), "fast restarts": (fast_restarts, 2), "an outage": (outage, 1),
    "backends that stand still": (standing_still, 2), "one-way holes": (one_way_holes, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.full) for name in FULL)])
def test_nothing_is_lost_and_speed_comes_back_after(tmp_path: Path, name: str, tell_summary: Told) -> None:
    fault, hits = {**QUICK, **FULL}[name]
    with Server() as server, scene(server, tmp_path) as stage:
        trial(stage, name, fault, hits=hits, tell=tell_summary)


@pytest.mark.full
def test_a_pooler_that_is_restarted_under_load_loses_nothing(tmp_path: Path, tell_summary: Told) -> None:
    with Server() as server, PgBouncer(server) as pooler:
        store = PostgresStore(server)
        with Proxy(pooler.port) as way, Fleet(tmp_path, store, **SETTINGS, pooler="transaction") as fleet:
            url = store.direct.replace(str(server.port), str(pooler.port))
            stage = Scene(server, way, fleet, [fleet.start("run", url=url) for _ in range(2)])

            def restarts(_: Scene) -> int:
                for _number in range(3):
                    pooler.restart()
                    time.sleep(0.5)
                return 3

            trial(stage, "restarts of a pooler", restarts, hits=3, tell=tell_summary)


@pytest.mark.full
def test_a_server_without_our_rows_is_refused_and_not_taken_for_the_store(tmp_path: Path) -> None:
    """The address leads to another server, which is empty: a standby that never was one, a restored machine."""
    with Server() as ours, Server() as empty:
        store = PostgresStore(ours)
        name = store.direct.rpartition("/")[2]
        empty.create_database(name)
        with Proxy(ours.port) as way, Fleet(tmp_path, store, **SETTINGS) as fleet:
            worker = fleet.start("run", url=way.dsn(name))
            fleet.until_born(worker)
            accepted = [tasks.quick.enqueue_sync(n).id for n in range(20)]
            fleet.until_ended()
            way.upstream = empty.port
            way.cut()
            with pytest.raises(StoreError, match="windlass migrate"):
                _ = Windlass(way.dsn(name), migrate="never").client.driver
            fleet.until("it says what it meets", lambda: SAYS in worker.errors.read_text())
            way.upstream = ours.port
            way.cut()
            accepted += [tasks.quick.enqueue_sync(n).id for n in range(20)]
            fleet.until_ended() if worker.popen.poll() is None else fleet.finish()
            history = fleet.history()
        made = empty.execute("select count(*) from pg_namespace where nspname = 'windlass'")
    assert history.problems(accepted) == []
    assert made == [(0,)], "a running worker made an empty store of it"


@pytest.mark.full
def test_a_failover_to_a_synchronous_standby_loses_nothing_that_was_acknowledged(
    tmp_path: Path, tell_summary: Told
) -> None:
    with Server(options={"wal_level": "replica", "synchronous_commit": "on"}) as primary:
        store = PostgresStore(primary)
        with Server.standby_of(primary, options={"hot_standby": "on"}) as standby:
            primary.execute("alter system set synchronous_standby_names = '*'")
            primary.execute("select pg_reload_conf()")
            url = (
                f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
                f"{store.direct[store.direct.rindex('/') :]}?target_session_attrs=read-write"
            )
            store.url = url
            with Fleet(tmp_path, store, **SETTINGS) as fleet:
                workers = [fleet.start("run"), fleet.start("run")]
                fleet.until_born(*workers)
                producer = fleet.start("enqueue", "0", str(JOBS))
                fleet.until_started(JOBS // 4)
                primary.stop("immediate")
                promoted_at = time.monotonic()
                standby.promote()
                standby.execute("alter system set synchronous_standby_names = ''")
                standby.execute("select pg_reload_conf()")
                store.at(standby)
                assert producer.wait() == 0
                fleet.until_ended()
                took = time.monotonic() - promoted_at
                for worker in workers:
                    assert worker.popen.poll() is None
                    worker.signal(signal.SIGTERM)
                assert {worker.wait() for worker in workers} == {0}
                history, accepted = fleet.history(), fleet.acknowledged()
    assert len(accepted) == JOBS
    assert history.problems(accepted) == []
    assert took < 60
    tell_summary("failover to a synchronous standby", 1, history, accepted)


def test_a_worker_that_is_cut_off_stops_before_anybody_else_may_begin(tmp_path: Path, tell_summary: Told) -> None:
    """Self-fencing: two thirds of the lease after the last renewal its handlers are interrupted."""
    with Server() as server, scene(server, tmp_path, workers=1) as stage:
        fleet = stage.fleet
        cut_off, other = stage.workers[0], fleet.start("run", waits=True)
        fleet.until_born(cut_off, other)
        jobs = [tasks.slow.enqueue_sync(60).id for _ in range(6)]
        fleet.until_started(6, cut_off.pid)
        stage.proxy.blackhole()
        cut_at = fleet.now()
        other.go()
        fleet.until("its handlers are interrupted", lambda: len(fleet.lines("stopped", cut_off.pid)) == 6)
        fleet.until_ended()
        stage.proxy.heal()
        fresh = tasks.quick.enqueue_sync(1).id
        fleet.until_ended()
        for worker in (cut_off, other):
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        history = fleet.history()
    assert history.problems([*jobs, fresh]) == []
    stopped = {line.job: line.at for line in history.lines if line.what == "stopped"}
    begun = {line.job: line.at for line in history.lines if line.what == "start" and line.pid == other.pid}
    for job in jobs:
        assert stopped[job] < begun[job], "two handlers of one job ran at once"
        assert begun[job] - cut_at <= LEASE + 2 * SECOND
    tell_summary("cut off from the server", 1, history, [*jobs, fresh])


@pytest.mark.full
@pytest.mark.parametrize("days", ["-1d", "+1d"])
def test_clocks_a_day_off_change_nothing(tmp_path: Path, tell_summary: Told, days: str) -> None:
    """Only the store's clock decides: nobody takes a lease that lives, nobody begins too early."""
    with Server() as server, Fleet(tmp_path, PostgresStore(server), **SETTINGS) as fleet:
        true = fleet.start("run")
        fleet.until_born(true)
        held = [tasks.slow.enqueue_sync(5).id for _ in range(4)]
        fleet.until_started(4, true.pid)
        odd = fleet.start("run", LD_PRELOAD=str(LYING), FAKETIME=days, DONT_FAKE_MONOTONIC="1")
        fleet.until_born(odd)
        fleet.until_ended()
        true.signal(signal.SIGTERM)
        assert true.wait() == 0
        due = fleet.now() + 2 * SECOND
        ids = [tasks.quick.using(delay="2s").enqueue_sync(n).id for n in range(20)]
        fleet.until_ended()
        odd.signal(signal.SIGTERM)
        assert odd.wait() == 0
        history = fleet.history()
        told = {process.errors.read_text()[:10] for process in (true, odd)}
    assert len(told) == 2, "both processes saw the same day"
    starts = [line for line in history.lines if line.what == "start"]
    assert {line.pid for line in starts if line.job in ids} == {odd.pid}
    assert min(line.at for line in starts if line.job in ids) >= due, "begun too early"
    assert max(line.at for line in starts if line.job in ids) <= due + 5 * SECOND, "begun too late"
    assert history.problems([*held, *ids]) == []
    for job in held:
        assert [run.status for run in history.runs[job]] == ["completed"], "a living lease was taken"
    tell_summary(f"a clock {days} off", 1, history, [*held, *ids])
