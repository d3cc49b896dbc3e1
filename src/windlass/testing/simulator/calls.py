"""A driver call as the checker is given it, and as the history shows it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from windlass.core.changes import OUTCOME_OF
from windlass.errors import WindlassError
from windlass.types import Handle, Micros


class Call(Struct, frozen=True):
    """A driver call that took effect, or was refused."""

    who: str
    method: str
    batch: Any
    now: Micros
    answer: Any
    error: WindlassError | None
    epoch: int | None = None


def told(call: Call, handles: dict[Handle, str]) -> tuple[Any, ...]:
    """A call as the history shows it: names and numbers."""
    if call.error is not None:
        return ("refused", type(call.error).__name__)
    match call.method:
        case "enqueue":
            return (tuple(answer.id for answer in call.answer),)
        case "claim":
            return (call.batch.token, tuple(job.id for job in call.answer))
        case "extend":
            pairs = zip(call.batch, call.answer, strict=True)
            return tuple((handles.get(unit.handle, "?"), reply.answer) for unit, reply in pairs)
        case "settle":
            pairs = zip(call.batch, call.answer, strict=True)
            return tuple((OUTCOME_OF[type(u)], handles.get(u.handle, "?"), u.token, reply) for u, reply in pairs)
        case "expire":
            return (call.answer[0], tuple(job.id for job in call.answer[1]))
        case "lead":
            return (call.answer.worker_id, call.answer.epoch)
        case "maintain":
            return (type(call.batch).__name__, call.epoch, "refused" if call.answer is None else call.answer.rows)
        case "alter":
            pairs = zip(call.batch, call.answer, strict=True)
            return tuple((type(change).__name__, getattr(change, "job_id", ""), reply) for change, reply in pairs)
    return ()
