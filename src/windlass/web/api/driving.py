"""`/api/worker/v1/driver`: the rest of the driver contract, for the `http://` driver of Windlass itself.

A token with the scope `work` for the whole store does what a worker with the database's password does to jobs: it takes
part in the fleet, leads it, and sends what webhooks ask for. What people do, tokens and the audit log need `admin`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from windlass.core.acting import By
from windlass.core.admission import check_job
from windlass.core.alterations import (
    AlterAnswer,
    EndDelivery,
    Fire,
    Leave,
    PutGroup,
    PutLimit,
    PutQueue,
    PutSchedule,
    PutTemplate,
    Revoke,
    TakeDelivery,
)
from windlass.core.changes import Ack, Answer, Settlement
from windlass.core.duties import FanOut, TellDependants
from windlass.core.queries import AllTokens, AuditLog, AuditPage, LastAudited, TokenByDigest
from windlass.drivers.http.wire import (
    AlterCall,
    BeatCall,
    Beaten,
    EnqueueCall,
    ExpireCall,
    FindCall,
    GetCall,
    Lapsed,
    LeadCall,
    MaintainCall,
    Maintained,
    MomentCall,
    ReadCall,
    Rows,
    RunsCall,
    SettleCall,
    WaitingCall,
    work_of,
)
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Count, Enqueued, Leadership, Page, RowsHeld, WaitingType
from windlass.errors import InvalidInput
from windlass.principal import Principal
from windlass.records import Finding
from windlass.types import Job, Micros, Run
from windlass.web.api.working import began, lease_of, within_a_day
from windlass.web.problems import Trouble
from windlass.web.request import Request
from windlass.web.site import site_of

OF_WORKERS: Final = (
    Revoke | Leave | Fire | TakeDelivery | EndDelivery | PutQueue | PutLimit | PutTemplate | PutSchedule | PutGroup
)
OF_ADMINS: Final = AllTokens | TokenByDigest | AuditLog | AuditPage | LastAudited


def _driver(request: Request[Any, Any]) -> Driver:
    return site_of(request.http).app.client.driver


async def enqueue(request: Request[None, EnqueueCall]) -> tuple[Enqueued, ...]:
    """Store jobs as they are described, all or none, each under an id that the caller made. After a lost reply look for
    these ids: when one of them is there, all were stored."""
    call = request.body
    for job in call.jobs:
        check_job(job)
    return tuple(await _driver(request).enqueue(call.jobs, now=site_of(request.http).now(call.now)))


async def settle(request: Request[None, SettleCall]) -> tuple[Answer | None, ...]:
    """End executions as the caller's own rules have decided. Said again with the same token: `repeated`. `null`: somebody
    holds that row, and has not let go in time; the others are stored."""
    call, site = request.body, site_of(request.http)
    now = site.now(call.now)
    for change in call.changes:
        if not isinstance(change.handle, str):
            raise InvalidInput("handle", "must be the id of the job")
    changes = call.changes if site.trusts_now else tuple(_believable(change, now) for change in call.changes)
    sealed = await _sealed(request, changes)
    try:
        return tuple(await _driver(request).settle(sealed, now=now))
    except RowsHeld as error:
        return tuple(error.answers)


async def _sealed(request: Request[Any, Any], changes: Sequence[Settlement]) -> Sequence[Settlement]:
    """With results as they are stored: the keys are ours, and a worker that comes over HTTP has none."""
    ring = site_of(request.http).app.client.ring
    told = {change.handle for change in changes if isinstance(change, Ack) and change.result is not None}
    if ring is None or not told:
        return changes
    orgs = {job.id: job.org_id for job in await _driver(request).get([*told]) if job is not None}
    return [
        replace(change, result=ring.seal(change.result, "result", orgs[change.handle], change.handle))
        if isinstance(change, Ack) and change.result is not None and change.handle in orgs else change
        for change in changes
    ]  # fmt: skip


def _believable(change: Settlement, now: Micros) -> Settlement:
    """Nothing has ended in the future or took an age, whatever the clock of the worker says."""
    at, start = within_a_day(change.at, now), began(change.started_at, now)
    return change if (at, start) == (change.at, change.started_at) else replace(change, at=at, started_at=start)


async def expire(request: Request[None, ExpireCall]) -> Lapsed:
    """Take back what dead workers left, and tell of those jobs that need a decision."""
    call = request.body
    taken_back, undecided = await _driver(request).expire(now=site_of(request.http).now(call.now), limit=call.limit)
    return Lapsed(taken_back, tuple(work_of(job) for job in undecided))


async def beat(request: Request[None, BeatCall]) -> Beaten:
    """The registry's heartbeat of a worker."""
    call = request.body
    await _driver(request).beat(call.worker, now=site_of(request.http).now(call.now))
    return Beaten(call.worker.id)


