"""What an error is called when it happens again: its first line without what differs from job to job."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from windlass.types import Job

LINE: Final = 500  # characters that are looked at
_VARYING: Final = (
    (re.compile(r"'[^']*'|\"[^\"]*\""), "'…'"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.I), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b", re.I), "<hex>"),
    (re.compile(r"\d+"), "#"),
)
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{8}")


def error_of(job: Job) -> str:
    return job.dead_reason or job.last_error


def normalised(error: str) -> str:
    line = error.strip().split("\n", 1)[0][:LINE]
    for varying, instead in _VARYING:
        line = varying.sub(instead, line)
    return line


def fingerprint(error: str) -> str:
    """Equal for errors that differ in nothing but numbers, ids and quoted text."""
    return hashlib.blake2b(normalised(error).encode("utf-8", "backslashreplace"), digest_size=4).hexdigest()


def may_be_fingerprint(text: str) -> bool:
    return _FINGERPRINT.fullmatch(text) is not None


def is_like(error: str, wanted: str) -> bool:
    """Whether an error holds this text, or has it as its fingerprint."""
    return wanted in error or (may_be_fingerprint(wanted) and bool(error) and fingerprint(error) == wanted)
