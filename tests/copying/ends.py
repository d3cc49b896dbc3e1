"""Two stores of any kinds, one of them full of everything, and a copier between them."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from postgres.server import Server
from postgres.shelf import Shelf
from web.staged import EVIL, staged
from windlass import Windlass
from windlass.clock import SECOND
from windlass.copying import Copy
from windlass.core.alterations import PutLimit
from windlass.core.changes import Ack
from windlass.core.copying import TABLES, Digest
from windlass.core.duties import RollUpUsage
from windlass.drivers.copying import End, open_end
from windlass.drivers.values import Claim
from windlass.types import NewJob

GONE = 2**22 + 7  # no process has this number
HOUR = 3_600 * SECOND


class Quiet:
    """Nobody watches."""

    def phase(self, what: str, total: int = 0) -> None:
        pass

    def done(self, rows: int) -> None:
        pass


class Place:
    def __init__(self, url: str, schema: str | None) -> None:
        self.url = url
        # A process that dies loses nothing of a relaxed file either, and nobody pulls the plug here.
        self.options: dict[str, Any] = {"durability": "relaxed"} if schema is None else {"schema": schema}

    @property
    def path(self) -> str:
        return self.url.removeprefix("sqlite:///")

    def app(self, **settings: Any) -> Windlass:
        return Windlass(self.url, **self.options, **settings)

    @contextmanager
    def end(self) -> Iterator[End]:
        end = open_end(self.url, **self.options)
        try:
            yield end
        finally:
            end.close()


class Places:
    """Where a test finds empty stores."""

    def __init__(self, path: Path, server: Callable[[], tuple[Server, Shelf]]) -> None:
        self._path, self._server = path, server
        self._lent = ExitStack()
        self._made = 0

    def new(self, kind: str) -> Place:
        self._made += 1
        if kind == "sqlite":
            return Place(f"sqlite:///{self._path}/store{self._made}.db", None)
        server, shelf = self._server()
        return Place(server.dsn(), self._lent.enter_context(shelf.lent()))

    def close(self) -> None:
        self._lent.close()


def copier(source: End, target: End, **options: Any) -> Copy:
    """By default one that waits for nothing and leaves nobody behind who might still be at work."""
    usual: dict[str, Any] = {"wait": 0, "abandon": True, "owner": f"{socket.gethostname()}:{GONE}:x"}
    return Copy(source, target, Quiet(), **{**usual, **options})


async def fill(app: Windlass) -> None:
    """Something in every table that is copied."""
    app.queue("fair", order="fair")
    app.queue("old", ageing=("10m", 5))
    async with app:
        await staged(app)
        client, now = app.client, app.client.now()
        driver = client.driver
        jobs = [
            NewJob(id=f"job-{n}", type="plain", queue="fair", org_id=f"org-{n % 3}", payload=b'{"n":%d}' % n,
                   priority=n % 2, idempotency_scope="type:plain", idempotency_key=f"key-{n}", dedupe_key=f"one-{n}",
                   limit_keys=("key:api",), history="failures")
            for n in range(20)
        ]  # fmt: skip
        await driver.alter([PutLimit(key="key:api", max_used=3, per_second=2.5, burst=10.0)], now=now)
        await driver.enqueue(jobs, now=now)
        after = NewJob(id="after", type="plain", queue="fair", payload=b"{}", after=("job-3", "job-4"))
        await driver.enqueue([after], now=now)
        wish = Claim(queues=("fair",), limit=3, lease_for=HOUR, worker_id="w", token="t2")
        taken = await driver.claim(wish, now=now)
        acks = [Ack(handle=one.handle, token=one.token, at=now, result=EVIL.encode()) for one in taken]
        await driver.settle(acks[:1], now=now)
        later = now + 49 * HOUR
        await driver.maintain(RollUpUsage(until=later), epoch=None, now=later)
        await driver.settle(acks[1:2], now=now)


def filled(place: Place) -> None:
    """A file is filled once, and copied."""
    if "schema" in place.options:
        asyncio.run(fill(place.app()))
    else:
        shutil.copy(full_file(), place.path)


@cache
def full_file() -> str:
    place = Place(f"sqlite:///{tempfile.mkdtemp()}/full.db", None)
    asyncio.run(fill(place.app()))
    atexit.register(shutil.rmtree, os.path.dirname(place.path))
    return place.path


def digests(end: End) -> dict[str, tuple[int, str]]:
    found = {}
    for table in TABLES:
        digest, rows = Digest(), end.page(table, None, 100_000)
        digest.add(rows)
        found[table.name] = (digest.rows, digest.text)
    return found
