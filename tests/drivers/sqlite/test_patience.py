"""Waiting for the lock that another process has."""

from __future__ import annotations

import threading
from pathlib import Path

import apsw
import pytest

from windlass.drivers.sqlite import library
from windlass.drivers.sqlite.library import ApswConnection, Patience


class Hours:
    """A clock that moves while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def ticking(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_it_is_looked_often_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = Hours()
    monkeypatch.setattr(library, "time", hours)
    monkeypatch.setattr(library, "ticking", hours.ticking)
    patience = Patience(0.01)
    for _ in range(2):  # each wait has its own time
        looks = 0
        while patience(looks):
            looks += 1
        assert looks >= 20
    assert max(hours.slept) <= library.BETWEEN_LOOKS, "who sleeps long finds the lock taken again"
    assert sum(hours.slept) == pytest.approx(0.02)
    patience.seconds = 0.0
    assert not patience(0)


def test_who_waits_gets_the_lock_that_is_left_for_a_moment(tmp_path: Path) -> None:
    """A busy worker has it nearly always. Nobody is told when it is free."""
    path = str(tmp_path / "jobs.db")
    holder, waiter = ApswConnection(path, 60_000), ApswConnection(path, 60_000)
    holder.execute("create table t (n)")
    over = threading.Event()

    def hold() -> None:
        while not over.is_set():
            holder.execute("begin immediate")
            over.wait(0.02)
            holder.execute("commit")
            threading.Event().wait(0.001)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        for n in range(5):
            waiter.execute("insert into t values (?)", (n,))
    finally:
        over.set()
        thread.join()
    holder.execute("begin immediate")
    waiter.wait_at_most(0)
    with pytest.raises(apsw.BusyError):
        waiter.execute("insert into t values (6)")
    holder.close()
    waiter.close()
