"""Takes back expired leases of any worker and decides what becomes of the jobs. Doing it twice, or in two workers at
once, changes nothing more, because each settlement names the expired token.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from windlass.client import Client
from windlass.clock import SECOND
from windlass.core.alterations import Leave, Revoke
from windlass.core.changes import UNSTORABLE, Answer, Fail, Settlement, due_of
from windlass.core.events import announced
from windlass.core.fields import BATCH_LIMIT
from windlass.core.queries import AllWebhooks
from windlass.core.recovery import recover
from windlass.core.settle import Execution, dead
from windlass.drivers.values import RowsHeld
from windlass.errors import WindlassError
from windlass.records import Webhook
from windlass.telemetry.jsonlog import about
from windlass.types import Claimed, Micros
from windlass.wording import are, plural

BITE: Final = 500
NEWER_WITHIN: Final[Micros] = 86_400 * SECOND  # so long a newer worker may come that can decide about a job
log: Final = logging.getLogger("windlass.worker")


async def recover_lapsed(client: Client) -> int:
    """Until a bite is not full; answers how many jobs were recovered. One that cannot be decided here, whose end no store
    takes, or whose row somebody holds, fills no bite: those that lapsed after it are looked for behind it."""
    recovered, left = 0, set[str]()
    while True:
        now = client.now()
        bite = min(BITE + len(left), BATCH_LIMIT)
        taken_back, undecided = await client.driver.expire(now=now, limit=bite)
        fresh = [job for job in undecided if job.id not in left]
        webhooks = await client.driver.read(AllWebhooks()) if fresh else []
        decisions = [(job, change) for job in fresh if (change := _decide(client, job, webhooks, now)) is not None]
        answers = await settle_all(client, decisions, now=now)
        decided = list(answers.values()).count("applied")
        recovered += taken_back + decided
        known = len(left)
        left |= {job.id for job in fresh if job.id not in answers}
        progress = decided > 0 or len(left) > known
        if taken_back < BITE and (len(undecided) < bite or not progress):
            break
    if recovered:
        log.warning("recovered from workers that are gone: %s", plural(recovered, "job"))
    return recovered


async def settle_all(client: Client, decisions: Sequence[tuple[Claimed, Settlement]], *, now: Micros) -> dict[str, Answer]:
    """The answers by job id. What no store takes is settled apart, so that the others need not wait for it, and by an end
    that asks for less; it has no answer when there is none. What somebody holds has none either: its turn comes with the
    next look."""
    if not decisions:
        return {}
    answers: Sequence[Answer | None]
    try:
        answers = await client.driver.settle([change for _, change in decisions], now=now)
    except UNSTORABLE as error:
        if len(decisions) > 1:
            each = [await settle_all(client, [one], now=now) for one in decisions]
            return {job_id: answer for answered in each for job_id, answer in answered.items()}
        [(job, change)] = decisions
        if (plainer := _plainer(job, change, error)) is not None:
            log.warning("job %s: its end is refused (%s), and it gets a plainer one", job.id, error, extra=about(job))
            return await settle_all(client, [(job, plainer)], now=now)
        log.error("job %s: its end cannot be stored, and it is left as it is: %s", job.id, error, extra=about(job))
        return {}
    except RowsHeld as error:
        answers = error.answers
        log.warning("%s left alone for now: %s", are(answers.count(None), "job"), error)
    told = {job.id: answer for (job, _), answer in zip(decisions, answers, strict=True) if answer is not None}
    for job, change in decisions:
        if job.id in told:
            client.tell_due(due_of(change))
    return told


def _plainer(job: Claimed, change: Settlement, error: Exception) -> Settlement | None:
    """Dead, with the reason why; at last with nothing that happens beside it, since otherwise it would run for ever."""
    if isinstance(change, Fail) and change.kind == "rejected":
        return replace(change, riders=()) if change.riders else None
    return dead(job, "rejected", f"its end could not be stored: {error}", Execution(change.at), lapsed=change.lapsed)


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
    except Exception as error:  # its stored policy cannot be read here; the others must not wait for it
        log.exception("job %s: its lease has lapsed, and what becomes of it cannot be decided", job.id)
        if now - job.lease_expires_at < NEWER_WITHIN:
            return None
        change = dead(job, "rejected", f"what becomes of it cannot be decided: {error}", Execution(now), lapsed=True)
    return announced(webhooks, job, change)
