"""The `http://` driver keeps every promise of the contract, on a served SQLite file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from served import Server
from windlass.drivers.http import HttpDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.testing.conformance import (
    DriverConformance,
    DurabilityPromises,
    EnqueuePromises,
    LeasePromises,
    LifecyclePromises,
    SettlementPromises,
)
from windlass.testing.conformance.trial import Suite


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


class Served(Suite):
    @pytest.fixture(autouse=True)
    def _places(self, server: Server, tmp_path: Path) -> None:
        self.server, self.directory = server, tmp_path

    def make_driver(self) -> Driver:
        handle, path = tempfile.mkstemp(dir=self.directory, suffix=".db")
        open(handle, "rb").close()
        self.url = self.server.store(SqliteDriver(path, durability="relaxed"))
        return HttpDriver(self.url)

    def another(self, driver: Driver) -> Driver:
        return HttpDriver(self.url)


class TestHttp(Served, EnqueuePromises, LeasePromises, SettlementPromises, LifecyclePromises, DurabilityPromises):
    """What a worker lives on. The rest takes minutes, for it is hundreds of servers' worth of requests."""


@pytest.mark.full
class TestHttpWhole(Served, DriverConformance, DurabilityPromises):
    pass
