"""The schema: made, brought up to date, refused; by two at once, by one that is killed, while workers run."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from postgres.binaries import binaries
from postgres.server import Server
from windlass.config import Migrate
from windlass.drivers.migrations import Migration
from windlass.drivers.postgres import PostgresDriver, migrating, schema
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.schema import migrate, own_steps, status
from windlass.drivers.postgres.splitting import concurrent_statements, statements
from windlass.drivers.values import Claim
from windlass.errors import MigrationChanged, SchemaMissing, SchemaTooNew, SchemaTooOld, StoreBusy, StoreUnavailable
from windlass.types import NewJob

MORE = """create table windlass.more (n bigint primary key, note text not null default 'a;b');
alter table windlass.jobs add column colour text;
"""
INDEXES = """-- concurrently
-- Two of them; the second was dropped once; and a constraint.
create index concurrently if not exists jobs_colour on windlass.jobs (colour) where colour <> 'a;b';
drop index concurrently if exists windlass.jobs_shade;
create unique index concurrently if not exists more_note on windlass.more (note);
"""
LATER = [Migration(2, "more", MORE), Migration(3, "indexes", INDEXES)]
STEPS = [*own_steps(), *LATER]
LABELS = ["0001_windlass", "0002_more", "0003_indexes"]


@pytest.fixture
def place(fresh_schema: tuple[str, str]) -> Place:
    return Place(*fresh_schema, "none", 10.0)


def sql(place: Place, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn_of(place), autocommit=True) as connection:
        cursor = connection.execute(place.text(text).encode())
        return cursor.fetchall() if cursor.description else []


def dsn_of(place: Place) -> str:
    return psycopg.conninfo.make_conninfo(**place._given)


def shape(place: Place) -> str:
    """Everything that pg_dump tells of a schema but its owner and its name."""
    words = ["--schema-only", f"--schema={place.schema}", f"--dbname={dsn_of(place)}"]
    done = subprocess.run([binaries() / "pg_dump", *words], capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("\\restrict", "\\unrestrict"))]
    return "\n".join(lines).replace(place.schema, "S")


def beside(place: Place, name: str) -> Place:
    return Place(dsn_of(place), name, "none", 10.0)


@contextmanager
def second(place: Place) -> Iterator[Place]:
    other = beside(place, f"{place.schema}_b")
    try:
        yield other
    finally:
        sql(other, f'drop schema if exists "{other.schema}" cascade')


# ------------------------------------------------------------------------------------------------------ what a start may do


def opened(place: Place, mode: Migrate) -> None:
    asyncio.run(PostgresDriver(dsn_of(place), schema=place.schema, migrate=mode).close())


def test_an_empty_schema_is_made_at_start_unless_that_is_forbidden(place: Place) -> None:
    with pytest.raises(SchemaMissing, match="windlass migrate"):
        opened(place, "never")
    opened(place, "empty")
    opened(place, "never")


def test_an_older_schema_is_updated_only_when_asked_to(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(place, "empty")
    monkeypatch.setattr(schema, "own_steps", lambda: STEPS)
    for mode in ("empty", "never"):
        with pytest.raises(SchemaTooOld, match=r"schema 1 is older.*\(3\).*windlass migrate --plan"):
            opened(place, mode)
    opened(place, "auto")
    opened(place, "never")
    assert sql(place, "select version from windlass.migrations order by 1") == [(1,), (2,), (3,)]


def test_a_newer_schema_is_refused_and_left_alone(place: Place) -> None:
    migrate(place, STEPS)
    with pytest.raises(SchemaTooNew, match=r"pip install -U windlass"):
        opened(place, "auto")
    with pytest.raises(SchemaTooNew):
        status(place)


def test_a_step_whose_text_changed_is_refused(place: Place) -> None:
    migrate(place)
    sql(place, "update windlass.migrations set checksum = 'other'")
    with pytest.raises(MigrationChanged, match="0001_windlass was applied with another text"):
        opened(place, "auto")


def test_a_schema_may_be_called_like_a_word_of_sql(postgres_server: Server) -> None:
    place = Place(postgres_server.create_database(), "user", "none", 10.0)
    opened(place, "empty")
    migrate(place, STEPS)


# ----------------------------------------------------------------------------------------------------- the same by any way


def psql(place: Place, script: str) -> subprocess.CompletedProcess[str]:
    words = ["--no-psqlrc", "--quiet", f"--dbname={dsn_of(place)}", "--file=-"]
    return subprocess.run([binaries() / "psql", *words], input=script, capture_output=True, text=True)


def run_script(place: Place, steps: list[Migration]) -> None:
    done = psql(place, status(place, steps).script)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_makes_the_same_schema_as_migrating(place: Place) -> None:
    with second(place) as other:
        run_script(other, STEPS)
        assert migrate(place, STEPS) == LABELS
        assert shape(other) == shape(place)
        assert "jobs_colour" in shape(place)
        assert migrate(other, STEPS) == []
        what = "select version, name, checksum from windlass.migrations order by 1"
        assert sql(other, what) == sql(place, what)
        assert len(sql(other, "select value from windlass.meta where key = 'store_id'")[0][0]) == 32


def test_the_script_brings_an_older_schema_to_the_same_state(place: Place) -> None:
    with second(place) as other:
        for each in (place, other):
            migrate(each)
        before = status(other, STEPS)
        assert [(step.label, done) for step, done in before.steps] == list(zip(LABELS, [True, False, False], strict=True))
        run_script(other, STEPS)
        assert migrate(place, STEPS) == LABELS[1:]
        assert shape(other) == shape(place)
        assert status(other, STEPS).script == ""


def test_a_script_that_comes_too_late_changes_nothing(place: Place) -> None:
    migrate(place)
    script = status(place, STEPS).script
    migrate(place, STEPS)
    before = shape(place)
    done = psql(place, script)
    assert done.returncode == 3
    assert "already exists" in done.stderr
    assert shape(place) == before


def test_made_from_nothing_or_step_by_step_a_schema_is_the_same(place: Place) -> None:
    with second(place) as other:
        migrate(place, STEPS)
        for n in (1, 2, 3):
            assert migrate(other, STEPS[:n]) == [LABELS[n - 1]]
        assert shape(other) == shape(place)


def test_a_schema_that_cannot_be_made_whole_is_not_made_at_all(place: Place) -> None:
    broken = Migration(4, "broken", "create table windlass.half (n int);\nselect 1 / 0;\n")
    with pytest.raises(Exception, match="division by zero"):
        migrate(place, [*STEPS, broken])
    assert sql(place, f"select to_regnamespace('{place.schema}')") == [(None,)]
    migrate(place, STEPS)
    with pytest.raises(Exception, match="division by zero"):
        migrate(place, [*STEPS, broken])
    assert sql(place, "select to_regclass('windlass.half')") == [(None,)]


# ------------------------------------------------------------------------------------------------------------ statements


def test_statements_end_at_semicolons_that_mean_it() -> None:
    text = """select 'a;b', "c;d" /* e;f */ -- g;h
    , $$ i;j $$, $k$ l;$$;m $k$; select 'it''s';\n"""
    assert list(statements(text)) == ["""select 'a;b', "c;d"  \n    , $$ i;j $$, $k$ l;$$;m $k$""", "select 'it''s'"]


@pytest.mark.parametrize(
    "text",
    ["select 1", "select 'a;", 'select "a;', "do $$ begin;", r"select e'\';'"],
)
def test_a_text_that_ends_inside_a_statement_is_refused(text: str) -> None:
    with pytest.raises(AssertionError):
        list(statements(text + ";\n" if "'" in text or '"' in text or "$" in text else text))


@pytest.mark.parametrize(
    "statement",
    [
        "create index concurrently jobs_x on windlass.jobs (type)",
        "create index if not exists jobs_x on windlass.jobs (type)",
        "create index concurrently if not exists jobs_x on jobs (type)",
        "alter table windlass.jobs add column x text",
        "update windlass.jobs set type = 'x'",
    ],
)
def test_what_cannot_be_repeated_is_no_concurrent_statement(statement: str) -> None:
    with pytest.raises(AssertionError):
        concurrent_statements(f"-- concurrently\n{statement};\n")


def test_our_own_concurrent_steps_are_understood() -> None:
    for step in STEPS:
        if step.concurrent:
            assert concurrent_statements(step.text)


# ---------------------------------------------------------------------------------------------------------------- locks


def test_a_step_gives_up_soon_and_says_who_is_in_its_way(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(place)
    monkeypatch.setattr(migrating, "FOR_A_TABLE", 1.5)
    with psycopg.connect(dsn_of(place), application_name="a report") as report:
        report.execute(place.text("select count(*) from windlass.jobs").encode())
        pid = report.info.backend_pid
        with pytest.raises(
            StoreBusy, match=f"0002_more did not get a lock.*session {pid} of postgres \\(a report.*idle in"
        ) as told:
            migrate(place, STEPS)
        assert f"pg_terminate_backend({pid})" in str(told.value)
    assert migrate(place, STEPS) == LABELS[1:]


def test_workers_wait_behind_a_step_for_no_longer_than_it_does(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its request for a lock stands before theirs, so it must not stand for long."""
    migrate(place)
    monkeypatch.setattr(migrating, "FOR_A_TABLE", 1.0)
    with psycopg.connect(dsn_of(place)) as report:
        report.execute(place.text("select count(*) from windlass.jobs").encode())
        failed: list[BaseException] = []

        def run() -> None:
            try:
                migrate(place, STEPS)
            except StoreBusy as error:
                failed.append(error)

        migrator = threading.Thread(target=run)
        migrator.start()
        until = time.monotonic() + 10
        while not sql(place, "select 1 from pg_locks where not granted and mode = 'AccessExclusiveLock'"):
            assert time.monotonic() < until
        began = time.monotonic()
        sql(place, "insert into windlass.jobs (type) values ('x')")
        assert time.monotonic() - began < 6
        migrator.join()
        assert len(failed) == 1


