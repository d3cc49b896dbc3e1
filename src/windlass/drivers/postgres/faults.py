"""What went wrong, decided once: which errors may pass if one tries again, which leave open what happened, which stay.

*Retryable*: nothing was stored, and the same call may succeed. *Indeterminate*: the connection broke between sending a
change and hearing of it. *Final*: everything else.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import psycopg

from windlass.copy_errors import StoreMoved, StoreMoving
from windlass.core.copying import MOVED
from windlass.drivers.postgres.place import Place
from windlass.errors import (
    ConstraintViolated,
    InvalidInput,
    OutcomeUnknown,
    PoolerInTheWay,
    SchemaMissing,
    StoreBusy,
    StoreCorrupt,
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
LOCKED_OUT: Final = "55P03"
BUSY: Final = frozenset({LOCKED_OUT, "57014"})  # a lock, or the whole statement, took too long
RESTARTING: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "53300"})
READ_ONLY: Final = "25006"
MOVED_STATE: Final = "WL001"  # ours: the guard of a store that is being copied (copying.py) raises these
MOVING_STATE: Final = "WL002"
STALE_PLAN: Final = "0A000"  # a migration changed a table under a prepared statement: a new connection prepares it anew
# What callers give is bounded before it is sent (core/admission*.py): what is too large then was in the store.
OUT_OF_RANGE: Final = frozenset({"22003", "22008"})
SHARED_SESSION: Final = frozenset({"26000", "42P05"})  # a prepared statement is gone, or somebody else's is there

# A connection that is refused carries no code, only words: libpq's own, and those of the server that it passes on. These
# stay until somebody does something; the first that fits decides. All others, and those in another language, may pass.
REFUSALS: Final[tuple[tuple[str, str], ...]] = (
    ("unsupported startup parameter", "pooler"),
    ("password authentication failed", "check user and password (in the URL, PGPASSWORD or ~/.pgpass)"),
    ("no password supplied", "give a password (in the URL, PGPASSWORD or ~/.pgpass)"),
    ("authentication failed", "check how this user may log in: pg_hba.conf of the server"),
    ("no pg_hba.conf entry", "let the server's pg_hba.conf admit this user from this host"),
    ("is not permitted to log in", "let the server's owner say: alter role … login"),
    ("does not support SSL", "take sslmode out of the URL, or turn on ssl in the server"),
    ("certificate", "check sslrootcert, sslmode and the host's name in the URL"),
    ("no such user", "check the user in the URL and in the pooler's auth_file"),
    ("no such database", "check the database in the URL and in the pooler's configuration"),
)
NO_ROLE: Final = re.compile(r'role "([^"]*)" does not exist')
NO_DATABASE: Final = re.compile(r'database "([^"]*)" does not exist')
PASSING: Final[tuple[tuple[str, str], ...]] = (
    ("Connection refused", "nothing listens there; check host and port, and whether the server runs: {probe}"),
    ("resolve host", "the name of the host is not known here; check the URL, or PGHOST"),
    ("translate host name", "the name of the host is not known here; check the URL, or PGHOST"),
    ("Name or service not known", "the name of the host is not known here; check the URL, or PGHOST"),
    ("too many clients", "raise max_connections, use fewer connections per process, or a pooler"),
    ("connection slots are reserved", "raise max_connections, use fewer connections per process, or a pooler"),
    ("timeout expired", "the host does not answer; check the URL and firewalls"),
)


ACCEPTS_NO_WRITES: Final = (
    "the server takes no writes: it is a standby, or default_transaction_read_only is on; connect to the primary, or name "
    "all hosts and say target_session_attrs=read-write in the URL"
)


WRITTEN_BY_SQL: Final = "windlass checks what it stores, so look for what was written by SQL, and correct or delete it"


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
    if isinstance(error, psycopg.Error) and error.sqlstate in RESTARTING:  # whatever class the library files it under
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    if _refusal(error) is not None:
        return False
    return error.sqlstate is None or error.sqlstate[:2] == "08"


def _refusal(error: BaseException) -> str | None:
    """What to do about a connection that was refused for good, "pooler" for one that asks for another setting."""
    if getattr(error, "sqlstate", None) is not None:
        return None
    words = str(error)
    if (found := NO_DATABASE.search(words)) is not None:
        return f"make it with: createdb {found[1]}, or check the URL"
    if (found := NO_ROLE.search(words)) is not None:
        return f"make it with: createuser {found[1]}, or check the URL"
    return next((remedy for sign, remedy in REFUSALS if sign in words), None)


def _advice(words: str, place: Place) -> str:
    remedy = next((remedy for sign, remedy in PASSING if sign in words), None)
    return words if remedy is None else f"{words}: {remedy.replace('{probe}', place.probe)}"


def is_conflict(error: BaseException) -> bool:
    """Two transactions were in each other's way, or a number was drawn that a hand had given to a row: the next one is
    another. The connection is as good as before."""
    if isinstance(error, Taken):
        return error.constraint.endswith("jobs_seq_key")
    return isinstance(error, psycopg.Error) and error.sqlstate in CONFLICTS


def is_locked_out(error: BaseException) -> bool:
    """A lock took too long."""
    return isinstance(error, psycopg.Error) and error.sqlstate == LOCKED_OUT


def verdict(error: BaseException, *, storing: bool) -> Verdict:
    """`storing`: a change had been sent whose answer tells whether it was stored."""
    if is_lost(error):
        return "indeterminate" if storing else "retryable"
    if is_conflict(error) or (isinstance(error, psycopg.Error) and error.sqlstate == READ_ONLY):
        return "retryable"  # a standby may be promoted, or another server be the first one now
    if isinstance(error, psycopg.Error) and error.sqlstate == STALE_PLAN and "cached plan" in str(error):
        return "retryable"
    return "final"


def translate(error: BaseException, place: Place, *, storing: bool = False, user: str | None = None) -> WindlassError:
    """Foreign exceptions do not leave the driver. The text of the server is kept, that of the caller is not. `storing`: a
    change was sent, now or in an earlier try, and what became of it is not known. `user`: whose connection it was, if not
    ours."""
    where = str(place)
    if isinstance(error, WindlassError) and not (storing and isinstance(error, TransactionConflict)):
        return error
    if storing:
        return OutcomeUnknown(where)
    if isinstance(error, Taken):
        return ConstraintViolated(f"{where}: {error}")
    if is_lost(error):
        return StoreUnreachable(
            where, "the server did not answer in time" if isinstance(error, Overdue) else _advice(said(error), place)
        )
    if not isinstance(error, psycopg.Error):
        return StoreUnavailable(f"{where}: {type(error).__name__}: {error}")
    if error.sqlstate is None and (remedy := _refusal(error)) is not None:
        return (
            PoolerInTheWay(where, said(error))
            if remedy == "pooler"
            else StoreUnavailable(f"{where}: {said(error)}; {remedy}")
        )
    state = error.sqlstate or ("22000" if isinstance(error, psycopg.DataError) else "")
    return by_state(state, said(error), place, user)


def grants(place: Place, refused: str = "", user: str | None = None) -> str:
    """What the owner types so that a role can work: on the database to make the schema, else on what is in it."""
    user, schema = user or place.user, place.schema
    if "for database" in refused:
        return f"grant create on database {place.database} to {user}; or let somebody who may run: windlass migrate"
    return (
        f"grant usage on schema {schema} to {user}; "
        f"grant select, insert, update, delete on all tables in schema {schema} to {user}; "
        f"grant usage on all sequences in schema {schema} to {user}"
    )


def by_state(state: str, said: str, place: Place, user: str | None = None) -> WindlassError:
    """What an error of the server means, whichever library told of it."""
    where = str(place)
    if state in CONFLICTS:
        return TransactionConflict()
    if state in BUSY:
        return StoreBusy(where, 0, f"the server gave up waiting ({said})")
    if state == READ_ONLY:
        return StoreReadOnly(where, ACCEPTS_NO_WRITES)
    if state == MOVED_STATE:
        return StoreMoved(where, said.partition(MOVED)[2])
    if state == MOVING_STATE:
        return StoreMoving(where, said)
    if state in SHARED_SESSION:
        return PoolerInTheWay(where, said)
    if state in ("53100", "53200"):
        return StoreFull(where)
    if state in ("42P01", "3F000", "42883", "42703"):
        return SchemaMissing(where, said)
    if state == "42501":
        return StoreForbidden(where, said, grants(place, said, user))
    if state[:2] == "23":
        return ConstraintViolated(f"{where}: {said}")
    if state in OUT_OF_RANGE:
        return StoreCorrupt(where, f"a row holds a number or a moment that is out of range ({said})", WRITTEN_BY_SQL)
    if state[:2] == "22":
        return InvalidInput("value", f"cannot be stored: {said}")
    if state[:2] in ("28", "3D"):
        return StoreUnavailable(f"{where}: {said}")
    return StoreError(f"{where}: {said}")


def said(error: BaseException) -> str:
    """The first line of what the server or the library said."""
    message = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__
