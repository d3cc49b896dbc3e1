"""Opening, time, wake-ups, plans, and the caller's own transaction."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from windlass.clock import SECOND, since_boot, wall
from windlass.drivers import migrate, open_driver
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.migrations import known, missing
from windlass.drivers.sqlite import SqliteDriver, jobs
from windlass.drivers.sqlite.checkpoint import is_affected
from windlass.drivers.sqlite.library import Library, StdlibConnection, connect, run_within
from windlass.drivers.sqlite.splitting import statements
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.sqlite.store import Anchor, boot_id, next_anchor
from windlass.drivers.sqlite.watcher import Watcher
from windlass.drivers.values import Claim
from windlass.errors import DuplicateId, StoreUnavailable, UnknownStore
from windlass.types import NewJob

NOW = 10**15


def close(driver: SqliteDriver) -> None:
    asyncio.run(driver.close())


# --------------------------------------------------------------------------------------------------------------- urls


def test_a_url_names_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(open_driver("memory://"), MemoryDriver)
    relative, absolute = (
        open_driver("sqlite:///a.db"),
        open_driver(f"sqlite:///{tmp_path}/b%20c.db", durability="relaxed"),
    )
    assert isinstance(relative, SqliteDriver)
    assert isinstance(absolute, SqliteDriver)
    assert (relative.path, absolute.path) == (str(tmp_path / "a.db"), str(tmp_path / "b c.db"))
    close(relative)
    close(absolute)


@pytest.mark.parametrize("url", ["", "jobs.db", "sqlite://", "sqlite://jobs.db", "redis://localhost", "sqlite:///"])
def test_an_unknown_url_is_answered_with_the_known_ones(url: str) -> None:
    with pytest.raises(UnknownStore, match="sqlite:///"):
        open_driver(url)


def test_a_system_that_the_store_is_not_made_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.drivers.sys.platform", "win32")
    with pytest.raises(StoreUnavailable, match="use WSL"):
        open_driver("sqlite:///jobs.db")


# --------------------------------------------------------------------------------------------------------- durability


@pytest.mark.parametrize("library", ["apsw", "stdlib"])
@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("relaxed", 1)])
def test_acknowledged_means_synced_unless_relaxed_is_said(
    tmp_path: Path, library: Library, durability: str, level: int
) -> None:
    driver = SqliteDriver(tmp_path / "jobs.db", sqlite=library, durability=durability)  # type: ignore[arg-type]
    writer = driver._writer._connection
    settings = [writer.execute(f"pragma {name}")[0][0] for name in ("journal_mode", "synchronous", "foreign_keys")]
    close(driver)
    assert settings == ["wal", level, 1]


@pytest.mark.parametrize(
    ("version", "affected"),
    [("3.40.1", True), ("3.51.2", True), ("3.51.3", False), ("3.50.7", False), ("3.50.6", True), ("3.44.6", False),
     ("3.44.5", True), ("3.54.1", False), ("3.6.23", False), ("3.45.0", True)],
)  # fmt: skip
def test_versions_with_the_wal_reset_bug_are_known(version: str, affected: bool) -> None:
    assert is_affected(version) is affected


def test_the_wal_stays_bounded_where_nothing_checkpoints_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.drivers.sqlite.checkpoint.WAL_LIMIT", 200_000)
    monkeypatch.setattr("windlass.drivers.sqlite.checkpoint.PAUSE", 5)
    monkeypatch.setattr("windlass.drivers.sqlite.driver.is_affected", lambda _: True)
    path = tmp_path / "jobs.db"

    async def fill() -> int:
        driver = SqliteDriver(path, sqlite="stdlib", durability="relaxed")
        for n in range(150):
            await driver.enqueue([NewJob(id=f"{n}-{m}", type="t", payload=b"x" * 2_000) for m in range(10)], now=NOW)
        size = os.stat(f"{path}-wal").st_size
        await driver.close()
        return size

    assert asyncio.run(fill()) < 1_500_000, "the WAL holds all that was ever written"


# ---------------------------------------------------------------------------------------------------------------- time


BOOT = Anchor("boot-1", 100 * SECOND, 5_000 * SECOND)


@pytest.mark.parametrize(
    ("why", "boot", "since", "utc", "expected"),
    [
        ("nothing happened", "boot-1", 160, 5_060, 5_060),
        ("a small lag is left alone", "boot-1", 160, 5_060.9, 5_060),
        ("the wall clock was set back", "boot-1", 160, 1_000, 5_060),
        ("the wall clock is far ahead", "boot-1", 160, 5_090, 5_090),
        ("a new boot, time went on", "boot-2", 10, 9_000, 9_000),
        ("a new boot with a dead battery", "boot-2", 10, 3, 5_000),
    ],
)
def test_an_anchor_only_moves_forward(why: str, boot: str, since: float, utc: float, expected: float) -> None:
    anchor = next_anchor(BOOT, boot, int(since * SECOND), int(utc * SECOND))
    assert anchor.utc + int(since * SECOND) - anchor.boot == int(expected * SECOND), why


def test_a_fresh_store_is_anchored_at_the_wall_clock() -> None:
    assert next_anchor(None, "boot-1", 7, 99) == Anchor("boot-1", 7, 99)


def test_processes_with_different_wall_clocks_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = SqliteDriver(tmp_path / "jobs.db")
    monkeypatch.setattr("windlass.drivers.sqlite.store.wall", lambda: wall() - 86_400 * SECOND)
    second = SqliteDriver(tmp_path / "jobs.db")
    assert abs(first.clock.now() - second.clock.now()) < SECOND // 10
    close(first)
    close(second)


def test_a_step_is_adopted_by_everyone_at_the_next_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = SqliteDriver(tmp_path / "jobs.db")
    assert abs(first.remeasure()) == 0
    monkeypatch.setattr("windlass.drivers.sqlite.store.wall", lambda: wall() + 3_600 * SECOND)
    second = SqliteDriver(tmp_path / "jobs.db")
    assert second.clock.now() - first.clock.now() > 3_599 * SECOND
    assert first.remeasure() > 3_599 * SECOND
    assert abs(first.clock.now() - second.clock.now()) < SECOND // 10
    close(first)
    close(second)


def test_an_event_loop_never_waits_for_the_lock_to_move_the_anchor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweeper looks at the clock on the worker's event loop, while a transaction may hold the lock for long."""
    driver = SqliteDriver(tmp_path / "jobs.db", busy_timeout=60)
    holds = driver.transaction()
    holds.begin()
    monkeypatch.setattr("windlass.drivers.sqlite.store.wall", lambda: wall() + 3_600 * SECOND)
    before = since_boot()
    assert driver.remeasure() == 0
    assert since_boot() - before < 10 * SECOND
    holds.rollback()
    assert driver.remeasure() > 3_599 * SECOND
    close(driver)


