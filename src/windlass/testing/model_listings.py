"""What people look for, and change as they saw it: the part of `model.py` for listings.

A rule of its own: whatever the sizes of its pages, a listing has every job that is asked for once, in its order.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from windlass.clock import SECOND
from windlass.core.alterations import Cancel, Delete, OfOneJob, Replay, RunNow, SetPriority, Unchanged
from windlass.core.failures import fingerprint
from windlass.core.listing import Direction, Kind, ListJobs, Place, TallyJobs, Wish, is_wished, order_of, path_of, place_of
from windlass.drivers.protocol import Driver
from windlass.testing.model_machine import Machine
from windlass.types import LABELS

times = st.none() | st.sampled_from((0, 5 * SECOND, 60 * SECOND))  # ago
kinds = st.builds(Kind, st.sampled_from(LABELS))
looked_for = st.fixed_dictionaries(
    {},
    optional={
        "kinds": st.lists(kinds, min_size=1, max_size=3).map(tuple),
        "queues": st.sampled_from((("a",), ("b",), ("a", "b"))),
        "types": st.just(("x",)),
        "org_id": st.just("o"),
        "tag": st.sampled_from(("t", "s")),
        "group_id": st.just("g"),
        "worker_id": st.just("w1"),
        "created_from": times,
        "created_until": times,
        "finished_from": times,
        "finished_until": times,
        "failed_from": times,
        "quiet_since": times,
        "error": st.sampled_from(("boom", "an", "00000000")),
        "fingerprint": st.sampled_from((fingerprint("boom"), fingerprint(""), "00000000")),
        "superseded": st.booleans(),
    },
)


class ListingRules(Machine):
    @rule(
        fields=looked_for,
        first=st.sampled_from(("newest", "oldest")),
        limit=st.sampled_from((1, 3, 1_000)),
        budget=st.sampled_from((1, 2, 50_000)),
    )
    def look(self, fields: dict[str, Any], first: Direction, limit: int, budget: int) -> None:
        ago = {name: self.now - value for name, value in fields.items() if isinstance(value, int) and name != "superseded"}
        wish = Wish(now=self.now, **{**fields, **ago})
        path = path_of(wish)
        jobs = [job for job in self._jobs(self.spec) if is_wished(job, wish)]
        jobs.sort(key=lambda job: order_of(place_of(job, path)), reverse=first == "newest")
        for driver in (self.spec, self.driver):
            found = self._walked(driver, wish, first, limit, budget)
            assert found == [job.id for job in jobs], f"{driver}: {wish}, {first} first, by {limit}, within {budget}"
        [tally] = self._ask(self.driver, "read", TallyJobs(wish=wish))
        assert (tally.jobs, tally.complete) == (len(jobs), True)

    def _walked(self, driver: Driver, wish: Wish, first: Direction, limit: int, budget: int) -> list[str]:
        found: list[str] = []
        after: Place | None = None
        while True:
            query = ListJobs(wish=wish, first=first, after=after, limit=limit, budget=budget)
            [page] = self._ask(driver, "read", query)
            found += [job.id for job in page.jobs]
            if (after := page.after) is None:
                return found

    @rule(
        pick=st.integers(0, 30),
        late=st.booleans(),
        what=st.sampled_from(("cancel", "replay", "now", "delete", "priority")),
    )
    def change_what_was_seen(self, pick: int, late: bool, what: str) -> None:
        jobs = sorted(self._jobs(self.spec), key=lambda job: job.id)
        if not jobs:
            return
        job = jobs[pick % len(jobs)]
        changes: dict[str, OfOneJob] = {
            "cancel": Cancel(job.id), "replay": Replay(job.id, self.name("manual")), "now": RunNow(job.id),
            "delete": Delete(job.id), "priority": SetPriority(job.id, 1),
        }  # fmt: skip
        change = Unchanged(changes[what], job.updated_at - late)
        [answer], _ = self.both("alter", [change], now=self.now)
        assert not late or answer == "changed"
        if what == "replay" and answer == "applied":
            self.replayed.add(job.id)
        self.gone()

    def gone(self) -> None:
        """Jobs may have been deleted."""
        raise NotImplementedError
