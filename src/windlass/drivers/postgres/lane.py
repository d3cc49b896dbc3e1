"""Connections, and calls that wait for them. One lane for each kind of work, so that a slow one never keeps another
waiting; above all heartbeats have their own.

A lane has threads, which open its connections and do whatever takes long or goes wrong. While a connection is free nobody
need wake a thread: a blocking caller uses it in its own, and a short operation flies on the event loop that asked for it
(`flight.py`).

A call ends in time whatever happens: one that is under way is aborted at its deadline, one that still waits is refused when
its turn comes too late. A connection that breaks is opened again, and the call repeated where that is safe: at once when
nothing can have been stored, else by first looking what was.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from random import Random
from typing import Any, Final

from windlass.clock import ticking
from windlass.drivers.postgres.calls import Call, Parting, Quick, Work
from windlass.drivers.postgres.deadlines import Watch
from windlass.drivers.postgres.faults import Overdue, Taken, is_conflict, translate, verdict
from windlass.drivers.postgres.flight import Flight
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.place import Place
from windlass.drivers.statement import Op, T
from windlass.errors import DriverClosed, InvalidInput, OutcomeUnknown

log: Final = logging.getLogger("windlass.postgres")
FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 1.0
LAST_WORDS: Final = 0.5  # seconds for which the answer to them is waited for
LATE: Final = 0.25  # seconds after its deadline at which a call ends that could not be aborted


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
        self._links = 0
        self._free: list[Link] = []  # the one that was used last is the last
        self._flights: set[Flight] = set()
        self._closed = False
        watch.add(self)

    # ---------------------------------------------------------------------------------------------------------- asking

    async def submit(
        self, work: Work[T], again: Work[T] | None = None, timeout: float | None = None, *, quick: Quick[T] | None = None,
        parting: Parting[T] | None = None,
    ) -> T:  # fmt: skip
        """`quick`: how it is done at its best, every statement committing by itself. It answers None when it takes more,
        and has changed nothing then."""
        call = self._call(work, again, timeout, parting)
        if quick is not None and (link := self._borrowed()) is not None:
            answer = await self._fly(call, link, quick())
            if answer is not None:
                return answer
        try:
            waited_for = self._put(call)
        except DriverClosed:
            if call.unknown:  # what flew may have been stored
                raise OutcomeUnknown(str(self._place)) from None
            raise
        return await asyncio.wrap_future(waited_for)

    def submit_sync(
        self,
        work: Work[T],
        again: Work[T] | None = None,
        timeout: float | None = None,
        *,
        parting: Parting[T] | None = None,
    ) -> T:
        call = self._call(work, again, timeout, parting)
        link = self._borrowed()
        if link is None:
            return self._put(call).result()
        try:
            self._try_once(call, link)
            self._part(call, link)
        finally:
            self._give_back(link)
        return call.future.result() if call.future.done() else self._put(call).result()

    def _try_once(self, call: Call[Any], link: Link) -> None:
        """In the caller's own thread; what needs another try, or a new connection, is left to ours."""
        self._watch.begin(link, call.until)
        try:
            link.hear()
            if link.is_open:  # it may have broken behind what was said last
                call.future.set_result(call.work(link))
        except Exception as error:
            told = self._judge(call, link, error)
            if told is not None:
                told.__cause__ = error if told is not error else error.__cause__
                call.refuse(told)
        finally:
            self._watch.end(link)
            if link.was_cut:
                link.close()

    def post(self, work: Work[T], timeout: float | None = None) -> Future[T]:
        """Without waiting for it."""
        return self._put(self._call(work, None, timeout, None))

    def _call(
        self, work: Work[T], again: Work[T] | None, timeout: float | None, parting: Parting[T] | None
    ) -> Call[T]:  # fmt: skip
        return Call(work, again, self._place.timeout if timeout is None else timeout, parting)

    def _put(self, call: Call[T]) -> Future[T]:
        with self._changed:
            if self._closed:
                raise DriverClosed
            self._calls.append(call)
            try:
                self._wake()
            except RuntimeError:
                self._calls.remove(call)  # nobody will ever do it, and whoever asked is told
                raise
        return call.future

    def _wake(self) -> None:
        """A thread for each call that waits: one that was just told still counts as idle. A thread may be idle although
        calls wait, while all connections are lent: whoever gives one back tells it. Where no thread can be started, those
        that there are do it in turn; `RuntimeError` when there are none."""
        self._changed.notify()
        if self._idle < len(self._calls) and len(self._threads) < self._size:
            name = f"windlass-{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                if not self._threads:
                    raise
            else:
                self._threads.append(thread)

    # ------------------------------------------------------------------------------------------------------- connections

    def _borrowed(self) -> Link | None:
        """A connection that is open and free, unless others wait for one. Opening is for threads of ours: it may take its
        time in ways that nobody can end."""
        with self._changed:
            if self._closed:
                raise DriverClosed
            if self._calls or not self._free or not self._free[-1].is_open:
                return None
            return self._free.pop()

    def _give_back(self, link: Link) -> None:
        with self._changed:
            self._free.append(link)
            if self._calls:
                self._wake()
            elif self._closed:
                self._changed.notify_all()

    def _take(self) -> tuple[Call[Any], Link] | None:
        with self._changed:
            while not self._calls or not self._has_link():
                if self._closed and not self._calls:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            call = self._calls.popleft()
            if self._free:
                return call, self._free.pop()
            self._links += 1
            return call, Link(self._place, switches=self._switches, opened=self._opened)

    def _has_link(self) -> bool:
        return bool(self._free) or self._links < self._size or self._took_back()

    def _took_back(self) -> bool:
        """What is in flight on an event loop that does not run will not come back by itself. If the loop was closed, its
        connection is ours again. One that was stopped may go on at any moment: its connection stays with it, cut when its
        time was over, and makes room for another."""
        now = ticking()
        lost = [flight for flight in self._flights if flight.loop.is_closed() or flight.is_overdue(now - LATE)]
        for flight in lost:
            self._flights.remove(flight)
            self._watch.end(flight.link)
            if flight.loop.is_closed():
                flight.link.close()
                self._free.append(flight.link)
            else:
                flight.is_given_up = True
                self._links -= 1
        return bool(lost)

    # --------------------------------------------------------------------------------------------------------- in flight

    def _fly(self, call: Call[T], link: Link, op: Op[T | None]) -> asyncio.Future[T | None]:
        """None when a thread has to do it."""
        answered: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

        def ended(answer: T | None, error: Exception | None) -> None:
            self._watch.end(link)
            link.storing = link.storing and not link.is_open
            told = None if error is None else self._judge(call, link, error)
            if not answered.done():
                answered.set_result(answer) if told is None else answered.set_exception(told)
            if answer is not None:
                self._say(call, answer, link)
            self._land(flight)

        flight = Flight(link, call.until)
        with self._changed:
            self._flights.add(flight)
        self._watch.begin(link, call.until)
        link.storing = True
        flight.carry(op, ended)
        return answered

    def _land(self, flight: Flight) -> None:
        with self._changed:
            is_ours = flight in self._flights
            self._flights.discard(flight)
        if not is_ours:  # it was taken back, or given up, meanwhile
            if flight.is_given_up:
                flight.link.close()
            return
        if flight.link.was_cut:  # at the last moment: the next call needs another connection
            flight.link.close()
        self._give_back(flight.link)

    # --------------------------------------------------------------------------------------------------------- in threads

    def _serve(self) -> None:
        while (taken := self._take()) is not None:
            call, link = taken
            if call.future.set_running_or_notify_cancel():
                self._serve_one(call, link)
                self._part(call, link)
            self._give_back(link)
            del call, link, taken  # what they hold should not live until the next one comes

    def _serve_one(self, call: Call[Any], link: Link) -> None:
        call.link = link
        with self._changed:
            self._running.add(call)
        try:
            self._answer(call, link)
        finally:
            with self._changed:
                self._running.discard(call)

    def _part(self, call: Call[Any], link: Link) -> None:
        """In a thread; not where the caller was interrupted, so that there will be no answer."""
        if call.future.done() and call.future.exception() is None:
            self._say(call, call.future.result(), link)

    def _say(self, call: Call[T], answer: T, link: Link) -> None:
        """The call's parting words. Nobody waits for them, and a mistake of ours in them costs nobody anything."""
        if call.parting is None or not link.is_open:
            return
        try:
            statement = call.parting(answer)
        except Exception:
            log.exception("nothing is said after a call")
            return
        if statement is not None:
            try:
                link.speak(statement)
            except Exception as error:
                log.debug("what was to be said after a call was lost: %s", error)
                link.close()

    def refuse_overdue(self, now: float) -> None:
        """What no abort has ended (the name of a host is looked up, say), and what waits behind it."""
        with self._changed:
            if self._took_back() and self._calls:
                self._wake()
            late = [call for call in (*self._running, *self._calls) if call.until + LATE <= now]
            for call in late:
                if call in self._calls:
                    self._calls.remove(call)
        for call in late:
            storing = call.unknown or (call.link is not None and call.link.storing)
            call.refuse(translate(Overdue(), self._place, storing=storing))

    def _answer(self, call: Call[Any], link: Link) -> None:
        try:
            result = self._try(call, link)
        except BaseException as error:
            call.refuse(error)
        else:
            with suppress(InvalidStateError):  # nobody waits any more
                call.future.set_result(result)

    def _try(self, call: Call[Any], link: Link) -> Any:
        pause = FIRST_PAUSE
        while True:
            if ticking() >= call.until:
                raise translate(Overdue(), self._place, storing=call.unknown)
            self._watch.begin(link, call.until)
            try:
                return (call.again if call.unknown and call.again is not None else call.work)(link)
            except Exception as error:
                told = self._judge(call, link, error)
                if told is None and ticking() + pause >= call.until:
                    told = translate(error, self._place, storing=call.unknown)
                if told is not None:
                    raise told from error
                if isinstance(error, Taken):  # a number that a hand has used: the next one is another, now as well as later
                    continue
            finally:
                self._watch.end(link)
                if link.was_cut:  # perhaps it was answered at the last moment; the next call needs another connection
                    link.close()
            threading.Event().wait(pause * (0.5 + self._random.random() / 2))
            pause = min(pause * 2, LONGEST_PAUSE)

    def _judge(self, call: Call[Any], link: Link, error: Exception) -> BaseException | None:
        """What to tell whoever asked; None when another try may help."""
        if isinstance(error, OverflowError | UnicodeError):
            return InvalidInput("value", f"cannot be stored: {error}")
        said = verdict(error, storing=link.storing)
        call.unknown = call.unknown or said == "indeterminate"
        if said != "final" and not is_conflict(error):
            link.close()
        if said == "final" or (call.unknown and call.again is None):
            return translate(error, self._place, storing=call.unknown)
        return None

    def close(self) -> None:
        """What was asked before is answered; blocks until then."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        until = ticking() + self._place.timeout + LATE
        with self._changed:
            while not self._has_all() and (left := until - ticking()) > 0:
                self._changed.wait(min(left, LATE))
        for link in self._free:
            with self._watch.within(link, LAST_WORDS):  # a pooler dislikes who leaves in the middle of an answer
                link.hear()
            link.give_up()

    def _has_all(self) -> bool:
        self._took_back()
        return len(self._free) == self._links
