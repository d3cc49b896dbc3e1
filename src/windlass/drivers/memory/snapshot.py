"""All rows as one value, for stores that write their rows as values."""

from __future__ import annotations

from msgspec import Struct

from windlass.core.fairness import Share
from windlass.core.history import UsageBatch
from windlass.core.usage import key_of_row
from windlass.drivers.memory.tables import Tables
from windlass.drivers.values import Leadership
from windlass.records import ApiToken, AuditLine, Delivery, Event, QueueSample, Usage, Webhook, WorkerInfo
from windlass.types import Dependency, Group, Hold, Job, Limit, Micros, Queue, Run, Schedule, Template


class Snapshot(Struct):
    """Nothing here has a default: half a snapshot must not pass for an empty store."""

    last_seq: int  # not max(seq): after a prune a new job would get the number that an old handle still carries
    jobs: list[Job]
    runs: dict[int, list[Run]]
    keys: list[tuple[tuple[str, str], tuple[str, Micros | None]]]  # pairs, because a key in JSON is text
    queues: list[Queue]
    groups: list[Group]
    edges: list[Dependency]
    limits: list[Limit]
    templates: list[Template]
    schedules: list[Schedule]
    shares: list[tuple[tuple[str, str], Share]]
    webhooks: list[Webhook]
    outbox: list[Event]
    deliveries: list[Delivery]
    last_event: int
    workers: list[WorkerInfo]
    leader: Leadership
    samples: list[QueueSample]
    usage: list[Usage]
    batches: list[UsageBatch]
    last_batch: int
    watermark: Micros | None
    holds: list[Hold]
    tokens: list[ApiToken]
    audit: list[AuditLine]


def snapshot(t: Tables) -> Snapshot:
    return Snapshot(
        last_seq=t.last_seq, jobs=list(t.jobs.values()), runs=t.runs, keys=list(t.keys.items()),
        queues=list(t.queues.values()), groups=list(t.groups.values()), edges=list(t.edges.values()),
        limits=list(t.limits.values()), templates=list(t.templates.values()), schedules=list(t.schedules.values()),
        shares=list(t.shares.items()), webhooks=list(t.webhooks.values()), outbox=list(t.outbox.values()),
        deliveries=list(t.deliveries.values()), last_event=t.last_event,
        workers=list(t.workers.values()), leader=t.leader, samples=list(t.samples.values()),
        usage=list(t.usage.values()), batches=list(t.batches.values()), last_batch=t.last_batch,
        watermark=t.watermark, holds=list(t.holds.values()),
        tokens=list(t.tokens.values()), audit=t.audit,
    )  # fmt: skip


def restore(t: Tables, rows: Snapshot) -> None:
    """Into tables that are empty."""
    for job in rows.jobs:
        t.put(job)  # one by one, because that builds the indexes
    t.last_seq, t.runs, t.keys = rows.last_seq, rows.runs, dict(rows.keys)
    t.queues = {row.name: row for row in rows.queues}
    t.groups = {row.group_id: row for row in rows.groups}
    for edge in rows.edges:
        t.put_edge(t.seqs[edge.job_id], edge)
    t.limits = {row.key: row for row in rows.limits}
    t.templates = {(row.template_id, row.version): row for row in rows.templates}
    t.schedules = {row.schedule_id: row for row in rows.schedules}
    t.shares = dict(rows.shares)
    t.webhooks = {row.webhook_id: row for row in rows.webhooks}
    t.outbox, t.last_event = {row.event_id: row for row in rows.outbox}, rows.last_event
    t.deliveries = {(row.event_id, row.webhook_id): row for row in rows.deliveries}
    t.workers, t.leader = {row.id: row for row in rows.workers}, rows.leader
    t.samples = {(row.minute, row.queue): row for row in rows.samples}
    t.usage, t.watermark = {key_of_row(row): row for row in rows.usage}, rows.watermark
    t.batches, t.last_batch = dict(enumerate(rows.batches, 1)), rows.last_batch
    t.tokens = {row.token_id: row for row in rows.tokens}
    t.holds, t.audit = {row.hold_id: row for row in rows.holds}, rows.audit
