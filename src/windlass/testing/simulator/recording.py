"""What a simulated fleet asked of its store, call by call, to be asked of another driver again.

A driver that waits for a server cannot be simulated: its answers take real time. But a seed's calls, in the order in which
they took effect in memory, with the same times, must be answered alike by any driver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.drivers.memory import MemoryDriver
from windlass.drivers.protocol import Driver
from windlass.errors import WindlassError
from windlass.testing.comparison import shown
from windlass.testing.simulator.scenario import Report, WorkerMain, simulate
from windlass.types import Claimed, Handle

METHODS: Final = ("enqueue", "claim", "extend", "settle", "expire", "alter", "beat", "lead", "maintain")


class Asked(Struct, frozen=True):
    """One call, and what memory said to it."""

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    answer: Any
    refusal: type[WindlassError] | None


class Recorder(MemoryDriver):
    """Memory, with a note of everything that changes it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Asked] = []
        for method in METHODS:
            setattr(self, method, self._noted(method, getattr(self, method)))

    def _noted(self, method: str, real: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(real)
        async def noted(*args: Any, **kwargs: Any) -> Any:
            try:
                answer = await real(*args, **kwargs)
            except WindlassError as error:
                self.calls.append(Asked(method, args, kwargs, None, type(error)))
                raise
            self.calls.append(Asked(method, args, kwargs, answer, None))
            return answer

        return noted


def record(seed: int, worker: WorkerMain, *, profile: str = "swarm") -> tuple[Report, list[Asked]]:
    recorder = Recorder()
    report = simulate(seed, worker, profile=profile, store=recorder)
    return report, recorder.calls


class Different(AssertionError):
    """A driver that answers otherwise than memory did."""


async def replay(calls: list[Asked], driver: Driver) -> int:
    """Ask a driver on an empty store the same. Answers how many calls there were; `Different` at the first that is answered
    otherwise."""
    handles: dict[Handle, Handle] = {}
    for number, call in enumerate(calls, 1):
        args = tuple(_addressed(arg, handles) for arg in call.args)
        answer: Any = None
        refusal: type[WindlassError] | None = None
        try:
            answer = await getattr(driver, call.method)(*args, **call.kwargs)
        except WindlassError as error:
            refusal = type(error)
        if (shown(answer), refusal) != (shown(call.answer), call.refusal):
            raise Different(
                f"call {number} of {len(calls)}, {call.method}: memory said {refused_or(call.answer, call.refusal)}, the "
                f"driver {refused_or(answer, refusal)}"
            )
        for mine, theirs in zip(_claimed(call.answer), _claimed(answer), strict=True):
            handles[mine.handle] = theirs.handle
    return len(calls)


def refused_or(answer: Any, refusal: type[WindlassError] | None) -> str:
    return repr(shown(answer)) if refusal is None else refusal.__name__


def _addressed(arg: Any, handles: dict[Handle, Handle]) -> Any:
    """Renewals and settlements name leases by handles, which each driver makes for itself."""
    if not isinstance(arg, list | tuple):
        return arg
    return [replace(u, handle=handles.get(u.handle, u.handle)) if hasattr(u, "handle") else u for u in arg]


def _claimed(answer: Any) -> list[Claimed]:
    found = answer[1] if isinstance(answer, tuple) else answer
    return [job for job in found if isinstance(job, Claimed)] if isinstance(found, list) else []
