"""The logs of runs: one bounded file each, only when there is something to keep, and gone with their job."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass import Context, Windlass
from windlass.admin import Admin
from windlass.client import Client
from windlass.clock import SECOND
from windlass.config import Settings, settings_from
from windlass.core.alterations import Delete
from windlass.errors import InvalidInput, StoreUnreachable
from windlass.runlogs import RunLog, below, job_of, log_path, root_of
from windlass.testing.faulty import away
from windlass.worker.capture import captured
from windlass.worker.logkeeping import LogKeeping, know_owner

from . import isolated
from .isolated import Ground, on_ground
from .stage import Stage, on_stage


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


# ---------------------------------------------------------------------------------------------------- what goes into one


def test_every_kind_of_handler_logs_to_the_log_of_its_own_run(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        ids = [(await isolated.beside.enqueue()).id, (await isolated.threaded.enqueue()).id]
        ids.append((await isolated.tells.enqueue(False)).id)
        await ground.drain()
        logs = [ground.log_of(await ground.run(job_id)) for job_id in ids]
        assert [line[27:] for line in logs[0].splitlines()] == [" INFO    in the event loop"]
        assert [line[27:] for line in logs[1].splitlines()] == [" ERROR   shop: in a thread"]
        assert [line[27:] for line in logs[2].splitlines()] == [" INFO    read 7 rows", " WARNING shop: careful"]

    on_ground(tmp_path, play)


def test_a_handler_that_logs_nothing_has_no_file_and_no_path(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        job = await isolated.add.enqueue(1)
        await ground.drain()
        assert (await ground.run(job.id)).log_path is None
        assert not (tmp_path / "jobs.db-logs").exists()

    on_ground(tmp_path, play)


def test_what_runs_at_the_same_time_is_not_mixed(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        met = threading.Barrier(2, timeout=5)

        @stage.app.task(context=True)
        def talks(ctx: Context, name: str) -> None:
            for _ in range(3):
                met.wait()
                logging.getLogger(name).warning("here")
                ctx.log("and %s", name)

        jobs = [await talks.enqueue(name) for name in ("one", "two")]
        await stage.drain(threads=2)
        for job, name in zip(jobs, ("one", "two"), strict=True):
            [run] = await stage.store.driver.runs(job.id)
            lines = (tmp_path / str(run.log_path)).read_text().splitlines()
            assert [line.split(None, 2)[2] for line in lines] == [f"{name}: here", f"and {name}"] * 3

    on_stage("memory://", play, log_root=str(tmp_path))


def test_an_exception_that_is_logged_is_kept_with_its_traceback(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def stumbles() -> None:
            try:
                raise ValueError("what it says")
            except ValueError:
                logging.getLogger("shop").exception("went wrong")

        await stumbles.enqueue()
        await stage.drain()
        [log] = files(tmp_path)
        assert "shop: went wrong\nTraceback" in log.read_text()
        assert "ValueError: what it says" in log.read_text()

    on_stage("memory://", play, log_root=str(tmp_path))


def test_what_the_worker_says_is_not_in_the_log_of_a_run(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task(context=True, timeout="20ms")
        async def fails(ctx: Context) -> None:
            ctx.log("mine")
            logging.getLogger("windlass.worker").warning("said in a call of ours, on the handler's behalf")
            await asyncio.sleep(60)

        await fails.enqueue()
        await stage.drain()
        assert len(files(tmp_path)) == 3
        assert all(log.read_text().endswith(" INFO    mine\n") for log in files(tmp_path))

    on_stage("memory://", play, log_root=str(tmp_path))


def test_the_programs_own_logging_is_left_as_it_is(tmp_path: Path) -> None:
    """No handler of ours is on the root logger, and none of our hooks is left behind."""
    usual, handlers = logging.getLogRecordFactory(), list(logging.getLogger().handlers)

    async def play(stage: Stage) -> None:
        seen: list[object] = []

        @stage.app.task
        async def looks() -> None:
            seen.append(list(logging.getLogger().handlers))
            logging.getLogger("shop").warning("%d", "not a number")  # a mistake that must harm nobody
            logging.getLogger("shop").debug("below the level that the program has chosen")

        job = await looks.enqueue()
        raising, logging.raiseExceptions = logging.raiseExceptions, False
        try:
            await stage.drain()
        finally:
            logging.raiseExceptions = raising
        assert seen == [handlers]
        assert (await stage.fetch(job.id)).state == "succeeded"
        assert files(tmp_path) == []

    on_stage("memory://", play, log_root=str(tmp_path))
    assert logging.getLogRecordFactory() is usual


def test_who_still_makes_records_as_a_worker_did_when_that_has_ended_gets_them() -> None:
    """A thread that was about to log, or a library that had put its factory around ours: logging raised IndexError."""
    usual = logging.getLogRecordFactory()
    with captured():
        kept = logging.getLogRecordFactory()
    about = ("shop", logging.INFO, __file__, 1, "said", (), None)
    assert kept(*about).getMessage() == "said"
    try:
        logging.setLogRecordFactory(lambda *args, **kwargs: kept(*args, **kwargs))
        with captured():  # around what is around the one of before
            assert logging.getLogRecordFactory()(*about).getMessage() == "said"
    finally:
        logging.setLogRecordFactory(usual)


def test_a_place_that_cannot_be_written_to_is_no_failure_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file, not a directory")

    async def play(stage: Stage) -> None:
        @stage.app.task(context=True)
        async def talks(ctx: Context) -> None:
            ctx.log("nobody hears")

        job = await talks.enqueue()
        await stage.drain()
        [run] = await stage.store.driver.runs(job.id)
        assert (run.status, run.log_path) == ("completed", None)

    on_stage("memory://", play, log_root=str(tmp_path / "root"))


# ------------------------------------------------------------------------------------------------------------ the bound


@pytest.mark.parametrize("lines", [150, 1_000, 5_000])
def test_a_log_keeps_its_beginning_and_its_end_and_says_how_much_was_cut(tmp_path: Path, lines: int) -> None:
    log = RunLog(tmp_path / "a.log", "a.log", 10_000)
    for number in range(lines):
        log.write(f"{number:>99}\n".encode())
        assert (tmp_path / "a.log").stat().st_size <= 2 * 10_000 + 100
    log.close()
    text = (tmp_path / "a.log").read_text()
    head, _, rest = text.partition("... ")
    cut, _, tail = rest.partition(" bytes were cut out here: a log keeps its beginning and its end ...\n")
    assert [int(line) for line in head.splitlines()] == list(range(49))
    assert [int(line) for line in tail.splitlines()] == list(range(lines - 49, lines))
    assert int(cut) == (lines - 98) * 100
    assert len(text) <= 10_000
    assert [path.name for path in files(tmp_path)] == ["a.log"]


@pytest.mark.parametrize("limit", [1_024, 1_025, 10_000])
@pytest.mark.parametrize("text", [b"x", b"xyz\n"], ids=["without-lines", "lines"])
def test_a_log_with_its_note_is_no_longer_than_its_bound(tmp_path: Path, text: bytes, limit: int) -> None:
    log = RunLog(tmp_path / "a.log", "a.log", limit)
    log.write(text * 20_000)
    log.close()
    kept = (tmp_path / "a.log").read_bytes()
    assert limit - 120 < len(kept) <= limit
    assert kept.count(b"bytes were cut out here") == 1


def test_a_log_within_its_bound_is_kept_as_it_is_and_closed_for_good(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "a.log", "a.log", 1_024)
    log.write(b"x" * 1_024)
    log.close()
    log.write(b"too late")
    log.close()
    assert (tmp_path / "a.log").read_bytes() == b"x" * 1_024


# ------------------------------------------------------------------------------------------------------------ its place


@pytest.mark.parametrize("job_id", ["0192f0c1-2345", "a/b", "..", "ü.1", "~x", "=x", "a%2Fb", "x" * 400, "."])
def test_a_path_stays_below_the_root_and_leads_back_to_its_job(job_id: str) -> None:
    path = log_path(job_id, 3, 0)
    day, name = path.split("/")
    assert (day, name.endswith(".3.log"), len(name) < 255) == ("1970-01-01", True, True)
    assert below(Path("/var/logs"), path) == Path("/var/logs") / day / name
    assert job_of(name) == (None if len(job_id) > 180 else job_id)


def test_a_stored_path_that_points_elsewhere_is_not_followed() -> None:
    for path in ("/etc/passwd", "../secrets", "a/../../b"):
        assert below(Path("/var/logs"), path) is None
    assert below(Path("logs"), "day/a.1.log") == Path("logs/day/a.1.log")


def test_logs_are_beside_the_file_or_below_the_working_directory_or_where_one_says() -> None:
    assert root_of(Settings(), "sqlite:////var/lib/jobs.db") == Path("/var/lib/jobs.db-logs")
    assert root_of(Settings(), "sqlite:///jobs.db") == Path("jobs.db-logs")
    assert root_of(Settings(), "memory://") is None
    several = root_of(Settings(), "postgresql://u:p@one:5432,two:5433/jobs?target_session_attrs=read-write")
    assert several == root_of(Settings(), "postgresql://other@one:5432,two:5433/jobs")
    assert several != root_of(Settings(), "postgresql://one:5432,two:5434/jobs")
    assert root_of(settings_from({"log_root": "none"}), "sqlite:///jobs.db") is None
    assert root_of(settings_from({"log_root": "/var/logs"}), "memory://") == Path("/var/logs")
    one, other = (root_of(Settings(), f"postgresql://a:{word}@db/{name}") for word, name in (("x", "one"), ("x", "two")))
    assert one != other
    same = [
        "/jobs?host=one",
        "/jobs?host=two",
        "/?host=one&dbname=jobs",
        "/?dbname=other&host=one",
        ":pass#word@one/jobs",
        "@two/jobs",
    ]
    places = {root_of(Settings(), f"postgresql://{'a' if rest[0] in ':@' else ''}{rest}") for rest in same}
    assert len(places) == len(same), "each is another store, and one root belongs to one"
    for word in ("p#w", "p?w", "p:w", "p%2Fw"):
        assert root_of(Settings(), f"postgresql://a:{word}@db/one") == one
    assert root_of(Settings(), "postgresql://db/one?application_name=x&password=secret") == one
    assert one == root_of(Settings(), "postgresql://b:y@db/one"), "whoever asks"


def test_what_a_query_asks_for_is_not_taken_for_the_place_of_the_server() -> None:
    """Read as libpq reads it: a user ends at the first @ before any slash, hosts at a slash or a question mark."""

    def place(url: str) -> Path | None:
        return root_of(Settings(), f"postgresql://{url}")

    assert place("u@db1?dbname=jobs&application_name=x@y") != place("u@db2?dbname=jobs&application_name=x@y")
    assert place("u:p@db/jobs?password=a@b/c") == place("u:p@db/jobs")
    assert place("db?host=/run/one&application_name=a") == place("db?host=/run/one&application_name=b")
    assert place("db?host=/run/one&password=a/b") == place("v@db?password=c&host=/run/one")
    assert place("db?host=/run/one") != place("db?host=/run/two")
    assert place("?host=%2Frun%2Fone&dbname=jobs") == place("?dbname=jobs&host=%2Frun%2Fone")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql:///shop?host=%2Fvar%2Frun%2Fpostgresql", "13abdd79"),
        ("postgresql:///shop?host=/var/run/postgresql", "7b196468"),
        ("postgresql://%2Frun%2Fpg/shop?dbname=a%20b", "1a60f1da"),
    ],
)
def test_logs_stay_where_the_logs_of_earlier_versions_are(url: str, name: str) -> None:
    """Of whoever did not choose their root: it follows from the URL, as it is written."""
    assert root_of(Settings(), url) == Path("windlass-logs") / name


def test_logs_are_their_owners_alone_as_the_store_is(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        job = await isolated.beside.enqueue()
        await ground.drain()
        file = tmp_path / "jobs.db-logs" / str((await ground.run(job.id)).log_path)
        assert [oct(path.stat().st_mode & 0o777) for path in (file, file.parent, file.parent.parent)] == [
            "0o600", "0o700", "0o700",
        ]  # fmt: skip

    on_ground(tmp_path, play)


def test_a_log_is_found_after_the_store_and_its_logs_were_moved(tmp_path: Path) -> None:
    job_ids: list[str] = []

    async def play(ground: Ground) -> None:
        job = await isolated.beside.enqueue()
        await ground.drain()
        assert not os.path.isabs(str((await ground.run(job.id)).log_path))
        job_ids.append(job.id)

    async def look(ground: Ground) -> None:
        text = (await Admin(isolated.app.client).logs(job_ids[0])).text
        assert "in the event loop" in str(text)

    (tmp_path / "old").mkdir()
    on_ground(tmp_path / "old", play)
    (tmp_path / "old").rename(tmp_path / "new")
    on_ground(tmp_path / "new", look)


# ------------------------------------------------------------------------------------------------------------ retention


def test_the_logs_of_jobs_that_are_gone_are_removed_and_all_others_stay(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        client: Client = isolated.app.client
        kept, pruned, young = [await isolated.beside.enqueue() for _ in range(3)]
        await ground.drain()
        root = client.run_logs.root
        assert root is not None
        paths = {job.id: root / str((await ground.run(job.id)).log_path) for job in (kept, pruned, young)}
        await client.driver.alter([Delete(job.id) for job in (pruned, young)], now=client.now())
        long_ago = time.time() - 7_200
        empty = root / "2001-01-01"
        empty.mkdir()
        stranger = root / "notes.txt"
        stranger.write_text("not ours")
        for path in (paths[kept.id], paths[pruned.id], stranger):
            os.utime(path, (long_ago, long_ago))
        keeping = LogKeeping(client, root)
        assert await keeping.tick() < SECOND, "there may be more"
        assert await keeping.tick() == 3_600 * SECOND, "that was all"
        assert [path.exists() for path in paths.values()] == [True, False, True]
        assert (empty.exists(), stranger.exists()) == (False, True)

    on_ground(tmp_path, play)


def test_what_is_no_log_of_a_run_is_nobodys_to_remove(tmp_path: Path) -> None:
    """A root that others use as well, such as /var/log: their files may be named like anything."""

    async def play(ground: Ground) -> None:
        root, elsewhere = tmp_path / "log", tmp_path / "elsewhere" / "2001-01-01"
        ours, theirs = root / "2001-01-01", root / "nginx"
        for directory in (ours, theirs, elsewhere, root / "empty", root / "2001-13-99"):
            directory.mkdir(parents=True)
        (root / "2001-01-02").symlink_to(elsewhere)
        digest = f"={'0' * 64}.1.log"
        stay = [
            theirs / "access.1.log", theirs / "error.log", ours / "notes.log", ours / "%00.1.log", ours / "%FF%.1.log",
            ours / f"{'x' * 230}.1.log", ours / "=short.1.log", elsewhere / "gone.1.log", ours / "data.short",
        ]  # fmt: skip
        go = [ours / "gone.1.log", ours / "gone.2.short", ours / digest]
        for path in (*stay, *go):
            path.touch()
            os.utime(path, (0, 0))
        keeping = LogKeeping(isolated.app.client, root)
        while await keeping.tick() < SECOND:
            pass
        assert [path.name for path in stay if not path.exists()] == []
        assert [path.name for path in go if path.exists()] == []
        assert (root / "empty").exists()

    on_ground(tmp_path, play)


def test_two_stores_in_one_log_root_remove_nothing_of_each_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The one does not know the jobs of the other, and took their logs for those of jobs that are gone."""
    root = tmp_path / "logs"
    logs: list[Path] = []

    async def writes(stage: Stage) -> None:
        @stage.app.task(context=True)
        async def talks(ctx: Context) -> None:
            ctx.log("hello")

        job = [await talks.enqueue() for _ in range(1 + len(logs))][-1]  # ids are drawn alike, so the last one differs
        await stage.drain()
        [run] = await stage.store.driver.runs(job.id)
        logs.append(root / str(run.log_path))

    async def looks(stage: Stage) -> None:
        client: Client = stage.app.client
        await know_owner(client)
        keeping = LogKeeping(client, root)
        while await keeping.tick() < SECOND:
            pass

    stores = [f"sqlite:///{tmp_path}/{name}.db" for name in ("shop", "bakery")]
    for url in stores:
        on_stage(url, writes, log_root=str(root))
    for old in (*logs, *root.glob(".windlass-store-*")):
        os.utime(old, (0, 0))
    for url in stores:
        on_stage(url, looks, log_root=str(root))
    assert [log.exists() for log in logs] == [True, True]
    assert sum("give each store a log_root of its own" in record.getMessage() for record in caplog.records) == 2
    marks = sorted(root.glob(".windlass-store-*"))
    assert sorted(mark.read_text().rpartition("/")[2] for mark in marks) == ["bakery.db\n", "shop.db\n"]
    for mark in marks:
        if "bakery" in mark.read_text():
            mark.unlink()  # it is no more
    on_stage(stores[0], looks, log_root=str(root))
    assert [log.exists() for log in logs] == [True, False]


