"""How long every page of the dashboard and everything that the API reads takes, at a million jobs and a month of usage.

    python bench/pages.py [--jobs 1000000] [--times 9] [--only sqlite|postgres] [--match TEXT] [--write] [--dir DIR]
                          [--server URL] [--at URL]

Fills a fresh store of each kind and asks the application itself, in process, without a network. Nothing that this process
remembers of earlier questions is used: every answer is worked out anew. What takes longer than 300 ms in the median is
marked, and the exit code is 1. `--at` measures a store that is there already, and fills nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
import psycopg
from msgspec import Struct
from pages_asked import ASKED, addresses, unasked
from pages_fill import fill
from pages_page import MOST_MS, Timing, written
from processes import cpu_seconds, reaped_seconds
from report import this_machine
from server import fresh_database

from windlass import Windlass
from windlass.admin import counting
from windlass.core.duties import SampleQueues
from windlass.web.access import LOCAL, Access
from windlass.web.app import web_app
from windlass.web.bounds import Bounds
from windlass.web.pulse import Pulse

HERE: Final = Path(__file__).parent
WARM: Final = 1
SHORT: Final = 3  # times are enough of what is far over
DAY: Final = timedelta(days=1)
KEPT: Final = 8 * 86_400_000_000  # of samples
LABELS: Final = ("queued", "scheduled", "blocked", "parked", "running", "succeeded", "dead", "cancelled")


def postmaster(url: str) -> int:
    with psycopg.connect(url) as connection:
        [(pid,)] = connection.execute("select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int").fetchall()
    return int(pid)


class Answer(Struct, frozen=True):
    status: int
    body: bytes
    ms: float


class Desk:
    """The application on a store, and somebody who asks it."""

    def __init__(self, url: str) -> None:
        self.app = Windlass(url)
        bounds = Bounds(rate=1e9, burst=10**9, query=64 << 10)
        self.web = web_app(self.app, access=Access(anonymous=LOCAL), bounds=bounds)
        self._sampled = 0
        self._server = None if url.startswith("sqlite:") else postmaster(url)

    def worked(self) -> float:
        """Seconds of processor time so far, of this process and of the server's."""
        if self._server is None:
            return time.process_time()
        return time.process_time() + cpu_seconds(self._server) + reaped_seconds(self._server)

    async def ask(self, address: str) -> Answer:
        """An answer as a whole; of a stream of events the first of them."""
        self._forget()
        path, _, query = address.partition("?")
        enough = asyncio.Event()
        status, parts = 0, []

        async def receive() -> dict[str, Any]:
            await enough.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))
            if b"data: " in parts[-1] or (message["type"] == "http.response.body" and not message.get("more_body")):
                enough.set()

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": path, "raw_path": quote(path, safe="/%:").encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "server": ("localhost", 80),
        }  # fmt: skip
        began = time.perf_counter()
        asking = asyncio.create_task(self.web(scope, receive, send))
        await enough.wait()
        took = (time.perf_counter() - began) * 1_000
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return Answer(status, b"".join(parts), took)

    def _forget(self) -> None:
        """What was counted for the questions before."""
        site = self.web.state.site
        site.pulse = Pulse(site.admin())
        for admin in site._admins.values():
            counting.forget(admin.client)

    async def sample(self) -> None:
        """What a leader does every minute."""
        now = self.app.client.now()
        if now // 60_000_000 != self._sampled:
            await self.app.client.driver.maintain(SampleQueues(keep=KEPT), epoch=None, now=now)
            self._sampled = now // 60_000_000


