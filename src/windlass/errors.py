"""Every error Windlass raises, on one screen; but for those of a store that is copied (copy_errors.py).

Each says what happened, why, and what to type next. `retryable` tells a caller whether the same call may succeed
later without anything being changed: a busy file, yes; a stale lease token, never.
"""

from __future__ import annotations

from windlass.telling import dead_job, in_part
from windlass.telling import shown as shown
from windlass.urls import redacted


class WindlassError(Exception):
    """The root: catch this to catch everything of ours."""

    retryable = False


# ------------------------------------------------------------------------------------------------- what you passed in


class InvalidInput(WindlassError, ValueError):
    """A value that cannot be stored or used. Names the field; nothing was written."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        super().__init__(f"{field}: {problem}")


class Undecodable(WindlassError):
    """Stored bytes that the task, as it is written today, does not accept. Running it would give it wrong arguments."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class InvalidLeaseDuration(InvalidInput):
    def __init__(self, got: str) -> None:
        super().__init__("lease_for", f"must be more than zero and end before the year 9999, got {got}")


class DuplicateId(WindlassError):
    """A job with this id exists. An id is an identity, not an idempotency key."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"a job with the id {job_id!r} already exists; use an idempotency key to enqueue at most once")


class DuplicateJob(WindlassError):
    """on_duplicate="raise" and an equal job is there already. Nothing of the batch was stored."""

    def __init__(self, job_id: str, key: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id!r} already holds the key {key!r} and on_duplicate='raise'")


class WrongConnection(WindlassError, TypeError):
    """A transaction was asked for that this store cannot take part in. Nothing was written."""


# ------------------------------------------------------------------------------------------------------------- leases


class LeaseError(WindlassError):
    """The caller does not hold this job. Nothing was changed."""

    def __init__(self, job_id: str, why: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id!r}: {why}")


class JobNotInflight(LeaseError):
    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, "it is not running, so there is no lease to act on")


class LeaseExpired(LeaseError):
    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, "the lease has expired; another worker may take the job")


class LeaseMismatch(LeaseError):
    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, "it is running under another lease token")


class NeverTwice(LeaseError):
    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, "it is a new_job row and never returns to the queue; let windlass.core.settle decide")


# --------------------------------------------------------------------------------------------------- jobs and handlers


class JobNotFound(WindlassError, LookupError):
    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"there is no job {job_id!r} in this store; it may have been pruned or deleted{in_part(job_id)}")


class JobDead(WindlassError):
    """The job whose result was awaited ended as a dead letter."""

    def __init__(self, job_id: str, reason: str, kind: str | None = None) -> None:
        self.job_id, self.reason = job_id, reason
        super().__init__(dead_job(job_id, reason, kind))


class JobCancelled(WindlassError):
    """The job whose result was awaited was cancelled."""

    def __init__(self, job_id: str, reason: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id!r} was cancelled: {reason}")


class Refused(WindlassError):
    """A job is not in a state in which this can be done to it. Nothing was changed."""

    def __init__(self, job_id: str, what: str, why: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id!r} cannot be {what}: {why}")


class ResourceBusy(WindlassError):
    """A queue could not be held within the time that one was willing to wait. Nothing was changed."""

    retryable = True

    def __init__(self, queue: str, why: str) -> None:
        self.queue = queue
        super().__init__(f"queue {queue!r} is busy: {why}; wait longer, or see: windlass holds list")


class HoldLost(WindlassError):
    """The hold on a queue ended before the block did: jobs of the queue may have started meanwhile."""

    def __init__(self, queue: str, by: str) -> None:
        self.queue = queue
        super().__init__(
            f"the hold of {by!r} on queue {queue!r} was lost: it was not renewed in time, or somebody released it"
        )


class HoldNotFound(WindlassError, LookupError):
    def __init__(self, hold_id: str) -> None:
        super().__init__(f"there is no hold {hold_id!r} in this store; see: windlass holds list")


class GroupNotFound(WindlassError, LookupError):
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        super().__init__(f"there is no group {group_id!r} in this store; see: windlass groups list")


class GroupRefused(WindlassError):
    """A group is not in a state in which this can be done to it. Nothing was changed."""

    def __init__(self, group_id: str, what: str, why: str) -> None:
        self.group_id = group_id
        super().__init__(f"group {group_id!r} cannot be {what}: {why}")


class LeaseLost(LeaseError):
    """Raised inside a handler: its lease went to another, so nothing of its transaction was stored."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, "the lease was lost while the handler ran; its transaction was rolled back")


class TransactionTooLong(WindlassError):
    def __init__(self, job_id: str, limit: float) -> None:
        super().__init__(
            f"job {job_id!r}: the body of ctx.transaction() took longer than {limit:g} s, a third of the lease, while "
            "nobody else could write; it was rolled back. Do slow work before the block"
        )


class ProcessDied(WindlassError):
    """The process of a job ended before its handler did, or its program ended with another code than 0. Never raised: it is
    the name by which retry rules know such a failure."""


class ChildUnstartable(WindlassError):
    """The process in which handlers should run does not come up, so none of its jobs was begun."""


class NoSuchResource(WindlassError, LookupError):
    def __init__(self, wanted: str, known: str) -> None:
        super().__init__(f"no resource gives a {wanted}; {known}. Declare it: @app.resource, returning Iterator[{wanted}]")


