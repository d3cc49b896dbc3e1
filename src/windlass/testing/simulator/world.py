"""The world: one seed, one thread, virtual time, and processes that take turns in an order nobody promised them.

Everything that could differ between two runs comes from the seed: who runs next, how long a call takes, tokens, ids and
jitter. Time jumps to the next timer when nobody has anything to do, so an hour of waiting costs nothing.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, Literal

from windlass.clock import SECOND
from windlass.testing.simulator.history import History
from windlass.testing.simulator.loop import SimLoop
from windlass.types import Micros

DAWN: Final[Micros] = 1_900_000_000 * SECOND
RESTLESS: Final = 20_000  # turns at one instant that no honest program needs
ENDLESS: Final = 1_000_000  # turns in all: fifty times what the busiest fleets of a campaign take
Life = Literal["live", "stopped", "dead", "ended"]
Main = Callable[["Process"], Coroutine[Any, Any, None]]


class SimClock:
    """A process's wall clock: the world's time as this machine sees it, held back so that it never runs backwards."""

    def __init__(self, world: World, skew: Micros) -> None:
        self._world = world
        self.skew = skew
        self._last = 0

    def now(self) -> Micros:
        self._last = max(self._last, self._world.now + self.skew)
        return self._last


class Process:
    """A simulated process: a loop, a clock, a source of randomness, and a life that may end at any instant."""

    def __init__(self, world: World, name: str, *, skew: Micros = 0) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{world.seed}/{name}")
        uptime = self.random.randrange(1_000 * SECOND)
        self.loop = SimLoop(lambda: world.now - DAWN + uptime)  # type: ignore[abstract]
        self.uptime = uptime
        self.clock = SimClock(world, skew)
        self.life: Life = "live"
        self.signalled_at: Micros | None = None
        self.ended_at: Micros = 0
        self.excused_until: Micros = 0  # the end of the last thing that went wrong for it
        self.overflow: Callable[[], str] = lambda: ""  # says which of its buffers is fuller than it may be
        self.leads: Callable[[], bool] = lambda: False  # whether it believes so
        self.buried = False  # somebody noticed that it is dead
        self.stopped_at: Micros | None = None
        self.longest_stop: Micros = 0
        self.main: asyncio.Task[None] | None = None

    def start(self, main: Main) -> None:
        self.main = self.loop.create_task(main(self))

    def next_timer(self) -> Micros | None:
        """In the world's time."""
        timer = self.loop.next_timer()
        return None if timer is None else timer + DAWN - self.uptime

    def kill(self) -> None:
        """`kill -9`: from here on not one instruction is executed."""
        if self.life in ("live", "stopped"):
            self._become("dead", "killed")

    async def die(self) -> None:
        """`kill -9`, seen from inside: the caller never comes back."""
        self.kill()
        await self.loop.create_future()

    def stop(self) -> None:
        if self.life == "live":
            self.stopped_at = self.world.now
            self._become("stopped", "stopped")

    def carry_on(self) -> None:
        if self.life == "stopped" and self.stopped_at is not None:
            self.longest_stop = max(self.longest_stop, self.world.now - self.stopped_at)
            self.excuse()
            self._become("live", "continued")

    def excuse(self, lasts: Micros = 0) -> None:
        self.excused_until = max(self.excused_until, self.world.now + lasts)

    def end(self) -> None:
        self.ended_at = self.world.now
        self._become("ended", "exited")

    def _become(self, life: Life, word: str) -> None:
        self.life = life
        self.loop.halted = life != "live"
        self.world.history.add(self.name, word)
        self.world.live = [process for process in self.world.processes if process.life == "live"]

    def signal(self, number: int) -> None:
        if self.life == "live":
            self.signalled_at = self.world.now
            self.world.history.add(self.name, "signal", number)
            self.world.history.told_to_stop.add(self.name)
            if not self.loop.signal(number):
                self.kill()


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(f"{seed}/world")
        self.now: Micros = DAWN
        self.history = History(lambda: self.now - DAWN)
        self.processes: list[Process] = []
        self.live: list[Process] = []
        self._by_name: dict[str, Process] = {}
        self.clocks_moved = False
        self.on_exit: Callable[[Process], None] = lambda process: None
        self._agenda: list[tuple[Micros, int, Callable[[], None]]] = []
        self._planned = 0
        self._turns_here = 0  # at this instant
        self.steps = 0

    def spawn(self, name: str, main: Main, *, skew: Micros = 0) -> Process:
        process = Process(self, name, skew=skew)
        self.processes.append(process)
        self.live.append(process)
        self._by_name[name] = process
        self.history.add(name, "started")
        process.start(main)
        return process

    def process(self, name: str) -> Process:
        return self._by_name[name]

    def believers(self) -> list[str]:
        """Who acts as the leader, of those that could know better: not frozen in between, and with sane clocks around."""
        if self.clocks_moved:
            return []
        return [process.name for process in self.live if process.longest_stop == 0 and process.leads()]

    def at(self, when: Micros, action: Callable[[], None]) -> None:
        """Do this at that instant, to the world rather than inside a process."""
        self._planned += 1
        heapq.heappush(self._agenda, (when, self._planned, action))

    def step_clock(self, process: Process, by: Micros) -> None:
        process.clock.skew += by
        self.clocks_moved = True
        self.history.add(process.name, "clock stepped", by)

    def run(self, *, until: Callable[[], bool], deadline: Micros) -> bool:
        """Let time pass until something holds, or is broken, or the deadline has come. True = it holds."""
        while self.history.violation is None:
            if until():
                return True
            if not self._step(deadline):
                return False
        return False

    def _step(self, deadline: Micros) -> bool:
        able = [process for process in self.live if process.loop.ready]
        if not able:
            return self._jump(deadline)
        process = able[0] if len(able) == 1 else able[int(self.random.random() * len(able))]
        self.steps += 1
        self._turns_here += 1
        if self._turns_here > RESTLESS:
            self.history.break_rule("time passes", f"after {RESTLESS} turns somebody is still busy", who=process.name)
        if self.steps > ENDLESS:  # time passes by the microsecond: a campaign would wait for this seed, and tell of none
            self.history.break_rule("a fleet comes to rest", f"{ENDLESS} turns, and it is still busy", who=process.name)
        process.loop.turn()
        if process.loop.errors:
            self.history.break_rule("no callback raises", "; ".join(process.loop.errors), who=process.name)
        if process.main is not None and process.main.done() and process.life == "live":
            self._exited(process, process.main)
        return True

    def _jump(self, deadline: Micros) -> bool:
        """Nobody has anything to do: go to the next instant at which somebody has."""
        timers = [timer for process in self.live if (timer := process.next_timer()) is not None]
        if self._agenda:
            timers.append(self._agenda[0][0])
        if not timers or min(timers) > deadline:
            return False
        self.now = max(self.now, min(timers))
        self._turns_here = 0
        while self._agenda and self._agenda[0][0] <= self.now:
            heapq.heappop(self._agenda)[2]()
        for process in self.live:
            process.loop.wake()
        return True

    def _exited(self, process: Process, main: asyncio.Task[None]) -> None:
        error = main.exception() if not main.cancelled() else asyncio.CancelledError()
        if error is not None:
            self.history.break_rule("a process ends only when it is told to", repr(error), who=process.name, cause=error)
        process.end()
        self.on_exit(process)

    def close(self) -> None:
        for process in self.processes:
            process.loop.end()
