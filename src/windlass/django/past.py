"""The executions behind a result of `django.tasks`. There may have been any number of them, and each start of a task asks
again: so the newest are read, the first is looked for, and those between are only counted."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from windlass.client import Client
from windlass.core.history import RUNS_LIMIT, unkept_run
from windlass.types import Job, Run


class Past(Struct, frozen=True):
    """`begun`: those of the newest that were not handed back; `earlier`: how many such there were before them."""

    newest: Sequence[Run] = ()
    begun: Sequence[Run] = ()
    earlier: int = 0
    first: Run | None = None

    @property
    def last(self) -> Run | None:
        return self.begun[-1] if self.begun else None


async def past_of(client: Client, links: Sequence[Job]) -> Past:
    """Of a job and the links that took over from it."""
    found = await client.newest_runs([job.id for job in links], RUNS_LIMIT)
    unkept = unkept_run(links[-1], found[links[-1].id])
    newest = [run for job in links for run in found.get(job.id, ())] + ([] if unkept is None else [unkept])
    begun = begun_of(newest)
    # A replay by hand begins the row's count anew: of what was before it, only what is among the newest is counted.
    earlier = max(sum(job.executions - job.skipped for job in links) - len(begun), 0)
    cut = sum(job.executions for job in links) > len(newest)
    first = await _first(client, links) if cut else None
    return Past(newest, begun, earlier, first or next(iter(begun), None))


async def _first(client: Client, links: Sequence[Job]) -> Run | None:
    """Among the oldest of a link. Should all of those have been handed back, the next link or the newest must do."""
    for job in links:
        for run in begun_of(await client.driver.runs(job.id, before=RUNS_LIMIT + 1, limit=RUNS_LIMIT)):
            return run
    return None


def begun_of(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.status != "skipped"]
