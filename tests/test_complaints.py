"""What is said of a store that fails again and again."""

from __future__ import annotations

import logging

import pytest

from windlass.clock import ManualClock
from windlass.complaints import AGAIN, MOST, Complaints
from windlass.errors import StoreBusy, StoreReplaced

log = logging.getLogger("windlass.worker")


def test_the_same_trouble_is_said_once_and_then_seldom(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    complaints = Complaints(clock.now)
    for _ in range(9):
        complaints.say(log, "nothing could be claimed", StoreBusy("j.db", 5))
    assert len(caplog.records) == 1
    complaints.say(log, "leases could not be renewed", StoreBusy("j.db", 5))
    assert len(caplog.records) == 2, "something else came of it"
    clock.advance(AGAIN)
    complaints.say(log, "nothing could be claimed", StoreBusy("j.db", 5))
    assert len(caplog.records) == 3


def test_a_file_that_was_deleted_is_told_of_once_whatever_fails_of_it_and_says_to_restart(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints = Complaints(ManualClock().now)
    for what in ("nothing could be claimed", "duty firing failed and is tried again"):
        complaints.say(log, what, StoreReplaced("j.db"))
    assert len(caplog.records) == 1
    assert "restart this worker" in caplog.text


def test_what_differs_each_time_is_not_remembered_for_ever() -> None:
    complaints = Complaints(ManualClock().now)
    for number in range(3 * MOST):
        complaints.say(log, "nothing could be claimed", StoreBusy("j.db", number))
    assert len(complaints._said) <= MOST
