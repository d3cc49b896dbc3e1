"""Jobs on their last chance. Such a job may be what killed its workers, or have been near it each time, so it runs alone:
should it be the one, it takes no neighbour along; should it be such a neighbour, it is safe now.

What runs beside it is waited for, though not for ever, and what runs on is not waited for again. Where something always
runs a suspect would never begin: one that was put off often enough runs beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from windlass.types import Claimed
from windlass.worker.holdings import Held, Holdings

PATIENCE: Final = 10  # times that one is put off, for about a lease each
REMEMBERED: Final = 1_000  # of which that is known


def is_suspect(job: Claimed) -> bool:
    """One more loss and it is dead."""
    return job.lost > 0 and 0 < job.max_lost <= job.lost + 1


class Suspects:
    def __init__(self, holdings: Holdings, put_off: Callable[[Held], None]) -> None:
        self._holdings = holdings
        self._put_off = put_off
        self._times: Final[dict[str, int]] = {}
        self._waited_for: list[Held] = []  # in vain, by the last of them: what ran on

    def among(self, claimed: Sequence[Held]) -> list[Held]:
        """Those that are to run alone."""
        return [one for one in claimed if is_suspect(one.job) and self._times.get(one.job.id, 0) < PATIENCE]

    def wait_in_vain(self) -> bool:
        """Something that one was put off for still runs. To wait for it once more would keep everybody from being claimed;
        and with some suspects the next of them is always due."""
        self._waited_for = [held for held in self._waited_for if self._holdings.get(held.job.id) is held]
        return bool(self._waited_for)

    def has_waited_in_vain(self, suspect: Held) -> None:
        self._waited_for = [held for held in self._holdings if held is not suspect]
        if not suspect.ended:
            self.put_off(suspect)

    def put_off(self, suspect: Held) -> None:
        self._times[suspect.job.id] = self._times.pop(suspect.job.id, 0) + 1
        if len(self._times) > REMEMBERED:
            del self._times[next(iter(self._times))]
        self._put_off(suspect)
