"""What is shown of a job's data: nothing that must not be seen, and whether something was left out."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from windlass.redaction import WHOLE_RESULT, Scrubber, marks_of, redact, scrubber_of
from windlass.types import Job
from windlass.urls import HIDDEN


class Shown(Struct, frozen=True):
    """`redacted`: something was hidden. `scrub` does the same to texts about the job."""

    payload: Any
    result: Any
    headers: dict[str, str]
    redacted: bool
    scrub: Scrubber


def shown(job: Job, *, reveal: bool = False) -> Shown:
    """With `reveal`, for whoever may see payloads: only what the task itself keeps secret is hidden."""
    marks = marks_of(job.headers)
    given = None if job.codec == "none" else plain_data(job.payload)
    made = None if job.result is None else plain_data(job.result)
    payload = redact(given, marks, telling=not reveal)
    whole = WHOLE_RESULT in marks and made is not None
    result = HIDDEN if whole else redact(made, marks, telling=not reveal)
    headers = redact(job.headers, telling=not reveal)
    hidden = (payload, result, headers) != (given, made, job.headers)
    return Shown(payload, result, headers, hidden, scrub_of(job))


def scrub_of(job: Job) -> Scrubber:
    return scrubber_of(job.payload, job.headers)


def plain_data(stored: bytes) -> Any:
    try:
        return msgspec.json.decode(stored)
    except msgspec.DecodeError:
        return stored.decode("utf-8", "backslashreplace")