async def names(desk: Desk) -> dict[str, str]:
    """What the addresses leave open: a job of each kind, a message, moments, and a place deep in a list."""
    found = {}

    async def listed(address: str) -> Any:
        answer = await desk.ask(address)
        assert answer.status == 200, (address, answer.body)
        return msgspec.json.decode(answer.body)

    for label in LABELS:
        found[label] = (await listed(f"/api/jobs?label={label}&limit=1"))["jobs"][0]["id"]
    found["message"] = (await listed("/api/webhooks/wh_1/deliveries?limit=1"))["deliveries"][0]["id"]
    cursor = None
    for _ in range(10):
        asked = {"state": "succeeded", "limit": "200"} | ({} if cursor is None else {"cursor": cursor})
        cursor = (await listed(f"/api/jobs?{urlencode(asked)}"))["cursor"]
    now = datetime.now(UTC)
    times = {"hour": now - timedelta(hours=1), "day": now - DAY, "days": now - 3 * DAY}
    found |= {name: quote(at.isoformat(timespec="seconds")) for name, at in times.items()}
    return {**found, "deep": f"cursor={cursor}"}


async def measure(url: str, times: int, match: str = "") -> list[Timing]:
    desk = Desk(url)
    timings = []
    async with desk.app:
        known = await names(desk)
        for path in ASKED:
            for pattern in addresses(path):
                if match not in pattern:
                    continue
                await desk.sample()
                timings.append(await timed(desk, path, pattern, pattern.format(**known), times))
                print(timings[-1].told(), flush=True)
    return timings


async def timed(desk: Desk, path: str, pattern: str, address: str, times: int) -> Timing:
    took: list[float] = []
    began = 0.0
    for turn in range(WARM + times):
        began = desk.worked() if turn == WARM else began
        answer = await desk.ask(address)
        assert answer.status in (200, 303), (address, answer.status, answer.body[-2000:])
        took.append(answer.ms)
        if turn == WARM + SHORT and min(took) > 3 * MOST_MS:
            break
    cpu = (desk.worked() - began) * 1_000 / len(took[WARM:])
    return Timing(path, pattern, statistics.median(took[WARM:]), max(took[WARM:]), cpu, len(answer.body))


@contextmanager
def store(kind: str, jobs: int, server: str | None, parent: str | None) -> Iterator[str]:
    now = time.time_ns() // 1_000
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="windlass-pages-", dir=parent) as folder:
            url = f"sqlite:///{Path(folder).resolve() / 'pages.db'}"
            fill(url, jobs, now)
            yield url
        return
    with fresh_database(server, parent) as url:
        fill(url, jobs, now)
        yield url


def options_of() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", type=int, default=1_000_000)
    options.add_argument("--times", type=int, default=9)
    options.add_argument("--only", choices=("sqlite", "postgres"))
    options.add_argument("--match", default="", help="only addresses that hold this text")
    options.add_argument("--write", action="store_true", help="write bench/PAGES.md")
    options.add_argument("--dir", help="a directory on a disk for the stores while they are measured")
    options.add_argument("--server", help="a PostgreSQL to make the database on, as its superuser")
    options.add_argument("--at", help="a store that was filled before")
    return options.parse_args()


def main() -> int:
    asked = options_of()
    if missing := unasked():
        sys.exit(f"nobody has said how to measure {', '.join(sorted(missing))}: see bench/pages_asked.py")
    machine, found = this_machine(Path(asked.dir or tempfile.gettempdir()), ""), {}
    loads = {}
    for kind, name in (("sqlite", "SQLite"), ("postgres", "PostgreSQL")):
        if asked.only not in (None, kind) or (asked.at and asked.at.startswith("sqlite") != (kind == "sqlite")):
            continue
        print(f"\n{name}, {asked.jobs:,} jobs: median and worst of {asked.times}", flush=True)
        before = os.getloadavg()[0]
        if asked.at:
            found[name] = asyncio.run(measure(asked.at, asked.times, asked.match))
        else:
            with store(kind, asked.jobs, asked.server, asked.dir) as url:
                before = os.getloadavg()[0]
                found[name] = asyncio.run(measure(url, asked.times, asked.match))
        loads[name] = (before, os.getloadavg()[0])
    text = written(machine, found, loads, asked.jobs, asked.times)
    if asked.write:
        (HERE / "PAGES.md").write_text(text, "utf-8")
    slow = [one for timings in found.values() for one in timings if one.slow]
    print(f"\n{len(slow)} of {sum(map(len, found.values()))} take longer than {MOST_MS:.0f} ms")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
