"""Changes to whole groups: cancel and retry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from windlass.core import rows
from windlass.core.alterations import AlterAnswer, CancelGroup, Replay, RetryGroup
from windlass.core.changes import RetryChild, storable
from windlass.core.dependencies import blocked
from windlass.core.groups import comes_back, stays
from windlass.drivers.memory.dependencies import advance, await_all, chain_head, edges_before, hand_over, job_at, pass_on
from windlass.drivers.memory.events import announce_cancelled
from windlass.drivers.memory.jobs import insert_child
from windlass.drivers.memory.settlement import count, uncount
from windlass.drivers.memory.tables import Tables
from windlass.types import TERMINAL, Job, Micros


def cancel_group(tables: Tables, change: CancelGroup, now: Micros) -> AlterAnswer:
    if change.group_id not in tables.groups:
        return "not_found"
    members = [job for _, job in sorted(tables.jobs.items()) if job.group_id == change.group_id]
    queued = [job for job in members if job.state == "queued"]
    asked = [job for job in members if job.state == "running" and job.cancel_requested_at is None]
    for job in queued:
        tables.put(rows.cancelled(job, storable(change.reason), now))
    announce_cancelled(tables, [job.id for job in queued], now)
    for job in asked:
        tables.put(rows.cancel_requested(job, storable(change.reason), now))
    if queued:
        count(tables, change.group_id, "cancelled", now, len(queued))
    pass_on(tables, queued, now)
    advance(tables, [job.id for job in queued if job.awaited], now)
    return "applied" if queued else "requested" if asked else "unchanged"


def retry_group(tables: Tables, change: RetryGroup, now: Micros) -> AlterAnswer:
    if change.group_id not in tables.groups:
        return "not_found"
    members = [tables.find(job_id) for job_id, _ in change.members]
    found = [job for job in members if job is not None and job.group_id == change.group_id]
    if len(found) < len(change.members):
        return "not_found"
    heirs = dict(change.members)
    back = sorted((job for job in found if comes_back(job)), key=lambda job: (job.group_seq or 0, job.seq))
    keys = [job.dedupe_key for job in back if job.dedupe_key is not None]
    taken = any(heirs[job.id] in tables.seqs for job in back if not stays(job))
    if taken or len(set(keys)) < len(keys) or any(key in tables.dedupe for key in keys):
        return "duplicate"
    heads = {job.id: bring_back(tables, job, heirs[job.id], now) for job in back}
    for job in back:
        uncount(tables, change.group_id, "failed" if job.state == "dead" else "cancelled")
    tie_again(tables, back, heads, now)
    return "applied" if back else "unchanged"


def bring_back(tables: Tables, job: Job, heir: str, now: Micros) -> str:
    """Answers the id under which the member runs again."""
    if stays(job):
        tables.put(rows.replayed(job, Replay(job.id, heir), now))
        return job.id
    insert_child(tables, job, RetryChild(heir, None, 0, manual=True), now)
    kind = "superseded" if job.state == "dead" else None
    tables.put(replace(job, dead_kind=kind, superseded_by=heir, updated_at=rows.touched(job, now)))
    if job.awaited:
        hand_over(tables, job, heir, now)
    return heir


def tie_again(tables: Tables, back: Sequence[Job], heads: Mapping[str, str], now: Micros) -> None:
    """Make the members that were brought back wait for each other as they did before."""
    waited_for: set[str] = set()
    for job in back:
        child = job_at(tables, heads[job.id])
        edges = {chain_head(tables, edge.parent_id): edge for edge in edges_before(tables, job.id)}
        for edge in tables.edges_of(child.seq):
            tables.drop_from(tables.edges, (edge.parent_id, child.seq))
        open_heads = {head for head in edges if (parent := tables.find(head)) and parent.state not in TERMINAL}
        for head, edge in edges.items():
            tables.put_edge(child.seq, replace(edge, job_id=child.id, parent_id=head, done=head not in open_heads))
        if open_heads:
            tables.put(blocked(child, len(open_heads), now))
        waited_for |= open_heads
    await_all(tables, waited_for, now)
