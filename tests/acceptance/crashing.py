"""Processes that really die at a point of their life, and what those that come after them make of the store."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from windlass import Windlass
from windlass.core.queries import AllEvents
from windlass.records import Event
from windlass.types import Job, Run

from .crash_program import DIED, scheduler
from .place import Place, rows, run

LEASE = 30_000_000
TESTS = Path(__file__).parents[1]
SUBSCRIBED = """insert into webhooks (webhook_id, url, events, secret, created_at)
                values ('h', 'http://127.0.0.1:9/', '["job.recovered"]', 's', {instant})"""


class Crash:
    """One store, processes that die on it, and what the ones after them make of it."""

    def __init__(self, place: Place, directory: Path) -> None:
        self.place = place
        self.log = directory / "executions"
        self.log.touch()
        self._apps: list[Windlass] = []
        self.restarted().open()
        place.sql(SUBSCRIBED.format(instant=place.instant(1)))

    @property
    def app(self) -> Windlass:
        """The eyes of the test."""
        return self._apps[0]

    def restarted(self) -> Windlass:
        """A scheduler that works, opened now."""
        app = scheduler(self.place.url, self.place.schema, str(self.log), self.place.clock)
        self._apps.append(app)
        return app

    async def close(self) -> None:
        for app in self._apps:
            await app.close()

    async def enqueue(self) -> str:
        return (await self.app.find_task("story").enqueue()).id

    def die(self, point: str) -> None:
        """A scheduler comes, and dies at the point."""
        words = [self.place.url, self.place.schema, str(self.log), str(self.place.clock.now()), point]
        done = subprocess.run(
            [sys.executable, "-m", "acceptance.crash_program", *words], capture_output=True, text=True, timeout=60,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), os.environ.get("PYTHONPATH", "")))}, check=False,
        )  # fmt: skip
        assert done.returncode == DIED, f"it did not get to {point}: {done.stderr[-3000:]}"
        self._until_forgotten()

    def _until_forgotten(self) -> None:
        """A server needs a moment to see that a client is gone, and gives up its locks then."""
        held = "select count(*) from pg_stat_activity where state like 'idle in transaction%' and pid <> pg_backend_pid()"
        deadline = time.monotonic() + 20
        while self.place.kind == "postgres" and self.place.sql(held)[0][0]:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def executed(self) -> Counter[str]:
        """How often each job was begun, by the word of the handlers."""
        return Counter(self.log.read_text().split())

    async def state(self) -> tuple[list[Job], list[list[Run]], list[Event]]:
        """Without whether somebody has begun to send the events."""
        jobs, driver = await rows(self.app), self.app.client.driver
        events = [replace(event, fanned_at=None) for event in await driver.read(AllEvents())]
        return jobs, [await driver.runs(job.id) for job in jobs], events

    async def recovered(self) -> tuple[list[Job], list[list[Run]], list[Event]]:
        """After the lease has lapsed a scheduler comes back; and another one, which finds nothing left to do."""
        self.place.clock.advance(LEASE)
        await self.restarted().tick()
        after = await self.state()
        await self.restarted().tick()
        assert await self.state() == after, "recovery run twice changes nothing"
        return after

    async def finished(self) -> None:
        """Let time pass until nothing is to be done."""
        while any(job.state in ("queued", "running") for job in await rows(self.app)):
            self.place.clock.advance("60s")
            await self.restarted().tick()


def on(crash: Crash, play: Callable[[], Any]) -> None:
    run(play)
    assert max(crash.executed().values(), default=1) == 1, "a job id was executed twice"
