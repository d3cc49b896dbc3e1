"""Spans where jobs are enqueued and where they run, in the memory of a real SDK."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from windlass import Context, Reject, Retry, Snooze
from windlass.telemetry.tracing import trace_jobs
from worker.stage import Stage, on_stage


class Recorded:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("program")

    def of(self, kind: SpanKind) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.kind is kind]

    def named(self, name: str) -> ReadableSpan:
        [span] = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return span


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def identity(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


@pytest.mark.parametrize("run", ["async", "thread"])
def test_an_execution_links_to_the_enqueue_that_made_it(recorded: Recorded, run: str) -> None:
    async def play(stage: Stage) -> None:
        trace_jobs(stage.app, recorded.provider)

        def inside() -> None:
            with recorded.tracer.start_as_current_span("inside"):
                pass

        async def inside_async() -> None:
            inside()

        work = stage.app.task(name="work", queue="mail")(inside_async if run == "async" else inside)
        with recorded.tracer.start_as_current_span("request"):
            job = await work.enqueue()
        await stage.drain()
        [producer], [consumer] = recorded.of(SpanKind.PRODUCER), recorded.of(SpanKind.CONSUMER)
        assert producer.parent is not None
        assert producer.parent.span_id == identity(recorded.named("request"))[1]
        assert (producer.name, consumer.name) == ("send mail", "process mail")
        assert linked(consumer) == [identity(producer)]
        assert consumer.parent is None
        assert identity(consumer)[0] != identity(producer)[0]
        parent = recorded.named("inside").parent
        assert parent is not None
        assert parent.span_id == identity(consumer)[1]
        about = consumer.attributes or {}
        assert {about["messaging.message.id"], about["windlass.task"], about["windlass.outcome"]} == {
            job.id, "work", "succeeded",
        }  # fmt: skip

    on_stage("memory://", play)
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_nothing_of_one_execution_is_left_for_the_next(recorded: Recorded) -> None:
    async def play(stage: Stage) -> None:
        trace_jobs(stage.app, recorded.provider)
        seen: list[int] = []

        @stage.app.task
        async def work() -> None:
            seen.append(trace.get_current_span().get_span_context().span_id)

        await stage.app.enqueue_many([work.job(), work.job()])
        await stage.drain(concurrency=1)
        [producer] = recorded.of(SpanKind.PRODUCER)
        assert (producer.attributes or {})["messaging.batch.message_count"] == 2
        consumers = recorded.of(SpanKind.CONSUMER)
        assert sorted(seen) == sorted(identity(span)[1] for span in consumers)
        assert {link for span in consumers for link in linked(span)} == {identity(producer)}
        assert len(consumers) == 2

    on_stage("memory://", play)


@pytest.mark.parametrize(
    ("make", "word", "status"),
    [
        (lambda: ValueError("boom"), "failed", StatusCode.ERROR), (lambda: Reject("no"), "rejected", StatusCode.ERROR),
        (lambda: Snooze("1h"), "snoozed", StatusCode.UNSET),
    ],
)  # fmt: skip
def test_a_span_tells_how_its_execution_ended(
    recorded: Recorded, make: Callable[[], BaseException], word: str, status: StatusCode
) -> None:
    async def play(stage: Stage) -> None:
        trace_jobs(stage.app, recorded.provider)

        @stage.app.task(retry=Retry(max_retries=0))
        async def work() -> None:
            raise make()

        await work.enqueue()
        await stage.drain()
        [consumer] = recorded.of(SpanKind.CONSUMER)
        assert (consumer.attributes or {})["windlass.outcome"] == word
        assert consumer.status.status_code is status
        assert [event.name for event in consumer.events] == (["exception"] if status is StatusCode.ERROR else [])

    on_stage("memory://", play)


def test_every_try_of_a_job_is_a_span_of_its_own(recorded: Recorded) -> None:
    async def play(stage: Stage) -> None:
        trace_jobs(stage.app, recorded.provider)

        @stage.app.task
        async def work() -> None:
            raise ValueError("boom")

        work_id = (await work.enqueue()).id
        await stage.drain()
        consumers = recorded.of(SpanKind.CONSUMER)
        assert [(span.attributes or {})["windlass.attempt"] for span in consumers] == [1, 2, 3]
        assert len({identity(span)[0] for span in consumers}) == 3
        assert (await stage.fetch(work_id)).state == "dead"

    on_stage("memory://", play)


def test_a_program_has_a_span_like_any_handler(recorded: Recorded) -> None:
    async def play(stage: Stage) -> None:
        trace_jobs(stage.app, recorded.provider)
        program = stage.app.command("no", ["false"], retry=Retry(max_retries=0))
        await program.enqueue()
        await stage.drain()
        [producer], [consumer] = recorded.of(SpanKind.PRODUCER), recorded.of(SpanKind.CONSUMER)
        assert linked(consumer) == [identity(producer)]
        assert (consumer.attributes or {})["windlass.outcome"] == "failed"

    on_stage("memory://", play, lease="60s")


def test_a_job_that_settles_itself_ends_its_span(recorded: Recorded, tmp_path: Any) -> None:
    async def play(stage: Stage) -> None:
        trace_jobs(stage.app, recorded.provider)

        @stage.app.task(context=True)
        async def work(ctx: Context) -> None:
            async with ctx.transaction():
                pass

        await work.enqueue()
        await stage.drain()
        [consumer] = recorded.of(SpanKind.CONSUMER)
        assert (consumer.attributes or {})["windlass.outcome"] == "succeeded"

    on_stage(f"sqlite:///{tmp_path}/jobs.db", play, lease="60s")


def test_a_span_ends_when_the_lease_is_lost(recorded: Recorded) -> None:
    async def play(stage: Stage) -> None:
        trace_jobs(stage.app, recorded.provider)

        @stage.app.task
        async def work() -> None:
            await asyncio.sleep(60)

        job = await work.enqueue()
        async with stage.working():
            await stage.until_state(job.id, "running")
            stage.store.fail("extend")
            stage.clock.advance(stage.app.client.settings.lease)
            await stage.until(lambda: len(recorded.of(SpanKind.CONSUMER)) > 0)
        assert (recorded.of(SpanKind.CONSUMER)[0].attributes or {})["windlass.outcome"] == "lost"

    on_stage("memory://", play, grace="50ms")


def test_headers_of_the_caller_stay_and_a_trace_of_theirs_wins(recorded: Recorded) -> None:
    async def play(stage: Stage) -> None:
        trace_jobs(stage.app, recorded.provider)

        @stage.app.task
        async def work() -> None: ...

        theirs = f"00-{'a' * 32}-{'b' * 16}-01"
        first = await work.using(headers={"x": "1"}).enqueue()
        second = await work.using(headers={"traceparent": theirs}).enqueue()
        stored = (await stage.fetch(first.id)).headers
        assert stored["x"] == "1"
        assert stored["traceparent"].split("-")[2] == f"{identity(recorded.of(SpanKind.PRODUCER)[0])[1]:016x}"
        assert (await stage.fetch(second.id)).headers["traceparent"] == theirs

    on_stage("memory://", play)


def test_a_header_that_is_no_trace_is_no_link(recorded: Recorded) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task
        async def work() -> None: ...

        await work.using(headers={"traceparent": "nonsense"}).enqueue()
        trace_jobs(stage.app, recorded.provider)
        await stage.drain()
        assert linked(recorded.of(SpanKind.CONSUMER)[0]) == []

    on_stage("memory://", play)


def test_a_blocking_enqueue_is_traced_too(recorded: Recorded, tmp_path: Any) -> None:
    async def play(stage: Stage) -> None:
        trace_jobs(stage.app, recorded.provider)

        @stage.app.task
        async def work() -> None: ...

        job = work.enqueue_sync()
        assert "traceparent" in (await stage.fetch(job.id)).headers
        assert len(recorded.of(SpanKind.PRODUCER)) == 1

    on_stage("memory://", play)


def test_nothing_of_it_is_imported_unless_somebody_asks() -> None:
    script = (
        "import asyncio, sys; from windlass import Windlass; app = Windlass('memory://')\n"
        "@app.task\nasync def work(): ...\n"
        "work.enqueue_sync(); app.run(drain=True)\n"
        "print([m for m in sys.modules if m.startswith(('opentelemetry', 'sentry_sdk', 'prometheus_client'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("run", ["async", "thread"])
@pytest.mark.parametrize("when", ["on_start", "on_end"])
def test_a_listener_that_fails_costs_a_job_its_span_and_nothing_else(run: str, when: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no collector")

    listener = SpanProcessor()
    setattr(listener, when, fail)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(listener)

    async def play(stage: Stage) -> None:
        trace_jobs(stage.app, provider)

        def work() -> int:
            return 7

        async def work_async() -> int:
            return 7

        job = await stage.app.task(name="work")(work_async if run == "async" else work).enqueue()
        await stage.drain()
        assert (await stage.fetch(job.id)).state == "succeeded"

    on_stage("memory://", play)
