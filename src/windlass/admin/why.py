"""Why a job is not running: the facts are read, core judges them, and each reason becomes a sentence with what to type."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from windlass.admin.showing import scrub_of
from windlass.admin.views import Why, WhyReason
from windlass.client import Client
from windlass.clock import SECOND, moment
from windlass.core.queries import AllHolds, AllLimits, AllQueues, AllWorkers, JobsAhead, LimitUses, ParentsOf, SamplesSince
from windlass.core.why import Facts, Reason, limits_on, reasons
from windlass.errors import JobNotFound
from windlass.types import Job, Micros
from windlass.wording import in_words, named, plural

SAMPLED: Final = 600 * SECOND  # how far back the pace of a queue is looked at
NAMED: Final = 5  # jobs or workers that a sentence names
MOST_AHEAD: Final = 100_000


async def why(client: Client, job_id: str) -> Why:
    [job] = await client.driver.get([job_id])
    if job is None:
        raise JobNotFound(job_id)
    now = client.now()
    scrub = scrub_of(job)
    found = [
        replace(one, detail=scrub(one.detail)) if one.detail else one
        for one in reasons(job, await facts_of(client, job, now), now)
    ]
    told = tuple(
        WhyReason(kind=reason.kind, text=sentence(job, reason, now), command=command(job, reason), until=_moment(reason))
        for reason in found
    )
    return Why(at=moment(now), job_id=job.id, state=job.state, reasons=told)


async def facts_of(client: Client, job: Job, now: Micros) -> Facts:
    if job.state != "queued":
        return Facts()
    driver = client.driver
    queues = await driver.read(AllQueues())
    holds = await driver.read(AllHolds())
    workers = await driver.read(AllWorkers())
    ahead = await driver.read(JobsAhead(job_id=job.id, most=MOST_AHEAD))
    samples = await driver.read(SamplesSince(since=now - SAMPLED))
    mine = limits_on(job)
    limits = [limit for limit in await driver.read(AllLimits()) if limit.key in mine]
    keys = tuple(limit.key for limit in limits)
    return Facts(
        queue=next((queue for queue in queues if queue.name == job.queue), None),
        hold=next((hold for hold in holds if hold.queue == job.queue and hold.status == "ACTIVE"), None),
        limits=limits,
        uses=await driver.read(LimitUses(keys=keys, limit=NAMED)) if keys else [],
        workers=[row for row in workers if now - row.last_heartbeat < client.settings.worker_timeout],
        ahead=ahead[0] if ahead else None,
        samples=[sample for sample in samples if sample.queue == job.queue],
        parents=await driver.read(ParentsOf(job_id=job.id)) if job.waiting_on else (),
    )


def _moment(reason: Reason) -> datetime | None:
    return None if reason.until is None else moment(reason.until)


def sentence(job: Job, reason: Reason, now: Micros) -> str:
    """One reason as one sentence."""
    soon = "" if reason.until is None else in_words(abs(reason.until - now))
    names = named(reason.names, NAMED)
    match reason.kind:
        case "ended":
            why = f": {reason.detail}" if reason.detail else ""
            return f"it does not wait: it {_ENDED[reason.subject]} {soon} ago{why}"
        case "superseded":
            return f"a later link of its chain took over: {reason.subject}"
        case "running":
            return f"it is running, on {reason.subject}"
        case "claimed":
            return f"{reason.subject} has taken it and begins it as soon as a slot is free"
        case "lapsed":
            return f"its worker {reason.subject} is gone: the lease lapsed {soon} ago, and the next claim takes it back"
        case "cancelling":
            return f"it is running on {reason.subject} and was asked to stop"
        case "time":
            return f"it is to run later: in {soon}"
        case "backoff":
            failures = "once" if reason.number == 1 else f"{reason.number} times"
            said = f" ({reason.detail.splitlines()[0][:200]})" if reason.detail else ""
            return f"it failed {failures} and is tried again in {soon}{said}"
        case "predecessor":
            what = "a predecessor" if reason.number == 1 else plural(reason.number or 0, "predecessor")
            return f"it waits for {what} to end" + (f": {names}" if names else "")
        case "paused":
            return f"{reason.subject.replace(':', ' ')} is paused"
        case "held":
            return f"queue {job.queue} is held by {reason.subject}" + (f", for another {soon} at most" if soon else "")
        case "limit":
            use = "" if reason.most is None else f": {reason.number} of {reason.most} permits are in use"
            return f"it waits for a permit of {reason.subject}{use}" + (f" by {names}" if names else "")
        case "rate":
            return f"{reason.subject} allows no more for now" + (f"; the next in {soon}" if soon else "")
        case "no worker":
            return "no worker is alive"
        case "not served":
            return f"no worker that is alive serves queue {job.queue} ({names} serve others)"
        case "unknown type":
            return f"of the workers of queue {job.queue} none knows the task {job.type!r}: {names}"
        case "busy":
            return f"it is first in line, and all slots are taken of {names}"
        case "backlog":
            expected = f"; at the present pace its turn comes in {soon}" if soon else ""
            jobs = "one job stands" if reason.number == 1 else f"{reason.number:,} jobs stand"
            return f"{jobs} before it in queue {job.queue}{expected}"
        case "next":
            return f"nothing keeps it: it is first in line for {names}"


_ENDED: Final = {"succeeded": "succeeded", "dead": "was given up", "cancelled": "was cancelled"}


def command(job: Job, reason: Reason) -> str | None:
    """What to type to change it, or to see more."""
    match reason.kind:
        case "superseded":
            return f"windlass jobs why {reason.subject}"
        case "predecessor" if reason.names:
            return f"windlass jobs why {reason.names[0]}"
        case "time" | "backoff":
            return f"windlass jobs run-now {job.id}"
        case "paused" if reason.subject == f"queue:{job.queue}":
            return f"windlass queues resume {job.queue}"
        case "paused":
            return f"windlass limits resume {reason.subject}"
        case "limit" | "rate":
            return "windlass limits list"
        case "held":
            return "windlass holds list"
        case "no worker" | "not served" | "unknown type":
            return f"windlass worker APP --queues {job.queue}"
        case "busy" | "next" | "lapsed":
            return "windlass workers"
        case "backlog":
            return f"windlass jobs move {job.id} --top"
        case "ended" if reason.subject == "dead":
            return f"windlass jobs {'show' if job.dead_kind == 'rejected' else 'retry'} {job.id}"
        case _:
            return None
