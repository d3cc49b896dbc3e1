"""A disk of a few megabytes, in memory, that a test can fill to the last byte and empty again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PIECE = 1 << 16


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Until not one byte more is taken."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in (PIECE, 1):
                with suppress(OSError):
                    while True:
                        ballast.write(b"x" * size)

    def make_room(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(place: Path, megabytes: int, *, owner: int | None = None) -> Iterator[SmallDisk]:
    place.mkdir()
    options = f"size={megabytes}m,mode=0700,uid={os.getuid() if owner is None else owner}"
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only who may mount can make a small disk; test_a_full_disk_loses_nothing_and_heals needs none")
    try:
        yield SmallDisk(place)
    finally:
        subprocess.run(["umount", "-l", place], check=True)
