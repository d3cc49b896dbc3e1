"""Threads that hold connections, and calls that wait for them. One lane for each kind of work, so that a slow one never
keeps another waiting: above all heartbeats have their own.

A call ends in time whatever happens: one that is under way is aborted at its deadline, one that still waits is refused when
its turn comes too late. A connection that breaks is opened again, and the call repeated where that is safe: at once when
nothing can have been stored, else by first looking what was.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from random import Random
from typing import Any, Final, Generic

from windlass.clock import ticking
from windlass.drivers.postgres.faults import Overdue, is_conflict, translate, verdict
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.place import Place
from windlass.drivers.statement import T
from windlass.errors import DriverClosed, InvalidInput

log: Final = logging.getLogger("windlass.postgres")
FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 1.0
LOOK_EVERY: Final = 0.05
LATE: Final = 0.25  # seconds after its deadline at which a call ends that could not be aborted

Work = Callable[[Link], T]


class Call(Generic[T]):
    """`again` is what to do when nobody knows whether `work` took effect; None = say so."""

    def __init__(self, work: Work[T], again: Work[T] | None, timeout: float) -> None:
        self.work, self.again = work, again
        self.until = ticking() + timeout
        self.unknown = False  # a try broke off at a moment at which it may have taken effect
        self.link: Link | None = None  # once it is its turn
        self.future: Future[T] = Future()

    def refuse(self, error: BaseException) -> None:
        with suppress(InvalidStateError):  # it was answered at this very moment, or nobody waits any more
            self.future.set_exception(error)


class Watch:
    """Aborts calls whose time is over. One thread for all lanes of a driver, asleep while nothing is under way."""

    def __init__(self) -> None:
        self._until: dict[Link, float] = {}
        self._lanes: list[Lane] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def begin(self, link: Link, until: float) -> None:
        with self._changed:
            self._until[link] = until
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="windlass-deadlines", daemon=True)
                self._thread.start()
            elif len(self._until) == 1:
                self._changed.notify()

    def end(self, link: Link) -> None:
        """From here on its deadline touches nobody: what was to be aborted for it is aborted by now."""
        with self._changed:
            self._until.pop(link, None)

    @contextmanager
    def within(self, link: Link, seconds: float) -> Iterator[None]:
        self.begin(link, ticking() + seconds)
        try:
            yield
        finally:
            self.end(link)

    def add(self, lane: Lane) -> None:
        self._lanes.append(lane)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                self._changed.wait(LOOK_EVERY if self._until else None)
            try:
                self._look()
            except Exception:  # without it nothing would ever end again that hangs
                log.exception("looking for calls whose time is over has failed; going on")
                threading.Event().wait(LOOK_EVERY)

    def _look(self) -> None:
        now = ticking()
        with self._changed:  # a call that has ended meanwhile must not be cut: its connection may serve the next one
            for link, until in list(self._until.items()):
                if until <= now:
                    link.abort()
        for lane in self._lanes:
            lane.refuse_overdue(now)


class Lane:
    def __init__(
        self, name: str, place: Place, watch: Watch, *, size: int = 1, switches: bool = False,
        opened: Callable[[Link], None] | None = None,
    ) -> None:  # fmt: skip
        self._name = name
        self._place = place
        self._watch = watch
        self._size = size
        self._switches = switches
        self._opened = opened
        self._random = Random()  # noqa: S311 - spreads reconnections, nothing more
        self._calls: deque[Call[Any]] = deque()
        self._running: set[Call[Any]] = set()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False
        watch.add(self)

    # ---------------------------------------------------------------------------------------------------------- asking

    async def submit(self, work: Work[T], again: Work[T] | None = None, timeout: float | None = None) -> T:
        return await asyncio.wrap_future(self._put(work, again, timeout))

    def submit_sync(self, work: Work[T], again: Work[T] | None = None, timeout: float | None = None) -> T:
        return self._put(work, again, timeout).result()

    def post(self, work: Work[T], timeout: float | None = None) -> Future[T]:
        """Without waiting for it."""
        return self._put(work, None, timeout)

    def _put(self, work: Work[T], again: Work[T] | None, timeout: float | None) -> Future[T]:
        call = Call(work, again, self._place.timeout if timeout is None else timeout)
        with self._changed:
            if self._closed:
                raise DriverClosed
            self._calls.append(call)
            if self._idle >= len(self._calls):  # an idle thread for each: one that was just told still counts as idle
                self._changed.notify()
            elif len(self._threads) < self._size:
                name = f"windlass-{self._name}-{len(self._threads)}"
                thread = threading.Thread(target=self._serve, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return call.future

    # --------------------------------------------------------------------------------------------------------- serving

    def _serve(self) -> None:
        link = Link(self._place, switches=self._switches, opened=self._opened)
        try:
            while (call := self._take()) is not None:
                if call.future.set_running_or_notify_cancel():
                    call.link = link
                    with self._changed:
                        self._running.add(call)
                    self._answer(call, link)
                    with self._changed:
                        self._running.discard(call)
                del call  # what it holds should not live until the next one comes
        finally:
            link.give_up()

    def refuse_overdue(self, now: float) -> None:
        """What no abort has ended (the name of a host is looked up, say), and what waits behind it."""
        with self._changed:
            late = [call for call in (*self._running, *self._calls) if call.until + LATE <= now]
            for call in late:
                if call in self._calls:
                    self._calls.remove(call)
        for call in late:
            storing = call.unknown or (call.link is not None and call.link.storing)
            call.refuse(translate(Overdue(), self._place, storing=storing))

    def _take(self) -> Call[Any] | None:
        with self._changed:
            while not self._calls:
                if self._closed:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            return self._calls.popleft()

    def _answer(self, call: Call[Any], link: Link) -> None:
        try:
            result = self._try(call, link)
        except BaseException as error:
            call.refuse(error)
        else:
            with suppress(InvalidStateError):  # nobody waits any more
                call.future.set_result(result)

    def _try(self, call: Call[Any], link: Link) -> Any:
        work, pause = call.work, FIRST_PAUSE
        while True:
            if ticking() >= call.until:
                raise translate(Overdue(), self._place, storing=call.unknown)
            self._watch.begin(link, call.until)
            try:
                return work(link)
            except (OverflowError, UnicodeError) as error:
                raise InvalidInput("value", f"cannot be stored: {error}") from error
            except Exception as error:
                said = verdict(error, storing=link.storing)
                call.unknown = call.unknown or said == "indeterminate"
                if said != "final" and not is_conflict(error):
                    link.close()
                if said == "final" or (call.unknown and call.again is None) or ticking() + pause >= call.until:
                    raise translate(error, self._place, storing=call.unknown) from error
                if call.unknown and call.again is not None:
                    work = call.again
            finally:
                self._watch.end(link)
                if link.was_cut:  # perhaps it was answered at the last moment; the next call needs another connection
                    link.close()
            threading.Event().wait(pause * (0.5 + self._random.random() / 2))
            pause = min(pause * 2, LONGEST_PAUSE)

    def close(self) -> None:
        """What was asked before is answered; blocks until then."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
