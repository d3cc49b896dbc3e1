"""Finding jobs among many: by what, in which order, from where on."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.core.alterations import Cancel, PutLimit, Unchanged
from windlass.core.failures import fingerprint
from windlass.core.listing import (
    Direction,
    Glimpse,
    GlimpseJobs,
    Kind,
    ListJobs,
    Place,
    TallyJobs,
    Wish,
)
from windlass.core.queries import RunningNow, Seen, SeenLately
from windlass.core.settle import Failed, WasCancelled
from windlass.errors import InvalidInput
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise
from windlass.types import Label

CHAIN: dict[str, Any] = {"retry_mode": "new_job", "crash_policy": "fail", "max_attempts": 2}


async def listed(t: Trial, first: Direction = "newest", *, limit: int = 2, budget: int = 50_000, **wish: Any) -> list[str]:
    """All pages to the end."""
    found: list[str] = []
    after: Place | None = None
    for _ in range(1_000):
        query = ListJobs(wish=Wish(now=t.now, **wish), first=first, after=after, limit=limit, budget=budget)
        [page] = await t.driver.read(query)
        assert len(page.jobs) <= limit
        found += [job.id for job in page.jobs]
        if (after := page.after) is None:
            return found
    raise AssertionError("a listing has no end")


def only(*labels: Label) -> tuple[Kind, ...]:
    return tuple(Kind(label) for label in labels)


class ListingPromises(Suite):
    @promise
    async def test_a_listing_holds_every_job_once_in_the_order_in_which_they_came(self, t: Trial) -> None:
        """Newest or oldest first, whatever the size of its pages and of its budget."""
        ids = [await t.enqueue() for _ in range(7)]
        for limit, budget in ((1, 50_000), (3, 50_000), (7, 50_000), (2, 1), (5, 2), (3, 3)):
            assert await listed(t, limit=limit, budget=budget) == ids[::-1]
            assert await listed(t, "oldest", limit=limit, budget=budget) == ids

    @promise
    async def test_what_has_ended_is_listed_by_its_end(self, t: Trial) -> None:
        """Of one or several states; jobs that ended in the same instant by their number."""
        first, second, third = [await t.running() for _ in range(3)]
        waiting = [await t.enqueue() for _ in range(2)]
        await t.ack(third)
        t.clock.advance(SECOND)
        await t.fail(first)
        for job_id in waiting:
            await t.alter(Cancel(job_id))
        t.clock.advance(SECOND)
        await t.ack(second)
        await t.enqueue()
        ended = [second.id, waiting[1], waiting[0], first.id, third.id]
        for limit, budget in ((1, 50_000), (2, 50_000), (9, 50_000), (2, 1), (3, 2)):
            size: Any = {"limit": limit, "budget": budget}
            assert await listed(t, kinds=only("succeeded", "dead", "cancelled"), **size) == ended
            assert await listed(t, "oldest", kinds=only("succeeded", "dead", "cancelled"), **size) == ended[::-1]
            assert await listed(t, kinds=only("succeeded"), **size) == [second.id, third.id]
            assert await listed(t, finished_from=t.now - SECOND, **size) == ended[:4]
            assert await listed(t, finished_until=t.now, finished_from=t.now - SECOND, **size) == ended[1:4]
        assert await listed(t, quiet_since=t.now - SECOND, kinds=only("dead", "cancelled")) == ended[1:4]
        assert await listed(t, kinds=only("queued"), finished_from=0) == []

    @promise
    async def test_a_listing_tells_labels_apart(self, t: Trial) -> None:
        """As `count` does: labels depend on the moment of the question."""
        await t.alter(PutLimit("k", 0))
        labels: dict[Label, list[str]] = {"parked": [await t.enqueue(limit_keys=("k",))]}
        await t.claim()
        labels |= {"succeeded": [(done := await t.running()).id], "dead": [(dead := await t.running()).id]}
        await t.ack(done)
        await t.fail(dead)
        labels["running"] = [(parent := await t.running()).id]
        labels["claimed"] = [await t.enqueue()]
        await t.claim(start=False)
        labels["blocked"] = [await t.enqueue(after=(parent.id,))]
        labels["scheduled"] = [await t.enqueue(run_at=t.now + MINUTE)]
        labels["queued"] = [await t.enqueue(), await t.enqueue()][::-1]
        labels["cancelled"] = [await t.enqueue()]
        await t.alter(Cancel(labels["cancelled"][0]))
        for label, ids in labels.items():
            assert await listed(t, kinds=only(label)) == ids, label
            assert await listed(t, "oldest", kinds=only(label), budget=1) == ids[::-1], label
        both = sorted((*labels["queued"], *labels["scheduled"]), reverse=True)
        assert sorted(await listed(t, kinds=only("queued", "scheduled")), reverse=True) == both
        assert len(await listed(t, kinds=only("queued", "dead"))) == 3
        t.clock.advance(MINUTE)
        assert len(await listed(t, kinds=only("queued"))) == 3
        assert await listed(t, kinds=only("scheduled")) == []

    @promise
    async def test_kinds_of_ends_are_told_apart(self, t: Trial) -> None:
        """How a job died, and whether a cancelled one had begun; links that others took over are left out."""
        link = await t.running(**CHAIN)
        await t.end(link, Failed("boom"), child_id="child")
        t.clock.advance(MINUTE)
        await t.end(await t.take(), Failed("boom"))
        stopped = await t.running()
        await t.alter(Cancel(stopped.id))
        await t.end(stopped, WasCancelled())
        never = await t.enqueue()
        await t.alter(Cancel(never))
        assert await listed(t, kinds=(Kind("dead"),)) == ["child"]
        assert await listed(t, kinds=(Kind("dead"),), superseded=True) == ["child", link.id]
        assert await listed(t, kinds=(Kind("dead", "superseded"),), superseded=True) == [link.id]
        assert await listed(t, kinds=(Kind("dead", "rejected"),)) == []
        assert await listed(t, kinds=(Kind("cancelled", ran=True),)) == [stopped.id]
        assert await listed(t, kinds=(Kind("cancelled", ran=False),)) == [never]
        assert link.id not in await listed(t)

    @promise
    async def test_jobs_are_found_by_what_they_are_called(self, t: Trial) -> None:
        """Queue, type, org, tag, group, schedule, worker, ids, and any of them together; hostile names are only names."""
        a = await t.enqueue(queue="a", type="x", org_id="o", tags=("red", "it's"), group_id="g")
        b = await t.enqueue(queue="b", type="y", org_id="p", tags=("red",), schedule_id="s", fire_at=5)
        c = await t.enqueue(queue="a", type="y", group_id="g", schedule_id="s")
        await t.claim("a", worker_id="w", types=("y",))
        for wish, found in (
            ({"queues": ("a",)}, [c, a]), ({"queues": ("a", "b")}, [c, b, a]), ({"types": ("y",)}, [c, b]),
            ({"org_id": "o"}, [a]), ({"tag": "red"}, [b, a]), ({"tag": "it's"}, [a]), ({"tag": "re"}, []),
            ({"group_id": "g"}, [c, a]), ({"schedule_id": "s"}, [c, b]), ({"worker_id": "w"}, [c]),
            ({"ids": (a, c, "nobody")}, [c, a]), ({"ids": (a, c), "queues": ("b",)}, []),
            ({"queues": ("a",), "types": ("y",), "group_id": "g", "schedule_id": "s"}, [c]),
            ({"queues": ("a",), "kinds": only("queued")}, [a]), ({"group_id": "g", "kinds": only("running")}, [c]),
            ({"queues": ("'; drop table jobs; --",)}, []), ({"tag": "%"}, []), ({"org_id": "{now}"}, []),
        ):  # fmt: skip
            assert await listed(t, **wish) == found, wish
            assert await listed(t, "oldest", limit=1, budget=1, **wish) == found[::-1], wish

    @promise
    async def test_jobs_are_found_by_time_and_by_error(self, t: Trial) -> None:
        """From a moment on and before a moment; by a part of the last error, or by its fingerprint."""
        ids = []
        for text in ("Timeout after 30 s", "Timeout after 31 s", "50% of 'x' _ gone", ""):
            ids.append(await t.enqueue(max_attempts=1))
            if text:
                await t.end(await t.take(), Failed(text))
            t.clock.advance(SECOND)
        begin = t.now - 4 * SECOND
        assert await listed(t, created_from=begin + SECOND, created_until=begin + 3 * SECOND) == ids[2:0:-1]
        assert await listed(t, "oldest", created_from=begin + 1) == ids[1:]
        for text, found in (
            ("Timeout", ids[1::-1]), ("after 31", ids[1:2]), ("timeout", []), ("50%", ids[2:3]), ("'x' _", ids[2:3]),
            ("_", ids[2:3]), ("%", ids[2:3]), ("8fffd3f7", []),
        ):  # fmt: skip
            assert await listed(t, error=text) == found, text
            assert await listed(t, error=text, kinds=only("dead"), limit=1, budget=1) == found, text
        mark = fingerprint("Timeout after 1 s")
        assert await listed(t, error=mark, limit=1) == ids[1::-1]
        assert await listed(t, error=mark, limit=1, budget=1, kinds=only("dead")) == ids[1::-1]
        [tally] = await t.driver.read(TallyJobs(wish=Wish(now=t.now, error=mark)))
        assert (tally.jobs, tally.complete) == (2, True)

    @promise
    async def test_an_error_is_found_by_its_fingerprint_alone_or_among_those_that_hold_a_text(self, t: Trial) -> None:
        """Unlike `error`, a fingerprint is no text that an error may hold; both together ask for both."""
        mark = fingerprint("Timeout of 'x'")
        ids = []
        for text in ("Timeout of 'a'", "Timeout of 'b'", f"see {mark}", "other 'b'", ""):
            ids.append(await t.enqueue(max_attempts=1))
            await t.end(await t.take(), Failed(text))
        cases: list[tuple[str | None, str | None, list[str]]] = [
            (mark, None, ids[1::-1]), (mark, "'b'", [ids[1]]), (None, "'b'", ids[3:0:-2]), (None, mark, ids[2::-1]),
            (mark, mark, ids[1::-1]), (fingerprint(""), None, ids[4:]), ("00000000", None, []),
        ]  # fmt: skip
        for exact, part, found in cases:
            wish = Wish(now=t.now, kinds=only("dead"), fingerprint=exact, error=part)
            told = f"{exact} and {part}"
            assert await listed(t, kinds=wish.kinds, fingerprint=exact, error=part) == found, told
            assert await listed(t, kinds=wish.kinds, fingerprint=exact, error=part, limit=1, budget=1) == found, told
            [tally] = await t.driver.read(TallyJobs(wish=wish))
            assert (tally.jobs, tally.complete) == (len(found), True), told

    @promise
    async def test_a_tally_counts_what_a_listing_lists(self, t: Trial) -> None:
        """All of it, or as far as its budget reaches, and then it says so."""
        for n in range(6):
            await t.enqueue(queue=f"q{n % 2}")
        [whole] = await t.driver.read(TallyJobs(wish=Wish(now=t.now, queues=("q1",))))
        assert (whole.jobs, whole.complete) == (3, True)
        [part] = await t.driver.read(TallyJobs(wish=Wish(now=t.now, queues=("q1",)), budget=2))
        assert part.complete == (part.jobs == 3)
        assert part.jobs <= 3

    @promise
    async def test_a_glimpse_tells_a_job_apart(self, t: Trial) -> None:
        """Its id, type, queue and state, when something last happened, its revision, and the beginning of its error."""
        job = await t.running(queue="q", type="x")
        t.clock.advance(SECOND)
        await t.fail(job, reason="e" * 600)
        waiting = await t.enqueue(queue="q")
        [page] = await t.driver.read(GlimpseJobs(wish=Wish(now=t.now)))
        rows = await t.jobs([waiting, job.id])
        assert page.jobs == (
            Glimpse(id=waiting, type="work", queue="q", state="queued", at=t.now, updated_at=rows[0].updated_at, error=""),
            Glimpse(
                id=job.id, type="x", queue="q", state="dead", at=t.now, updated_at=rows[1].updated_at, error="e" * 500
            ),
        )  # fmt: skip

    @promise
    async def test_names_of_the_newest_jobs_are_told(self, t: Trial) -> None:
        """Each combination once."""
        await t.enqueue(queue="old")
        for _ in range(2):
            await t.enqueue(queue="a", org_id="o", tags=("x", "y"))
        await t.enqueue(queue="b", type="other")
        found = await t.driver.read(SeenLately(jobs=3))
        assert sorted(found, key=lambda seen: seen.queue) == [
            Seen("a", "work", "o", None, ("x", "y")),
            Seen("b", "other", None, None, ()),
        ]

    @promise
    async def test_what_runs_is_counted_by_worker_and_queue(self, t: Trial) -> None:
        """From the moment of the claim until the end, whatever a heartbeat said or did not say."""
        assert await t.driver.read(RunningNow()) == []
        for queue in ("a", "a", "b", "b"):
            await t.enqueue(queue=queue)
        first = await t.claim("a", "b", limit=3, worker_id="one")
        await t.claim("a", "b", limit=1, worker_id="two")
        found = await t.driver.read(RunningNow())
        assert sum(one.jobs for one in found) == 4
        assert {one.worker_id: one.jobs for one in found if one.worker_id == "two"} == {"two": 1}
        assert sum(one.jobs for one in found if one.queue == "a") == 2
        for one in first:
            assert await t.ack(one) == "applied"
        assert await t.driver.read(RunningNow()) == [one for one in found if one.worker_id == "two"]

    @promise
    async def test_a_change_of_what_was_seen_is_made_only_to_that(self, t: Trial) -> None:
        """A job that was changed since stays as it is, and so does what it is; one that is gone is not found."""
        job_id = await t.enqueue()
        seen = (await t.job(job_id)).updated_at
        assert await t.alter(Unchanged(Cancel(job_id), seen - 1)) == "changed"
        assert (await t.job(job_id)).state == "queued"
        assert await t.alter(Unchanged(Cancel(job_id), seen)) == "applied"
        assert (await t.job(job_id)).state == "cancelled"
        assert await t.alter(Unchanged(Cancel(job_id), seen)) == "changed"
        assert await t.alter(Unchanged(Cancel("nobody"), seen)) == "not_found"

    @promise
    async def test_nonsense_is_refused_before_anything_is_looked_at(self, t: Trial) -> None:
        """The error names the field."""
        for field, value in (
            ("queues", ("",)), ("types", ("\n",)), ("tag", ""), ("worker_id", "x" * 201), ("error", ""), ("error", "a\0b"),
            ("fingerprint", "x"),
            ("error", "x" * 1_001), ("created_from", 2**80), ("ids", ("",)), ("kinds", (Kind("gone"),)),  # type: ignore[arg-type]
        ):  # fmt: skip
            with pytest.raises(InvalidInput):
                await listed(t, **{field: value})  # type: ignore[arg-type]
        for limit in (0, -1, 10_001):
            with pytest.raises(InvalidInput, match="limit"):
                await listed(t, limit=limit)
        with pytest.raises(InvalidInput, match="budget"):
            await listed(t, budget=0)
