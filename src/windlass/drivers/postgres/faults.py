"""What went wrong, decided once: which errors may pass if one tries again, which leave open what happened, which stay.

*Retryable*: nothing was stored, and the same call may succeed. *Indeterminate*: the connection broke between sending a
change and hearing of it. *Final*: everything else.
"""

from __future__ import annotations

from typing import Final, Literal

import psycopg

from windlass.errors import (
    ConstraintViolated,
    InvalidInput,
    OutcomeUnknown,
    SchemaMissing,
    StoreBusy,
    StoreError,
    StoreForbidden,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnreachable,
    TransactionConflict,
    WindlassError,
)

Verdict = Literal["retryable", "indeterminate", "final"]

CONFLICTS: Final = frozenset({"40001", "40P01"})
BUSY: Final = frozenset({"55P03", "57014"})  # a lock, or the whole statement, took too long
RESTARTING: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "53300"})
READ_ONLY: Final = "25006"


class Taken(Exception):
    """A unique index refused a row. Operations catch it where they know what it means."""

    def __init__(self, constraint: str, detail: str) -> None:
        self.constraint, self.detail = constraint, detail
        super().__init__(f"{constraint}: {detail}")


class Overdue(Exception):
    """A call was given up: its deadline passed."""


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, however politely it was said."""
    if isinstance(error, Overdue):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return error.sqlstate is None or error.sqlstate[:2] == "08" or error.sqlstate in RESTARTING


def verdict(error: BaseException, *, storing: bool) -> Verdict:
    """`storing`: a change had been sent whose answer tells whether it was stored."""
    if is_lost(error):
        return "indeterminate" if storing else "retryable"
    if isinstance(error, psycopg.Error) and (error.sqlstate in CONFLICTS or error.sqlstate == READ_ONLY):
        return "retryable"  # a standby may be promoted, or another server be the first one now
    return "final"


def translate(error: BaseException, where: str, *, storing: bool = False) -> WindlassError:
    """Foreign exceptions do not leave the driver. The text of the server is kept, that of the caller is not."""
    if isinstance(error, WindlassError):
        return error
    if isinstance(error, Taken):
        return ConstraintViolated(f"{where}: {error}")
    if is_lost(error):
        if storing:
            return OutcomeUnknown(where)
        return StoreUnreachable(where, "the server did not answer in time" if isinstance(error, Overdue) else said(error))
    if not isinstance(error, psycopg.Error):
        return StoreUnavailable(f"{where}: {type(error).__name__}: {error}")
    state = error.sqlstate or ("22000" if isinstance(error, psycopg.DataError) else "")
    return by_state(state, said(error), where)


def by_state(state: str, said: str, where: str) -> WindlassError:
    """What an error of the server means, whichever library told of it."""
    if state in CONFLICTS:
        return TransactionConflict()
    if state in BUSY:
        return StoreBusy(where, 0)
    if state == READ_ONLY:
        return StoreReadOnly(where)
    if state in ("53100", "53200"):
        return StoreFull(where)
    if state in ("42P01", "3F000", "42883", "42703"):
        return SchemaMissing(where, said)
    if state == "42501":
        return StoreForbidden(where, said)
    if state[:2] == "23":
        return ConstraintViolated(f"{where}: {said}")
    if state[:2] == "22":
        return InvalidInput("value", f"cannot be stored: {said}")
    if state[:2] in ("28", "3D"):
        return StoreUnavailable(f"{where}: {said}")
    return StoreError(f"{where}: {said}")


def said(error: BaseException) -> str:
    """The first line of what the server or the library said."""
    message = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__
