"""What a running handler may know and do: its job, its fence, progress, artifacts, and a transaction with its own ack."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from windlass.apart import apart
from windlass.core.admission import shown
from windlass.errors import InvalidInput, NoCurrentJob
from windlass.parents import Parent
from windlass.redaction import Scrubber
from windlass.resources import Kit
from windlass.types import Claimed, Micros

if TYPE_CHECKING:
    from windlass.transaction import JobTransaction

T = TypeVar("T")
ARTIFACT_LIMIT: Final = 1_000


class Running(Protocol):
    """One execution, as the worker that holds it keeps it."""

    job: Claimed
    kit: Kit

    @property
    def scrub(self) -> Scrubber: ...
    def context(self) -> Context: ...
    def is_interrupted(self) -> bool: ...
    def begin_transaction(self) -> JobTransaction: ...
    def write_log(self, level: str, text: str) -> None: ...
    async def parents(self) -> list[Parent]: ...


_current: ContextVar[Running | None] = ContextVar("windlass_current", default=None)


class Context:
    """Given to handlers of tasks with `context=True`; `windlass.current()` elsewhere."""

    __slots__ = ("_running", "artifacts", "note", "progressed")

    def __init__(self, running: Running) -> None:
        self._running = running
        self.progressed: float | None = None
        self.note: str | None = None
        self.artifacts: list[str] = []

    @property
    def job(self) -> Claimed:
        """The job as it was claimed."""
        return self._running.job

    @property
    def run_id(self) -> str:
        return self._running.job.run_id

    @property
    def fence(self) -> str:
        """The token of this lease. Hand it to systems that can refuse writes of an earlier holder."""
        return self._running.job.token

    @property
    def attempt(self) -> int:
        """1 for the first execution; runs that were released or snoozed are not counted, earlier links of a chain are."""
        job = self._running.job
        return job.executions - job.skipped + (job.attempts if job.retry_mode == "new_job" else 0)

    @property
    def deadline_in(self) -> Micros:
        """The timeout of one execution, in microseconds; 0 = none."""
        return self._running.job.timeout_ns // 1_000

    @property
    def cancelled(self) -> bool:
        """True once this execution should stop: cancelled, out of time, lease lost, or the worker is being forced to
        stop. An async handler is also interrupted at its next await; a thread must look here."""
        return self._running.is_interrupted()

    def progress(self, fraction: float, note: str | None = None) -> None:
        """How far it is, between 0 and 1. Cheap: written with the next renewal, about once a second."""
        if type(fraction) not in (int, float) or not 0 <= fraction <= 1:  # nan is neither
            raise InvalidInput("progress", f"must be a number between 0 and 1, got {shown(fraction)}")
        self.progressed = float(fraction)
        if note is not None:
            self.note = str(note)

    def artifact(self, path: str) -> None:
        """Remember a file or address that this run made. Stored with the run when it ends, also when it fails."""
        if len(self.artifacts) >= ARTIFACT_LIMIT:
            raise InvalidInput("artifact", f"a run keeps at most {ARTIFACT_LIMIT} of them")
        self.artifacts.append(str(path))

    def log(self, message: str, *args: object) -> None:
        """Write a line to this run's log, which `windlass jobs logs` shows: `ctx.log("read %d rows", n)`."""
        self._running.write_log("INFO", message % args if args else str(message))

    def resource(self, kind: type[T]) -> T:
        """What `@app.resource` gives of this type, as the worker has opened it. A process handler has that of its own
        process."""
        return self._running.kit.get(kind)

    async def parents(self) -> list[Parent]:
        """The jobs that this one has waited for, with how they ended and their results: read when asked for."""
        return await self._running.parents()

    def parents_sync(self) -> list[Parent]:
        """The same, blocking, for handlers in threads."""
        return apart(self._running.parents)

    def transaction(self) -> JobTransaction:
        """The handler's own writes, follow-up jobs and the success of this job, in one transaction guarded by the lease.

        `async with ctx.transaction() as tx` in async handlers, `with` in threads. `tx.connection` is the store's own, on
        PostgreSQL a `psycopg.AsyncConnection` in async handlers and a `psycopg.Connection` in threads; jobs of this app
        that are enqueued in the block join it; `tx.result` is the job's result. Leaving the block ends the job: what the
        handler does afterwards changes nothing."""
        return self._running.begin_transaction()


def running_now() -> Running | None:
    """The execution that this code runs for, where there is one."""
    return _current.get()


def enter(running: Running | None) -> None:
    _current.set(running)


def current() -> Context:
    """The context of the job that this code runs for."""
    running = _current.get()
    if running is None:
        raise NoCurrentJob
    return running.context()
