"""A hundred thousand jobs move under fire: a producer and a worker go on, the copier is killed again and again."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from random import Random

import pytest

from windlass.clock import SECOND
from windlass.core.changes import Ack, Fail
from windlass.drivers.values import Claim
from windlass.types import NewJob

from .ends import Place, Places, copier, digests
from .test_killed import DYING, arguments
from .test_live import produce

JOBS = 100_000
HOUR = 3_600 * SECOND


async def stock(place: Place) -> None:
    """Most of them wait, some have run, some are dead; with payloads, headers, keys and organisations."""
    app = place.app()
    async with app:
        driver, now = app.client.driver, app.client.now()
        for start in range(0, JOBS, 1_000):
            jobs = [
                NewJob(id=f"job-{n}", type=f"type-{n % 5}", queue=f"queue-{n % 3}", org_id=f"org-{n % 7}", priority=n % 4,
                       payload=b'{"n":%d,"text":"%s"}' % (n, b"x" * (n % 300)), headers={"trace": f"t-{n}"},
                       tags=("a", "b") if n % 10 == 0 else (), idempotency_scope="s" if n % 4 == 0 else None,
                       idempotency_key=f"k-{n}" if n % 4 == 0 else None)
                for n in range(start, start + 1_000)
            ]  # fmt: skip
            await driver.enqueue(jobs, now=now)
        for turn in range(40):
            wish = Claim(queues=("queue-0", "queue-1"), limit=500, lease_for=HOUR, worker_id="w", token=f"t-{turn}")
            taken = await driver.claim(wish, now=now)
            ended = [
                Fail(handle=job.handle, token=job.token, at=now, kind="exhausted", reason="no", error="no", attempts=1)
                if n % 10 == 0 else Ack(handle=job.handle, token=job.token, at=now, result=b'"done"')
                for n, job in enumerate(taken)
            ]  # fmt: skip
            await driver.settle(ended, now=now)


class Working:
    """A worker in a thread, which runs what it gets until it is told to stop."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._stop: Callable[[], None] = lambda: None
        self.began = threading.Event()

    async def _main(self) -> None:
        app = self._place.app(poll="100ms")

        @app.task(name="type-2", queue="queue-2")
        async def two(n: int, text: str) -> None:
            self.began.set()
            await asyncio.sleep(0.02)

        async with app:
            worker, loop = app.worker(concurrency=10), asyncio.get_running_loop()

            def stop() -> None:
                loop.call_soon_threadsafe(worker.stop)

            self._stop = stop
            await worker.run()

    def __enter__(self) -> Working:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.mark.full
@pytest.mark.parametrize(("here", "there"), [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_a_hundred_thousand_jobs_move_under_fire(
    places: Places, here: str, there: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed before a page, after one, in the middle of whatever it does: what is there in the end is what was there."""
    source, target = places.new(here), places.new(there)
    asyncio.run(stock(source))
    stored: list[str] = []
    told: list[str] = []
    begun = threading.Event()
    producer = threading.Thread(target=produce, args=(source, stored, told, begun))
    command = [sys.executable, str(DYING), *arguments(source), *arguments(target)]
    chance, began = Random(7), time.monotonic()
    with Working(source) as working:
        producer.start()
        assert begun.wait(60)
        assert working.began.wait(60)
        for call in ("drain:after", "move:after", "put:before", "put:after"):
            number = chance.randint(12, 25) if call.startswith("put") else 1
            assert subprocess.run([*command, call, str(number), "60"], check=False).returncode == -signal.SIGKILL
        by_surprise = 0
        for _ in range(3):
            process = subprocess.Popen([*command, "never", "0", "60"])
            try:
                assert process.wait(chance.uniform(1.0, 3.0)) == 0
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                by_surprise += 1
        with source.end() as left, target.end() as right:
            copied, last = right.counts()["jobs"], time.monotonic()
            copier(left, right, owner=None, abandon=False).run()
            took = time.monotonic() - last
            assert digests(right) == digests(left)
            jobs, rows = right.counts()["jobs"], sum(right.counts().values())
            assert right.leased()[0] == 0, "whatever ran was waited for"
        producer.join(60)
    assert told, "the producer was told where to go"
    assert jobs == JOBS + len(stored)
    with capsys.disabled():
        print(
            f"\n{here} to {there}: {jobs:,} jobs, {rows:,} rows, killed {4 + by_surprise} times in {last - began:.1f} s, "
            f"when {copied:,} jobs were there; the rest, and to compare all of it, took {took:.1f} s"
        )


@pytest.mark.full
@pytest.mark.parametrize(("here", "there"), [("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "sqlite")])
def test_how_fast_a_hundred_thousand_jobs_move(
    places: Places, here: str, there: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = places.new(here), places.new(there)
    asyncio.run(stock(source))
    moments: list[tuple[str, float]] = []

    class Watch:
        def phase(self, what: str, total: int = 0) -> None:
            moments.append((what, time.monotonic()))

        def done(self, rows: int) -> None: ...

    with source.end() as left, target.end() as right:
        copier_ = copier(left, right)
        copier_._show = Watch()
        report = copier_.run()
        end = time.monotonic()
    at = dict(moments)
    copying, comparing = at["comparing"] - at["copying"], at["opening the target"] - at["comparing"]
    with capsys.disabled():
        print(
            f"\n{here} to {there}: {report.rows:,} rows, copied in {copying:.1f} s ({JOBS / copying:,.0f} jobs/s), "
            f"compared in {comparing:.1f} s, {JOBS / (end - moments[0][1]):,.0f} jobs/s in all"
        )
    assert report.rows > JOBS
