"""Numbered, forward-only schema steps: which are known, which are applied, which are missing. No IO on a database.

A step whose text begins with `-- concurrently` runs outside of transactions while workers go on; every other step is one
transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from msgspec import Struct

from windlass.errors import MigrationChanged, SchemaTooNew

CONCURRENTLY: Final = "-- concurrently\n"


class Migration(Struct, frozen=True):
    version: int
    name: str
    text: str

    @property
    def label(self) -> str:
        return f"{self.version:04d}_{self.name}"

    @property
    def concurrent(self) -> bool:
        return self.text.startswith(CONCURRENTLY)

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class Status(Struct, frozen=True):
    """Where a store is, its steps with whether each was applied, and the missing ones as a script for the store's shell.
    `unsure`: why some that are said to be missing may have been applied."""

    where: str
    steps: tuple[tuple[Migration, bool], ...] = ()
    script: str = ""
    unsure: str = ""


def known(package: str) -> list[Migration]:
    """`0001_what_it_does.sql`, … in their order, without gaps."""
    found = sorted((f for f in files(package).iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    steps = [Migration(int(f.name[:4]), f.name[5:-4], f.read_text("utf-8")) for f in found]
    assert [step.version for step in steps] == list(range(1, len(steps) + 1)), "migrations are numbered without gaps"
    return steps


def missing(steps: list[Migration], applied: Mapping[int, str], where: str) -> list[Migration]:
    """Steps to apply, given version → checksum of those that were."""
    newest = max(applied, default=0)
    if newest > len(steps):
        raise SchemaTooNew(where, newest, len(steps))
    for step in steps:
        if step.version in applied and applied[step.version] != step.checksum:
            raise MigrationChanged(where, step.label)
    return [step for step in steps if step.version not in applied]
