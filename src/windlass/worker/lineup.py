"""Claimed jobs that wait for a free handler in this process, as the claimer sees them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain

from windlass.worker.holdings import Held


def _urgency(held: Held) -> tuple[bool, int]:
    """Careful work has come first, and stays there: it holds what others wait for."""
    return not held.task.careful, -held.job.priority


class Lineup:
    """The part that `Slots` and `Processes` share: `size` handlers, some of them busy, and a queue of jobs before them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._waiting: deque[Held] = deque()
        self._busy = 0

    @property
    def free(self) -> int:
        """Handlers without work, now."""
        return max(self.size - self._busy - len(self._waiting), 0)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def busy(self) -> int:
        return self._busy

    def accept(self, jobs: Sequence[Held], *, first: bool = False) -> None:
        """Jobs that were claimed, in dispatch order. `first`: before those that already wait for a handler. What is more
        urgent than some of those overtakes them: it was enqueued after they were claimed."""
        if first:
            self._waiting.extendleft(reversed(jobs))
        elif jobs and self._waiting and jobs[0].job.priority > self._waiting[-1].job.priority:
            self._waiting = deque(sorted(chain(self._waiting, jobs), key=_urgency))
        else:
            self._waiting.extend(jobs)
        self._wake()

    def _wake(self) -> None:
        """Somebody waits: let idle handlers look."""
        raise NotImplementedError

    def take_back(self) -> list[Held]:
        """Those whose handler has not begun."""
        unbegun = [held for held in self._waiting if not held.ended]
        self._waiting.clear()
        return unbegun
