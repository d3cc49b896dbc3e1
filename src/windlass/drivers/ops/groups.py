"""Changes to whole groups: values → statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.core.alterations import AlterAnswer, CancelGroup, Replay, RetryGroup
from windlass.core.changes import RetryChild, storable
from windlass.core.groups import comes_back, stays
from windlass.drivers.ops.dependencies import advance, count_in_group, hand_over, pass_on
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.events import announce_cancelled
from windlass.drivers.ops.inspect import get
from windlass.drivers.ops.replaying import unless_taken
from windlass.drivers.rows import dependency_in, to_json
from windlass.drivers.statement import Op
from windlass.types import TERMINAL, Dependency, Job, Micros


def cancel_group(db: Dialect, change: CancelGroup, now: Micros) -> Op[AlterAnswer]:
    if not (yield db.sql.group_rule(group_id=change.group_id)):
        return "not_found"
    reason = storable(change.reason)
    queued = sorted((yield db.sql.cancel_members(group_id=change.group_id, reason=reason, now=now)))
    asked = yield db.sql.cancel_running_members(group_id=change.group_id, reason=reason, now=now)
    if queued:
        yield from announce_cancelled(db, [row[1] for row in queued], now)
        yield from count_in_group(db, change.group_id, "cancelled", len(queued), now)
    yield from pass_on(db, [row[3:] for row in queued], now)
    yield from advance(db, [row[1] for row in queued if row[2]], now)
    return "applied" if queued else "requested" if asked else "unchanged"


def retry_group(db: Dialect, change: RetryGroup, now: Micros) -> Op[AlterAnswer]:
    if not (yield db.sql.group_rule(group_id=change.group_id)):
        return "not_found"
    found = yield from get(db, [job_id for job_id, _ in change.members])
    members = [job for job in found if job is not None and job.group_id == change.group_id]
    if len(members) < len(change.members):
        return "not_found"
    heirs = dict(change.members)
    back = sorted((job for job in members if comes_back(job)), key=lambda job: (job.group_seq or 0, job.seq))
    if not back:
        return "unchanged"
    keys = [job.dedupe_key for job in back if job.dedupe_key is not None]
    for key in keys:
        if keys.count(key) > 1 or (yield db.sql.dedupe_holder(key=key)):
            return "duplicate"
    brought = yield from unless_taken(db, bring_back(db, back, heirs, now))
    if brought is None:
        return "duplicate"
    for job in back:
        block = db.sql.uncount_failed if job.state == "dead" else db.sql.uncount_cancelled
        yield block(group_id=change.group_id)
    yield from tie_again(db, back, brought[0], now)
    return "applied"


def bring_back(db: Dialect, back: Sequence[Job], heirs: Mapping[str, str], now: Micros) -> Op[dict[str, str]]:
    """Answers the ids under which the members run again."""
    heads: dict[str, str] = {}
    for job in back:
        if stays(job):
            change = Replay(job.id, heirs[job.id])
            yield db.sql.replay(id=job.id, reset=change.reset_attempts, now=now)
            heads[job.id] = job.id
            continue
        heads[job.id] = heirs[job.id]
        yield from db.insert_child(job.seq, job.queue, job.priority, RetryChild(heirs[job.id], None, 0, manual=True), now)
        block = db.sql.supersede if job.state == "dead" else db.sql.take_over
        yield block(id=job.id, child_id=heirs[job.id], now=now)
        if job.awaited:
            yield from hand_over(db, job.id, heirs[job.id], now)
    return heads


def tie_again(db: Dialect, back: Sequence[Job], heads: Mapping[str, str], now: Micros) -> Op[None]:
    """Make the members that were brought back wait for each other as they did before."""
    waited_for: set[str] = set()
    before: dict[str, list[Dependency]] = {}
    for job in back:
        before[job.id] = [dependency_in(row) for row in (yield db.sql.edges_before(id=job.id))]
    parents = {edge.parent_id for edges in before.values() for edge in edges}
    if parents:
        yield db.sql.doubt_groups(ids=db.texts(sorted(parents)))
    rows = (yield from db.hold_parents(sorted(parents))) if parents else []  # one from outside may be about to end
    chains = {row[0]: row[1] for row in rows}
    running_on = {row[1] for row in rows if row[3] not in TERMINAL}
    for job in back:
        edges = before[job.id]
        if not edges:
            continue
        open_heads = running_on & {chains.get(edge.parent_id, edge.parent_id) for edge in edges}
        tied = {chains.get(edge.parent_id, edge.parent_id): edge for edge in edges}
        if heads[job.id] == job.id:
            yield db.sql.delete_edges(seqs=db.ints([job.seq]))
        again = [(heads[job.id], head, edge.rule, head not in open_heads) for head, edge in tied.items()]
        yield db.sql.insert_edges(edges=to_json(again))
        if open_heads:
            yield db.sql.block_jobs(ids=db.texts([heads[job.id]]), waiting_on=len(open_heads), now=now)
        waited_for |= open_heads
    if waited_for:
        yield db.sql.await_jobs(ids=db.texts(sorted(waited_for)), now=now)