def test_the_boot_is_known_and_the_same_twice() -> None:
    assert boot_id() == boot_id() != ""
    assert 0 < since_boot() <= since_boot()


# ----------------------------------------------------------------------------------------------------------- wake-ups


@pytest.mark.parametrize("use_inotify", [True, False])
def test_a_commit_by_another_process_wakes_a_waiter(tmp_path: Path, use_inotify: bool) -> None:
    path = tmp_path / "jobs.db"

    async def main() -> None:
        mine = SqliteDriver(path, inotify=use_inotify)
        theirs = SqliteDriver(path)
        while await mine.wait(timeout=0.2):
            pass
        assert mine.capabilities.wakeups == ("push" if use_inotify else "poll")
        for n in range(5):
            waiter = asyncio.ensure_future(mine.wait(timeout=30))
            await asyncio.sleep(0.02)
            assert not waiter.done()
            await theirs.enqueue([NewJob(id=f"j{n}", type="t")], now=NOW)
            assert await waiter is True
        await mine.close()
        await theirs.close()

    asyncio.run(main())


def test_an_idle_watcher_burns_nothing(tmp_path: Path) -> None:
    async def main() -> float:
        driver = SqliteDriver(tmp_path / "jobs.db")
        await driver.wait(timeout=0.01)
        begun = time.process_time()
        await driver.wait(timeout=0.5)
        burnt = time.process_time() - begun
        await driver.close()
        return burnt

    assert asyncio.run(main()) < 0.1


