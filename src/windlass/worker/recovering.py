"""Lapsed leases of anybody, taken back and decided. Run twice, or by two at once, it changes nothing more: each
settlement names the lapsed token."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from windlass.client import Client
from windlass.core.admission import BATCH_LIMIT
from windlass.core.alterations import Leave, Revoke
from windlass.core.changes import Settlement, due_of
from windlass.core.events import announced
from windlass.core.queries import AllWebhooks
from windlass.core.recovery import recover
from windlass.core.settle import Execution
from windlass.errors import WindlassError
from windlass.records import Webhook
from windlass.types import Claimed, Micros

BITE: Final = 500
log: Final = logging.getLogger("windlass.worker")


async def recover_lapsed(client: Client) -> int:
    """Until a bite is not full; answers how many jobs were recovered. One that cannot be decided here fills no bite: those
    that lapsed after it are looked for behind it."""
    recovered, left = 0, set[str]()
    while True:
        now = client.now()
        bite = min(BITE + len(left), BATCH_LIMIT)
        taken_back, undecided = await client.driver.expire(now=now, limit=bite)
        fresh = [job for job in undecided if job.id not in left]
        webhooks = await client.driver.read(AllWebhooks()) if fresh else []
        decisions = [(job.id, _decide(client, job, webhooks, now)) for job in fresh]
        changes = [change for _, change in decisions if change is not None]
        left |= {job_id for job_id, change in decisions if change is None}
        answers = await client.driver.settle(changes, now=now) if changes else []
        decided = answers.count("applied")
        for change in changes:
            client.tell_due(due_of(change))
        recovered += taken_back + decided
        progress = decided > 0 or len(changes) < len(fresh)
        if taken_back < BITE and (len(undecided) < bite or not progress):
            break
    if recovered:
        log.warning("%d jobs of workers that are gone were recovered", recovered)
    return recovered


async def take_back(client: Client, worker_id: str) -> None:
    """A worker is known to be dead: it leaves the registry, its leases expire now, and what needs a decision gets one."""
    try:
        await client.driver.alter([Revoke(worker_id), Leave(worker_id)], now=client.now())
        await recover_lapsed(client)
    except WindlassError as error:
        log.warning("jobs of %s come back when their leases lapse: %s", worker_id, error)


def _decide(client: Client, job: Claimed, webhooks: Sequence[Webhook], now: Micros) -> Settlement | None:
    child_id = client.ids.job(now) if job.retry_mode == "new_job" else ""
    try:
        change = recover(job, Execution(now, None, child_id, client.ids.random.random()))
        return announced(webhooks, job, change)
    except Exception:  # its stored policy cannot be read here: perhaps by a newer worker; the others must not wait for it
        log.exception("job %s: its lease has lapsed, and what becomes of it cannot be decided", job.id)
        return None
