"""TaskHarbor's calls for one job, on top of the plural contract: they raise where the plural answers.

job = await reserve(driver, "mail", now=now, lease_for=30 * SECOND)
await ack(driver, job.id, job.token, now=now)
"""

from __future__ import annotations

import secrets
from typing import Literal, NoReturn

from msgspec import Struct

from windlass.core.changes import Ack, Answer, Ending, Fail, Retry, Rider, Settlement
from windlass.core.settle import riders_of
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Claim, Enqueued, Renewal
from windlass.errors import JobNotInflight, LeaseExpired, LeaseMismatch, NeverTwice
from windlass.types import Claimed, Micros, NewJob


class Lease(Struct, frozen=True):
    token: str
    expires_at: Micros


class RetryUpdate(Struct, frozen=True):
    """What TaskHarbor stores with a retry: core has counted, the driver stores it as given."""

    attempts: int
    last_error: str = ""
    run_at: Micros | None = None
    failed_at: Micros | None = None


def new_token() -> str:
    return secrets.token_hex(16)


async def enqueue(driver: Driver, job: NewJob, *, now: Micros) -> Enqueued:
    [answer] = await driver.enqueue([job], now=now)
    return answer


async def reserve(
    driver: Driver, queue: str, *, now: Micros, lease_for: Micros, worker_id: str = "singular"
) -> Claimed | None:
    """Claim one job that is due; None if there is none."""
    claim = Claim(queues=(queue,), limit=1, lease_for=lease_for, worker_id=worker_id, token=new_token())
    jobs = await driver.claim(claim, now=now)
    return jobs[0] if jobs else None


async def extend_lease(driver: Driver, job_id: str, token: str, *, now: Micros, lease_for: Micros) -> Lease:
    [extended] = await driver.extend([Renewal(job_id, token)], lease_for=lease_for, now=now)
    if extended.answer != "applied" or extended.expires_at is None:
        _refuse(job_id, extended.answer)
    return Lease(token, extended.expires_at)


async def ack(
    driver: Driver, job_id: str, token: str, *, now: Micros, result: bytes | None = None
) -> Literal["applied", "repeated"]:
    riders = await _riders(driver, job_id, "succeeded")
    return await _settle(driver, job_id, Ack(handle=job_id, token=token, at=now, riders=riders, result=result), now)


async def retry(
    driver: Driver, job_id: str, token: str, update: RetryUpdate, *, now: Micros
) -> Literal["applied", "repeated"]:
    change = Retry(
        handle=job_id, token=token, at=now, run_at=update.run_at, attempts=update.attempts, error=update.last_error,
        failed_at=update.failed_at, riders=await _riders(driver, job_id, None),
    )  # fmt: skip
    return await _settle(driver, job_id, change, now)


async def fail(driver: Driver, job_id: str, token: str, reason: str, *, now: Micros) -> Literal["applied", "repeated"]:
    change = Fail(
        handle=job_id, token=token, at=now, kind="exhausted", reason=reason.strip() or "failed",
        riders=await _riders(driver, job_id, "failed"),
    )  # fmt: skip
    return await _settle(driver, job_id, change, now)


async def _riders(driver: Driver, job_id: str, ending: Ending | None) -> tuple[Rider, ...]:
    """The riders of a settlement. They depend only on columns that never change, so reading those first is no race."""
    [job] = await driver.get([job_id])
    return () if job is None else riders_of(job, ending)


async def _settle(driver: Driver, job_id: str, change: Settlement, now: Micros) -> Literal["applied", "repeated"]:
    [answer] = await driver.settle([change], now=now)
    if answer != "applied" and answer != "repeated":
        _refuse(job_id, answer)
    return answer


def _refuse(job_id: str, answer: Answer) -> NoReturn:
    if answer == "expired":
        raise LeaseExpired(job_id)
    if answer == "mismatch":
        raise LeaseMismatch(job_id)
    if answer == "never_twice":
        raise NeverTwice(job_id)
    raise JobNotInflight(job_id)
