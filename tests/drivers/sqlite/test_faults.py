"""Bad places, bad files, bad moments: clear errors, and nothing lost."""

from __future__ import annotations

import asyncio
import os
import shlex
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from windlass.drivers.memory import MemoryDriver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.sqlite.files import filesystem_of
from windlass.drivers.sqlite.library import Library, connect, run
from windlass.drivers.sqlite.texts import NotText
from windlass.drivers.statement import Op, Statement
from windlass.drivers.values import Claim
from windlass.errors import (
    DriverForked,
    DuplicateId,
    InvalidInput,
    MigrationChanged,
    SchemaTooNew,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReplaced,
    StoreUnavailable,
)
from windlass.types import NewJob

NOW = 10**15


def job(name: str, **fields: object) -> NewJob:
    return NewJob(id=name, type="work", **fields)  # type: ignore[arg-type]


def ids_in(path: Path) -> set[str]:
    connection = apsw.Connection(str(path))
    try:
        return {row[0] for row in connection.execute("select id from jobs")}
    finally:
        connection.close()


@contextmanager
def locked(path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    connection.execute("begin immediate")
    try:
        yield connection
    finally:
        if connection.in_transaction:
            connection.execute("rollback")
        connection.close()


# ------------------------------------------------------------------------------------------------------------- places


def test_a_missing_directory_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"mkdir -p .*nowhere"):
        SqliteDriver(tmp_path / "nowhere" / "jobs.db")


def test_a_directory_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is a directory"):
        SqliteDriver(tmp_path)


def test_the_file_and_its_companions_belong_to_their_owner_alone(tmp_path: Path) -> None:
    driver = SqliteDriver(tmp_path / "jobs.db")
    asyncio.run(driver.enqueue([job("a")], now=NOW))
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    asyncio.run(driver.close())
    assert modes == {"jobs.db": 0o600, "jobs.db-wal": 0o600, "jobs.db-shm": 0o600}


def test_a_read_only_file_is_said_to_be_read_only() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        path = Path(directory) / "jobs.db"
        asyncio.run(SqliteDriver(path).close())
        path.chmod(0o444)
        assert as_nobody(lambda: SqliteDriver(path)) == "StoreReadOnly"


