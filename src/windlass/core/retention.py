"""Which finished jobs may go. A chain goes as one, by its last link's rule and date; a group only as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from windlass.core.duties import Prune
from windlass.types import TERMINAL, Job, Micros, State


def kept_for(duty: Prune) -> dict[State, Micros | None]:
    return {"succeeded": duty.succeeded, "cancelled": duty.cancelled, "dead": duty.dead}


def prunable(
    jobs: Sequence[Job], keep: Mapping[State, Micros | None], now: Micros, limit: int, open_groups: Collection[str] = (),
    uncounted: Collection[int] = (), needed: Collection[str] = (),
) -> list[list[Job]]:  # fmt: skip
    """The rows of at most `limit` chains, oldest first. Retention is counted from finished_at; None keeps for ever.
    Groups that still wait for members are kept whole. `uncounted`: the seqs of jobs with runs that no roll-up has counted
    yet; they keep their chain and their group. `needed`: the ids of jobs that others, whose chains have not ended, wait for
    or have waited for; those may still read the results, of a chain those of its last link, so it is kept likewise."""

    def is_old(job: Job) -> bool:
        kept = keep.get(job.state)
        return job.state in TERMINAL and kept is not None and (job.finished_at or 0) + kept <= now

    by_id = {job.id: job for job in jobs}
    heads = [job for job in jobs if job.superseded_by is None]
    held = {job.group_id for job in heads if not is_old(job)} | set(open_groups)
    held |= {job.group_id for job in jobs if job.seq in uncounted or job.id in needed}
    old = [job for job in heads if is_old(job) and (job.group_id is None or job.group_id not in held)]
    old.sort(key=lambda job: (job.finished_at or 0, job.seq))
    chains = ([head, *_links_before(head, by_id)] for head in old)
    free = (chain for chain in chains if not any(link.seq in uncounted or link.id in needed for link in chain))
    return list(islice(free, limit))


def _links_before(job: Job, by_id: Mapping[str, Job]) -> Iterator[Job]:
    link = by_id.get(job.retry_of or "")
    while link is not None:
        yield link
        link = by_id.get(link.retry_of or "")