def test_closing_wakes_those_who_wait(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    close(SqliteDriver(path))

    async def main() -> bool:
        watcher = Watcher(path, connect("apsw", path, 100))
        waiter = asyncio.ensure_future(watcher.wait(30))
        await asyncio.sleep(0.01)
        await asyncio.to_thread(watcher.close)
        watcher.close()
        return await waiter

    assert asyncio.run(main()) is True


# ------------------------------------------------------------------------------------------- the caller's transaction


def test_enqueueing_in_the_callers_transaction_commits_and_rolls_back_with_it(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    close(SqliteDriver(path, sqlite="stdlib"))
    theirs = sqlite3.connect(path, isolation_level=None)
    theirs.execute("create table orders (id text)")
    for name, end in (("kept", "commit"), ("gone", "rollback")):
        theirs.execute("begin immediate")
        theirs.execute("insert into orders values (?)", (name,))
        [answer] = run_within(StdlibConnection(theirs), jobs.enqueue([NewJob(id=name, type="mail")], NOW))
        assert answer.id == name
        theirs.execute(end)
    assert [row[0] for row in theirs.execute("select id from orders")] == ["kept"]
    assert [row[0] for row in theirs.execute("select id from jobs")] == ["kept"]
    theirs.execute("begin immediate")
    with pytest.raises(DuplicateId):
        run_within(
            StdlibConnection(theirs), jobs.enqueue([NewJob(id="new", type="mail"), NewJob(id="kept", type="x")], NOW)
        )
    theirs.execute("insert into orders values ('theirs')")
    theirs.execute("commit")
    assert [row[0] for row in theirs.execute("select id from jobs")] == ["kept"], "half of a refused batch was kept"
    assert [row[0] for row in theirs.execute("select id from orders")] == ["kept", "theirs"]
    theirs.close()


# --------------------------------------------------------------------------------------------------- plans and schema


FULL_SCAN = re.compile(r"(SCAN|SEARCH) (jobs|runs|head|member)\b(?!.* USING (COVERING INDEX|INDEX|(INTEGER )?PRIMARY KEY))")
HOT = """
    glance promote pick pick_rows pick_types picked claim insert_runs extend begin_runs expire close_expired leased_queues
    undecided guards seqs_of ack ack_begun close_acked close_begun close_unstarted move close_run report count_jobs
    ids_in_use dedupe_holder key_holder fire_holder chain_head unpark parked_kinds pick_limited pick_share pick_firsts
    pick_limited_rows pick_firsts_rows anybody_waits leased_under
    count_members uncount_failed keep_runs meter lapsed
    get_jobs get_runs prunable last_position place_after place_before queue_order
    prune_edge kept_by_age kept_by_need keepers doubt_groups miscounted unpark_all
    ready_level ready_edge waiting_edge blocked_edge ready_with waiting_with blocked_with unshared_parked
    running_with shared_queues shared_parked shared_ready share_these unshare_these
"""


def test_hot_statements_are_index_searches(tmp_path: Path) -> None:
    """No statement of the hot path reads a table from end to end, whatever the statistics say."""
    path = tmp_path / "jobs.db"
    close(SqliteDriver(path))
    connection = connect("apsw", str(path), 1_000)
    hot = set(HOT.split())
    assert hot <= {block.name for block in SQL}
    for block in SQL:
        if block.name in hot:
            plan = connection.execute(f"explain query plan {block.sql}", [None] * len(block.names))
            for step in plan:
                scans = FULL_SCAN.match(step[3])
                assert not scans, f"{block.name}: {step[3]}"
    connection.close()


@pytest.mark.parametrize("name", ["last_position", "place_after", "place_before", "queue_order"])
def test_a_place_in_a_queue_costs_the_same_however_many_wait_for_their_time(tmp_path: Path, name: str) -> None:
    """Each enqueue into a dense queue asks for the last one, while nobody else can write."""
    block, path = getattr(SQL, name), tmp_path / "jobs.db"
    close(SqliteDriver(path))
    theirs = sqlite3.connect(path, isolation_level=None)
    steps = list[int]()
    for waiting in (30, 3_000):
        later = [NewJob(id=f"{waiting}-{n}", type="mail", run_at=NOW + SECOND) for n in range(waiting)]
        run_within(StdlibConnection(theirs), jobs.enqueue(later, NOW))
        asked = {"queue": "default", "priority": 0, "position": 500, "created_at": NOW, "number": 5, "seq": 5, "limit": 1}
        steps.append(0)
        theirs.set_progress_handler(lambda: steps.__setitem__(-1, steps[-1] + 1), 1)
        assert theirs.execute(block.sql, [asked[field] for field in block.names]).fetchall()
        theirs.set_progress_handler(None, 1)
    theirs.close()
    assert steps[1] < 2 * steps[0], f"{steps} steps of SQLite's machine, with 30 and 3,000 that wait"


def test_the_newest_groups_are_read_off_an_index(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    close(SqliteDriver(path))
    connection = connect("apsw", str(path), 1_000)
    plan = [step[3] for step in connection.execute(f"explain query plan {SQL.newest_groups.sql}", [50])]
    connection.close()
    assert plan == ["SCAN groups USING INDEX groups_newest"]


def schema(tmp_path: Path, kind: str) -> dict[str, str]:
    path = tmp_path / "jobs.db"
    close(SqliteDriver(path))
    connection = connect("apsw", str(path), 1_000)
    rows = connection.execute("select name, sql from sqlite_master where type = ? and sql is not null", (kind,))
    connection.close()
    return {name: " ".join(sql.split()) for name, sql in rows}


def test_the_first_migration_holds_every_table(tmp_path: Path) -> None:
    expected = """
        jobs runs queues queue_stats workers leader templates schedules groups dependencies limits reservations
        idempotency_keys webhooks outbox deliveries usage_batches usage_hourly usage_daily api_tokens audit meta
        migrations shares
    """.split()
    tables = schema(tmp_path, "table")
    assert set(expected) == set(tables) - {"sqlite_sequence"}
    assert all("strict" in sql.lower() for name, sql in tables.items() if name != "sqlite_sequence")


def test_no_index_on_jobs_holds_a_row_in_two_states(tmp_path: Path) -> None:
    """Each is partial on the state it serves; those that keep something unique span what they must."""
    indexes = {name: sql for name, sql in schema(tmp_path, "index").items() if " on jobs " in sql}
    uniqueness = {"jobs_dedupe", "jobs_retry_of", "jobs_manual_retry", "jobs_fire", "jobs_group"}
    uniqueness |= {"jobs_schedule", "jobs_made"}  # only what a schedule made is in them
    for name, sql in indexes.items():
        assert " where " in sql, name
        if name not in uniqueness:
            assert re.search(r"where (state = '\w+'|finished_at is not null)", sql), name


def test_triggers_on_jobs_and_runs_only_raise(tmp_path: Path) -> None:
    """No trigger body runs for the engine's own writes: only the two that help hands do more than raise."""
    for name, sql in schema(tmp_path, "trigger").items():
        assert " when " in sql or name.startswith("audit"), name
        if name not in {"jobs_touch", "jobs_default_position"}:
            assert "begin select raise(abort" in sql, name


def test_the_insert_follows_the_fields_of_a_new_job() -> None:
    fields = list(NewJob.__struct_fields__)
    stored = fields[: fields.index("idempotency_expires_at")]
    assert SQL.insert_job.names == ["seq", "ready", "position", "now", *stored, "share", "history"]


def test_a_block_refuses_wrong_parameters() -> None:
    with pytest.raises(TypeError, match="chain_head"):
        SQL.chain_head(nonsense=1)
    with pytest.raises(AttributeError):
        _ = SQL.no_such_block


def test_migrations_are_numbered_and_split_into_whole_statements() -> None:
    steps = known("windlass.drivers.sqlite.migrations")
    assert [step.version for step in steps] == list(range(1, len(steps) + 1))
    assert missing(steps, {step.version: step.checksum for step in steps}, "x") == []
    for step in steps:
        parts = list(statements(step.text))
        assert all(sqlite3.complete_statement(part) for part in parts)
        assert sum("create trigger" in part for part in parts) == step.text.count("create trigger")


def test_a_million_numbers_later_handles_still_name_their_job(tmp_path: Path) -> None:
    """64-bit row numbers, from 2**31 and beyond."""

    async def main() -> None:
        driver = SqliteDriver(tmp_path / "jobs.db", inline=True)
        for start in (2**31 - 1, 2**40, 2**48 - 1, 2**53 - 5):
            driver._writer._connection.execute("delete from sqlite_sequence where name = 'jobs'")
            driver._writer._connection.execute("insert into sqlite_sequence values ('jobs', ?)", (start,))
            await driver.enqueue([NewJob(id=f"j{start}", type="t")], now=NOW)
            wish = Claim(queues=("default",), limit=1, lease_for=10, worker_id="w", token=f"t{start}")
            [job] = await driver.claim(wish, now=NOW)
            assert job.handle[0] == start + 1
            assert job.run_id.endswith(f"-{start + 1:012x}")
            assert [run.run_id for run in await driver.runs(job.id)] == [job.run_id]
        await driver.close()

    asyncio.run(main())


def test_a_file_that_migrate_makes_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        migrate(f"sqlite:///{tmp_path}/jobs.db")
    finally:
        os.umask(before)
    assert (tmp_path / "jobs.db").stat().st_mode & 0o777 == 0o600


def test_waiting_where_no_thread_can_be_started_opens_no_more_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def go() -> None:
        driver, open_files = SqliteDriver(tmp_path / "jobs.db"), set[int]()
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refused)
            for _ in range(3):
                with pytest.raises(RuntimeError):
                    await driver.wait(timeout=0)
                open_files.add(len(os.listdir("/proc/self/fd")))
        assert len(open_files) == 1, "each leaves more of them"
        assert await driver.wait(timeout=0), "what came before is not known"
        await driver.close()

    asyncio.run(go())
