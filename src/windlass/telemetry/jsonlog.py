"""Log lines as JSON, one object each, with the job that a line is about or was written in."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from windlass.redaction import Scrubber, scrubber_of
from windlass.types import Claimed

JOB: Final = "windlass_job"  # attribute of a record that says what job it is about
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", JOB}
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


class About:
    """A job, as a record carries it. Others read records too (Sentry, a formatter that prints all it finds, a handler that
    pickles them), and to them it is the job's id: never its arguments or its lease."""

    __slots__ = ("job", "scrub")

    def __init__(self, job: Claimed, scrub: Scrubber | None = None) -> None:
        self.job = job
        self.scrub = scrub or scrubber_of(job.payload, job.headers)

    def __repr__(self) -> str:
        return self.job.id

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (self.job.id,)


def about(job: Claimed) -> dict[str, About]:
    """The `extra=` of a log line about this job."""
    return {JOB: About(job)}


class JsonLines(logging.Formatter):
    """`worker`: the name of the process in the registry. What a program gives as `extra` stands beside our fields."""

    def __init__(self, worker: str | None = None) -> None:
        super().__init__()
        self.worker = worker

    def format(self, record: logging.LogRecord) -> str:
        told = getattr(record, JOB, None)
        whose = told if isinstance(told, About) else None
        scrub: Callable[[str], str] = str if whose is None else whose.scrub
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(), "logger": record.name, "event": scrub(record.getMessage()),
        }  # fmt: skip
        if self.worker is not None:
            line["worker"] = self.worker
        if whose is not None:
            line |= _of(whose.job)
        given = {name: value for name, value in vars(record).items() if name not in _USUAL and name not in line}
        line |= given if whose is None else {name: _cleaned(value, whose.scrub) for name, value in given.items()}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["traceback"] = scrub(self.formatException(record.exc_info))
        try:
            return _encode(line).decode()
        except (
            TypeError,
            ValueError,
            RecursionError,
        ):  # text or keys that are none, or no end: told as far as it goes
            return json.dumps({name: str(value) for name, value in line.items()})


def _cleaned(value: Any, scrub: Scrubber) -> Any:
    """What a handler gives beside its message: without what its arguments keep secret, however deep."""
    try:
        return scrub.data(msgspec.to_builtins(value, str_keys=True, enc_hook=str))
    except (TypeError, ValueError, RecursionError):  # keys that are none, or without end
        return scrub(str(value))


def _of(job: Claimed) -> dict[str, Any]:
    fields = {
        "job_id": job.id, "run_id": job.run_id, "task": job.type, "queue": job.queue,
        "attempt": job.executions - job.skipped, "org": job.org_id, "trace_id": trace_id_of(job.headers),
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def trace_id_of(headers: dict[str, str]) -> str | None:
    """The trace id of the producer, from the `traceparent` that it left: version-trace-span-flags."""
    parts = headers.get("traceparent", "").split("-")
    return parts[1] if len(parts) == 4 and len(parts[1]) == 32 else None