def old_log(root: Path) -> Path:
    (root / "2001-01-01").mkdir(parents=True, exist_ok=True)
    log = root / "2001-01-01" / "gone.1.log"
    log.touch()
    os.utime(log, (0, 0))
    return log


def age_marks(root: Path) -> None:
    for mark in root.glob(".windlass-store-*"):
        os.utime(mark, (0, 0))


def test_a_store_that_did_not_say_its_name_at_first_is_asked_again(tmp_path: Path) -> None:
    """Its own mark was taken for another store's as long as the worker lived, and no log was removed. Until the name is
    known nothing is removed: whose logs these are cannot be told."""
    root = tmp_path / "logs"

    async def plays(stage: Stage) -> None:
        client: Client = stage.app.client
        await know_owner(client)
        age_marks(root)
        log = old_log(root)
        client._run_logs = None  # as another worker of this store begins

        async def away_for_now(call: Any, args: Any) -> Any:
            raise away()

        stage.store.faults["read"] = away_for_now
        await know_owner(client)
        keeping = LogKeeping(client, root)
        with pytest.raises(StoreUnreachable):
            await keeping.tick()
        assert log.exists()
        del stage.store.faults["read"]
        assert await keeping.tick() < SECOND
        assert not log.exists()

    on_stage(f"sqlite:///{tmp_path}/shop.db", plays, log_root=str(root))