def test_another_migrator_is_waited_for_and_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(place)
    monkeypatch.setattr(migrating, "FOR_OTHERS", 1.5)
    with psycopg.connect(dsn_of(place), autocommit=True, application_name="the other") as other:
        other.execute("select pg_advisory_lock(hashtextextended(%s, 0))", (migrating.LOCK.format(place.schema),))
        with pytest.raises(StoreBusy, match=r"another migrator is at work, because of session \d+ of postgres \(the other"):
            migrate(place, STEPS)


# ------------------------------------------------------------------------------------------------------ several processes

CHILD = """
import sys
from windlass.drivers.migrations import Migration
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.schema import migrate, own_steps

dsn, schema, *texts = sys.argv[1:]
later = [Migration(n, f"later_{n}", text) for n, text in enumerate(texts, 2)]
print("ready", flush=True)
sys.stdin.readline()
print(",".join(migrate(Place(dsn, schema, "none", 10.0), [*own_steps(), *later])) or "nothing", flush=True)
"""


class Migrator:
    """A migrator in a process of its own, which begins when it is told."""

    def __init__(self, place: Place, *texts: str) -> None:
        command = [sys.executable, "-c", textwrap.dedent(CHILD), dsn_of(place), place.schema, *texts]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        answer = self._line()
        assert self.process.wait(60) == 0
        self.close()
        return answer

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.close()

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.mark.parametrize("empty", [True, False])
def test_two_migrators_at_once_apply_each_step_once(place: Place, empty: bool) -> None:
    if not empty:
        migrate(place)
    migrators = [Migrator(place, MORE, INDEXES) for _ in range(2)]
    for migrator in migrators:
        migrator.begin()
    answers = [migrator.answer() for migrator in migrators]
    done = [label for answer in answers if answer != "nothing" for label in answer.split(",")]
    assert sorted(done) == ["0001_windlass", "0002_later_2", "0003_later_3"][0 if empty else 1 :]
    assert len(sql(place, "select version from windlass.migrations")) == 3


