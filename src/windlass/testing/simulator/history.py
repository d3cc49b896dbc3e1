"""What happened, in order: the record that invariants are judged by and that a failing seed prints.

Effects live here, outside the store, because that is where a handler's effects are: a letter that was sent stays sent
when the row that says so is lost. Facts are names and numbers only, so two runs of one seed print the same bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from windlass.clock import SECOND
from windlass.types import Micros

Fact = str | int | float | bool | None | tuple["Fact", ...]
Lease = tuple[str, str]  # a job's id and the token of one execution

# Rare branches that a campaign must have reached, or it has proved little. Counted by whoever sees them.
SOMETIMES: Final = {
    "lease_lost": "a heartbeat was refused while the handler ran",
    "self_fence": "a handler was stopped although nobody had asked for it: its worker could not renew",
    "settled_late": "a settlement was refused because the lease was gone",
    "repeated": "a settlement was sent again and answered as a repeat",
    "lost_too_often": "a job died because its workers did",
    "crash_is_failure": "a crash was recorded as a failure of a never-twice job",
    "released": "a worker that stopped handed a job back",
    "released_unbegun": "a job was handed back whose handler had not begun",
    "prefetched": "a job was claimed ahead of a free slot",
    "cancel_running": "a running job was asked to cancel",
    "cancel_instead": "a job that would have come back was cancelled instead",
    "clock_stepped": "a clock was stepped",
    "settle_unreachable": "the store could not be reached by a settlement",
    "settle_reply_lost": "a settlement was stored and its answer was lost",
    "claim_reply_lost": "jobs were leased to a worker that never heard of it",
    "crash_in_settle": "a worker was killed between a settlement's commit and its answer",
    "crash_in_claim": "a worker was killed between a claim's commit and its answer",
    "zombie": "a process that had been stopped past its lease spoke to the store again",
    "poison": "a handler killed its own process",
    "parked": "a job waited for a permit",
    "chained": "a never-twice job was followed by its next link",
    "blocked": "a job waited for others to end",
    "unblocked": "a job that had waited for others began",
    "skipped_with": "a job was skipped because of how another ended",
    "snoozed": "a handler asked for another time",
    "duplicate": "an enqueue met a job that held its key",
    "revoked": "the leases of a dead worker ended at once, because its supervisor said so",
    "replayed": "a dead job was run again by a person",
    "leader_changed": "leadership went from one worker to another",
    "leader_lost_acting": "a leader was killed while it did a duty",
    "stale_duty": "a duty was refused: who asked for it led no longer",
    "worker_removed": "a dead worker was removed by the leader",
    "fired": "a schedule made jobs",
    "caught_up": "a schedule made the jobs of several times at once, because nobody had fired them",
    "fired_by_another": "a firing was refused: somebody else had fired that time",
    "hold_granted": "a queue was held for direct execution",
    "hold_waited": "a hold waited for jobs that ran",
    "hold_expired": "a hold ended because its holder was dead or cut off",
    "told_again": "a message reached its receiver more than once",
    "taken_by_another": "a message was taken by somebody else at the same moment",
    "sent_too_late": "somebody sent a message after his time for it was over",
    "capped": "jobs were left because their queue, or all queues together, may give no more",
    "cap_lowered": "a limit was lowered below what runs",
    "key_paused": "a job waited for a type or an org that was paused",
    "took_turns": "one claim took jobs of several orgs in turn",
    "unkept": "a job succeeded at once and left no run",
    "unkept_at_last": "a job succeeded without a run of that, after others that left theirs",
    "removed_holder": "what a removed worker held expired with it, before its lease would have",
}


class Violation(AssertionError):
    """A rule that was broken, and in which words."""

    def __init__(self, rule: str, detail: str) -> None:
        self.rule = rule
        super().__init__(f"{rule}: {detail}")


class History:
    def __init__(self, now: Callable[[], Micros]) -> None:
        self._now = now
        self._events: list[tuple[Micros, str, str, tuple[Fact, ...]]] = []
        self.violation: Violation | None = None
        self.seen: Counter[str] = Counter()  # sometimes-assertions
        self.faults: Counter[str] = Counter()
        self.acknowledged: dict[str, None] = {}  # ids that an enqueue answered
        self.begun: dict[Lease, str] = {}  # execution → the process
        self.finished: dict[Lease, str] = {}  # execution → how the handler ended
        self.running: dict[Lease, str] = {}
        self.refused: set[Lease] = set()  # executions whose worker was told that the lease is gone
        self.begins: Counter[str] = Counter()  # by job id
        self.told_to_stop: set[str] = set()  # processes that got a signal

    def add(self, who: str, what: str, *facts: Fact) -> None:
        self._events.append((self._now(), who, what, facts))

    def sometimes(self, name: str) -> None:
        assert name in SOMETIMES, f"{name} is not in the list of rare branches"
        self.seen[name] += 1

    def break_rule(self, rule: str, detail: str, *, who: str = "", cause: BaseException | None = None) -> None:
        """Kept rather than raised: inside a worker's call somebody would catch it. Only the first one counts."""
        if self.violation is None:
            self.violation = Violation(rule, detail)
            self.violation.__cause__ = cause
            self.add(who, "VIOLATION", rule, detail)

    # -------------------------------------------------------------------------------------------------------- effects

    def begin(self, who: str, job_id: str, token: str) -> None:
        self.add(who, "begin", job_id, token)
        if (job_id, token) in self.begun:
            self.break_rule("one claim is one execution", f"{job_id} began twice under {token}", who=who)
        self.begun[job_id, token] = self.running[job_id, token] = who
        self.begins[job_id] += 1

    def finish(self, who: str, job_id: str, token: str, how: str) -> None:
        """The handler's effects are done. Whatever is said about them comes after this."""
        self.add(who, "finish", job_id, token, how)
        self.finished[job_id, token] = how
        self.running.pop((job_id, token), None)

    def interrupted(self, who: str, job_id: str, token: str) -> None:
        self.add(who, "interrupted", job_id, token)
        self.running.pop((job_id, token), None)

    # -------------------------------------------------------------------------------------------------------- reading

    def __len__(self) -> int:
        return len(self._events)

    def lines(self, last: int | None = None) -> Iterator[str]:
        for at, who, what, facts in self._events[-last if last else None :]:
            yield f"{at / SECOND:12.6f}  {who:<10} {what:<14} {' '.join(_shown(fact) for fact in facts)}".rstrip()

    def digest(self) -> str:
        """Two runs of one seed have the same, to the byte."""
        return hashlib.blake2b("\n".join(self.lines()).encode(), digest_size=16).hexdigest()


def _shown(fact: Fact) -> str:
    return "[" + " ".join(_shown(part) for part in fact) + "]" if isinstance(fact, tuple) else str(fact)