def test_a_store_that_cannot_say_its_name_removes_nothing_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Behind a server of an older version. No log was ever removed, and nobody was told."""
    root = tmp_path / "logs"

    async def plays(stage: Stage) -> None:
        async def older(call: Any, args: Any) -> Any:
            raise InvalidInput("query", "StoreId is not known to this store")

        stage.store.faults["read"] = older
        await know_owner(stage.app.client)
        log = old_log(root)
        keeping = LogKeeping(stage.app.client, root)
        for _ in range(2):
            assert await keeping.tick() == 3_600 * SECOND
        assert log.exists()

    on_stage(f"sqlite:///{tmp_path}/shop.db", plays, log_root=str(root))
    [said] = [record.getMessage() for record in caplog.records if "no log below" in record.getMessage()]
    assert str(root) in said
    assert "StoreId is not known to this store" in said


def test_whose_logs_are_in_a_root_is_said_before_there_are_any_and_heard_before_any_is_removed(tmp_path: Path) -> None:
    """Two stores whose workers are replaced by this version one after the other: neither had left a mark, and the first
    took the logs of the second for those of jobs that are gone."""
    root = tmp_path / "logs"
    log = old_log(root)

    async def begins(stage: Stage) -> None:
        await know_owner(stage.app.client)
        keeping = LogKeeping(stage.app.client, root)
        assert await keeping.tick() == 3_600 * SECOND

    async def looks(stage: Stage) -> None:
        await know_owner(stage.app.client)
        await LogKeeping(stage.app.client, root).tick()

    stores = [f"sqlite:///{tmp_path}/{name}.db" for name in ("shop", "bakery")]
    on_stage(stores[0], begins, log_root=str(root))
    on_stage(stores[0], begins, log_root=str(root))  # started again within the hour
    assert log.exists()
    assert [mark.read_text().rpartition("/")[2] for mark in root.glob(".windlass-store-*")] == ["shop.db\n"]
    on_stage(stores[1], begins, log_root=str(root))
    age_marks(root)
    on_stage(stores[0], looks, log_root=str(root))
    assert log.exists(), "the other has left its mark"
    next(mark for mark in root.glob(".windlass-store-*") if "bakery" in mark.read_text()).unlink()
    on_stage(stores[0], looks, log_root=str(root))
    assert not log.exists()


def test_a_worker_leaves_the_mark_when_it_starts_also_one_that_ends_at_once(tmp_path: Path) -> None:
    async def drains(stage: Stage) -> None:
        @stage.app.task
        async def quiet() -> None: ...

        await stage.drain()
        assert [path.name[:16] for path in files(tmp_path / "logs")] == [".windlass-store-"]

    on_stage(f"sqlite:///{tmp_path}/shop.db", drains, log_root=str(tmp_path / "logs"))


def test_a_store_without_a_name_waits_before_it_removes_anything_in_a_chosen_root(tmp_path: Path) -> None:
    """A store in memory leaves no mark that tells how long it has been here."""
    log = old_log(tmp_path)

    async def looks(stage: Stage) -> None:
        keeping = LogKeeping(stage.app.client, tmp_path)
        assert await keeping.tick() == 3_600 * SECOND
        assert log.exists()
        keeping._begun = 0
        assert await keeping.tick() < SECOND
        assert not log.exists()

    on_stage("memory://", looks, log_root=str(tmp_path))


def test_a_root_that_cannot_be_marked_ends_no_worker_and_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is removed there, and that was said to nobody."""
    (tmp_path / "root").write_text("a file, not a directory")

    async def looks(stage: Stage) -> None:
        await know_owner(stage.app.client)
        keeping = LogKeeping(stage.app.client, tmp_path / "root")
        for _ in range(2):
            assert await keeping.tick() == 3_600 * SECOND

    on_stage(f"sqlite:///{tmp_path}/shop.db", looks, log_root=str(tmp_path / "root"))
    [said] = [record.getMessage() for record in caplog.records if "no log below" in record.getMessage()]
    assert "File exists" in said


