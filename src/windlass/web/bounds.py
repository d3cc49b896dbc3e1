"""How much one caller may ask for. What a client names is clamped or refused here, whatever it names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import ceil
from typing import Final

from windlass.clock import SECOND
from windlass.types import Micros
from windlass.web.problems import Trouble

CALLERS: Final = 10_000  # whose pace is remembered; the one that was silent for longest makes room


@dataclass(frozen=True)
class Bounds:
    body: int = 1 << 20  # bytes of a request
    work_body: int = 16 << 20  # of one of a worker: it carries payloads and results
    depth: int = 64  # of JSON
    objects: int = 100_000  # and lists, of JSON in a request: each costs many times its bytes
    work_objects: int = 1_000_000  # of one of a worker
    fields: int = 1_000  # of a form
    batch: int = 1_000  # jobs that one request enqueues
    sweep: int = 10_000  # jobs that one bulk action changes
    page: int = 200  # rows of a list
    text: int = 1_000  # characters of one name or filter in a path or query string
    query: int = 8 << 10  # bytes of a query string
    wait: float = 30.0  # seconds that a request may wait for a hold, or for work
    tick: int = 1_000  # jobs that one tick runs
    claim: int = 10_000  # jobs that one claim takes
    lease: float = 86_400.0  # seconds that a remote worker may hold a job without a word
    rate: float = 100.0  # requests per second of one caller
    burst: int = 300
    work_cost: float = 0.02  # of a request by a worker, which may come so many times as often
    streams: int = 100  # open streams of events
    streams_each: int = 10  # of one caller


class Pace:
    """A token bucket for each caller."""

    def __init__(self, bounds: Bounds, now: Callable[[], Micros]) -> None:
        self._bounds = bounds
        self._now = now
        self._callers: OrderedDict[Hashable, tuple[float, Micros]] = OrderedDict()

    def take(self, caller: Hashable, cost: float = 1.0) -> None:
        """Count a request, or refuse it."""
        bounds, now = self._bounds, self._now()
        left, at = self._callers.pop(caller, (float(bounds.burst), now))
        left = min(left + (now - at) / SECOND * bounds.rate, float(bounds.burst))
        self._callers[caller] = (left - cost if left >= cost else left, now)
        if len(self._callers) > CALLERS:
            self._callers.popitem(last=False)
        if left < cost:
            after = max(ceil((cost - left) / bounds.rate), 1)
            raise Trouble(
                429, "too-many-requests", f"more than {bounds.rate / cost:g} requests per second", retry_after=after
            )
