"""OpenTelemetry: a span where jobs are enqueued, one where each is run, and a link between them through the job's headers.

Only the API is needed (the extra `otel`); which SDK listens is the program's affair, and without one nothing is recorded.
An execution begins a trace of its own and links to the producer's: it may come days later, and more than once. Baggage
stays where it is. What fails in here (a processor, a sampler, an exporter of the program's) is logged, and the job goes on
without its span. The names of attributes are those of the messaging conventions, which still change: they are all in here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from windlass.core.settle import Failed, Outcome, Rejected, Released, Snoozed, WasCancelled
from windlass.extras import MissingExtra
from windlass.types import Claimed, NewJob

try:
    from opentelemetry import context as otel
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise MissingExtra("otel", "opentelemetry") from error

if TYPE_CHECKING:
    from windlass.app import Windlass

T = TypeVar("T")
log: Final = logging.getLogger("windlass.tracing")
SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.type"
QUEUE: Final = "messaging.destination.name"
MESSAGE: Final = "messaging.message.id"
BATCH: Final = "messaging.batch.message_count"
TASK: Final = "windlass.task"
ATTEMPT: Final = "windlass.attempt"
OUTCOME: Final = "windlass.outcome"
NO_SPAN: Final[trace.Span] = trace.INVALID_SPAN
_propagator: Final = TraceContextTextMapPropagator()


def trace_jobs(app: Windlass, provider: trace.TracerProvider | None = None) -> None:
    """Trace the jobs of this app from now on. `provider`: default the global one."""
    app.client.tracing = Tracing(provider)


class Tracing:
    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("windlass", tracer_provider=provider)

    @contextmanager
    def producing(self, new: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
        """Around an enqueue: the jobs with the headers by which their executions will link to it. One span for a batch.
        A `traceparent` that the caller gave stays."""
        if not new:
            yield new
            return
        queues = sorted({job.queue for job in new})
        where = queues[0] if len(queues) == 1 else f"{len(queues)} queues"
        about: dict[str, str | int] = {SYSTEM: "windlass", OPERATION: "send", QUEUE: where}
        if len(new) == 1:
            about |= {MESSAGE: new[0].id, TASK: new[0].type}
        else:
            about[BATCH] = len(new)
        span = _tried(
            lambda: self._tracer.start_span(f"send {where}", kind=trace.SpanKind.PRODUCER, attributes=about),
            NO_SPAN,
        )
        try:
            with trace.use_span(span):
                carrier: dict[str, str] = {}
                _propagator.inject(carrier)
                yield [replace(job, headers={**carrier, **(job.headers or {})}) for job in new] if carrier else new
        finally:
            _tried(span.end, None)

    def consuming(self, job: Claimed, within: Context | None) -> Consumer:
        """An execution begins. Spans that its handler makes in this context are below it."""
        return Consumer(_tried(lambda: self._begun(job, within), NO_SPAN))

    def _begun(self, job: Claimed, within: Context | None) -> trace.Span:
        producer = trace.get_current_span(_propagator.extract(job.headers, otel.Context())).get_span_context()
        span = self._tracer.start_span(
            f"process {job.queue}", otel.Context(), kind=trace.SpanKind.CONSUMER,
            links=[trace.Link(producer)] if producer.is_valid else [],
            attributes={
                SYSTEM: "windlass", OPERATION: "process", QUEUE: job.queue, MESSAGE: job.id, TASK: job.type,
                ATTEMPT: job.executions - job.skipped,
            },
        )  # fmt: skip
        if within is not None:
            within.run(lambda: otel.attach(trace.set_span_in_context(span)))
        return span


class Consumer:
    """The span of one execution."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def end(self, outcome: Outcome, traceback: str | None = None) -> None:
        """What it says of an error is what is stored of it: without secrets."""
        _tried(lambda: self._end(outcome, traceback), None)

    def _end(self, outcome: Outcome, traceback: str | None) -> None:
        self._span.set_attribute(OUTCOME, _word(outcome))
        if isinstance(outcome, Failed | Rejected):
            said = outcome.error if isinstance(outcome, Failed) else outcome.reason
            kind = outcome.types[0] if isinstance(outcome, Failed) and outcome.types else "windlass.Reject"
            self._span.add_event(
                "exception",
                {"exception.type": kind, "exception.message": said, "exception.stacktrace": traceback or ""},
            )
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, said))
        self._span.end()

    def lost(self) -> None:
        """Somebody else may have the job now, and nothing that this execution says is heard."""
        _tried(self._lose, None)

    def _lose(self) -> None:
        self._span.set_attribute(OUTCOME, "lost")
        self._span.set_status(trace.Status(trace.StatusCode.ERROR, "the lease was lost"))
        self._span.end()


def _tried(act: Callable[[], T], instead: T) -> T:
    try:
        return act()
    except Exception:  # somebody else's code, and the job must not suffer for it
        log.exception("a span could not be told")
        return instead


def _word(outcome: Outcome) -> str:
    match outcome:
        case Failed():
            return "failed"
        case Rejected():
            return "rejected"
        case WasCancelled():
            return "cancelled"
        case Snoozed():
            return "snoozed"
        case Released():
            return "released"
        case _:
            return "succeeded"