def test_another_reason_why_no_log_is_removed_is_told_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = tmp_path / "root"
    root.write_text("a file, not a directory")

    async def looks(stage: Stage) -> None:
        keeping = LogKeeping(stage.app.client, root)
        await keeping.tick()
        root.unlink()
        root.mkdir()
        (root / ".windlass-store-another").touch()
        for _ in range(2):
            await keeping.tick()

    on_stage(f"sqlite:///{tmp_path}/shop.db", looks, log_root=str(root))
    said = [record.getMessage() for record in caplog.records if "no log below" in record.getMessage()]
    assert ["another store" in one for one in said] == [False, True]


def test_a_worker_sees_to_it_by_itself(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        day = tmp_path / "jobs.db-logs" / "2001-01-01"
        day.mkdir(parents=True)
        (day / "long-gone.1.log").touch()
        os.utime(day / "long-gone.1.log", (0, 0))
        async with ground.working():
            await ground.until(lambda: not (day / "long-gone.1.log").exists())

    on_ground(tmp_path, play)


def test_a_disk_that_answers_late_ends_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking through a directory that somebody serves over a network may take longer than a tick may."""

    async def play(ground: Ground) -> None:
        root = tmp_path / "logs"
        (root / "2001-01-01").mkdir(parents=True)
        (log := root / "2001-01-01" / "gone.1.log").touch()
        os.utime(log, (0, 0))
        answers, looked = threading.Event(), threading.Event()
        there = Path.iterdir

        def late(path: Path) -> Iterator[Path]:
            looked.set()
            answers.wait()
            return there(path)

        monkeypatch.setattr(Path, "iterdir", late)
        keeping = LogKeeping(isolated.app.client, root)
        try:
            for _ in range(2):  # given up, as every duty is that takes too long
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await keeping.tick()
                assert looked.is_set()
        finally:
            answers.set()
        assert await keeping.tick() < SECOND
        assert not log.exists()

    on_ground(tmp_path, play)


@pytest.mark.parametrize("hangs", ["looking for marks", "removing"])
def test_a_disk_that_does_not_answer_holds_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: str) -> None:
    """Each tick that was given up held one more, until handlers had none."""

    async def play(ground: Ground) -> None:
        root = tmp_path / "logs"
        client: Client = isolated.app.client
        await know_owner(client)
        age_marks(root)
        log = old_log(root)
        answers, calls = threading.Event(), list[object]()
        place, name = (Path, "glob") if hangs == "looking for marks" else (os, "unlink")
        there = getattr(place, name)

        def late(*args: object, **kwargs: object) -> object:
            calls.append(args)
            answers.wait()
            return there(*args, **kwargs)

        monkeypatch.setattr(place, name, late)
        keeping = LogKeeping(client, root)
        try:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await keeping.tick()
            assert len(calls) == 1
        finally:
            answers.set()
        while await keeping.tick() < SECOND:
            pass
        assert not log.exists()

    on_ground(tmp_path, play, log_root=str(tmp_path / "logs"))


def test_keeping_logs_where_there_are_none_does_nothing(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        assert await LogKeeping(isolated.app.client, tmp_path / "nowhere").tick() == 3_600 * SECOND

    on_ground(tmp_path, play)


def test_an_app_says_where_its_logs_are() -> None:
    assert Windlass("sqlite:///shop.db").client.run_logs.root == Path.cwd() / "shop.db-logs"
