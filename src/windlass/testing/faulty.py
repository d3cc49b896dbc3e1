"""A store that can be made to fail, hang or lose a reply.

It is no stand-in: every call reaches the real driver, and a fault is something that happens before or after it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

from windlass.drivers.protocol import Driver
from windlass.errors import StoreUnreachable

Call = Callable[[], Awaitable[Any]]
Fault = Callable[[Call, tuple[Any, ...]], Awaitable[Any]]
BLOCKING: Final = frozenset({"enqueue_sync", "enqueue_within"})
BREAKABLE: Final = BLOCKING | frozenset(
    "enqueue enqueue_within_async claim extend settle expire alter get runs find count waiting_types read wait beat lead "
    "maintain examine".split()
)


def away() -> StoreUnreachable:
    return StoreUnreachable("the store", "it is away, because the test says so")


class Watches(Protocol):
    """Whoever is asked at every call for which no fault was given, and may let it pass."""

    async def meet(self, name: str, call: Call, args: tuple[Any, ...]) -> Any: ...
    def around(self, transaction: Any) -> Any: ...


class Faulty:
    """A real driver whose calls by name may be given a fault."""

    def __init__(self, driver: Driver, watch: Watches | None = None) -> None:
        self.driver = driver
        self.faults: dict[str, Fault] = {}
        self._watch = watch
        self._mended = asyncio.Event()
        self._asked: set[asyncio.Future[None]] = set()
        self.calls: Counter[str] = Counter()
        self.under_way: Counter[str] = Counter()
        self.seen: dict[str, list[tuple[Any, ...]]] = {}

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.driver, name)
        if name == "transaction" and self._watch is not None:
            watch = self._watch
            return lambda: watch.around(call())
        if name not in BREAKABLE:
            return call
        if name in BLOCKING:

            async def waiting(*args: Any, **kwargs: Any) -> Any:
                return call(*args, **kwargs)

            return lambda *args, **kwargs: at_once(self._guarded(name, waiting, args, kwargs))
        return lambda *args, **kwargs: self._guarded(name, call, args, kwargs)

    async def _guarded(self, name: str, call: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: Any) -> Any:
        self.calls[name] += 1
        self.seen.setdefault(name, []).append(args)
        self.under_way[name] += 1
        fault = self.faults.get(name)
        answered = None if name in BLOCKING else asyncio.get_running_loop().create_future()
        if answered is not None and fault is None and name != "wait":
            self._asked.add(answered)
        try:
            if fault is not None:
                return await fault(lambda: call(*args, **kwargs), args)
            if self._watch is not None:
                return await self._watch.meet(name, lambda: call(*args, **kwargs), args)
            return await call(*args, **kwargs)
        finally:
            self.under_way[name] -= 1
            if answered is not None:
                self._asked.discard(answered)
                answered.set_result(None)

    async def answered(self) -> None:
        """Return when the calls that are under way now have come back: who stored what is in the store knows of it."""
        loop = asyncio.get_running_loop()
        if asked := {future for future in list(self._asked) if future.get_loop() is loop}:
            await asyncio.wait(asked, timeout=1)
        for _ in range(5):  # from the answer to whoever awaits it: some rounds of the loop
            await asyncio.sleep(0)

    def fail(self, *names: str, error: BaseException | None = None) -> None:
        """From now on these calls raise before they reach the store."""

        async def fault(call: Call, args: tuple[Any, ...]) -> Any:
            raise error or away()

        for name in names:
            self.faults[name] = fault

    def hang(self, *names: str) -> None:
        """From now on these calls do not return before the store is mended."""
        mended = self._mended = asyncio.Event()

        async def fault(call: Call, args: tuple[Any, ...]) -> Any:
            await mended.wait()
            return await call()

        for name in names:
            self.faults[name] = fault

    def lose_reply(self, name: str) -> None:
        """The next call is committed, and its caller hears of an error."""

        async def fault(call: Call, args: tuple[Any, ...]) -> Any:
            await call()
            del self.faults[name]
            raise away()

        self.faults[name] = fault

    def hold(self, name: str) -> tuple[asyncio.Event, asyncio.Event]:
        """The next call reaches the store; its answer waits for the second event. The first one tells that it waits."""
        waits, go = asyncio.Event(), asyncio.Event()

        async def fault(call: Call, args: tuple[Any, ...]) -> Any:
            del self.faults[name]
            answer = await call()
            waits.set()
            await go.wait()
            return answer

        self.faults[name] = fault
        return waits, go

    def mend(self) -> None:
        self.faults.clear()
        self._mended.set()


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """The answer of something that never waits, from blocking code."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    work.close()
    raise AssertionError("a blocking call cannot hang: give this fault to calls that are awaited")
