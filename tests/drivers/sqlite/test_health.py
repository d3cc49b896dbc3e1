"""What a file tells of its own health."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from windlass.drivers.sqlite import SqliteDriver, health


def test_a_sound_file_has_room(tmp_path: Path) -> None:
    async def story() -> None:
        driver = SqliteDriver(tmp_path / "jobs.db")
        [disk] = await driver.examine(now=0)
        assert (disk.name, disk.status, disk.command) == ("disk", "ok", None)
        await driver.close()

    asyncio.run(story())


def test_a_full_disk_is_told_with_what_to_type_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=health.LITTLE_SPACE - 1))
    [disk] = health.examine(str(tmp_path / "jobs.db"))
    assert (disk.status, disk.command) == ("warning", f"df -h {tmp_path}")


def test_a_log_that_only_grows_is_told(tmp_path: Path) -> None:
    log = tmp_path / "jobs.db-wal"
    for size, names in ((health.LARGE_WAL, ["disk"]), (health.LARGE_WAL + 1, ["write-ahead log", "disk"])):
        with log.open("wb") as file:
            file.truncate(size)  # sparse
        assert [finding.name for finding in health.examine(str(tmp_path / "jobs.db"))] == names
