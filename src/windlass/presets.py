"""Four queue presets: each makes a queue behave as one of the systems that Windlass grew from.

Where two of those systems want opposite things, the choice is a policy that is written into the job's row at enqueue,
so both may live side by side in one table. A preset is nothing but the set of those choices under one name: it is read
when a job is enqueued or a queue is created, and never again, so editing a preset cannot change a stored job.

The systems also disagree about what their maximum means. The row stores one honest number, executions in all;
`Preset.executions` converts from the number that users of the source system are used to write.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from windlass.errors import InvalidInput
from windlass.policies import HARMONYK_BACKOFF, Backoff, Jitter, Retry, exponential
from windlass.types import CrashPolicy, OnDuplicate, OnUnknown, Positions, RetryMode
from windlass.words import System, did_you_mean

KeyScope = Literal["type", "queue", "org", "global"]
AckMode = Literal["batched", "sync"]


class Preset(Struct, frozen=True, kw_only=True):
    """Everything that a queue of one source system has set differently from a queue of another."""

    name: System
    retry_mode: RetryMode = "same_job"
    crash_policy: CrashPolicy = "requeue"
    default_maximum: int  # in the source system's own counting
    first_is_free: bool  # its maximum counts retries, so the first execution comes on top
    backoff: Backoff
    jitter: Jitter = "none"
    idempotency_scope: KeyScope = "type"
    on_duplicate: OnDuplicate = "ignore"
    on_unknown: OnUnknown
    positions: Positions = "tail"
    max_running: int | None = None
    ack: AckMode = "batched"
    max_lost: int

    def executions(self, n: int | None = None) -> int:
        """The row's max_attempts for the source system's number. None and 0 are unset and mean the default: a job must
        never be dead-lettered at once, nor retried for ever, because somebody left a field empty."""
        if n is not None and n < 0:
            raise InvalidInput("maximum", f"must be 0 (the default of {self.name}) or more, got {n}")
        return (n or self.default_maximum) + self.first_is_free

    def retry(self, n: int | None = None) -> Retry:
        return Retry(max_attempts=self.executions(n), backoff=self.backoff, jitter=self.jitter)


TASKHARBOR: Final = Preset(
    name="taskharbor",
    default_maximum=25,
    first_is_free=False,
    backoff=exponential("200ms", cap="5s"),
    jitter="equal",  # the source spreads by a fifth around the delay; equal never passes the cap either
    idempotency_scope="queue",
    on_unknown="dead",  # its worker dead-letters a type without a handler at once
    # Its contract makes every expired job reservable again, however often. A job that kills its workers still ends:
    # its maximum counts executions, and a lost execution is one.
    max_lost=0,
)

ORCHESTRATOR: Final = Preset(
    name="orchestrator",
    default_maximum=3,
    first_is_free=True,  # "retry attempts before dead-letter": the document's words win over its code
    backoff=exponential("1s", cap="1h"),
    jitter="full",
    on_duplicate="touch",  # its enqueue is an upsert that refreshes updated_at
    on_unknown="dead",  # "no handler" is its own example of `failed`
    max_lost=3,  # it counts no crash at all, so a job that kills its workers would go round for ever
)

SCHEDULER: Final = Preset(
    name="scheduler",
    retry_mode="new_job",
    crash_policy="fail",
    default_maximum=3,
    first_is_free=True,  # its drawing: one original and three retries
    backoff=exponential("10s"),
    # The document knows no missing handler. Waiting is the only answer that spends nothing: dead would close the one
    # run a job id ever gets, for a worker that was merely deployed without the type.
    on_unknown="wait",
    positions="dense",
    max_running=1,  # one dispatcher, one job at a time
    ack="sync",  # a crash inside a batch's window would turn finished work into a failure and run it a second time
    max_lost=0,  # a crash is a recorded failure here: counting it a second time would shorten the chain
)

HARMONYK: Final = Preset(
    name="harmonyk",
    default_maximum=5,
    first_is_free=True,  # it compares the attempts before they are incremented
    backoff=HARMONYK_BACKOFF,
    on_unknown="wait",  # its tick takes what it can run and leaves the rest queued
    max_lost=3,  # it has no recovery of its own; ours must not loop
)

PRESETS: Final[dict[str, Preset]] = {p.name: p for p in (TASKHARBOR, ORCHESTRATOR, SCHEDULER, HARMONYK)}


def preset(name: str) -> Preset:
    found = PRESETS.get(name)
    if found is None:
        hint = did_you_mean(name, PRESETS)
        raise InvalidInput("preset", f"{name!r} is not a preset{hint}; use one of {', '.join(PRESETS)}")
    return found
