"""TaskHarbor's errors: which, in which order, and that a refused call changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from windlass.drivers.singular import ack, reserve
from windlass.errors import DriverClosed, JobNotInflight, LeaseExpired, LeaseMismatch
from windlass.types import Claimed

from .harbor import LEASE, Harbor
from .place import Place, run


@pytest.fixture
def harbor(place: Place) -> Harbor:
    return Harbor(place)


CALLS: dict[str, Callable[[Harbor, Claimed, str | None], Awaitable[object]]] = {
    "Ack": lambda h, job, token: h.ack(job, token),
    "Retry": lambda h, job, token: h.retry(job, token),
    "Fail": lambda h, job, token: h.fail(job, token),
    "ExtendLease": lambda h, job, token: h.extend(job, token),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


# --------------------------------------------------------------------------------------------------------------- errors


@every_call
def test_a_job_that_is_not_inflight_is_refused(harbor: Harbor, call: Any) -> None:
    """TH-105: ErrJobNotInflight for a ready job, a finished one, and one that does not exist."""

    async def main() -> None:
        job = await harbor.inflight()
        await harbor.retry(job)
        before = await harbor.row(job)
        with pytest.raises(JobNotInflight):
            await call(harbor, job, "another token")
        assert await harbor.row(job) == before

    run(main)


@every_call
def test_a_wrong_token_is_refused(harbor: Harbor, call: Any) -> None:
    """TH-080, TH-081, TH-091, TH-095, TH-096, TH-099, TH-102, TH-107: ErrLeaseMismatch, and nothing is changed."""

    async def main() -> None:
        job = await harbor.inflight()
        before = await harbor.row(job)
        with pytest.raises(LeaseMismatch):
            await call(harbor, job, "another token")
        assert await harbor.row(job) == before

    run(main)


@every_call
def test_an_expired_lease_is_refused(harbor: Harbor, call: Any) -> None:
    """TH-091, TH-095, TH-096, TH-099, TH-102, TH-108, TH-113: ErrLeaseExpired, judged at the `now` given."""

    async def main() -> None:
        job = await harbor.inflight()
        before = await harbor.row(job)
        harbor.place.clock.advance(LEASE)
        with pytest.raises(LeaseExpired):
            await call(harbor, job, None)
        assert await harbor.row(job) == before

    run(main)


@every_call
def test_expired_is_said_before_mismatch_and_not_inflight_before_both(harbor: Harbor, call: Any) -> None:
    """TH-109: the order of the errors is fixed."""

    async def main() -> None:
        job = await harbor.inflight()
        harbor.place.clock.advance(LEASE)
        with pytest.raises(LeaseExpired):
            await call(harbor, job, "another token")
        other = await harbor.reserve()
        assert other is not None
        await harbor.retry(other)
        harbor.place.clock.advance(LEASE)
        with pytest.raises(JobNotInflight):
            await call(harbor, job, "another token")

    run(main)


def test_ack_and_fail_may_be_said_twice(harbor: Harbor) -> None:
    """TH-052: a repeated call with the same token answers success and changes nothing."""

    async def main() -> None:
        acked, failed = await harbor.inflight(), await harbor.inflight()
        await harbor.ack(acked)
        await harbor.fail(failed)
        before = [await harbor.row(acked), await harbor.row(failed)]
        assert (await harbor.ack(acked), await harbor.fail(failed, reason="later")) == ("repeated", "repeated")
        assert [await harbor.row(acked), await harbor.row(failed)] == before

    run(main)


def test_times_are_compared_to_the_microsecond(harbor: Harbor) -> None:
    """TH-113, TH-114: only the `now` that is passed decides, and every store agrees to the last digit."""

    async def main() -> None:
        job_id = await harbor.enqueue(harbor.now + 1)
        assert await reserve(harbor.driver, "harbor", now=harbor.now, lease_for=1) is None
        job = await reserve(harbor.driver, "harbor", now=harbor.now + 1, lease_for=1)
        assert job is not None
        assert (job.id, job.lease_expires_at) == (job_id, harbor.now + 2)
        with pytest.raises(LeaseExpired):
            await ack(harbor.driver, job.id, job.token, now=harbor.now + 2)
        assert await ack(harbor.driver, job.id, job.token, now=harbor.now + 1) == "applied"

    run(main)


def test_a_closed_driver_refuses_everything(place: Place) -> None:
    """TH-104: every later operation is an error; closing twice is fine."""

    async def main() -> None:
        harbor = Harbor(place)
        job = await harbor.inflight()
        await harbor.driver.close()
        await harbor.driver.close()
        for call in (
            harbor.enqueue(),
            harbor.reserve(),
            harbor.extend(job),
            harbor.ack(job),
            harbor.retry(job),
            harbor.fail(job),
        ):
            with pytest.raises(DriverClosed):
                await call

    run(main)
