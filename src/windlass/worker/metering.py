"""What a handler costs, where that can be told and is worth it.

Handlers in a thread: the CPU of that thread, from call to return. Async handlers: the CPU of the event loop's thread while
it ran the handler's own steps; what ran in between is not its. To ask for CPU time is a system call, so tasks that are done
within a millisecond are not measured at all, and less than a millisecond of CPU is not stored. One run that takes longer
has those after it measured; as many quick ones end that again, for any run may be held up once. Memory is the process's,
and belongs to no handler; only runs in processes of their own have a peak (`processes/measures.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from windlass.clock import SECOND, thread_cpu
from windlass.core.changes import Report
from windlass.types import Micros
from windlass.worker.holdings import Held

WORTH_IT: Final[Micros] = SECOND // 1_000
MEASURED: Final = 100  # runs after one that took long enough


class Meter:
    """Measures the CPU of the calls that go through it, all in one thread."""

    __slots__ = ("_through", "cpu")

    def __init__(self, through: Callable[..., Any]) -> None:
        self._through = through
        self.cpu: Micros = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = thread_cpu()
        try:
            return self._through(*args, **kwargs)
        finally:
            self.cpu += thread_cpu() - before


def took(held: Held, seconds: float) -> None:
    """How many of its task's next runs are measured."""
    if seconds * SECOND >= WORTH_IT:
        held.task.metered = MEASURED
    elif held.task.metered:
        held.task.metered -= 1


def note_cpu(held: Held, cpu: Micros) -> None:
    if cpu >= WORTH_IT:
        held.measured = Report(cpu_us=cpu)
