"""When the answers and rows of two drivers count as the same: what a driver makes up itself is not compared."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from windlass.types import Claimed, Job, Run


def shown(answer: Any) -> Any:
    """Answers without what a driver makes up itself: its handles and the ids of runs."""
    if isinstance(answer, Claimed):
        return replace(answer, handle=None, run_id="")
    if isinstance(answer, Run):
        return replace(answer, run_id="")
    if isinstance(answer, list):
        return [shown(item) for item in answer]
    if isinstance(answer, tuple):
        return tuple(shown(item) for item in answer)
    return answer


def ranked(jobs: tuple[Job, ...]) -> list[Job]:
    """Numbers that may have gaps (a rolled-back insert) as ranks: only their order is promised."""
    seqs = {seq: rank for rank, seq in enumerate(sorted(job.seq for job in jobs))}
    places = {place: rank for rank, place in enumerate(sorted({(j.queue, j.priority, j.position) for j in jobs}))}
    return [replace(j, seq=seqs[j.seq], position=places[j.queue, j.priority, j.position]) for j in jobs]


def difference(mine: Job, other: Job) -> str:
    return "; ".join(
        f"{field}: memory {getattr(mine, field)!r}, driver {getattr(other, field)!r}"
        for field in mine.__struct_fields__
        if getattr(mine, field) != getattr(other, field)
    )
