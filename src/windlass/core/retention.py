"""Which finished jobs may go. A chain goes as one, by its last link's rule and date; a group only as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from windlass.types import TERMINAL, Job, Micros, State


def prunable(
    jobs: Sequence[Job], keep: Mapping[State, Micros | None], now: Micros, limit: int, open_groups: Collection[str] = ()
) -> list[Job]:
    """The rows of at most `limit` chains, oldest first. Retention is counted from finished_at; None keeps for ever.
    Groups that still wait for members are kept whole."""

    def is_old(job: Job) -> bool:
        kept = keep.get(job.state)
        return job.state in TERMINAL and kept is not None and (job.finished_at or 0) + kept <= now

    by_id = {job.id: job for job in jobs}
    heads = [job for job in jobs if job.dead_kind != "superseded"]
    held = {job.group_id for job in heads if job.group_id is not None and not is_old(job)} | set(open_groups)
    old = [job for job in heads if is_old(job) and (job.group_id is None or job.group_id not in held)]
    old.sort(key=lambda job: (job.finished_at or 0, job.seq))
    doomed: list[Job] = []
    for head in old[:limit]:
        link: Job | None = head
        while link is not None:
            doomed.append(link)
            link = by_id.get(link.retry_of) if link.retry_of is not None else None
    return doomed
