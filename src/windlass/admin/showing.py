"""What is shown of a job's data: nothing that must not be seen, and whether something was left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct

from windlass.redaction import WHOLE_RESULT, Scrubber, marks_of, redact, scrubber_of
from windlass.sealing import ENCRYPTED, is_sealed
from windlass.types import Job
from windlass.urls import HIDDEN

LISTED: Final = 16 << 10  # bytes of a payload or a result that a list shows
AT_ONCE: Final = 128 << 10  # bytes that are looked through while everybody waits
Part = Literal["payload", "result", "headers"]
T = TypeVar("T")


class Shown(Struct, frozen=True):
    """`hidden`: of which of these something was. `scrub` does the same to texts about the job."""

    payload: Any
    result: Any
    headers: dict[str, str]
    hidden: tuple[Part, ...]
    scrub: Scrubber


def shown(job: Job, *, reveal: bool = False, brief: bool = False) -> Shown:
    """With `reveal`, for whoever may see payloads: only what the task itself keeps secret is hidden. `brief` is for lists,
    of which everybody waits for the whole: what is large is hidden without being looked through."""
    marks = marks_of(job.headers)
    given = None if job.codec == "none" else _data(job.payload, brief)
    made = None if job.result is None else _data(job.result, brief)
    payload = redact(given, marks, telling=not reveal)
    whole = WHOLE_RESULT in marks and made is not None
    hides = scrubber_of(job.payload, job.headers, telling=not reveal)  # a handler may answer what it was given
    result = HIDDEN if whole else made if made is None else hides.data(redact(made, marks, telling=not reveal))
    headers = redact(job.headers, telling=not reveal)
    looked: tuple[tuple[Part, Any, Any], ...] = (
        ("payload", payload, given), ("result", result, made), ("headers", headers, job.headers),
    )  # fmt: skip
    hidden = tuple(part for part, told, held in looked if told != held or _is_whole(held))
    return Shown(payload, result, headers, hidden, scrub_of(job))


def _is_whole(held: Any) -> bool:
    """Whether not even we have looked into it."""
    return isinstance(held, str) and held in (HIDDEN, ENCRYPTED)


async def looked_through(jobs: Iterable[Job], make: Callable[[], T]) -> T:
    """What is made of these jobs. To hide what they keep secret, all that they hold may have to be looked through: where
    that is much, it is done apart from the event loop."""
    size = sum(len(job.payload) + len(job.result or b"") for job in jobs)
    return make() if size <= AT_ONCE else await asyncio.to_thread(make)


def scrub_of(job: Job) -> Scrubber:
    return scrubber_of(job.payload, job.headers)


def _data(stored: bytes, brief: bool) -> Any:
    if is_sealed(stored):
        return ENCRYPTED
    return HIDDEN if brief and len(stored) > LISTED else plain_data(stored)


def plain_data(stored: bytes) -> Any:
    try:
        return msgspec.json.decode(stored)
    except msgspec.DecodeError:
        return stored.decode("utf-8", "backslashreplace")
