"""Bringing ended jobs back although another job may take one of their dedupe keys at the same moment."""

from __future__ import annotations

from typing import TypeVar

from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.statement import Op

T = TypeVar("T")


def unless_taken(db: Dialect, step: Op[T]) -> Op[tuple[T] | None]:
    """Run a step that makes jobs active again. Returns what it returned; or None, and the step is undone, if a unique index
    says that another active job has one of their dedupe keys by now. Any other error ends the transaction: nothing is said
    after it, since the connection may be another one by then."""
    yield db.sql.begin_replay()
    try:
        done = yield from step
    except Exception as error:
        if not db.is_taken(error):
            raise
        yield db.sql.undo_replay()
        return None
    yield db.sql.end_replay()
    return (done,)