async def lead(request: Request[None, LeadCall]) -> Leadership:
    """Ask for leadership, or renew it; tells who leads."""
    call = request.body
    lease = lease_of(call.lease, request)
    return await _driver(request).lead(call.worker_id, lease_for=lease, now=site_of(request.http).now(call.now))


async def maintain(request: Request[None, MaintainCall]) -> Maintained:
    """Do one piece of maintenance, as the leader of this epoch."""
    call = request.body
    if call.epoch is None and not isinstance(call.duty, FanOut | TellDependants):
        _need_admin(request, "maintenance by who does not lead")
    done = await _driver(request).maintain(call.duty, epoch=call.epoch, now=site_of(request.http).now(call.now))
    return Maintained(done)


async def alter(request: Request[None, AlterCall]) -> tuple[AlterAnswer, ...]:
    """Changes to what is not a lease. What workers do themselves (register, declare, fire, deliver) needs `work`; what
    people do needs `admin`, and is in the audit log under the name of the token, whoever `by` names."""
    call, site, by = request.body, site_of(request.http), request.body.by
    if by is not None or not all(isinstance(change, OF_WORKERS) for change in call.changes):
        _need_admin(request, "what people change")
        by = by if site.trusts_now else _in_the_name_of(request.principal, by)
    return tuple(await _driver(request).alter(call.changes, now=site.now(call.now), by=by))


def _in_the_name_of(principal: Principal, by: By | None) -> By:
    """A caller may say how far it wants to reach, and not who it is."""
    return By(actor=principal.actor) if by is None else replace(by, actor=principal.actor)


async def read(request: Request[None, ReadCall]) -> Rows:
    """Rows of another kind than jobs, as the query says. Tokens and the audit log need `admin`."""
    if isinstance(request.body.query, OF_ADMINS):
        _need_admin(request, "tokens and the audit log")
    return Rows(await _driver(request).read(request.body.query))


async def get(request: Request[None, GetCall]) -> tuple[Job | None, ...]:
    """Jobs by id, null where there is none."""
    return tuple(await _driver(request).get(request.body.ids))


async def runs(request: Request[None, RunsCall]) -> tuple[Run, ...]:
    """The newest executions of a job, first to last; with `before`, those with a smaller number."""
    asked = request.body
    return tuple(await _driver(request).runs(asked.job_id, before=asked.before, limit=asked.limit))


async def find(request: Request[None, FindCall]) -> Page:
    """A page of jobs, newest first."""
    return await _driver(request).find(request.body.query)


async def count(request: Request[None, MomentCall]) -> tuple[Count, ...]:
    """Jobs that have not ended, and dead letters, by queue and label."""
    return tuple(await _driver(request).count(now=site_of(request.http).now(request.body.now)))


async def waiting_types(request: Request[None, WaitingCall]) -> tuple[WaitingType, ...]:
    """The types of the first ready jobs of each queue."""
    return tuple(await _driver(request).waiting_types(request.body.queues, limit=request.body.limit))


async def examine(request: Request[None, MomentCall]) -> tuple[Finding, ...]:
    """What the store says of its own health."""
    return tuple(await _driver(request).examine(now=site_of(request.http).now(request.body.now)))


def _need_admin(request: Request[Any, Any], what: str) -> None:
    if not request.principal.may("admin"):
        raise Trouble(403, "forbidden", f"{what} needs the scope admin, which your token does not have")