def as_nobody(call: Callable[[], object], *, keep_user: bool = False) -> str:
    """The name of the error that a call meets in a forked process, without root's right to write anything."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "nothing"
        try:
            if os.geteuid() == 0 and not keep_user:
                os.setuid(65534)
            call()
        except BaseException as error:
            answer = type(error).__name__
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answers:
        return answers.read()


MOUNTS = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 0:40 / /mnt/team rw - nfs4 server:/export rw
41 40 0:41 / /mnt/team/local rw - xfs /dev/vdb rw
42 27 0:42 / /mnt/with\\040space rw - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("directory", "kind"),
    [("/var/lib", "ext4"), ("/mnt/team", "nfs4"), ("/mnt/team/a/b", "nfs4"), ("/mnt/teamwork", "ext4"),
     ("/mnt/team/local/x", "xfs"), ("/mnt/with space/x", "cifs"), ("/", "ext4")],
)  # fmt: skip
def test_the_file_system_of_a_directory_is_the_nearest_mount(directory: str, kind: str) -> None:
    assert filesystem_of(directory, MOUNTS) == kind


def test_network_file_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = f"50 1 0:50 / {tmp_path} rw - nfs4 server:/x rw"
    monkeypatch.setattr("windlass.drivers.sqlite.files.mounts", lambda: mount)
    with pytest.raises(StoreUnavailable, match="network file system"):
        SqliteDriver(tmp_path / "jobs.db")
    assert list(tmp_path.iterdir()) == []


# -------------------------------------------------------------------------------------------------------------- files


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.write_bytes(b"not a database, but long enough to look at" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="restore a backup"):
        SqliteDriver(path)
    assert path.read_bytes() == before


def test_a_damaged_page_is_reported_not_guessed_around(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    driver = SqliteDriver(path)
    asyncio.run(driver.enqueue([job(f"j{n}", payload=b"x" * 500) for n in range(500)], now=NOW))
    asyncio.run(driver.close())
    data = bytearray(path.read_bytes())
    data[4096 * 3 :] = os.urandom(len(data) - 4096 * 3)
    path.write_bytes(data)

    async def read_all() -> None:
        driver = SqliteDriver(path)
        try:
            await driver.get([f"j{n}" for n in range(500)])
            await driver.claim(claim(500), now=NOW)
        finally:
            await driver.close()

    with pytest.raises(StoreCorrupt):
        asyncio.run(read_all())


def claim(limit: int) -> Claim:
    return Claim(queues=("default",), limit=limit, lease_for=10, worker_id="w", token=f"t{limit}")


@pytest.mark.parametrize("library", ["apsw", "stdlib"])
def test_text_that_is_none_is_said_to_be_in_the_file_and_how_to_find_it(tmp_path: Path, library: Library) -> None:
    async def scenario() -> None:
        driver = SqliteDriver(str(tmp_path / "jobs.db"), sqlite=library)
        await driver.enqueue([NewJob(id="a", type="t", payload=b"")], now=NOW)
        other = connect(library, str(tmp_path / "jobs.db"), 1_000)
        other.execute("insert into jobs (type, org_id) values ('t', cast(x'ff' as text))")
        with pytest.raises(
            StoreCorrupt, match=r"jobs\.db: cannot be read: a row of jobs.* holds text that is not UTF-8"
        ) as told:
            await driver.claim(Claim(queues=("default",), limit=5, lease_for=1, worker_id="w", token="t"), now=NOW)
        assert "damaged" not in str(told.value)
        command = str(told.value).partition("find it with: ")[2].partition("; then correct or delete")[0]
        program, file, sql = shlex.split(command)
        assert (program, file) == ("sqlite3", str(tmp_path / "jobs.db"))
        if library == "apsw":
            assert other.execute(sql.replace("*", "seq")) == [(2,)]
        else:  # which names the column, and not the bytes
            assert ", column org_id," in str(told.value)
            assert other.execute(sql.replace("*", "seq")) == [("", 1), ("FF", 2)]
        other.close()
        await driver.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("library", ["apsw", "stdlib"])
def test_text_that_is_none_is_known_as_a_part_of_an_expression_too(library: Library) -> None:
    """Which has no name of a column, so it may be any of the table."""
    connection = connect(library, ":memory:", 0)
    connection.execute("create table notes (n INTEGER, a TEXT, b TEXT)")
    connection.execute("insert into notes values (1, cast(x'ff' as text), 'b')")

    def read() -> Op[None]:
        yield Statement("select coalesce(a, 'nobody') from notes", ())

    with pytest.raises(NotText) as told:
        run(connection, read())
    assert told.value.columns == {"notes": ["a", "b"]}
    connection.close()


def test_a_newer_schema_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    asyncio.run(SqliteDriver(path).close())
    connection = apsw.Connection(str(path))
    connection.execute("insert into migrations values (999, 'from_the_future', 'x', 0)")
    connection.close()
    with pytest.raises(SchemaTooNew, match=r"999.*pip install -U"):
        SqliteDriver(path)


def test_a_migration_that_was_changed_afterwards_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    asyncio.run(SqliteDriver(path).close())
    connection = apsw.Connection(str(path))
    connection.execute("update migrations set checksum = 'other' where version = 1")
    connection.close()
    with pytest.raises(MigrationChanged):
        SqliteDriver(path)


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    asyncio.run(SqliteDriver(path).close())
    connection = apsw.Connection(str(path))
    before = list(connection.execute("select * from migrations")), list(connection.execute("select * from meta"))
    asyncio.run(SqliteDriver(path).close())
    after = list(connection.execute("select * from migrations")), list(connection.execute("select * from meta"))
    connection.close()
    assert before == after


def test_eight_openers_at_once_make_one_schema(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    opened: list[SqliteDriver] = []
    failures: list[BaseException] = []

    def open_it() -> None:
        try:
            opened.append(SqliteDriver(path, busy_timeout=30))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len({driver.clock.now() // 60_000_000 for driver in opened}) == 1
    for driver in opened:
        asyncio.run(driver.close())


def test_a_file_deleted_or_replaced_underneath_is_noticed_before_anything_is_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def main() -> None:
        driver = SqliteDriver(path)
        await driver.enqueue([job("kept")], now=NOW)
        path.rename(tmp_path / "moved.db")
        for call in (driver.enqueue([job("lost")], now=NOW), driver.get(["kept"])):
            with pytest.raises(StoreReplaced):
                await call
        path.write_bytes(b"")
        with pytest.raises(StoreReplaced):
            await driver.enqueue([job("lost")], now=NOW)
        await driver.close()

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------------------ moments


def test_a_locked_file_is_waited_for_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def main() -> None:
        driver = SqliteDriver(path, busy_timeout=0.2)
        with locked(path):
            with pytest.raises(StoreBusy) as caught:
                await driver.enqueue([job("too-late")], now=NOW)
            assert caught.value.retryable
            assert await driver.get(["too-late"]) == [None]
        await driver.enqueue([job("in-time")], now=NOW)
        await driver.close()

    asyncio.run(main())
    assert ids_in(path) == {"in-time"}


def test_a_lock_that_is_given_up_in_time_only_delays(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def main() -> None:
        driver = SqliteDriver(path, busy_timeout=30)
        with locked(path) as holder:
            waiting = [asyncio.ensure_future(driver.enqueue([job(f"j{n}")], now=NOW)) for n in range(5)]
            await asyncio.sleep(0.05)
            assert not any(w.done() for w in waiting)
            holder.execute("rollback")
            await asyncio.gather(*waiting)
        await driver.close()

    asyncio.run(main())
    assert ids_in(path) == {f"j{n}" for n in range(5)}


def test_a_full_disk_loses_nothing_and_heals(tmp_path: Path) -> None:
    async def main() -> None:
        driver = SqliteDriver(tmp_path / "jobs.db", inline=True)
        await driver.enqueue([job("kept")], now=NOW)
        writer = driver._writer._connection
        [(pages,)] = writer.execute("pragma page_count")
        writer.execute(f"pragma max_page_count = {pages + 5}")
        with pytest.raises(StoreFull) as caught:
            await driver.enqueue([job(f"big{n}", payload=b"x" * 50_000) for n in range(20)], now=NOW)
        assert caught.value.retryable
        assert "readable" in str(caught.value)
        assert [j and j.id for j in await driver.get(["kept", "big0"])] == ["kept", None]
        writer.execute("pragma max_page_count = 1000000")
        await driver.enqueue([job(f"big{n}", payload=b"x" * 50_000) for n in range(20)], now=NOW)
        assert None not in await driver.get([f"big{n}" for n in range(20)])
        await driver.close()

    asyncio.run(main())


def test_a_neighbour_in_a_group_commit_does_not_pay_for_a_mistake(tmp_path: Path) -> None:
    """Calls that share a transaction are answered each for itself."""

    async def main() -> None:
        driver = SqliteDriver(tmp_path / "jobs.db")
        await driver.enqueue([job("taken")], now=NOW)
        commits: list[str] = []
        driver._writer.on_step = commits.append
        with locked(tmp_path / "jobs.db") as holder:  # so that they gather
            batches = [[job("a")], [job("taken")], [job("b")], [job("")], [job("c"), job("c")], [job("d")]]
            calls = [asyncio.ensure_future(driver.enqueue(batch, now=NOW)) for batch in batches]
            await asyncio.sleep(0.1)
            holder.execute("rollback")
            answers = await asyncio.gather(*calls, return_exceptions=True)
        kinds = [type(a).__name__ for a in answers]
        assert kinds == ["list", "DuplicateId", "list", "InvalidInput", "DuplicateId", "list"]
        assert [j is not None for j in await driver.get(["a", "b", "c", "d"])] == [True, True, False, True]
        await driver.close()

    asyncio.run(main())


def test_callers_that_come_together_share_a_commit(tmp_path: Path) -> None:
    async def main() -> int:
        driver = SqliteDriver(tmp_path / "jobs.db")
        steps: list[str] = []
        driver._writer.on_step = steps.append
        await asyncio.gather(*[driver.enqueue([job(f"j{n}")], now=NOW) for n in range(100)])
        await driver.close()
        return steps.count("after_commit")

    assert asyncio.run(main()) < 50


def test_a_driver_does_not_cross_a_fork(tmp_path: Path) -> None:
    async def use(driver: SqliteDriver, name: str) -> None:
        await driver.enqueue([job(name)], now=NOW)

    driver = SqliteDriver(tmp_path / "jobs.db")
    asyncio.run(use(driver, "before"))
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(use(driver, "in the child"))
        except DriverForked:
            os._exit(0)
        except BaseException:
            os._exit(2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asyncio.run(use(driver, "after"))
    asyncio.run(driver.close())
    assert ids_in(tmp_path / "jobs.db") == {"before", "after"}


def test_one_file_is_opened_through_one_library_in_a_process(tmp_path: Path) -> None:
    first = SqliteDriver(tmp_path / "jobs.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")
    for name in ("jobs.db", "link.db"):
        with pytest.raises(StoreUnavailable, match="sqlite='apsw'"):
            SqliteDriver(tmp_path / name, sqlite="stdlib")
    asyncio.run(first.close())
    asyncio.run(SqliteDriver(tmp_path / "jobs.db", sqlite="stdlib").close())


@pytest.mark.parametrize("make", [lambda path: MemoryDriver(), lambda path: SqliteDriver(path / "jobs.db")])
def test_wrong_types_are_refused_and_nothing_is_written(make: object, tmp_path: Path) -> None:
    async def main() -> None:
        driver = make(tmp_path)  # type: ignore[operator]
        for bad in ({"id": 5}, {"type": None}, {"queue": b"q"}):
            with pytest.raises(InvalidInput):
                await driver.enqueue([NewJob(**{"id": "x", "type": "t", **bad})], now=NOW)  # type: ignore[arg-type]
        with pytest.raises((DuplicateId, InvalidInput)):
            await driver.enqueue([job("y"), job("y")], now=NOW)
        assert await driver.get(["x", "y"]) == [None, None]
        await driver.close()

    asyncio.run(main())


def test_opening_a_second_driver_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops a process's locks on it; then another process deletes a living WAL."""
    path = tmp_path / "jobs.db"
    probe = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('select id from jobs').fetchall(); c.close()"

    async def main(library: Library) -> None:
        first = SqliteDriver(path, sqlite=library)
        await first.enqueue([job(f"{library}-1")], now=NOW)
        second = SqliteDriver(path, sqlite=library)
        with pytest.raises(StoreUnavailable):
            SqliteDriver(path, sqlite="stdlib" if library == "apsw" else "apsw")
        inode = os.stat(f"{path}-wal").st_ino
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", probe, str(path)], check=True)
        assert os.stat(f"{path}-wal").st_ino == inode, "another process thought it was the last and removed the WAL"
        await second.enqueue([job(f"{library}-2")], now=NOW)
        await second.close()
        await first.close()

    libraries: tuple[Library, ...] = ("apsw", "stdlib")
    for library in libraries:
        asyncio.run(main(library))
    assert ids_in(path) == {"apsw-1", "apsw-2", "stdlib-1", "stdlib-2"}


