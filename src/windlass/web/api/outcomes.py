"""What a remote worker says of an end → what core calls it, and whether it was said before."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from windlass.clock import duration
from windlass.core.changes import Answer, Report, Settlement
from windlass.core.guards import judge
from windlass.core.settle import (
    Execution,
    Failed,
    Outcome,
    Rejected,
    Released,
    Snoozed,
    Succeeded,
    WasCancelled,
    settle,
)
from windlass.drivers.http.wire import Ended
from windlass.errors import InvalidInput
from windlass.redaction import scrubber_of
from windlass.sealing import KeyRing
from windlass.types import Claimed, Job, Micros

# What is stored of an end that was said, whatever the rules made of it. A wish to cancel turns what would come back.
_STORED: Final = {
    "succeeded": {"ack"},
    "failed": {"retry", "fail", "cancelled"},
    "rejected": {"fail"},
    "snoozed": {"snooze", "fail", "cancelled"},
    "released": {"release", "retry", "fail", "cancelled"},
    "cancelled": {"cancelled"},
}


def settled(job: Claimed, said: Ended, run: Execution, result_limit: int, ring: KeyRing | None = None) -> Settlement:
    """Without what the job's arguments keep secret: an error is stored, logged, sent and shown."""
    scrub = scrubber_of(job.payload, job.headers)
    report = Report(None if said.traceback is None else scrub(said.traceback), said.exit_code)
    outcome = _outcome(said, scrub("" if said.error is UNSET else said.error), scrub(_reason(said)), result_limit)
    if ring is not None and isinstance(outcome, Succeeded) and outcome.result is not None:
        outcome = Succeeded(ring.seal(outcome.result, "result", job.org_id, job.id))
    return settle(job, outcome, replace(run, report=report))


def _reason(said: Ended) -> str:
    return said.outcome if said.reason is UNSET else said.reason


def _outcome(said: Ended, error: str, reason: str, result_limit: int) -> Outcome:
    match said.outcome:
        case "succeeded":
            return Succeeded(_result(said, result_limit))
        case "failed":
            return Failed(error or reason, said.error_types, _delay(said))
        case "rejected":
            return Rejected(reason if said.reason is not UNSET else error or reason)
        case "snoozed":
            delay = _delay(said)
            if delay is None:
                raise InvalidInput("retry_in", "say for how long the job is put off")
            return Snoozed(delay)
        case "released":
            return Released()
        case "cancelled":
            return WasCancelled(None if said.reason is UNSET else reason)


def _delay(said: Ended) -> Micros | None:
    return None if said.retry_in is UNSET else duration(said.retry_in, field="retry_in")


def _result(said: Ended, limit: int) -> bytes | None:
    if said.result is UNSET or said.result is None:
        return None
    stored = msgspec.json.encode(said.result)
    if len(stored) > limit:
        raise InvalidInput("result", f"is {len(stored):,} bytes, the limit is {limit:,}; store a reference instead")
    return stored


def told_before(job: Job | None, said: Ended, now: Micros) -> Answer:
    """What is answered without a change: the same was said before, or why it cannot be said."""
    if job is not None and job.last_token == said.token and job.last_outcome in _STORED[said.outcome]:
        return "repeated"
    answer = judge(job, token=said.token, outcome=None, lapsed=False, now=now)
    return "not_inflight" if answer == "applied" else answer
