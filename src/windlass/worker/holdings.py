"""The holdings: every job of a worker from its claim until its settlement is stored.

Whether it waits for a slot, runs, or has finished and is not settled yet: each has a lease that must be renewed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from windlass.client import Client, Consumes
from windlass.context import Context
from windlass.core.changes import Report, Settlement
from windlass.core.events import announced
from windlass.core.settle import Execution, Succeeded, settle
from windlass.parents import Parent, parents_of
from windlass.redaction import Scrubber, scrubber_of
from windlass.resources import NOTHING, Kit
from windlass.runlogs import RunLog, log_line
from windlass.tasks import Task
from windlass.transaction import JobTransaction
from windlass.types import Claimed, Micros

Why = Literal["timeout", "cancel", "lost", "shutdown"]
_OPENING: Final = threading.Lock()


class Held:
    """One leased job, and how far it has come."""

    __slots__ = (
        "_client", "_context", "_log", "_scrub", "cancel", "done", "ended", "granted_at", "job", "kit", "measured",
        "refused", "reported", "span", "started_at", "task", "timer", "told_start", "why",
    )  # fmt: skip

    def __init__(self, client: Client, job: Claimed, task: Task[..., Any], *, begun: bool, kit: Kit = NOTHING) -> None:
        self._client = client
        self._context: Context | None = None
        self._log: RunLog | None = None  # made by the first line
        self._scrub: Scrubber | None = None  # made for the first text
        self.measured: Report | None = None  # what its process told beyond its outcome: exit code, CPU, memory
        self.job = job
        self.task = task
        self.kit = kit
        self.granted_at: Micros = job.claimed_at  # when the lease was last known to be ours
        self.started_at: Micros | None = None
        self.told_start = begun  # the store knows the true start
        self.why: Why | None = None  # it was interrupted, and this is why
        self.cancel: Callable[[], object] | None = None  # interrupts the handler; set only while it runs
        self.timer: asyncio.TimerHandle | None = None
        self.ended = False  # its outcome is known, or somebody else has settled it
        self.done = False  # nothing is left to do: the settlement was confirmed
        self.refused = False  # no store takes its outcome
        self.span: Consumes | None = None  # where executions are traced
        self.reported: tuple[float | None, str | None] = (None, None)

    @property
    def job_id(self) -> str:
        return self.job.id

    # ---------------------------------------------------------------------------------- as the handler's context sees it

    def context(self) -> Context:
        if self._context is None:
            self._context = Context(self)
        return self._context

    def is_interrupted(self) -> bool:
        return self.why is not None

    def begin_transaction(self) -> JobTransaction:
        alone = self._client.driver.capabilities.single_writer
        return JobTransaction(self._client, self, self._client.settings.lease // 3 if alone else None)

    async def parents(self) -> list[Parent]:
        return await parents_of(self._client.driver, self.job.id)

    def success(self, result: Any) -> Settlement:
        """The settlement of a transaction's end."""
        value = self.task.results.encode(result, limit=self._client.settings.result_limit)
        change = settle(self.job, Succeeded(self.sealed(value)), self.circumstances(self.report()))
        return announced(self._client.subscriptions.known, self.job, change)

    def sealed(self, result: bytes | None) -> bytes | None:
        """A result as it is stored: sealed to its job, where there are keys."""
        ring = self._client.ring
        return result if ring is None or result is None else ring.seal(result, "result", self.job.org_id, self.job.id)

    def settling(self, begun: bool) -> None:
        self.ended = self.done = begun

    def write_log(self, level: str, text: str) -> None:
        self.write_output(log_line(self._client.now(), level, self.scrub(text)))

    def write_output(self, text: bytes) -> None:
        """As it is. The file is made by the first line, and not at all for a handler that writes none."""
        if self._log is None and not self.ended:
            job = self.job
            opened = self._client.run_logs.open(job.id, job.executions, job.claimed_at)
            with _OPENING:
                if self._log is None:
                    self._log = opened
                elif opened is not None:  # another thread of the handler was quicker
                    opened.close()
        if self._log is not None:
            self._log.write(text)

    @property
    def scrub(self) -> Scrubber:
        """Takes what its arguments keep secret out of what is said of it."""
        if self._scrub is None:
            self._scrub = scrubber_of(self.job.payload, self.job.headers)
        return self._scrub

    def close_log(self) -> None:
        if self._log is not None:
            self._log.close()

    # ---------------------------------------------------------------------------------------------- as the worker sees it

    def begin(self) -> bool:
        """Note that its handler begins. False: it must not, since it was interrupted, or since this process slept through
        so much of the lease (it was stopped, its event loop was blocked) that somebody else may have the job by now."""
        now = self.started_at = self._client.now()
        if self.why is None and now - self.granted_at >= 2 * self._client.settings.silence // 3:
            self.why = "lost"
        if self.why is None:  # looked at after the start was noted: see Finisher.lose
            return True
        self.started_at = None
        return False

    @property
    def can_be_handed_back(self) -> bool:
        """Before its handler began. A job whose id must never run twice is not: it would end as interrupted."""
        return self.job.retry_mode != "new_job"

    @property
    def is_over(self) -> bool:
        """Nothing of it is left but its outcome. A handler whose own transaction has settled its job may go on."""
        return self.ended and not self.done

    def interrupt(self, why: Why) -> None:
        """Ask the handler to stop. The first reason stands, but for the loss of the lease, which no outcome survives."""
        if self.why is None or why == "lost":
            self.why = why
        if self.cancel is not None:
            self.cancel()

    def circumstances(self, report: Report | None = None, roll: float = 0.0) -> Execution:
        """Of an outcome that happens now."""
        now = self._client.now()
        child_id = self._client.ids.job(now) if self.job.retry_mode == "new_job" else ""
        return Execution(now, None if self.told_start else self.started_at, child_id, roll, report)

    def report(self, traceback: str | None = None) -> Report | None:
        """What the run row keeps of it. Most runs have nothing to tell."""
        artifacts = self.artifacts
        if traceback is None and not artifacts and self._log is None and self.measured is None:
            return None
        known = self.measured or Report()
        path = None if self._log is None else self._log.path
        return Report(traceback, known.exit_code, known.cpu_us, known.peak_rss, path, artifacts)

    @property
    def artifacts(self) -> tuple[str, ...]:
        return () if self._context is None else tuple(self._context.artifacts)

    def news(self) -> tuple[float | None, str | None]:
        """Progress as the handler last told it."""
        if self._context is None or self._context.note is None:
            return (None, None) if self._context is None else (self._context.progressed, None)
        return self._context.progressed, self.scrub(self._context.note)


