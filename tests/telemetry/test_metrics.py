"""Metrics of a worker: a real worker, a real scrape, read by somebody else's reader."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from telemetry.asking import ask, numbers, read, send
from windlass import Reject
from windlass.clock import SECOND
from windlass.errors import InvalidInput
from windlass.telemetry.exposition import Histogram, histograms, page, plain
from windlass.telemetry.families import BOUNDS, CLAIM, FAMILIES, JOBS, LATE
from windlass.telemetry.measures import Measures
from windlass.worker import Worker
from windlass.worker.probing import Probe, place_of, scrape
from worker.stage import Stage, heard, on_stage


@asynccontextmanager
async def probed(stage: Stage) -> AsyncIterator[tuple[Worker, int]]:
    async with stage.working(measures=Measures()) as worker, Probe(worker).listening("127.0.0.1", 0) as probe:
        yield worker, probe.port


def test_a_scrape_tells_how_long_jobs_waited_and_ran_and_how_they_ended() -> None:
    async def play(stage: Stage) -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        @stage.app.task(queue="mail")
        async def send_mail(n: int) -> None:
            if n == 1:
                raise Reject("no")
            begun.set()
            await go.wait()

        await send_mail.enqueue(0)
        stage.clock.advance(7 * SECOND)
        async with probed(stage) as (worker, port):
            await begun.wait()
            stage.clock.advance(SECOND // 10)
            await send_mail.enqueue(1)
            go.set()
            await stage.until(lambda: worker.stats.finished == 2)
            status, text = await ask(port, "/metrics")
        assert status == 200
        found, task = read(text), send_mail.name
        assert numbers(found["windlass_worker_runs"], "_total") == {("mail", task, "ack"): 1, ("mail", task, "fail"): 1}
        waits, runs = found["windlass_worker_wait_seconds"], found["windlass_worker_run_seconds"]
        assert numbers(waits, "_sum") == {("mail",): 7.0}
        assert numbers(waits, "_count") == {("mail",): 2}
        assert numbers(waits, "_bucket")["mail", "5"] == 1
        assert numbers(waits, "_bucket")["mail", "10"] == numbers(waits, "_bucket")["mail", "+Inf"] == 2
        assert numbers(runs, "_sum") == {("mail", task): 0.1}
        assert numbers(found["windlass_worker_claimed"], "_total") == {(): 2}
        assert numbers(found["windlass_worker_claim_seconds"], "_count")[()] >= 2
        assert numbers(found["windlass_worker_settle_seconds"], "_count")[()] >= 1  # both may go together

    on_stage("memory://", play)


def test_everything_that_the_table_says_of_a_worker_is_exposed_and_nothing_else() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        text = scrape(stage.app.worker())
        told = [line.split(" ")[2:4] for line in text.splitlines() if line.startswith("# TYPE")]
        assert sorted(map(tuple, told)) == sorted((f.name, f.kind) for f in FAMILIES if f.where == "worker")

    on_stage("memory://", play)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("leases_lost", "leases_lost"), ("recovered", "recovered"), ("settled_late", "settled_late"),
        ("store_errors", "store_errors"), ("claimed", "claimed"),
    ],
)  # fmt: skip
def test_what_a_worker_counts_anyway_is_told_under_its_name(field: str, name: str) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        worker = stage.app.worker()
        setattr(worker.stats, field, 3)
        assert numbers(read(scrape(worker))[f"windlass_worker_{name}"], "_total") == {(): 3}

    on_stage("memory://", play)


def test_a_job_whose_worker_was_lost_is_counted_as_rescued_by_the_next() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        await work.enqueue()
        await work.enqueue()
        from windlass.drivers.values import Claim

        claim = Claim(queues=("default",), limit=1, lease_for=SECOND, worker_id="gone", token="t")
        assert len(await stage.store.driver.claim(claim, now=stage.clock.now())) == 1
        stage.clock.advance(2 * SECOND)
        worker = await stage.drain(measures=Measures())
        assert (worker.stats.succeeded, numbers(read(scrape(worker))["windlass_worker_rescued"], "_total")) == (2, {(): 1})

    on_stage("memory://", play)


def test_handlers_in_threads_and_those_that_settle_themselves_are_counted(tmp_path: Any) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        def blocking() -> None: ...

        @stage.app.task(context=True)
        async def own(ctx: Any) -> None:
            async with ctx.transaction():
                stage.clock.advance(SECOND)

        await blocking.enqueue()
        await own.enqueue()
        worker = await stage.drain(measures=Measures())
        found = read(scrape(worker))
        assert set(numbers(found["windlass_worker_runs"], "_total").values()) == {1}
        assert numbers(found["windlass_worker_run_seconds"], "_sum")["default", own.name] >= 1

    on_stage(f"sqlite:///{tmp_path}/jobs.db", play, lease="60s")


def test_the_probe_says_why_a_worker_is_not_ready() -> None:
    async def play(stage: Stage) -> None:
        go = threading.Event()

        @stage.app.task
        async def work() -> None:
            await heard(go)

        job = await work.enqueue()
        async with probed(stage) as (worker, port):
            await stage.until_state(job.id, "running")
            assert await ask(port, "/readyz") == (200, "ok\n")
            stage.store.fail("settle")
            go.set()
            await stage.until(lambda: not worker.reachable)
            assert await ask(port, "/readyz") == (503, "the store cannot be written\n")
            stage.store.mend()
            await stage.until(lambda: worker.reachable)
            go.clear()
            second = await work.enqueue()
            await stage.until_state(second.id, "running")
            worker.stop()
            assert await ask(port, "/readyz") == (503, "the worker is stopping\n")
            assert await ask(port, "/livez") == (200, "ok\n")
            assert numbers(read((await ask(port, "/metrics"))[1])["windlass_worker_stopping"]) == {(): 1}
            go.set()

    on_stage("memory://", play, lease="60s")


def test_the_probe_answers_nothing_but_what_it_is_for() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        async with probed(stage) as (_, port):
            assert (await ask(port, "/"))[0] == 404
            assert (await ask(port, "/metrics", "POST"))[0] == 405
            assert await ask(port, "/livez", "HEAD") == (200, "")
            assert (await ask(port, "/metrics?x=1"))[0] == 200
            assert await send(port, b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n") == (0, "")
            assert await ask(port, "/livez") == (200, "ok\n")

    on_stage("memory://", play)


def test_a_port_is_one_of_this_machine_unless_another_address_is_said() -> None:
    assert place_of("9187") == ("127.0.0.1", 9187)
    assert place_of("0.0.0.0:9187", offset=2) == ("0.0.0.0", 9189)  # noqa: S104
    assert place_of("[::1]:9187") == ("::1", 9187)
    assert place_of("0", offset=3) == ("127.0.0.1", 0)
    for nonsense in ("", "http", "localhost", "99999", "-1", "²"):
        with pytest.raises(InvalidInput, match="metrics"):
            place_of(nonsense)


def test_a_port_that_is_taken_is_an_error_that_says_so() -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        async with probed(stage) as (worker, port):
            with pytest.raises(InvalidInput, match=f"127.0.0.1:{port} cannot be listened on"):
                async with Probe(worker).listening("127.0.0.1", port):
                    pass

    on_stage("memory://", play)


# ------------------------------------------------------------------------------------------------------- the text format


def test_any_name_comes_through_the_format_as_it_is() -> None:
    for name in ('a"b', "a\\b", "a\nb", 'x\\"\n', "日本", "{}", ""):
        [metric] = read(page(plain(JOBS, [((name, "queued"), 3)]))).values()
        assert numbers(metric) == {(name, "queued"): 3}


def test_numbers_are_not_rounded() -> None:
    for number in (0.0, 1234567890123.0, 0.1 + 0.2, 1e-9):
        [metric] = read(page(plain(LATE, [((), number)]))).values()
        assert numbers(metric, "_total") == {(): number}


def test_a_bucket_holds_its_bound_and_all_below() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS[0], BOUNDS[3], BOUNDS[3] + 1e-9, 1e9):
        histogram.observe(seconds)
    [metric] = read(page(histograms(CLAIM, [((), histogram)]))).values()
    buckets = numbers(metric, "_bucket")
    assert buckets[f"{BOUNDS[0]:g}",] == buckets[f"{BOUNDS[2]:g}",] == 2
    assert (buckets[f"{BOUNDS[3]:g}",], buckets[f"{BOUNDS[4]:g}",], buckets[f"{BOUNDS[-1]:g}",]) == (3, 4, 4)
    assert buckets["+Inf",] == numbers(metric, "_count")[()] == 5


def test_the_table_of_metrics_is_sound() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        assert family.says.endswith("."), family.name
