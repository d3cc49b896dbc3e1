"""`/api/worker/v1`: the worker protocol, for workers in any language and on any host. Claim, extend, finish, wait.

The server's clock counts and its rules decide: a worker says how a job ended, and is told what became of it.
"""

from __future__ import annotations

from typing import Any

from windlass import __version__
from windlass.clock import SECOND, duration
from windlass.core.acting import By, beyond, within
from windlass.core.changes import Settlement
from windlass.core.events import announced
from windlass.core.rows import as_claimed
from windlass.core.settle import Execution
from windlass.core.usage import DAY
from windlass.drivers.http.wire import (
    PROTOCOL,
    ClaimCall,
    Ended,
    ExtendCall,
    FinishCall,
    Finished,
    Store,
    Taken,
    WaitCall,
    Woken,
    work_of,
)
from windlass.drivers.values import Claim, Extended, Renewal
from windlass.errors import InvalidInput
from windlass.principal import Principal
from windlass.types import Job, Micros
from windlass.web.api.outcomes import settled, told_before
from windlass.web.identity import is_narrow
from windlass.web.problems import Trouble
from windlass.web.replies import taken
from windlass.web.request import Request
from windlass.web.site import Site, site_of


async def store(request: Request[None, None]) -> Store:
    """Who answers, what time it is there, and how much may be asked for."""
    site = site_of(request.http)
    return Store(
        version=__version__, protocol=PROTOCOL, now=site.app.client.now(), wake=site.wakeups.mark(),
        durable=site.app.client.driver.capabilities.durable, longest_wait=request.bounds.wait,
        largest_body=request.bounds.work_body, longest_lease=request.bounds.lease,
    )  # fmt: skip


async def claim(request: Request[None, ClaimCall]) -> Taken:
    """Take jobs for so long, in the order in which they should run. Ask again with the same token after a lost reply."""
    site, call = site_of(request.http), request.body
    _check_queues(request.principal, call.queues)
    wish = Claim(
        queues=call.queues, limit=min(call.limit, request.bounds.claim), lease_for=lease_of(call.lease, request),
        worker_id=call.worker_id, token=site.app.client.ids.token() if call.token is None else call.token,
        types=call.types, unhandled=call.unhandled, start=call.start, reclaim=call.reclaim, sure=call.sure,
    )  # fmt: skip
    wake, now = site.wakeups.mark(), site.now(call.now)  # before the look: what comes after it is told of
    driver = site.app.client.driver
    may_repeat = call.token is not None
    jobs = await site.replies.once(
        request.principal.who, wish, lambda: taken(driver, wish, now) if may_repeat else driver.claim(wish, now=now)
    )
    return Taken(tuple(work_of(job) for job in jobs), wake)


async def extend(request: Request[None, ExtendCall]) -> tuple[Extended, ...]:
    """Go on holding jobs: every third of a lease at the latest. Tells whether somebody asked to cancel; with another answer
    than `applied` the job is not yours any more: stop its work. Repeat it as you like."""
    site, call = site_of(request.http), request.body
    now, lease = site.now(call.now), lease_of(call.lease, request)
    asked = [
        Renewal(one.id, one.token, began(one.started_at, now), one.progress, one.progress_note) for one in call.renewals
    ]
    driver = site.app.client.driver
    if not is_narrow(request.principal):
        return tuple(await driver.extend(asked, lease_for=lease, now=now))
    rows = await _rows(request, site, [one.id for one in call.renewals])
    theirs = [one for one in asked if one.handle in rows]
    answers = iter(await driver.extend(theirs, lease_for=lease, now=now))
    return tuple(next(answers) if one.handle in rows else Extended("not_inflight") for one in asked)


def began(started_at: Micros | None, now: Micros) -> Micros | None:
    """It is said once, when the work begins; and what a run took is added up with that of others."""
    return None if started_at is None else within_a_day(started_at, now)


def within_a_day(said: Micros, now: Micros) -> Micros:
    return min(max(said, now - DAY), now)


async def finish(request: Request[None, FinishCall]) -> tuple[Finished, ...]:
    """Say how jobs ended. What follows (done, again later, dead) is decided here, by the rules that are stored with each.
    The same words again are answered `repeated` and change nothing."""
    site, call = site_of(request.http), request.body
    client, now = site.app.client, site.now(call.now)
    rows = await _rows(request, site, [one.id for one in call.ended])
    webhooks = await client.subscriptions.current()
    changes: list[Settlement | None] = []
    for one in call.ended:
        row = rows.get(one.id)
        if row is None or row.state != "running" or row.lease_token != one.token:
            changes.append(None)
            continue
        job = as_claimed(row, "", row.id)
        start = min(max(one.started_at or now, row.claimed_at or now), now)  # what it cost is added up, whoever says it
        run = Execution(now, start, client.ids.job(now), client.ids.random.random())
        changes.append(announced(webhooks, job, settled(job, one, run, client.settings.result_limit, client.ring)))
    answers = iter(await client.driver.settle([change for change in changes if change is not None], now=now))
    after = await _rows(request, site, [one.id for one in call.ended])
    return tuple(
        _finished(one, after.get(one.id), None if change is None else next(answers), now)
        for one, change in zip(call.ended, changes, strict=True)
    )


async def wait(request: Request[None, WaitCall]) -> Woken:
    """Until something may have become claimable since `wake` was given out, or the time is over. Then claim; a claim that
    finds nothing is no mistake."""
    told, wake = await site_of(request.http).wakeups.wait(request.body.wake, min(request.body.timeout, request.bounds.wait))
    return Woken(told, wake)


def lease_of(said: str | float, request: Request[Any, Any]) -> Micros:
    lease = duration(said, field="lease")
    if not 0 < lease <= request.bounds.lease * SECOND:
        raise InvalidInput("lease", f"must be more than zero and at most {request.bounds.lease:g} s, got {said!r}")
    return lease


def _check_queues(principal: Principal, queues: tuple[str, ...]) -> None:
    """A queue has jobs of several organisations, and a claim takes whoever's is next."""
    if principal.org_id is not None:
        raise Trouble(403, "forbidden", "a claim takes jobs of whole queues, and your token is for one organisation: use "
                      "one that is bound to queues (windlass tokens create NAME --scope work --queue QUEUE)")  # fmt: skip
    if principal.queues is not None and not set(queues) <= set(principal.queues):
        raise beyond(_by(principal), f"a claim of {', '.join(sorted(set(queues) - set(principal.queues)))}")


def _by(principal: Principal) -> By:
    return By(actor=principal.actor, org_id=principal.org_id, queues=principal.queues)


async def _rows(request: Request[Any, Any], site: Site, ids: list[str]) -> dict[str, Job]:
    """Those of these jobs that are there and are the caller's."""
    by = _by(request.principal)
    found = await site.app.client.driver.get(list(dict.fromkeys(ids)))
    return {job.id: job for job in found if job is not None and within(by, job.org_id, job.queue)}


def _finished(one: Ended, row: Job | None, answer: str | None, now: Micros) -> Finished:
    said = answer or told_before(row, one, now)
    if row is None or said not in ("applied", "repeated"):
        return Finished(one.id, said)  # type: ignore[arg-type]
    return Finished(one.id, said, row.state, row.run_at, row.superseded_by)  # type: ignore[arg-type]
