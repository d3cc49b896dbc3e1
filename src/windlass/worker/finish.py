"""The end of a handler, in whatever way it came, as a settlement on its way to the store."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from msgspec.structs import replace

from windlass.client import Client
from windlass.clock import SECOND
from windlass.core.changes import Ack, Fail, Report, Retry, Settlement, due_of, storable
from windlass.core.settle import Failed, Outcome, Rejected, Released, Succeeded, WasCancelled, settle
from windlass.telemetry.jsonlog import about
from windlass.worker.calls import arguments_of, outcome_of_value
from windlass.worker.failure import describe, outcome_of, trace
from windlass.worker.holdings import Held, Holdings
from windlass.worker.settler import Settler
from windlass.worker.stats import Stats

STOPS_WITHIN: Final = 5.0  # seconds that an interrupted handler has before its run is ended without it
TIMED_OUT: Final = ("builtins.TimeoutError", "builtins.OSError", "builtins.Exception", "builtins.BaseException")
LOG_LIMIT: Final = 300
log: Final = logging.getLogger("windlass.worker")


class Finisher:
    def __init__(self, client: Client, holdings: Holdings, settler: Settler, stats: Stats) -> None:
        self._client = client
        self._holdings = holdings
        self._settler = settler
        self._stats = stats
        self._result_limit = client.settings.result_limit
        self.stuck: Final[set[Held]] = set()  # whose handlers do not stop

    # ------------------------------------------------------------------------------------------------ a handler's begin

    def arguments(self, held: Held) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the handler is called with. Raises `Reject` when the stored payload does not fit it."""
        return arguments_of(held.task, held)

    def skipped(self, held: Held) -> None:
        """It was interrupted before it began."""
        if held.why != "lost":
            self.end(held, self._interrupted(held))
        elif not held.ended:
            self._stats.leases_lost += 1
            log.warning(
                "job %s (%s): its lease is over; its handler is not begun",
                held.job.id, held.task.name, extra=about(held.job),
            )  # fmt: skip
            self.forget(held)

    def waits(self, held: Held) -> bool:
        """Whether its slot stays taken until the outcome is stored: a crash in between would start it once more."""
        ack = held.task.ack
        return ack == "sync" or (ack is None and held.job.crash_policy == "fail")

    # -------------------------------------------------------------------------------------------------- a handler's end

    def returned(self, held: Held, value: Any) -> None:
        """It came to its end, also when it had been asked to stop: the work is done."""
        if held.ended:
            self._after_the_end(held, None)
            return
        self._put(held, Succeeded() if value is None else outcome_of_value(held.task, value, self._result_limit))

    def raised(self, held: Held, error: BaseException) -> None:
        if held.ended:
            self._after_the_end(held, error)
            return
        if held.why == "lost":  # nothing it could say would be heard
            self.forget(held)
        elif held.why is not None:
            self.end(held, self._interrupted(held))
        else:
            self._put(held, outcome_of(error), trace(error))

    def reported(self, held: Held, outcome: Outcome, traceback: str | None = None) -> None:
        """How it ended, as the process in which it ran has told it, or as its death has. A success is one that a handler
        has told: a program that was told to stop has none, whatever its exit code."""
        if held.ended:
            self._after_the_end(held, None)
        elif held.why is None or isinstance(outcome, Succeeded):
            self._put(held, outcome, traceback)
        elif held.why == "lost":
            self.forget(held)
        else:
            self.end(held, self._interrupted(held))

    def end(self, held: Held, outcome: Outcome) -> None:
        """End an execution that has no words of its own: it never began, or was interrupted."""
        if not held.ended:
            self._put(held, outcome)

    def forget(self, held: Held) -> None:
        """The lease is lost: whoever has it now decides about the job."""
        held.ended = held.done = True
        if held.span is not None:
            held.span.lost()
        held.close_log()
        if held.timer is not None:
            held.timer.cancel()
        self._holdings.drop(held)

    def lose(self, held: Held) -> None:
        """Somebody else may have the job: stop its handler, or never begin it. A thread that takes the job up at this
        moment notes its start before it looks at the reason, so one of the two sees the other."""
        held.why = "lost"
        if held.started_at is None:
            self.forget(held)
        else:
            held.interrupt("lost")
            self._give_up_later(held)

    # -------------------------------------------------------------------------------------- handlers that do not stop

    def time_out(self, held: Held) -> None:
        """Its time is over: ask it to stop, and end its run a little later whether it did or not."""
        self.stop_in_time(held)
        self._give_up_later(held)

    def stop_in_time(self, held: Held) -> None:
        """Its time is over: ask it to stop. A process is made to."""
        log.warning(
            "job %s (%s): out of time after %s",
            held.job.id, held.task.name, _seconds(held.job.timeout_ns), extra=about(held.job),
        )  # fmt: skip
        held.interrupt("timeout")

    def _give_up_later(self, held: Held) -> None:
        if held.timer is not None:
            held.timer.cancel()
        held.timer = asyncio.get_running_loop().call_later(STOPS_WITHIN, self.give_up, held)

    def give_up(self, held: Held) -> None:
        """It was asked to stop and has not: its run ends without it, its slot stays taken until it returns."""
        if held.ended:
            return
        self.stuck.add(held)
        self._stats.stuck = len(self.stuck)
        log.error(
            "job %s (%s): its handler does not stop; its slot stays taken",
            held.job.id, held.task.name, extra=about(held.job),
        )  # fmt: skip
        if held.why == "lost":
            self.forget(held)
        else:
            self._put(held, self._interrupted(held))

    def _interrupted(self, held: Held) -> Outcome:
        if held.why == "timeout":
            return Failed(f"TimeoutError: it ran longer than its timeout of {_seconds(held.job.timeout_ns)}", TIMED_OUT)
        return WasCancelled() if held.why == "cancel" else Released()

    # ------------------------------------------------------------------------------------------------------------ both

    def _put(self, held: Held, outcome: Outcome, traceback: str | None = None) -> None:
        self._holdings.stopped(held)
        if held.timer is not None:
            held.timer.cancel()
        held.close_log()
        if type(outcome) is not Succeeded:
            outcome, traceback = clean(held, outcome), None if traceback is None else held.scrub(traceback)
        elif outcome.result is not None:
            outcome = Succeeded(held.sealed(outcome.result))
        if held.span is not None:
            held.span.end(outcome, traceback)
        change = self._decide(held, outcome, held.report(traceback))
        self._settler.put(held, change)
        if type(change) is not Ack:
            self._log(held, change)

    def _log(self, held: Held, change: Settlement) -> None:
        """What somebody who looks at a worker wants to know: failures."""
        if isinstance(change, Fail) and change.kind != "superseded":
            log.warning(
                "job %s (%s) is dead: %s", held.job.id, held.task.name, _shown(change.reason), extra=about(held.job)
            )
        elif isinstance(change, Fail | Retry) and (due := due_of(change)) is not None:
            why = change.error if isinstance(change, Retry) else change.reason
            wait = max(due - change.at, 0) / SECOND
            log.info(
                "job %s (%s) failed, again in %g s: %s",
                held.job.id, held.task.name, wait, _shown(why), extra=about(held.job),
            )  # fmt: skip

    def _decide(self, held: Held, outcome: Outcome, report: Report | None) -> Settlement:
        roll = self._client.ids.random.random() if type(outcome) is Failed else 0.0
        try:
            return settle(held.job, outcome, held.circumstances(report, roll))
        except Exception as error:  # a policy that cannot be read, a delay that is none: this job's fault alone
            log.exception(
                "job %s (%s): nothing can be made of its outcome", held.job.id, held.task.name, extra=about(held.job)
            )
            reason = f"nothing can be made of its outcome: {describe(error)}"
            return settle(held.job, Rejected(reason), held.circumstances(report))

    def _after_the_end(self, held: Held, error: BaseException | None) -> None:
        """Its transaction has settled it, or its run was ended without it."""
        held.close_log()
        if held.timer is not None:
            held.timer.cancel()
        if held in self.stuck:
            self.stuck.discard(held)
            self._stats.stuck = len(self.stuck)
            log.warning("job %s (%s): its handler has stopped at last", held.job.id, held.task.name, extra=about(held.job))
        elif error is not None and held.done and held.why != "lost":
            said = held.scrub(trace(error) or describe(error))
            log.error(
                "job %s had ended with its transaction when its handler raised\n%s",
                held.job.id, said, extra=about(held.job),
            )  # fmt: skip
        if held.done:
            if self._holdings.get(held.job.id) is held:
                self._stats.succeeded += 1  # its own transaction has stored it
                if held.span is not None:
                    held.span.end(Succeeded())
                self._settler.stored_by_itself(held)
            self._holdings.drop(held)


def clean(held: Held, outcome: Outcome) -> Outcome:
    """Without what the job's arguments keep secret: an error is stored, logged, sent and shown."""
    match outcome:
        case Failed():
            return replace(outcome, error=held.scrub(outcome.error))
        case Rejected() | WasCancelled():
            return outcome if outcome.reason is None else replace(outcome, reason=held.scrub(outcome.reason))
        case _:
            return outcome


def _shown(text: str) -> str:
    """One line that any terminal can print."""
    return storable(" ".join(text[:LOG_LIMIT].split()))


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1_000 / SECOND:g} s"