def test_a_group_waits_for_a_locked_file_once(tmp_path: Path) -> None:
    async def main() -> list[object]:
        driver = SqliteDriver(tmp_path / "jobs.db", busy_timeout=0.3)
        begun: list[str] = []
        with locked(tmp_path / "jobs.db"):
            driver._writer.on_step = begun.append
            calls = [driver.enqueue([job(f"j{n}")], now=NOW) for n in range(20)]
            answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20 * 0.3)
        await driver.close()
        return list(answers)

    assert {type(answer) for answer in asyncio.run(main())} == {StoreBusy}


def test_a_caller_that_is_cancelled_before_its_turn_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        driver = SqliteDriver(tmp_path / "jobs.db", busy_timeout=30)
        with locked(tmp_path / "jobs.db") as holder:
            first = asyncio.ensure_future(driver.enqueue([job("first")], now=NOW))
            await asyncio.sleep(0.05)
            late = asyncio.ensure_future(driver.enqueue([job("late")], now=NOW))
            await asyncio.sleep(0)
            late.cancel()
            holder.execute("rollback")
            await first
        await driver.enqueue([job("last")], now=NOW)  # by now its turn would have come
        assert [j and j.id for j in await driver.get(["first", "late"])] == ["first", None]
        await driver.close()

    asyncio.run(main())


