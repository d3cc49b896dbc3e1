"""The context of a running handler: its job, its lease token, progress, artifacts, and a transaction that ends the job."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from windlass.apart import apart
from windlass.errors import InvalidInput, NoCurrentJob, shown
from windlass.foreign import CONTEXT, Translates
from windlass.parents import Parent
from windlass.redaction import Scrubber
from windlass.resources import Kit
from windlass.types import Claimed

if TYPE_CHECKING:
    from windlass.transaction import JobTransaction

T = TypeVar("T")
ARTIFACT_LIMIT: Final = 1_000


class Running(Protocol):
    """What the context needs of the worker that runs the job."""

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


class Context(Translates):
    """What a handler can know and do while it runs. A task with `context=True` gets it as its first argument; anywhere
    else in the code of a handler, `windlass.current()` returns it."""

    __slots__ = ("_running", "artifacts", "note", "progressed")
    _foreign = CONTEXT

    def __init__(self, running: Running) -> None:
        self._running = running
        self.progressed: float | None = None
        self.note: str | None = None
        self.artifacts: list[str] = []

    @property
    def job(self) -> Claimed:
        """The job, as it was when it was claimed."""
        return self._running.job

    @property
    def run_id(self) -> str:
        """The id of this execution."""
        return self._running.job.run_id

    @property
    def fence(self) -> str:
        """The token of this lease: new for every claim. Pass it to systems that can refuse the writes of earlier
        holders."""
        return self._running.job.token

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1. Executions that were handed back or snoozed do not count; the earlier jobs of a
        retry chain do."""
        job = self._running.job
        return job.executions - job.skipped + (job.attempts if job.retry_mode == "new_job" else 0)

    @property
    def cancelled(self) -> bool:
        """True once this execution should stop: the job was cancelled, its timeout is over, its lease is lost, or the
        worker is being forced to stop. Async handlers are also interrupted at their next await; handlers in threads must
        check."""
        return self._running.is_interrupted()

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Report how far the work is, between 0 and 1. Cheap: it is stored with the next renewal of the lease."""
        if type(fraction) not in (int, float) or not 0 <= fraction <= 1:  # nan is neither
            raise InvalidInput("progress", f"must be a number between 0 and 1, got {shown(fraction)}")
        self.progressed = float(fraction)
        if note is not None:
            self.note = str(note)

    def artifact(self, path: str) -> None:
        """Note the path or address of something that this execution made. Stored when it ends, also if it fails."""
        if len(self.artifacts) >= ARTIFACT_LIMIT:
            raise InvalidInput("artifact", f"a run keeps at most {ARTIFACT_LIMIT} of them")
        self.artifacts.append(str(path))

    def log(self, message: str, *args: object) -> None:
        """Write a line to the log of this execution: `ctx.log("read %d rows", n)`. `windlass jobs logs` shows it."""
        self._running.write_log("INFO", message % args if args else str(message))

    def resource(self, kind: type[T]) -> T:
        """The object of this type that `@app.resource` provides. A process handler gets the one of its own process."""
        return self._running.kit.get(kind)

    async def parents(self) -> list[Parent]:
        """The jobs that this one has waited for, with their ends and results. Reads the store."""
        return await self._running.parents()

    def parents_sync(self) -> list[Parent]:
        """The blocking form of `parents`, for handlers in threads."""
        return apart(self._running.parents)

    def transaction(self) -> JobTransaction:
        """Commit the handler's own writes, its follow-up jobs and the success of this job in one transaction.

        Use `async with ctx.transaction() as tx` in async handlers and `with` in threads. Write through `tx.connection`,
        the connection of the store: on PostgreSQL a `psycopg.AsyncConnection` in async handlers and a
        `psycopg.Connection` in threads. Jobs of this app that are enqueued in the block join it. `tx.result` becomes the
        result of the job. Leaving the block ends the job; what the handler does afterwards changes nothing. Raises
        `LeaseLost`, and keeps nothing, if the job belongs to another worker by then."""
        return self._running.begin_transaction()


def running_now() -> Running | None:
    """The execution that the calling code belongs to, or None."""
    return _current.get()


def enter(running: Running | None) -> None:
    _current.set(running)


def current() -> Context:
    """The context of the job that the calling code belongs to. Raises `NoCurrentJob` outside of handlers."""
    running = _current.get()
    if running is None:
        raise NoCurrentJob
    return running.context()