class Holdings:
    """All leased jobs of a worker, by job id."""

    def __init__(self, kit: Kit = NOTHING) -> None:
        self.kit: Final = kit  # what their handlers share
        self._held: Final[dict[str, Held]] = {}
        self._fewer_run = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._held.values()))

    def get(self, job_id: str) -> Held | None:
        return self._held.get(job_id)

    def add(self, held: Held) -> Held | None:
        """Answers what was held of the same job until now: its lease lapsed unnoticed, and came back to this worker."""
        before = self._held.get(held.job.id)
        self._held[held.job.id] = held
        return before

    def drop(self, held: Held) -> None:
        """Its settlement was confirmed or refused: the lease is no longer ours to renew. A job may have been claimed
        again meanwhile, so only this very lease is dropped."""
        if self._held.get(held.job.id) is held:
            del self._held[held.job.id]
            self._fewer_run.set()

    def stopped(self, held: Held) -> None:
        """Its outcome is known, and is on its way to the store."""
        held.ended = True
        self._fewer_run.set()

    @property
    def running(self) -> int:
        return sum(not held.is_over for held in self)

    async def at_rest(self) -> None:
        """Return once no handler runs. Outcomes may still wait to be stored."""
        while self.running:
            self._fewer_run.clear()
            await self._fewer_run.wait()
