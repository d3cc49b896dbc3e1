"""Which finished jobs may go. A chain goes as one, by its last link's rule and date; a group only as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.types import TERMINAL, Job, Micros


def prunable(
    jobs: Sequence[Job],
    succeeded: Micros | None,
    cancelled: Micros | None,
    dead: Micros | None,
    now: Micros,
    limit: int,
) -> list[Job]:
    """The rows of at most `limit` chains, oldest first. Retention is counted from finished_at; None keeps for ever."""
    keep = {"succeeded": succeeded, "cancelled": cancelled, "dead": dead}

    def is_old(job: Job) -> bool:
        kept = keep.get(job.state)
        return job.state in TERMINAL and kept is not None and (job.finished_at or 0) + kept <= now

    by_id = {job.id: job for job in jobs}
    heads = [job for job in jobs if job.dead_kind != "superseded"]
    held = {job.group_id for job in heads if job.group_id is not None and not is_old(job)}
    old = [job for job in heads if is_old(job) and (job.group_id is None or job.group_id not in held)]
    old.sort(key=lambda job: (job.finished_at or 0, job.seq))
    doomed: list[Job] = []
    for head in old[:limit]:
        link: Job | None = head
        while link is not None:
            doomed.append(link)
            link = by_id.get(link.retry_of) if link.retry_of is not None else None
    return doomed
