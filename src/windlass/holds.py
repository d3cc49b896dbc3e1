"""Holds: a program takes a queue for itself, and no job of it runs while the block lasts.

    async with app.hold("gpu", by="api-7", expires_in="5m"):
        ...                      # the jobs that were running have ended, and none begins

The hold is renewed every third of its time. If the holder dies, the next one can have the queue when that time is over."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Final

from windlass.client import Client
from windlass.clock import SECOND, duration
from windlass.core.alterations import Acquire, AlterAnswer, Alteration, Grant, ReleaseHold, Renew
from windlass.core.fields import check_name
from windlass.core.listing import TallyJobs, Wish
from windlass.core.queries import AllHolds, AllQueues
from windlass.errors import HoldLost, InvalidInput, OutOfScope, ResourceBusy, StoreError
from windlass.policies import Duration
from windlass.types import Micros
from windlass.words import did_you_mean

log = logging.getLogger("windlass.holds")
FIRST_LOOK: Final = 0.01
LONGEST_LOOK: Final = 0.25
AGAIN: Final = 0.2  # seconds after a renewal that the store did not answer


class QueueHold:
    """What `app.hold` returns, for `async with` or `with`.

    If the hold is lost, the body of an `async with` is cancelled and the block raises `HoldLost`. The body of a `with`
    cannot be interrupted: it should read `lost` or call `check()`, and `HoldLost` is raised at its end."""

    def __init__(self, client: Client, queue: str, by: str, expires_in: Duration, wait: Duration | None) -> None:
        check_name("queue", queue)
        check_name("by", by)
        self.queue: Final = queue
        self.by: Final = by
        self.expires_in: Final[Micros] = duration(expires_in, field="expires_in")
        if self.expires_in == 0:
            raise InvalidInput("expires_in", "must be more than zero")
        self._wait = None if wait is None else duration(wait, field="wait") / SECOND
        self._client = client
        self.id = ""
        self.lost = False
        self._until = 0.0  # by this loop's clock: from then on others may hold the queue
        self._body: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._failed: Exception | None = None  # what ended the renewals, where it was not the store's answer
        self._renewals: asyncio.Task[None] | None = None
        self._serving: Serving | None = None

    def check(self) -> None:
        """Raise `HoldLost` if the hold is lost."""
        if self.lost:
            raise HoldLost(self.queue, self.by)

    # -------------------------------------------------------------------------------------------------------- async with

    async def __aenter__(self) -> QueueHold:
        self._body = asyncio.current_task()
        self._cancelling = self._body.cancelling() if self._body is not None else 0
        await self.acquire()
        self._renewals = asyncio.get_running_loop().create_task(self._keep(), name=f"windlass-hold {self.queue}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        body, self._body = self._body, None
        if self._renewals is not None:
            self._renewals.cancel()
            await asyncio.wait([self._renewals])
        if not self.lost:
            await self.release()
            return
        if asyncio.get_running_loop().time() < self._until:  # renewed no more, but nobody else can have it yet
            with suppress(Exception):  # that it was lost is what is to be told
                await self.release()
        interrupted = kind is not None and issubclass(kind, asyncio.CancelledError)
        if body is not None:
            ours = body.uncancel() <= self._cancelling
            if interrupted and not ours:  # somebody else wants this task to end, too
                return
        if kind is None or interrupted:
            raise HoldLost(self.queue, self.by) from self._failed or error

    async def _keep(self) -> None:
        """Whatever ends the renewals ends the hold: the body, or who asks, hears of it while the queue is still theirs, or
        at once when it is not."""
        try:
            await self._renew_on()
        except Exception as error:
            self._failed = error
            log.exception("the hold on queue %s is renewed no more: that has failed", self.queue)
        except asyncio.CancelledError:
            if self._body is None or self._body.cancelling() > self._cancelling:  # it is over, or ends with all others
                raise
        self.lost = True
        log.warning("the hold of %s on queue %s was lost", self.by, self.queue)
        if self._body is not None:
            self._body.cancel(f"the hold on queue {self.queue!r} was lost")

    async def _renew_on(self) -> None:
        """Renew every third of the time, until that is refused, or not answered in time."""
        time = asyncio.get_running_loop().time
        pause = self.expires_in / SECOND / 3
        while True:
            await asyncio.sleep(max(min(pause, self._until - time()), 0))
            answer = await self._renew()
            if answer == "applied":
                pause = self.expires_in / SECOND / 3
            elif answer is not None or time() >= self._until:
                return
            else:
                pause = AGAIN

    async def _renew(self) -> AlterAnswer | None:
        """The answer to one renewal; None if the store gave none."""
        sent = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(self._until - sent, 0.001)):
                answer = await self._alter(Renew(self.id, self.expires_in))
        except (StoreError, TimeoutError) as error:
            log.warning("the hold on queue %s could not be renewed, trying again: %s", self.queue, error)
            return None
        if answer == "applied":
            self._until = sent + self.expires_in / SECOND
        return answer

    # ---------------------------------------------------------------------------------------------------------- its steps

    async def acquire(self) -> None:
        """Ask for the queue, then for the grant, until both are given. Raises `ResourceBusy` when the wait is over."""
        self._client.check_apart("held")
        self.id, self.lost = "", False
        await self._client.ready()
        await check_queue(self._client, self.queue)
        loop = asyncio.get_running_loop()
        deadline = None if self._wait is None else loop.time() + self._wait
        pause = FIRST_LOOK
        try:
            while not await self._attempt():
                if deadline is not None and loop.time() >= deadline:
                    raise await self._busy()
                left = pause if deadline is None else max(min(pause, deadline - loop.time()), 0)
                await asyncio.sleep(left)
                pause = min(pause * 1.5, LONGEST_LOOK)
        except BaseException:
            if self.id:
                await asyncio.shield(self.release())
            raise

    async def _attempt(self) -> bool:
        """One try. If an answer is lost, asking again for the same hold is harmless."""
        now = self._client.now()
        if not self.id:
            self.id = self._client.ids.job(now)
            answer = await self._alter(Acquire(self.id, self.queue, self.by, self.expires_in))
            if answer not in ("applied", "unchanged"):
                self.id = ""
                return False
        sent = asyncio.get_running_loop().time()
        answer = await self._alter(Grant(self.id, self.expires_in))
        if answer == "applied":
            self._until = sent + self.expires_in / SECOND
            return True
        if answer != "requested":  # we were away for longer than its time: it is over, and another may have the queue
            self.id = ""
        return False

    async def release(self) -> None:
        """Give the queue back. If the store does not answer, the hold ends when its time is over."""
        try:
            await self._alter(ReleaseHold(self.id))
        except StoreError as error:
            log.warning("the hold on queue %s could not be released, it ends by itself: %s", self.queue, error)

    async def _alter(self, change: Alteration) -> AlterAnswer:
        [answer] = await self._client.driver.alter([change], now=self._client.now())
        return answer

    async def _busy(self) -> ResourceBusy:
        active = [hold for hold in await self._client.driver.read(AllHolds()) if hold.status == "ACTIVE"]
        other = next((hold.by for hold in active if hold.queue == self.queue and hold.hold_id != self.id), None)
        return ResourceBusy(self.queue, f"{other} holds it" if other else "jobs of it are running")

    # -------------------------------------------------------------------------------------------------------------- with

    def __enter__(self) -> QueueHold:
        self._serving = Serving(self)
        self._serving.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        assert self._serving is not None, "entered"
        self._serving.end()
        if self.lost and kind is None:
            raise HoldLost(self.queue, self.by) from self._failed


class Serving:
    """A thread with an event loop of its own that renews the hold of a blocking body."""

    def __init__(self, hold: QueueHold) -> None:
        self._hold = hold
        self._granted: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"windlass-hold {hold.queue}", daemon=True)

    def begin(self) -> None:
        self._thread.start()
        try:
            self._granted.result()
        except BaseException:
            if self._loop is not None and self._task is not None:
                with suppress(RuntimeError):  # it has ended
                    self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join()
            raise

    def end(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            await self._hold.acquire()
        except BaseException as error:
            self._granted.set_exception(error)
            return
        self._granted.set_result(None)
        renewals = self._loop.create_task(self._hold._keep())
        over = self._loop.create_task(self._over.wait())
        await asyncio.wait([renewals, over], return_when=asyncio.FIRST_COMPLETED)
        renewals.cancel()
        await asyncio.wait([renewals])
        await over
        if not self._hold.lost:
            await self._hold.release()


async def check_queue(client: Client, queue: str) -> None:
    """Raise `InvalidInput` for a queue that nobody declared and that never had a job: it is a typing error, and holding
    or pausing it would stop nothing."""
    check_name("queue", queue)
    known = {row.name for row in await client.driver.read(AllQueues())}
    if queue in known:
        return
    with suppress(OutOfScope):  # who is bound to an org does not hear of the queues of others
        known |= {count.queue for count in await client.driver.count(now=client.now())}
    if queue in known:
        return
    wish = Wish(now=client.now(), queues=(queue,), superseded=True)  # what has ended there counts as well
    [tally] = await client.driver.read(TallyJobs(wish=wish))
    if tally.jobs or not tally.complete:
        return
    hint = did_you_mean(queue, sorted(known))
    raise InvalidInput(
        "queue", f"there is no queue {queue!r} in this store{hint}; known: {', '.join(sorted(known)) or '-'}"
    )  # fmt: skip