class ResourceUnavailable(WindlassError):
    """A worker cannot begin, since what its handlers need does not open. It has claimed nothing."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"the resource {name} cannot be opened: {why}")


class NoCurrentJob(WindlassError):
    def __init__(self) -> None:
        super().__init__("windlass.current() was called outside of a running job")


class AppClosed(WindlassError):
    def __init__(self) -> None:
        super().__init__("this Windlass app is closed; open it again with app.open(), or do not close it while it is used")


class UnknownTask(WindlassError, LookupError):
    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f"no task is called {name!r} here{hint}; import the module that declares it")


class BrokenModule(WindlassError):
    """The module that should hold the app is there, and importing it failed."""


class UnknownTemplate(WindlassError, LookupError):
    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(f"there is no template {name!r} in this store{hint}")


class OutOfScope(WindlassError):
    """Somebody who is bound to an org, or to queues, asks for what is not theirs alone. Nothing was changed."""

    def __init__(self, actor: str, org_id: str | None, queues: tuple[str, ...] | None, what: str) -> None:
        bounds = [f"the org {org_id!r}"] if org_id is not None else []
        bounds += [f"the queues {', '.join(queues)}"] if queues is not None else []
        super().__init__(f"{actor} is bound to {' and '.join(bounds)}, and this reaches further: {what}")


class UnknownToken(WindlassError, LookupError):
    def __init__(self, token: str, hint: str = "") -> None:
        self.token = token
        super().__init__(f"there is no token {token!r} in this store{hint}")


class UnknownSchedule(WindlassError, LookupError):
    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(f"there is no schedule {name!r} in this store{hint}")


class UnknownWebhook(WindlassError, LookupError):
    def __init__(self, webhook_id: str, hint: str = "") -> None:
        super().__init__(f"there is no webhook {webhook_id!r} in this store{hint}")


class UnknownDelivery(WindlassError, LookupError):
    def __init__(self, message: str) -> None:
        super().__init__(f"there is no message {message!r} in this store; it was never sent, or it is too old")


class InUse(WindlassError):
    """A name that is taken, or a template that schedules need. Nothing was changed."""


# ---------------------------------------------------------------------------------------------------------- the store


class DriverClosed(WindlassError):
    def __init__(self) -> None:
        super().__init__("this driver is closed; open a new one")


class DriverForked(WindlassError):
    def __init__(self) -> None:
        super().__init__("this driver was opened before a fork; open a new one in the child process")


class StoreError(WindlassError):
    """The database could not do what was asked. Nothing of it was stored, but for `OutcomeUnknown` and `RowsHeld`."""


class StoreBusy(StoreError):
    retryable = True

    def __init__(self, path: str, waited: float, what: str | None = None) -> None:
        super().__init__(
            f"{path}: {what or f'another connection held the write lock for more than {waited:g} s'}; try again"
        )


class StoreFull(StoreError):
    retryable = True

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: the disk is full; free some space, what is stored is intact and readable")


class StoreUnavailable(StoreError):
    """The file, directory or server cannot be opened as it stands."""


class StoreUnreachable(StoreError):
    """The server does not answer, or the connection to it broke before anything was stored."""

    retryable = True

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}; what was not acknowledged is not stored, try again")


class OutcomeUnknown(StoreError):
    """The connection broke while a change was being stored, and whether it was could not be found out. Look before you
    repeat it."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where}: the connection broke before the answer came; look whether it was stored, then repeat it"
        )


class StoreForbidden(StoreError):
    """The role lacks a right; the message ends with what its owner would type."""

    def __init__(self, where: str, what: str, grant: str) -> None:
        super().__init__(f"{where}: {what}; let the owner of the schema or database say: {grant}")


class SchemaMissing(StoreError):
    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}; make the schema with: windlass migrate")


class SchemaTooOld(StoreError):
    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"{where}: schema {found} is older than this version needs ({known}); see what is missing with: "
            'windlass migrate --plan, apply it with: windlass migrate (or open the store with migrate="auto")'
        )


class StoreReadOnly(StoreError):
    def __init__(self, path: str, why: str | None = None) -> None:
        super().__init__(f"{path}: {why or f'the file or its directory is read-only; check with: ls -l {path}'}")


class PoolerInTheWay(StoreUnavailable):
    """Between us and the server somebody lends one connection to many clients, and nothing of a session survives that."""

    def __init__(self, where: str, sign: str) -> None:
        super().__init__(
            f"{where}: a pooler in transaction mode is in the way ({sign}); "
            'say pooler="transaction" (or WINDLASS_POOLER=transaction), or connect to the server directly'
        )


class StoreReplaced(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: the file was deleted or replaced while it was open; restart this worker or program")


class StoreCorrupt(StoreError):
    def __init__(self, path: str, what: str, way_out: str = "restore a backup or move the file away") -> None:
        super().__init__(f"{path}: cannot be read: {what}; {way_out}")


class ConstraintViolated(StoreError):
    """The schema refused a row. The engine never causes this on its own."""


class NoConnection(StoreError):
    def __init__(self, store: str) -> None:
        super().__init__(f"{store} has no SQL connection to write on; use transaction.enqueue and transaction.settle alone")


class TransactionOver(StoreError):
    def __init__(self, why: str) -> None:
        super().__init__(f"this transaction {why}; open a new one with driver.transaction() and begin()")


class TransactionConflict(StoreError):
    """Only of stores that hold no lock while a transaction is open."""

    retryable = True

    def __init__(self) -> None:
        super().__init__("another change made untrue what this transaction was told; nothing of it is stored, run it again")


class SchemaTooNew(StoreError):
    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(f"{path}: schema {found} is newer than this version knows ({known}): pip install -U windlass")


class MigrationChanged(StoreError):
    def __init__(self, where: str, name: str) -> None:
        super().__init__(
            f"{where}: migration {name} was applied with another text, so the schema is not the one this version expects; "
            "use the version of Windlass that made it, or compare with: windlass migrate --plan"
        )


class UnknownStore(WindlassError, ValueError):
    def __init__(self, url: str, known: str, near: str = "") -> None:
        super().__init__(f"{redacted(url)!r} names no store I know{near}; use one of {known}")