def wait_for(place: Place, condition: str) -> None:
    until = time.monotonic() + 30
    while not sql(place, condition):
        assert time.monotonic() < until, condition
        time.sleep(0.02)


def test_a_migrator_killed_in_a_transaction_leaves_nothing_behind(place: Place) -> None:
    migrate(place)
    before = shape(place)
    migrator = Migrator(place, f"{MORE}select pg_sleep(3) as killed_here;\n")
    migrator.begin()
    wait_for(place, "select pid from pg_stat_activity where query like '%killed_here%' and wait_event = 'PgSleep'")
    migrator.kill()
    assert shape(place) == before
    assert migrate(place, STEPS) == LABELS[1:]  # it waits until the server has noticed


def test_an_index_that_a_killed_migrator_left_half_built_is_built_again(place: Place) -> None:
    migrate(place, STEPS[:2])
    with psycopg.connect(dsn_of(place)) as old:
        old.execute(place.text("insert into windlass.jobs (type) values ('x')").encode())  # building waits for its end
        migrator = Migrator(place, MORE, INDEXES)
        migrator.begin()
        half = "select 1 from pg_index where indexrelid = to_regclass('windlass.jobs_colour') and not indisvalid"
        wait_for(place, half)
        wait_for(place, "select 1 from pg_stat_activity where query like '%jobs_colour%' and wait_event_type = 'Lock'")
        migrator.kill()
        time.sleep(1.5)  # the server looks once a second whether its client lives
        assert sql(place, half) == [(1,)]
        assert sql(place, "select 1 from windlass.migrations where version = 3") == []
    [(before,)] = sql(place, "select to_regclass('windlass.jobs_colour')::oid")
    assert migrate(place, STEPS) == ["0003_indexes"]
    [(after,)] = sql(place, "select to_regclass('windlass.jobs_colour')::oid")
    assert after != before
    assert sql(place, half) == []


