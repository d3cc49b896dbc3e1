"""What is measured on PostgreSQL, with tiny numbers and on a real server."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from cost import Cost, Psql
from limits.postgres_loop import check_drained, fill, migrated
from peer_env import PEERS as KNOWN
from plans import PEER_ENV, PEERS, Command
from postgres_peer import QUEUES
from postgres_plans import FULL, RIVALS, TARGETS, PostgresNumbers, plans, rival_plans
from processes import percentiles
from run import asked, in_turn, options_of, sample, shown
from scaling import scaled
from scenario_plans import SERVER
from server import available, cost_of, counts_statements, fresh_database, private_server

from .conftest import BENCH, HARNESS

TINY = PostgresNumbers(60, bulk=200, singles=20, latencies=5, idle_seconds=1, rivals=dict.fromkeys(RIVALS, 20))
OURS = plans(TINY, rivals=False)
ONE_OF_A_KIND = {tuple(word for word in command if not word.isdigit()): command for command in in_turn(OURS)}


def untold() -> set[str]:
    """The bundled server counts no statements."""
    return set() if counts_statements(available()) else {"statements"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with private_server() as url:
        yield url


@pytest.mark.parametrize("command", ONE_OF_A_KIND.values(), ids=" ".join)
def test_every_command_measures_what_the_plans_ask_of_it(command: Command, server: str, tmp_path: Path) -> None:
    measured = sample(command, tmp_path, {SERVER: server}).figures
    asked = {plan.quantity for plan in OURS if command in (plan.ours, plan.base)}
    assert asked - untold() <= measured.keys()
    assert all(math.isfinite(value) and value >= 0 for value in measured.values())
    assert list(tmp_path.iterdir()) == [], "files were left behind"
    with psycopg.connect(server) as connection:
        left = connection.execute("select datname from pg_database where datname like 'bench%'").fetchall()
    assert left == [], "a database was left behind"


def test_the_server_that_is_measured_commits_durably(server: str) -> None:
    names = ["fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_connections", "listen_addresses"]
    with psycopg.connect(server) as connection:
        said: dict[str, str] = dict(connection.execute("select name, current_setting(name) from pg_settings").fetchall())
    assert [said[name] for name in names] == ["on", "on", "on", "1GB", "200", "127.0.0.1"]


def test_a_drain_that_lost_a_job_measures_nothing(server: str) -> None:
    with fresh_database(server) as url:
        migrated(url)
        fill(url, 3)
        with pytest.raises(AssertionError, match="left=3"):
            check_drained(url, 3)


def test_a_servers_cost_holds_sessions_that_have_ended(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        cost = cost_of(connection)
        cost.begin()
        with psycopg.connect(server, autocommit=True) as other:
            other.execute("create table burnt as select md5(n::text) from generate_series(1, 200000) as n")
            other.execute("drop table burnt")
        time.sleep(0.1)
        told = cost.end(jobs=10)
    assert told["wal_bytes"] > 100_000, "a table of some megabytes was written"
    assert untold() or told["statements"] == pytest.approx(0.2, abs=0.2), "two statements of the other, one or two of ours"
    assert 10_000 * 0.5 < told["server_us"] < 10_000_000, "a tenth of a second or so of one session, told by ten jobs"


def test_psql_answers_the_same_numbers_as_a_connection(server: str) -> None:
    with Psql(server) as psql, psycopg.connect(server, autocommit=True) as connection:
        psql.do("create table looked as select 1 as n")
        [(found,)] = connection.execute("select count(*) from looked").fetchall()
        assert psql.number("select count(*) from looked") == found == 1
        psql.do("drop table looked")
        assert Cost(psql.number)._pid == cost_of(connection)._pid


def test_a_query_that_psql_refuses_ends_the_run(server: str) -> None:
    with Psql(server) as psql, pytest.raises(SystemExit, match="psql ended at"):
        psql.number("select count(*) from nowhere")


# ------------------------------------------------------------------------------------------------------------- the plans


def test_every_rival_has_a_script_an_environment_and_numbers() -> None:
    assert RIVALS.keys() == QUEUES.keys() == FULL.rivals.keys()
    assert RIVALS.keys() <= KNOWN.keys()
    assert {name: KNOWN[name].title for name in RIVALS} == RIVALS
    for numbers in (FULL, scaled(FULL, 0.2), scaled(FULL, 0.0)):
        assert all(jobs % 1_000 == 0 for jobs in (*numbers.rivals.values(), numbers.bulk)), "scripts load by the thousand"


def test_every_target_beside_a_rival_is_asked_of_one_plan() -> None:
    wanted = [plan for name in RIVALS for plan in rival_plans(FULL, name)]
    asked = [plan.target for plan in wanted if plan.target is not None]
    assert len(asked) == len(TARGETS)


def test_what_is_compared_runs_next_to_each_other() -> None:
    wanted = plans(FULL, rivals=True)
    order = in_turn(wanted)
    assert len(order) == len(set(order))
    for plan in wanted:
        assert plan.base is None or {plan.ours, plan.base} <= set(order)


def test_results_never_name_a_directory_or_a_server_of_this_machine(tmp_path: Path) -> None:
    for command in in_turn(plans(FULL, rivals=True)):
        assert not any(word.startswith("/") or "://" in word for word in command)
        assert command[command.index("--server") + 1] == SERVER
        if command[0].endswith("postgres_peer.py"):
            assert command[-6:-2] == ("--peers", PEERS, "--peer-env", PEER_ENV)
    options = options_of(["--store", "postgres", "--short", "--peers", str(tmp_path), "--peer-env", str(tmp_path)])
    assert shown(options) == "python bench/run.py --store postgres --short --peers PEERS"


def test_how_long_a_transaction_is_held_is_an_option_and_judged_only_in_full() -> None:
    for words, seconds, judged in ((["--held-minutes", "2"], "120", False), ([], "600", True)):
        plans, _ = asked("postgres", [], options_of(["--store", "postgres", *words]))
        held = [plan for plan in plans if "--held" in plan.ours]
        assert {plan.ours[plan.ours.index("--seconds") + 1] for plan in held} == {seconds}
        assert any(plan.target is not None for plan in held) == judged


def test_percentiles_are_of_what_was_taken() -> None:
    assert percentiles([float(n) for n in range(100, 0, -1)]) == {"p50_ms": 51, "p95_ms": 96, "p99_ms": 100}


# ----------------------------------------------------------------------------------------- an adapter for other queues

# Takes each job out of a table by one session of psql.
PEER = """
import os, struct, subprocess, time
session = subprocess.Popen(
    ["psql", "-qAtX", "-d", os.environ["PG_DSN"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
)

def psql(text):
    session.stdin.write(text + "; select 'end';\\n")
    return list(iter(lambda: session.stdout.readline().strip(), "end"))

class P:
    script = __file__
    db = "postgres"

    def reset(self):
        assert os.environ["BATCH"] == "500", "the adapter knows the best setting"
        psql("drop table if exists pgqueuer; create table pgqueuer (sent float8)")

    def enqueue_bulk(self, n):
        began = time.monotonic()
        psql(f"insert into pgqueuer select {began} from generate_series(1, {n})")
        return time.monotonic() - began

    enqueue_single = preload = enqueue_bulk

    def latency(self, n, gap):
        self.enqueue_bulk(n)

if __name__ == "__main__":
    with open(os.environ["BENCH_MARKS"], "ab", buffering=0) as marks:
        while True:
            for sent in psql("select sent from pgqueuer"):
                marks.write(struct.pack("dd", float(sent), time.monotonic()))
                time.sleep(0.001)
                psql("delete from pgqueuer where ctid = (select min(ctid) from pgqueuer)")
            time.sleep(0.001)
"""


@pytest.mark.parametrize(
    ("part", "quantities"),
    [
        ("drain", {"per_second", "cpu_us", "rss_mb", "server_us", "wal_bytes"}),
        ("one", {"per_second"}),
        ("many", {"per_second"}),
        ("latency", {"p50_ms", "p95_ms", "p99_ms"}),
        ("idle", {"cpu_percent", "rss_mb"}),
    ],
)
def test_another_queue_is_measured_by_the_same_quantities(
    part: str, quantities: set[str], server: str, tmp_path: Path
) -> None:
    (tmp_path / "common.py").write_text(HARNESS)
    (tmp_path / "peer_pgqueuer.py").write_text(PEER)
    command = [sys.executable, str(BENCH / "postgres_peer.py"), "pgqueuer", part, "--jobs", "5", "--seconds", "0.1"]
    done = subprocess.run(
        [*command, "--peers", str(tmp_path), "--server", server], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert quantities <= measured.keys()
    assert all(math.isfinite(measured[name]) and measured[name] >= 0 for name in quantities)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["common.py", "peer_pgqueuer.py"], "it wrote to the scripts"
