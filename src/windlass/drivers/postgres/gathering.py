"""Small enqueues of one event loop that come while others are on their way go together: one statement and one commit for
all of them. What each caller is told is its own: should one be the reason why all were refused, each is tried alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from windlass.clock import ticking
from windlass.drivers.values import Enqueued
from windlass.errors import OutcomeUnknown, StoreUnreachable, WindlassError
from windlass.types import Micros, NewJob

ABREAST: Final = 2  # on their way at once
SMALL: Final = 20  # jobs in a call that joins others
MOST: Final = 500  # calls that go together
WAIT_A_MOMENT: Final = 0.002
PATIENCE: Final = 0.05  # seconds for which one waits to go with others


class Seat:
    """A call that waits to go with others."""

    def __init__(self, new: Sequence[NewJob], now: Micros, until: float) -> None:
        self.new, self.now, self.until = new, now, until
        self.told: asyncio.Future[list[Enqueued] | WindlassError | None] = asyncio.get_running_loop().create_future()

    def tell(self, answer: list[Enqueued] | WindlassError | None) -> None:
        """None: nothing was stored, go alone."""
        if not self.told.done():
            self.told.set_result(answer)


class Alone(Protocol):
    def __call__(self, looking: bool, timeout: float) -> Awaitable[list[Enqueued]]:
        """`looking`: an earlier try may have stored it."""
        ...


Together = Callable[[Sequence[Seat], float], Awaitable[bool]]


class Gathering:
    """`together` stores the jobs of several calls, all or nothing, and answers whether it could."""

    def __init__(self, together: Together, timeout: float) -> None:
        self._together = together
        self._timeout = timeout
        self._lock = threading.Lock()
        self._rooms: dict[asyncio.AbstractEventLoop, Room] = {}

    async def enqueue(self, new: Sequence[NewJob], now: Micros, alone: Alone) -> list[Enqueued]:
        if len(new) > SMALL:
            return await alone(False, self._timeout)
        return await self._room().enqueue(new, now, alone)

    def _room(self) -> Room:
        loop = asyncio.get_running_loop()
        room = self._rooms.get(loop)
        if room is None:
            with self._lock:
                self._rooms = {other: room for other, room in self._rooms.items() if not other.is_closed()}
                room = self._rooms[loop] = Room(self._together, self._timeout)
        return room

    async def all_landed(self) -> None:
        """What was asked for. Not for ever: an event loop that it belongs to may have stopped."""
        until = ticking() + self._timeout
        while self._is_used() and ticking() < until:  # noqa: ASYNC110 - that event loop may be another one
            await asyncio.sleep(WAIT_A_MOMENT)

    def _is_used(self) -> bool:
        return any(room.is_used and not loop.is_closed() for loop, room in self._rooms.items())


class Room:
    """Those of one event loop."""

    def __init__(self, together: Together, timeout: float) -> None:
        self._together = together
        self._timeout = timeout
        self._under_way = 0
        self._seats: list[Seat] = []
        self._carriers: set[asyncio.Task[None]] = set()

    @property
    def is_used(self) -> bool:
        return bool(self._under_way or self._seats)

    async def enqueue(self, new: Sequence[NewJob], now: Micros, alone: Alone) -> list[Enqueued]:
        if self._under_way >= ABREAST:
            return await self._with_others(Seat(new, now, ticking() + self._timeout), alone)
        self._under_way += 1
        try:
            return await alone(False, self._timeout)
        finally:
            self._landed()

    async def _with_others(self, seat: Seat, alone: Alone) -> list[Enqueued]:
        self._seats.append(seat)
        waits = asyncio.get_running_loop().call_later(PATIENCE, self._leave, seat)
        try:
            told = await seat.told
        except asyncio.CancelledError:
            self._leave(seat)
            raise
        finally:
            waits.cancel()
        left = seat.until - ticking()
        if told is None:
            return await alone(False, left)
        if not isinstance(told, WindlassError):
            return told
        if isinstance(told, OutcomeUnknown) and left > 0:
            return await alone(True, left)
        raise told

    def _leave(self, seat: Seat) -> None:
        if seat in self._seats:
            self._seats.remove(seat)
            seat.tell(None)

    def _landed(self) -> None:
        self._under_way -= 1
        if self._seats and self._under_way < ABREAST:
            seats, self._seats = self._seats[:MOST], self._seats[MOST:]
            self._under_way += 1
            carrier = asyncio.get_running_loop().create_task(self._carry(seats))
            self._carriers.add(carrier)
            carrier.add_done_callback(lambda done: self._carried(done, seats))

    def _carried(self, carrier: asyncio.Task[None], seats: Sequence[Seat]) -> None:
        """Also where it was cancelled before it could begin."""
        self._carriers.discard(carrier)
        for seat in seats:  # those who were not told: it was cancelled, and what was sent may be stored
            seat.tell(OutcomeUnknown("the store"))
        self._landed()

    async def _carry(self, seats: Sequence[Seat]) -> None:
        try:
            stored = await self._together(seats, min(seat.until for seat in seats) - ticking())
        except (OutcomeUnknown, StoreUnreachable) as error:
            for seat in seats:
                seat.tell(error)
        except WindlassError:  # it may be of one of them alone
            for seat in seats:
                seat.tell(None)
        else:
            for seat in seats:
                seat.tell([Enqueued(job.id) for job in seat.new] if stored else None)