# --------------------------------------------------------------------------------------------------------------- workers


def test_workers_of_the_version_before_go_on_while_a_migration_is_applied(place: Place) -> None:
    """Prepared statements outlive the change of their tables, and nothing is lost."""
    driver = PostgresDriver(dsn_of(place), schema=place.schema)
    stop = threading.Event()
    done: list[str] = []

    async def work() -> None:
        n = 0
        while not stop.is_set() or n < 50:
            n += 1
            now = driver.clock.now()
            await driver.enqueue([NewJob(id=f"j{n}", type="t", payload=b"{}")], now=now)
            wish = Claim(queues=("default",), limit=5, lease_for=30_000_000, worker_id="w", token=f"token-{n}")
            taken = await driver.claim(wish, now=driver.clock.now())
            done.extend(job.id for job in taken)
        await driver.close()

    worker = threading.Thread(target=lambda: asyncio.run(work()))
    worker.start()
    try:
        assert migrate(place, STEPS) == LABELS[1:]
    finally:
        stop.set()
        worker.join()
    assert len(done) == len(set(done)) == len(sql(place, "select 1 from windlass.jobs where state = 'running'"))
    assert len(done) >= 50


def test_a_table_that_changed_under_a_prepared_statement_is_read_anew(place: Place) -> None:
    async def run() -> None:
        driver = PostgresDriver(dsn_of(place), schema=place.schema)
        try:
            for n in range(3):
                await driver.enqueue([NewJob(id=f"j{n}", type="t", payload=b"{}")], now=driver.clock.now())
                assert (await driver.get([f"j{n}"]))[0] is not None
            sql(place, "alter table windlass.jobs alter column progress_note type varchar")
            assert (await driver.get(["j1"]))[0] is not None
        finally:
            await driver.close()

    asyncio.run(run())


def test_a_concurrent_step_does_not_go_through_a_pooler(place: Place) -> None:
    migrate(place, STEPS[:2])
    pooled = Place(dsn_of(place), place.schema, "transaction", 10.0)
    with pytest.raises(StoreUnavailable, match="WINDLASS_POOLER=none"):
        migrate(pooled, STEPS)
    migrate(place, STEPS)


def test_looking_at_a_plan_changes_nothing(place: Place) -> None:
    found = status(place, STEPS)
    assert [(step.label, done, step.concurrent) for step, done in found.steps] == [
        ("0001_windlass", False, False), ("0002_more", False, False), ("0003_indexes", False, True),
    ]  # fmt: skip
    assert sql(place, f"select to_regnamespace('{place.schema}')") == [(None,)]
