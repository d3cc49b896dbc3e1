"""What every part of the state machine in `model.py` has: both stores, the time, and what was seen before."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine

from windlass.clock import SECOND
from windlass.core.changes import Settlement
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.values import JobQuery
from windlass.errors import WindlassError
from windlass.testing.comparison import shown
from windlass.types import Claimed, Job, Positions, Run

Pair = tuple[Claimed, Claimed]  # the same lease as memory and as the driver under test gave it
Change = tuple[Settlement, Settlement]


class Machine(RuleBasedStateMachine):
    def newest(self) -> int:
        raise NotImplementedError

    def make_driver(self) -> Driver:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.spec = MemoryDriver()
        self.driver = self.make_driver()
        self.now = 1_000_000 * SECOND
        self.names = 0
        self.positions: dict[str, Positions] = {}
        self.held: list[Pair] = []  # what both drivers leased, valid or not
        self.sent: list[Change] = []  # settlements that were sent once, for sending again
        self.replayed: set[str] = set()
        self.before: dict[str, Job] = {}
        self.ended: dict[str, Run] = {}
        self.acked: Counter[str] = Counter()

    def teardown(self) -> None:
        self.loop.run_until_complete(self.driver.close())
        self.loop.run_until_complete(self.spec.close())
        self.loop.close()

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def both(self, method: str, *args: Any, theirs: tuple[Any, ...] | None = None, **kwargs: Any) -> tuple[Any, Any]:
        """Ask both drivers the same; they must answer, or refuse, alike."""
        self.spec._tables.last_seq = max(self.spec._tables.last_seq, self.newest())
        told = self._ask(self.spec, method, *args, **kwargs)
        answer = self._ask(self.driver, method, *(args if theirs is None else theirs), **kwargs)
        assert shown(answer) == shown(told), f"{method}: the driver says {answer}, memory says {told}"
        return told, answer

    def _ask(self, driver: Driver, method: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.loop.run_until_complete(getattr(driver, method)(*args, **kwargs))
        except WindlassError as error:
            return (type(error).__name__, getattr(error, "job_id", None))

    def _jobs(self, driver: Driver) -> tuple[Job, ...]:
        page = self._ask(driver, "find", JobQuery(superseded=True, limit=10_000))
        jobs: tuple[Job, ...] = page.jobs
        return jobs
