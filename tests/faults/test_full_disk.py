"""The disk of the store is full while workers work: callers are told, nothing that was acknowledged is lost, the store can
be read, and all goes on when there is room again."""

from __future__ import annotations

import pwd
import random
import signal
from pathlib import Path

import pytest

from postgres.server import Server
from windlass.errors import StoreError, StoreFull

from . import tasks
from .disk import SmallDisk, small_disk
from .fleet import Fleet
from .stores import PostgresStore, SqliteStore
from .summary import Told

SETTINGS = {"lease": "3s", "grace": "500ms", "concurrency": "8", "threads": "2", "store_timeout": "3s"}
BEFORE = 40
FAT = random.Random(1).randbytes(100_000).hex()  # nothing that a store could press together


def enqueue_until_refused() -> tuple[list[str], StoreError]:
    accepted: list[str] = []
    for _ in range(500):
        try:
            accepted.append(tasks.fat.enqueue_sync(FAT).id)
        except StoreError as error:
            return accepted, error
    raise AssertionError("the disk was never full")


def trial(fleet: Fleet, disk: SmallDisk, gate: Path, tell: Told) -> None:
    worker = fleet.start("run")
    fleet.until_born(worker)
    accepted = [tasks.quick.enqueue_sync(n).id for n in range(BEFORE)]
    accepted += [tasks.blocking.enqueue_sync(str(gate)).id for _ in range(2)]
    fleet.until_started(BEFORE + 2)
    disk.fill()
    more, error = enqueue_until_refused()
    gate.touch()  # two handlers come to their end, and have nowhere to say so
    fleet.until("their work is done", lambda: len(fleet.lines("done")) >= BEFORE + 2)

    assert isinstance(error, StoreFull)
    assert error.retryable
    assert fleet.count("1 = 1") >= BEFORE + 2, "it can be read"
    assert worker.popen.poll() is None
    disk.make_room()
    accepted += [*more, tasks.quick.enqueue_sync(1).id]
    fleet.until_ended()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    history = fleet.history()
    assert history.problems(accepted) == []
    tell(f"a full disk, {fleet.on.name}", 1, history, accepted)


def test_a_full_disk_under_a_file_stops_nobody_for_good(tmp_path: Path, tell_summary: Told) -> None:
    with (
        small_disk(tmp_path / "disk", 8) as disk,
        Fleet(tmp_path, SqliteStore(disk.path / "jobs.db"), **SETTINGS) as fleet,
    ):
        trial(fleet, disk, tmp_path / "gate", tell_summary)


@pytest.mark.full
def test_a_full_disk_under_a_server_stops_nobody_for_good(tmp_path: Path, tell_summary: Told) -> None:
    """Its tables lie on the small disk. Its log does not: a server that has no room for that ends itself."""
    with Server() as server, small_disk(server.directory / "disk", 24, owner=owner_of(server)) as disk:
        server.execute(f"create tablespace small location '{disk.path}'")
        store = PostgresStore(server)
        server.execute(f"alter database {store.direct.rpartition('/')[2]} set tablespace small")
        with Fleet(tmp_path, store, **SETTINGS) as fleet:
            trial(fleet, disk, tmp_path / "gate", tell_summary)


def owner_of(server: Server) -> int:
    return Path(f"/proc/{server.pid}").stat().st_uid or pwd.getpwnam("nobody").pw_uid
