"""Tests of jobs, with the pytest plugin of Windlass. There is no conftest.py; pytest.ini names the app."""

from datetime import UTC, datetime
from typing import Any

import pytest
from billing import bank, charge, letters, newsletter, order, receipt, reminder

from windlass.errors import OutcomeUnknown, StoreUnreachable
from windlass.testing import Testing


@pytest.fixture(autouse=True)
def _new_day() -> None:
    bank.charged.clear()
    letters.clear()
    bank.requests = 0


# ---------------------------------------------------------------------------------------------------- what is enqueued


async def test_an_order_is_charged_now_and_asked_about_later(windlass: Testing) -> None:
    await order(7, 1_200)
    windlass.assert_enqueued(charge, 7, cents=1_200, using={"queue": "billing"})
    windlass.assert_enqueued(reminder, 7, using={"delay": "14d"})
    await windlass.drain()
    assert (bank.charged, letters) == ({"invoice-7": 1_200}, ["receipt for 7"])
    windlass.advance("14d")
    await windlass.drain()
    assert "how was 7?" in letters


@pytest.mark.windlass(now=datetime(2030, 6, 2, 12, tzinfo=UTC))  # a Sunday
def test_the_newsletter_comes_every_monday(windlass: Testing) -> None:
    windlass.run_for_sync("15d")
    assert letters == ["newsletter"] * 3


# ------------------------------------------------------------------------------------------------- is it idempotent?


def test_a_charge_that_runs_twice_charges_once(windlass: Testing) -> None:
    charge.enqueue_sync(7, 1_200)
    windlass.drain_sync(twice=True)
    assert (bank.requests, bank.charged) == (2, {"invoice-7": 1_200})
    assert len(windlass.enqueued(receipt)) == 1


@pytest.mark.parametrize("point", ["before_handler", "before_enqueue", "after_enqueue", "after_handler", "after_settle"])
@pytest.mark.windlass(store="sqlite")
def test_whenever_its_worker_dies_one_invoice_is_one_charge_and_one_receipt(windlass: Testing, point: Any) -> None:
    charge.enqueue_sync(7, 1_200)
    windlass.faults.crash(point, task=charge)
    windlass.drain_sync()
    assert bank.charged == {"invoice-7": 1_200}
    assert letters == ["receipt for 7"]


def test_a_worker_that_dies_while_the_bank_is_asked(windlass: Testing, monkeypatch: pytest.MonkeyPatch) -> None:
    charge.using(max_lost=2).enqueue_sync(7, 1_200)
    monkeypatch.setattr(bank, "charge", windlass.faults.die)
    windlass.drain_sync()
    assert [job.state for job in windlass.jobs()] == ["dead"], "what kills its workers is not tried for ever"


def test_a_newsletter_is_never_sent_twice(windlass: Testing) -> None:
    newsletter.enqueue_sync()
    windlass.faults.crash("after_handler", task=newsletter)
    windlass.drain_sync()
    assert letters == ["newsletter"]
    assert [job.state for job in windlass.jobs()] == ["dead"]


def test_a_charge_that_took_too_long_is_made_again_by_another(windlass: Testing) -> None:
    charge.enqueue_sync(7, 1_200)
    windlass.faults.lose_lease(task=charge)
    assert windlass.drain_sync().settled_late == 1
    assert (bank.requests, letters) == (2, ["receipt for 7"])


# ---------------------------------------------------------------------------------------------- when the store is away


async def test_an_order_without_a_store_is_refused(windlass: Testing) -> None:
    with windlass.faults.store_away(), pytest.raises(StoreUnreachable):
        await order(7, 1_200)
    windlass.assert_not_enqueued(charge)


async def test_an_order_is_repeated_after_a_lost_reply(windlass: Testing) -> None:
    windlass.faults.lose_reply("enqueue")
    with pytest.raises(OutcomeUnknown):
        await order(7, 1_200)
    await order(7, 1_200)
    assert len(windlass.enqueued(charge)) == 1


def test_a_receipt_that_cannot_be_enqueued_is_tried_again(windlass: Testing) -> None:
    charge.enqueue_sync(7, 1_200)
    windlass.faults.refuse("enqueue")
    assert windlass.drain_sync().retried == 1
    windlass.advance("1m")
    windlass.drain_sync()
    assert letters == ["receipt for 7"]