def test_housekeeping_that_fails_does_not_stop_the_writer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        driver = SqliteDriver(tmp_path / "jobs.db")

        class Broken:
            def due(self) -> bool:
                return True

            def __call__(self) -> None:
                raise RuntimeError("no")

        driver._writer._between = Broken()
        for name in ("a", "b"):
            await asyncio.wait_for(driver.enqueue([job(name)], now=NOW), 10)
        await driver.close()

    asyncio.run(main())
    assert ids_in(tmp_path / "jobs.db") == {"a", "b"}
    assert "housekeeping" in caplog.text


def test_a_forked_child_may_drop_and_close_but_not_use_a_driver(tmp_path: Path) -> None:
    driver = SqliteDriver(tmp_path / "jobs.db")
    asyncio.run(driver.enqueue([job("before")], now=NOW))

    def in_child() -> None:
        for call in (lambda: asyncio.run(driver.wait(timeout=0)), driver.remeasure):
            with pytest.raises(DriverForked):
                call()
        asyncio.run(driver.close())

    assert as_nobody(in_child, keep_user=True) == "nothing"
    asyncio.run(driver.enqueue([job("after")], now=NOW))
    asyncio.run(driver.close())
    assert ids_in(tmp_path / "jobs.db") == {"before", "after"}


def test_a_linked_path_is_the_file_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "jobs.db")
    driver = SqliteDriver(tmp_path / "link.db")
    asyncio.run(driver.close())
    assert driver.path == str(tmp_path / "real" / "jobs.db")
