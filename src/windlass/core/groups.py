"""Groups: what the end of a member means for the others, and what a group's counters say of the whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from windlass.core.changes import Ending
from windlass.types import AfterRule, Group, GroupMode, Job, MemberCount, OnFailure

GroupStatus = Literal["pending", "running", "completed", "partial", "failed", "cancelled"]


class Progress(Struct, frozen=True, kw_only=True):
    """How far a group is. `failed` and `skipped` share the members that died: with on_failure="skip" they count as
    skipped."""

    status: GroupStatus
    total: int
    succeeded: int
    failed: int
    skipped: int
    cancelled: int
    running: int
    waiting: int

    @property
    def ended(self) -> int:
        return self.total - self.running - self.waiting

    @property
    def fraction(self) -> float:
        return self.ended / self.total if self.total else 1.0


def sequence_rule(on_failure: OnFailure) -> AfterRule:
    """The rule by which a member of a sequential group waits for the one before it."""
    return "cancel" if on_failure == "stop" else "continue"


def stops(mode: GroupMode, on_failure: OnFailure, ending: Ending) -> bool:
    """Whether queued members are cancelled when one ends so. In a sequence those behind a member that somebody cancelled
    have lost their predecessor just as well; beside it they go on."""
    if on_failure != "stop":
        return False
    return ending == "failed" or (ending == "cancelled" and mode == "sequential")


def status_of(group: Group, *, begun: bool) -> GroupStatus:
    """`begun`: a member has run, or is running. A group ends only when all its members have ended.

    completed = every member succeeded, or died where failures are skipped; failed = every member died; cancelled = every
    member was cancelled; partial = anything between."""
    if group.remaining > 0:
        return "running" if begun or group.remaining < group.total else "pending"
    passed = group.succeeded + (group.failed if group.on_failure == "skip" else 0)
    if passed == group.total:
        return "completed"
    if group.failed == group.total:
        return "failed"
    return "cancelled" if group.cancelled == group.total else "partial"


def progress_of(group: Group, members: Iterable[MemberCount]) -> Progress:
    rows = [row for row in members if row.group_id == group.group_id]
    running = min(sum(row.jobs for row in rows if row.state == "running"), group.remaining)
    forgiven = group.on_failure == "skip"
    return Progress(
        status=status_of(group, begun=any(row.begun for row in rows)), total=group.total, succeeded=group.succeeded,
        failed=0 if forgiven else group.failed, skipped=group.failed if forgiven else 0, cancelled=group.cancelled,
        running=running, waiting=group.remaining - running,
    )  # fmt: skip


def comes_back(job: Job) -> bool:
    """Whether a retry of its group runs this member again. One that another took over from is not asked: that one is."""
    return job.state in ("dead", "cancelled") and job.superseded_by is None


def stays(job: Job) -> bool:
    """Whether a member that comes back does so in place. A cancelled row never moves again, nor does a `new_job` row."""
    return job.state == "dead" and job.retry_mode == "same_job"
