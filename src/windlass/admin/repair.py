"""Rows that others wrote and that contradict each other: found for the doctor, and put right when a person says so.

The engine writes no such rows. Where they are, somebody has written to the store with its guards switched off, or has
restored half of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windlass.admin.views import Check, Mended
from windlass.client import Client
from windlass.core.changes import Settlement
from windlass.core.duties import Mend
from windlass.core.events import announced
from windlass.core.queries import AllWebhooks, Faults
from windlass.core.recovery import reconcile
from windlass.core.rows import as_claimed
from windlass.core.settle import Execution
from windlass.records import Fault, FaultKind, Webhook

SAYS: Final[dict[FaultKind, tuple[str, str]]] = {  # what is wrong, and what is done about it
    "orphan_run": ("runs without a job", "delete the run"),
    "missing_run": ("running jobs without a run", "write a failed run, and retry or end the job"),
    "ended_run": ("running jobs whose run has ended", "end the job as its run did"),
    "permits": ("limits that count permits nobody holds, or miss some", "count them again"),
}


async def check(client: Client) -> Check:
    found = await faults(client)
    if not found:
        return Check("rows", "ok", "none contradicts another")
    numbers = {kind: sum(fault.kind == kind for fault in found) for kind in SAYS}
    says = ", ".join(f"{numbers[kind]:,} {words}" for kind, (words, _) in SAYS.items() if numbers[kind])
    return Check("rows", "problem", f"others have written to this store: {says}", "windlass doctor --repair")


async def faults(client: Client) -> list[Fault]:
    return await client.driver.read(Faults())


def plan_of(fault: Fault) -> str:
    return f"{fault.kind.replace('_', ' ')} {fault.subject}: {fault.detail}; {SAYS[fault.kind][1]}"


async def repair(client: Client, found: Sequence[Fault]) -> Mended:
    """Put right what was found, in bites. Twice changes nothing: what is right is not found again."""
    driver, now = client.driver, client.now()
    mended, more = 0, True
    while more:
        done = await driver.maintain(Mend(), epoch=None, now=now)
        mended, more = (mended + done.rows, done.more) if done is not None else (mended, False)
    jobs = [fault.subject for fault in found if fault.kind in ("missing_run", "ended_run")]
    webhooks = await driver.read(AllWebhooks()) if jobs else []
    changes = [change for job_id in jobs if (change := await _decided(client, job_id, webhooks)) is not None]
    answers = await driver.settle(changes, now=now) if changes else []
    return Mended(rows=mended, jobs=answers.count("applied"), left=tuple(await faults(client)))


async def _decided(client: Client, job_id: str, webhooks: Sequence[Webhook]) -> Settlement | None:
    now = client.now()
    [job] = await client.driver.get([job_id])
    runs = await client.driver.runs(job_id, limit=1)
    if job is None or job.state != "running" or job.lease_token is None or not runs:
        return None  # it has ended meanwhile
    claimed = as_claimed(job, runs[-1].run_id, job.id)
    change = reconcile(claimed, runs[-1], Execution(now, None, client.ids.job(now), client.ids.random.random()))
    return announced(webhooks, claimed, change, recovers=True)
