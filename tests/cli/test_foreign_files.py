"""A file that is no store: whoever only looks at it leaves it as it was, and says what it is."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from windlass.drivers.sqlite.looking import look

from .conftest import Cli

THERE = "sqlite:///other.db"
LOOKING = [
    "doctor", "doctor --security", "doctor --repair", "jobs list", "jobs show x", "jobs logs x", "queues list",
    "queues pause q", "queues capacity", "workers", "groups list", "limits list", "schedules list", "templates list",
    "webhooks list", "tokens list", "holds list", "dlq list", "dlq purge --all --yes", "usage", "audit", "top --once",
    "watch x", "serve",
]  # fmt: skip

DIAGNOSES = ("doctor", "doctor --security")


@contextmanager
def rollback(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path)) as other:
        other.executescript("create table users (name text); insert into users values ('ada')")
    yield


@contextmanager
def wal(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path)) as other:
        other.executescript("pragma journal_mode = wal; create table users (name text)")
    yield


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    """What it holds is in its log alone."""
    with closing(sqlite3.connect(path)) as other:
        other.executescript("pragma journal_mode = wal; create table users (name text)")
        yield


@contextmanager
def of_a_framework(path: Path) -> Iterator[None]:
    """Which has tables of our names."""
    with closing(sqlite3.connect(path)) as other:
        other.executescript(
            "create table migrations (id integer primary key, migration text, batch int); create table jobs (id text);"
            "create table meta (key text); create table users (name text)"
        )
    yield


@contextmanager
def empty(path: Path) -> Iterator[None]:
    path.touch()
    yield


@contextmanager
def text(path: Path) -> Iterator[None]:
    path.write_text("name,age\nada,36\n" * 100)
    yield


FILES = {
    rollback: "another program's SQLite database (tables: users)", wal: "another program's SQLite database (tables: users)",
    in_use: "another program's SQLite database (tables: users)",
    of_a_framework: "another program's SQLite database (tables: migrations, jobs, meta and 1 more)",
    empty: "the file is empty", text: "not a database",
}  # fmt: skip
Kind = Callable[[Path], AbstractContextManager[None]]


def held(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Of memory that is shared by those who use the file, only whether it is there: one of them is in this process."""
    shared = "-shm"
    return {
        path.name: (b"", 0) if path.name.endswith(shared) else (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.glob("other.db*")
    }


@pytest.mark.parametrize("library", ["apsw", "stdlib"])
@pytest.mark.parametrize(("kind", "says"), FILES.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_whoever_looks_at_a_foreign_file_leaves_it_as_it_was(
    cli: Cli, tmp_path: Path, kind: Kind, says: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SQLITE", library)
    with kind(tmp_path / "other.db"):
        before = held(tmp_path)
        for command in LOOKING:
            done = cli(*command.split(), "--store", THERE)
            assert says in done.out + done.err, f"{command}: {done}"
            assert done.code == (1 if kind is text and command in DIAGNOSES else 4), "the doctor tells of what is damaged"
            assert held(tmp_path) == before, command


@pytest.mark.parametrize(("kind", "says"), FILES.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_to_plan_leaves_a_foreign_file_as_it_was(
    cli: Cli, tmp_path: Path, enqueue: Callable[..., str], kind: Kind, says: str
) -> None:
    enqueue("hello", "name=ada")
    with kind(tmp_path / "other.db"):
        before = held(tmp_path)
        if kind is not text:
            assert "missing" in cli("migrate", "--plan", "--store", THERE).out
            assert "create table" in cli("migrate", "--sql", "--store", THERE).out
        source = cli("copy", THERE, "sqlite:///new.db")
        assert (source.code, says in source.err) == (4, True), source
        assert not (tmp_path / "new.db").exists()
        target = cli("copy", "sqlite:///windlass.db", THERE, "--dry-run")
        if kind is empty:
            assert (target.code, "will be made" in target.out) == (0, True), target
        else:
            assert (target.code in (3, 4), says in target.err) == (True, True), target
            assert cli("copy", "sqlite:///windlass.db", THERE).code == target.code
        assert held(tmp_path) == before


def test_a_store_in_the_file_of_another_program_is_one(cli: Cli, tmp_path: Path) -> None:
    """The one writes rows, the other jobs, in one transaction."""
    with in_use(tmp_path / "other.db"):
        assert cli("migrate", "--store", THERE).code == 0
        assert cli("jobs", "list", "--store", THERE).code == 0
        assert "missing" not in cli("migrate", "--plan", "--store", THERE).out
    assert cli("doctor", "--store", THERE).code == 0


def test_a_store_in_use_is_found_behind_a_link(cli: Cli, tmp_path: Path) -> None:
    """Its log lies beside the file, not beside the link, and may hold all that it has."""
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as reading:
        reading.execute("pragma journal_mode = wal")
        assert cli("migrate", "--store", f"sqlite:///{tmp_path}/jobs.db").code == 0
        (tmp_path / "link").symlink_to(tmp_path / "jobs.db")
        found = [look(str(tmp_path / name), "stdlib").applied for name in ("jobs.db", "link")]
        assert found[0] == found[1]
        assert found[1]
    assert cli("jobs", "list", "--store", f"sqlite:///{tmp_path}/link").code == 0


@pytest.mark.parametrize("library", ["apsw", "stdlib"])
def test_to_plan_says_when_it_cannot_see_what_is_in_the_log_of_a_copy(
    cli: Cli, tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log without the memory of those who use it is read by opening the file alone, which writes."""
    monkeypatch.setenv("WINDLASS_SQLITE", library)
    script = cli("migrate", "--sql", "--store", "sqlite:///jobs.db").out
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as using:
        using.executescript(f"pragma journal_mode = wal; {script}")
        for end in ("", "-wal"):
            shutil.copy(tmp_path / f"jobs.db{end}", tmp_path / f"other.db{end}")
    before = held(tmp_path)
    planned = cli("migrate", "--plan", "--store", THERE)
    assert (planned.code, "other.db-wal" in planned.err, "wal_checkpoint" in planned.err) == (0, True, True), planned
    assert "other.db-wal" in cli("migrate", "--plan", "--store", THERE, "--json").json["unsure"]
    assert "other.db-wal" in cli("migrate", "--sql", "--store", THERE).err
    assert held(tmp_path) == before
    assert "applied before" in cli("migrate", "--store", THERE).out
    assert "wal" not in cli("migrate", "--plan", "--store", THERE).err


def test_what_is_in_the_log_of_a_store_in_use_is_seen_behind_what_is_in_its_file(tmp_path: Path) -> None:
    """A step that was applied a moment ago is in the log alone, the steps before it in the file."""
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as using:
        using.executescript(
            "pragma journal_mode = wal; create table meta (key text);"
            "create table migrations (version integer, checksum text, applied_at integer);"
            "insert into migrations values (1, 'a', 0); pragma wal_checkpoint(truncate);"
            "insert into migrations values (2, 'b', 0)"
        )
        assert look(str(tmp_path / "jobs.db"), "stdlib").applied == {1: "a", 2: "b"}
