"""Looking for what an enqueue stored whose reply was lost."""

from __future__ import annotations

from typing import Final

from windlass.types import Job, NewJob

_NEVER_CHANGED: Final = (
    "type", "queue", "org_id", "idempotency_scope", "idempotency_key", "template_id", "fire_at", "group_id"
)  # fmt: skip


def is_of(row: Job, asked: NewJob) -> bool:
    """Whether this row may be what was asked for. Somebody may have stored another job under an id that people choose.
    Payloads can be replaced where there is a key, and are not compared where they cannot be read here."""
    if any(getattr(row, name) != getattr(asked, name) for name in _NEVER_CHANGED):
        return False
    is_replaceable = row.dedupe_key is not None or row.idempotency_key is not None
    return is_replaceable or row.codec != asked.codec or row.payload == asked.payload
