"""An operation inside a transaction that holds more than it: undone alone when it fails."""

from __future__ import annotations

from typing import Final

from windlass.drivers.postgres.faults import is_lost
from windlass.drivers.statement import Op, Statement, T

SAVEPOINT: Final = Statement("savepoint windlass", ())
ROLLBACK_TO: Final = Statement("rollback to savepoint windlass", ())
RELEASE: Final = Statement("release savepoint windlass", ())


def guarded(op: Op[T]) -> Op[T]:
    """What came before it in the transaction stays, whatever happens to it."""
    yield SAVEPOINT
    try:
        result = yield from op
    except GeneratorExit:
        raise
    except BaseException as error:
        if is_lost(error):  # nothing is left to undo, and what is said now would be said on another connection
            raise
        yield ROLLBACK_TO
        yield RELEASE
        raise
    yield RELEASE
    return result
