"""Pages, counts, changes to many jobs and the first page, through the service, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from typing import Any, cast

import msgspec
import pytest

from stories import teller
from windlass.admin import Admin, Filter, audit, bulk, counting
from windlass.admin.bulk import Progress
from windlass.client import Client
from windlass.clock import SECOND, ManualClock, moment
from windlass.config import Settings
from windlass.core.alterations import Cancel, PutQueue, PutSchedule, PutTemplate, SetPaused
from windlass.core.duties import SampleQueues
from windlass.core.sampling import MINUTE
from windlass.core.settle import Execution, Failed, Outcome, Succeeded, settle
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Claim, Renewal
from windlass.errors import InvalidInput
from windlass.records import WorkerInfo
from windlass.types import Claimed, NewGroup, NewJob


class Place:
    def __init__(self, driver: Driver) -> None:
        self.clock = ManualClock()
        self.client = Client("memory://", Settings(), driver=driver, clock=self.clock)
        self.admin = Admin(self.client)
        self.names = 0

    @property
    def now(self) -> int:
        return self.clock.now()

    async def put(self, *ids: str, **fields: Any) -> None:
        said: dict[str, Any] = {"max_attempts": 1, "type": "t", **fields}
        await self.client.driver.enqueue([NewJob(id=job_id, **said) for job_id in ids], now=self.now)

    async def claim(self, limit: int = 1) -> list[Claimed]:
        self.names += 1
        wish = Claim(queues=("default", "mail"), limit=limit, lease_for=30 * SECOND, worker_id="w1", token=f"t{self.names}")
        return await self.client.driver.claim(wish, now=self.now)

    async def end(self, outcome: Outcome) -> str:
        [job] = await self.claim()
        self.names += 1
        change = settle(job, outcome, Execution(self.now, self.now, f"link{self.names}"))
        assert await self.client.driver.settle([change], now=self.now) == ["applied"]
        return job.id

    async def dead(self, *ids: str, error: str = "ValueError: no", **fields: Any) -> None:
        for job_id in ids:
            await self.put(job_id, **fields)
            await self.end(Failed(error))

    async def beat(self) -> None:
        worker = WorkerInfo(
            id="w1", hostname="h", pid=1, pool_size=4, version="1", queues=("default", "mail"), types=("t",),
            wakeups="polled", running=1, started_at=self.now,
        )  # fmt: skip
        await self.client.driver.beat(worker, now=self.now)

    async def sample(self) -> None:
        assert await self.client.driver.maintain(SampleQueues(keep=7 * 86_400 * SECOND), epoch=None, now=self.now)

    async def ids(self, wanted: Filter | None = None, **how: Any) -> list[str]:
        return [job.id for job in (await self.admin.jobs(wanted, **how)).jobs]


Story = Callable[[Place], Awaitable[None]]


@pytest.fixture
def tell(any_driver: Callable[[], Driver]) -> Callable[[Story], None]:
    return teller(lambda: Place(any_driver()))


Tell = Callable[[Story], None]

# ------------------------------------------------------------------------------------------------------------------ pages


def test_pages_lead_forth_and_back(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.put(*(f"j{n}" for n in range(7)))
        for first, order in (("newest", [f"j{n}" for n in range(6, -1, -1)]), ("oldest", [f"j{n}" for n in range(7)])):
            how: Any = {"first": first, "limit": 3}
            one = await place.admin.jobs(**how)
            two = await place.admin.jobs(cursor=one.cursor, **how)
            three = await place.admin.jobs(cursor=two.cursor, **how)
            assert [job.id for page in (one, two, three) for job in page.jobs] == order
            assert (one.back, three.cursor) == (None, None)
            back = await place.admin.jobs(cursor=three.back, **how)
            assert [job.id for job in back.jobs] == order[3:6]
            start = await place.admin.jobs(cursor=back.back, **how)
            assert ([job.id for job in start.jobs], start.back) == (order[:3], None)
            assert [job.id for job in (await place.admin.jobs(cursor=start.cursor, **how)).jobs] == order[3:6]

    tell(story)


def test_a_cursor_belongs_to_its_listing(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.put("a", "b", "c")
        cursor = (await place.admin.jobs(Filter(queue="default"), limit=1)).cursor
        assert cursor is not None
        assert await place.ids(Filter(queue="default"), limit=9, cursor=cursor) == ["b", "a"]
        for other in (Filter(), Filter(queue="mail"), Filter(queue="default", state="queued")):
            with pytest.raises(InvalidInput, match="another listing"):
                await place.admin.jobs(other, cursor=cursor)
        with pytest.raises(InvalidInput, match="another listing"):
            await place.admin.jobs(Filter(queue="default"), cursor=cursor, first="oldest")
        with pytest.raises(InvalidInput, match="another listing"):
            await place.admin.bulk("cancel", Filter(queue="default"), cursor=cursor)
        for nonsense in ("", "x", "ümlaut", "7", cursor[:-4], cursor + "AAAA", "A" * 5_000, "/etc/passwd"):
            with pytest.raises(InvalidInput, match="cursor"):
                await place.admin.jobs(Filter(queue="default"), cursor=nonsense)

    tell(story)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(
    ("bad", "field"),
    [
        *(
            ({field: bad}, field)
            for field in (
                "state", "system", "label", "queue", "type", "org_id", "tag", "group_id", "schedule", "worker_id", "error",
                "fingerprint",
            )
            for bad in (5, object, 2**14_000, ["a"], "\ud800")
        ),
        *(
            ({field: "2030-01-01"}, field)
            for field in ("created_from", "created_until", "finished_from", "finished_until")
        ),
        *(({field: bad}, field) for field in ("queues", "ids") for bad in (5, "a", None, (5,), ("\ud800",))),
        *(({"older_than": bad}, "older_than") for bad in ("1h", -1, 2**64, 2**14_000, 1.5, True)),
    ],
    ids=count(),  # pytest cannot write out all of them
)  # fmt: skip
def test_a_filter_that_asks_for_nothing_there_can_be_is_refused_by_its_field(
    bad: dict[str, Any], field: str, behind: bool
) -> None:
    async def story() -> None:
        place = Place(MemoryDriver())
        await place.put("a", "b")
        cursor = (await place.admin.jobs(Filter(), limit=1)).cursor if behind else None
        with pytest.raises(InvalidInput) as refused:
            await place.admin.jobs(Filter(**bad), cursor=cursor)
        assert refused.value.field == field

    asyncio.run(story())


@pytest.mark.parametrize("first", ["best", "\ud800", object(), None], ids=range(4))
@pytest.mark.parametrize("behind", [False, True])
def test_a_direction_that_is_none_is_refused_also_behind_a_cursor(first: Any, behind: bool) -> None:
    async def story() -> None:
        place = Place(MemoryDriver())
        await place.put("a", "b")
        cursor = (await place.admin.jobs(Filter(), limit=1)).cursor if behind else None
        with pytest.raises(InvalidInput, match=r"^first: must be one of newest, oldest"):
            await place.admin.jobs(Filter(), first=first, cursor=cursor)

    asyncio.run(story())


@pytest.mark.parametrize("limit", [0, "x", None, 2**14_000, True], ids=range(5))
def test_a_change_of_many_has_a_limit(limit: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^limit: must be between 1 and 10,000"):
        asyncio.run(Place(MemoryDriver()).admin.bulk("cancel", Filter(), limit=limit))


def test_a_search_that_stops_says_so_and_goes_on(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.admin.listing.BUDGET", 4)

    async def story(place: Place) -> None:
        await place.put("rare", tags=("x",))
        await place.put(*(f"j{n}" for n in range(10)))
        cursor, found, stops = None, [], 0
        for _ in range(9):
            page = await place.admin.jobs(Filter(tag="x"), cursor=cursor)
            found += [job.id for job in page.jobs]
            stops += page.stopped
            assert page.stopped == (page.cursor is not None)
            cursor = page.cursor
            if cursor is None:
                break
        assert found == ["rare"]
        assert stops >= 2 or isinstance(place.client.driver, MemoryDriver)

    tell(story)


def test_filters_meet_in_the_store(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.dead("d1", error="Timeout after 5 s", queue="mail", org_id="acme", tags=("vip",))
        place.clock.advance("1h")
        await place.put("s1", run_at=place.now + MINUTE, type="u")
        await place.put("q1")
        hour = moment(place.now) - timedelta(minutes=30)
        for wanted, found in (
            (Filter(state="queued"), ["q1", "s1"]), (Filter(label="queued"), ["q1"]), (Filter(label="scheduled"), ["s1"]),
            (Filter(state="queued", label="scheduled"), ["s1"]), (Filter(queues=("mail", "x")), ["d1"]),
            (Filter(queue="mail", queues=("mail",)), ["d1"]), (Filter(type="u"), ["s1"]), (Filter(org_id="acme"), ["d1"]),
            (Filter(tag="vip"), ["d1"]), (Filter(worker_id="w1"), ["d1"]), (Filter(created_from=hour), ["q1", "s1"]),
            (Filter(created_until=hour), ["d1"]), (Filter(finished_until=hour), ["d1"]), (Filter(error="after 5"), ["d1"]),
            (Filter(older_than=MINUTE), ["d1"]), (Filter(ids=("q1", "nobody")), ["q1"]), (Filter(group_id="none"), []),
            (Filter(state="failed", system="harmonyk"), ["d1"]), (Filter(schedule="none"), []),
        ):  # fmt: skip
            assert await place.ids(wanted) == found, wanted
        for wanted, word in (
            (Filter(state="dead", label="queued"), "at once"), (Filter(state="deed"), "did you mean"),
            (Filter(label="x"), "not a label"),  # type: ignore[arg-type]
            (Filter(queue="mial"), "did you mean 'mail'"), (Filter(queue="mail", queues=("x",)), "may look at"),
            (Filter(created_from=moment(0).replace(tzinfo=None)), "time zone"), (Filter(tag=""), "tag"),
        ):  # fmt: skip
            with pytest.raises(InvalidInput, match=word):
                await place.admin.jobs(wanted)

    tell(story)


def test_jobs_of_a_schedule_are_found_by_its_name(tell: Tell) -> None:
    async def story(place: Place) -> None:
        driver = place.client.driver
        template = PutTemplate(template_id="t", name="report", type="t")
        plan = PutSchedule(schedule_id="sid", name="nightly", template="report", cron_expression="0 3 * * *")
        assert await driver.alter([template, plan], now=place.now) == ["applied", "applied"]
        await place.put("a", schedule_id="sid")
        await place.put("b")
        assert await place.ids(Filter(schedule="nightly")) == await place.ids(Filter(schedule="sid")) == ["a"]
        [soon] = (await place.admin.dashboard()).upcoming
        assert (soon.name, soon.timezone) == ("nightly", "UTC")

    tell(story)


def test_names_to_choose_from(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.client.driver.alter([PutQueue("declared")], now=place.now)
        await place.put("a", org_id="acme", tags=("vip", "eu"), queue="mail")
        await place.claim()
        found = await place.admin.completions()
        assert (found.queues, found.types, found.orgs, found.tags, found.workers) == (
            ("declared", "mail"), ("t",), ("acme",), ("eu", "vip"), ("w1",),
        )  # fmt: skip

    tell(story)


# ----------------------------------------------------------------------------------------------------------------- counts


def test_counts_come_from_the_last_sample_with_its_age_or_exactly_now(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.put("a", "b")
        await place.end(Succeeded())
        exact = await place.admin.counts()
        assert exact.counted_at == exact.at == moment(place.now)
        assert exact.queues == {"default": {"queued": 1}}
        await place.sample()
        sampled_in = place.now
        place.clock.advance("30s")
        await place.put("c")
        await place.beat()
        later = await place.admin.counts()
        assert later.queues == {"default": {"queued": 1}}
        assert later.counted_at == moment(sampled_in - sampled_in % MINUTE)
        assert later.labels["queued"].jobs == 1
        now = await place.admin.counts(exact=True)
        assert (now.labels["queued"].jobs, now.counted_at) == (2, now.at)
        assert {label: count.jobs for label, count in now.labels.items()} == {"queued": 2, "succeeded": 1, "cancelled": 0}
        assert now.total == 3
        place.clock.advance("1h")
        assert (await place.admin.counts()).labels["queued"].jobs == 2, "an old sample is no answer"

    tell(story)


def test_a_sample_is_no_answer_when_nobody_lives_to_take_the_next(tell: Tell) -> None:
    """Workers drain a store and leave: what the last of them had sampled before is not how things are."""

    async def story(place: Place) -> None:
        await place.put("a", "b")
        await place.sample()
        place.clock.advance(SECOND)
        await place.end(Succeeded())
        await place.end(Succeeded())
        found = await place.admin.dashboard()
        assert found.counts.queues == {}
        assert [(queue.counts, queue.problems, queue.oldest) for queue in found.queues] == [({}, (), None)]
        assert found.oldest is None
        await place.put("c")
        assert (await place.admin.counts()).queues == {}, "counted a moment ago"
        place.clock.advance("2s")
        [queue] = (await place.admin.dashboard()).queues
        assert (queue.counts, [one.kind for one in queue.problems]) == ({"queued": 1}, ["nobody"])

    tell(story)


def test_what_ended_is_counted_again_after_a_change_of_ones_own(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.put("a", "b")
        assert (await place.admin.counts()).labels["cancelled"].jobs == 0
        await place.client.driver.alter([Cancel("a")], now=place.now)
        assert (await place.admin.counts()).labels["cancelled"].jobs == 0, "somebody else's change is seen a little later"
        await place.admin.bulk("cancel", ["b"])
        assert (await place.admin.counts()).labels["cancelled"].jobs == 2
        counting.forget(place.client)
        await place.put("c")
        await place.client.driver.alter([Cancel("c")], now=place.now)
        place.clock.advance("1h")
        assert (await place.admin.counts()).labels["cancelled"].jobs == 3

    tell(story)


def test_how_many_match_is_exact_or_at_least(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.put(*(f"j{n}" for n in range(9)), queue="mail")
        found = await place.admin.matching(Filter(queue="mail"))
        assert (found.jobs, found.exact) == (9, True)

    tell(story)


# ------------------------------------------------------------------------------------------------------------------- bulk


def test_each_action_is_done_to_those_it_is_for(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.dead("dead")
        await place.put("done")
        await place.end(Succeeded())
        await place.put("later", run_at=place.now + MINUTE)
        await place.put("a", "b")
        admin = place.admin
        for action, how, matched in (
            ("cancel", {}, 3), ("retry", {}, 1), ("run-now", {}, 1), ("delete", {}, 2), ("priority", {"priority": 5}, 3),
            ("move", {"to": "top"}, 3),
        ):  # fmt: skip
            dry = await admin.bulk(action, Filter(), dry_run=True, **how)  # type: ignore[arg-type]
            assert (dry.matched, dry.exact, dry.dry_run, dry.done) == (matched, True, True, ()), action
        assert set(await place.ids()) == {"dead", "done", "later", "a", "b"}, "a dry run changes nothing"
        assert (await admin.bulk("run-now", Filter())).done == ("later",)
        assert (await admin.bulk("priority", ["a"], priority=7)).done == ("a",)
        assert (await admin.job("a")).job.priority == 7
        assert (await admin.bulk("move", ["later", "b"], to="top")).done == ("b", "later")
        assert [job.id for job in (await admin.order("default")).jobs] == ["a", "later", "b"], "in the order they had"
        assert (await admin.bulk("retry", Filter())).done == ("dead",)
        assert (await admin.bulk("delete", Filter(state="succeeded"))).done == ("done",)
        assert (await admin.bulk("cancel", Filter(), reason="why not")).done == ("dead", "later", "a", "b")
        assert (await admin.job("a")).job.state == "cancelled"

    tell(story)


def test_a_selection_tells_of_each_that_was_left(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.put("running", "done")
        [job] = await place.claim()
        assert job.id == "running"
        await place.end(Succeeded())
        answer = await place.admin.bulk("cancel", ["running", "done", "nobody"])
        assert answer.done == ("running",), "asked to stop"
        assert set(answer.left) == {"done", "nobody"}
        again = await place.admin.bulk("cancel", ["running"])
        assert again.left == {"running": "it is so already"}
        for nonsense in ([], "running", [""]):
            with pytest.raises(InvalidInput, match="id"):
                await place.admin.bulk("cancel", nonsense)
        for action, how, word in (
            ("explode", {}, "action"), ("priority", {}, "which one"), ("move", {}, "top or bottom"),
            ("cancel", {"limit": 0}, "limit"), ("cancel", {"limit": 10_001}, "limit"),
        ):  # fmt: skip
            with pytest.raises(InvalidInput, match=word):
                await place.admin.bulk(action, Filter(), **how)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="retry is for jobs that are dead; the filter asks for queued"):
            await place.admin.bulk("retry", Filter(label="queued"))

    tell(story)


def test_a_whole_filter_is_changed_in_bites_that_tell_how_far_they_are(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(bulk, "BITE", 4)

    async def story(place: Place) -> None:
        await place.put(*(f"j{n}" for n in range(10)))
        await place.put("other", queue="mail")
        heard: list[Progress] = []
        first = await place.admin.bulk("cancel", Filter(queue="default"), limit=6, report=heard.append)
        assert first.done == tuple(f"j{n}" for n in range(4, 10))
        assert heard == [Progress(4, 0, 6), Progress(6, 0, 6)]
        assert (first.matched, first.exact) == (6, False)
        assert first.cursor is not None
        rest = await place.admin.bulk("cancel", Filter(queue="default"), limit=6, cursor=first.cursor)
        assert (rest.done, rest.cursor) == (tuple(f"j{n}" for n in range(4)), None)
        assert await place.ids(Filter(state="queued")) == ["other"]

    tell(story)


class Meddler:
    """A store on which something happens between the look and the change."""

    def __init__(self, driver: Driver, meddle: Callable[[], Awaitable[object]], times: int = 1) -> None:
        self._driver, self._meddle, self.times = driver, meddle, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def alter(self, changes: Any, *, now: int, by: Any = None) -> Any:
        if self.times:
            self.times -= 1
            await self._meddle()
        return await self._driver.alter(changes, now=now, by=by)


def test_a_job_that_matches_no_more_is_left_alone(tell: Tell) -> None:
    """It was replayed meanwhile, and has died of something else."""

    async def story(place: Place) -> None:
        await place.dead("a", "b", error="Timeout after 5 s")
        driver = place.client.driver

        async def meddle() -> None:
            place.client._driver = driver
            await place.admin.retry("a")
            await place.end(Failed("KeyError: 'x'"))

        place.client._driver = cast("Any", Meddler(driver, meddle))
        answer = await place.admin.bulk("delete", Filter(error="Timeout"))
        assert (answer.done, answer.left) == (("b",), {"a": "it does not match any more"})
        assert await place.ids() == ["a"]

    tell(story)


def test_a_job_that_still_matches_is_changed_though_others_write_to_it(tell: Tell) -> None:
    """A heartbeat is no reason to leave a running job alone; only one that never stops is."""

    async def story(place: Place) -> None:
        await place.put("a")
        [job] = await place.claim()
        driver = place.client.driver

        async def beat() -> None:
            renewal = Renewal(job.handle, job.token, None, 0.5)
            await driver.extend([renewal], lease_for=30 * SECOND, now=place.now)

        meddler = Meddler(driver, beat)
        place.client._driver = cast("Any", meddler)
        assert (await place.admin.bulk("cancel", Filter(state="running"))).done == ("a",)
        await place.put("b")
        [job] = await place.claim()
        meddler.times = bulk.TRIES
        restless = await place.admin.bulk("cancel", ["b"])
        assert (restless.done, restless.left) == ((), {"b": "others changed it at the same time"})

    tell(story)


# --------------------------------------------------------------------------------------------------- dead letters, failures


def test_dead_letters_are_grouped_by_error_or_by_type(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.dead("a", error="Timeout after 5 s", type="u")
        place.clock.advance("1h")
        await place.dead("b", error="Timeout after 6 s")
        await place.dead("c", error="KeyError: 'x'")
        by_error = await place.admin.errors()
        assert [(group.jobs, group.types, group.example) for group in by_error.groups] == [
            (2, ("t", "u"), "b"), (1, ("t",), "c"),
        ]  # fmt: skip
        assert by_error.groups[0].bars[0] == by_error.groups[0].bars[-1] == 1
        assert sum(by_error.groups[0].bars) == 2
        assert [(group.fingerprint, group.jobs) for group in (await place.admin.errors(by="type")).groups] == [
            ("t", 2),
            ("u", 1),
        ]
        few = await place.admin.replay(Filter(error=by_error.groups[0].fingerprint), limit=1)
        assert few.done == ("b",), "try a few first"
        assert few.cursor is not None
        gone = await place.admin.purge(Filter(error="KeyError"), limit=5)
        assert (gone.done, gone.cursor) == (("c",), None)
        assert await place.ids(Filter(state="dead")) == ["a"]

    tell(story)


def test_a_sample_of_dead_letters_says_that_there_are_more(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.admin.dead_letters.GROUPED", 2)

    async def story(place: Place) -> None:
        await place.dead("a", "b", "c")
        found = await place.admin.errors()
        assert (found.groups[0].jobs, found.looked_at, found.complete) == (2, 2, False)

    tell(story)


def test_failures_are_those_that_died_and_those_that_will_be_tried_again(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.dead("old", error="Timeout after 1 s")
        place.clock.advance("2h")
        await place.put("again", max_attempts=5)
        await place.end(Failed("Timeout after 2 s"))
        await place.dead("young", error="Timeout after 3 s")
        await place.put("fine")
        [group] = (await place.admin.failures("1h")).groups
        assert (group.jobs, group.retrying, group.queues) == (2, 1, ("default",))
        [group] = (await place.admin.failures("6h")).groups
        assert group.jobs == 3
        assert (await place.admin.failures("1h", Filter(queue="mail"))).groups == ()

    tell(story)


# --------------------------------------------------------------------------------------------------------------- overview


def test_the_first_page_shows_how_things_are(tell: Tell) -> None:
    async def story(place: Place) -> None:
        driver = place.client.driver
        worker = WorkerInfo(
            id="w1", hostname="h", pid=1, pool_size=4, version="1", queues=("default", "mail"), types=("t",),
            wakeups="poll", running=1, started_at=place.now,
        )  # fmt: skip
        await driver.beat(worker, now=place.now)
        await place.put("waits", run_at=place.now + 9_000 * SECOND)
        for n in range(3):
            await place.put(f"ok{n}")
            place.clock.advance(SECOND)
            await place.end(Succeeded())
        await place.dead("bad", error="Timeout after 5 s")
        await driver.alter([SetPaused("mail", True)], now=place.now)
        await place.put("due", queue="mail")
        place.clock.advance(MINUTE)
        await place.sample()
        await driver.beat(worker, now=place.now)
        found = await place.admin.dashboard()
        assert len(found.series) == 60
        assert sum(one.rates is not None for one in found.series) == 1, "gaps are gaps"
        assert found.series[-1].depth == {"queued": 1, "scheduled": 1, "dead": 1}
        assert found.series[-1].rates == {"completed": 3 / 60, "failed": 1 / 60, "skipped": 0.0}
        assert found.whole.failed == 0.25
        assert found.peak_failed is not None
        assert found.peak_failed[1] == 0.25
        assert found.series[-1].wait is not None
        assert (found.slots.busy, found.slots.total, found.slots.workers) == (0, 4, 1), (
            "by leases, whatever a heartbeat said"
        )
        assert found.sampled_at is not None
        assert [group.jobs for group in found.failures] == [1]
        assert [(queue.name, [one.kind for one in queue.problems]) for queue in found.queues] == [
            ("mail", ["paused"]), ("default", []),
        ]  # fmt: skip
        assert "1 job due" in found.queues[0].problems[0].text
        assert not found.thinned
        assert found.queues[0].depth[-1] == 1
        assert found.queues[0].depth[-2] is None
        trends = await place.admin.queue_trends("7d")
        assert [queue.name for queue in trends.queues] == ["mail", "default"]
        assert msgspec.json.encode(found)
        with pytest.raises(InvalidInput, match="span"):
            await place.admin.dashboard("2h")  # type: ignore[arg-type]

    tell(story)


def test_an_empty_store_is_in_order(tell: Tell) -> None:
    async def story(place: Place) -> None:
        found = await place.admin.dashboard("7d")
        assert (found.queues, found.failures, found.upcoming, found.sampled_at, found.oldest) == ((), (), (), None, None)
        assert all(one.rates is None for one in found.series)
        assert found.counts.total == 0

    tell(story)


# ------------------------------------------------------------------------------------------------- what is never read whole


def test_a_search_of_the_audit_log_looks_at_so_many_lines_and_goes_on_from_there(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(place: Place) -> None:
        assert await place.admin.audit() == audit.AuditList(at=moment(place.now), lines=(), cursor=None)
        for n in range(23):
            await place.admin.acting_as("ada").note("rare.poke" if n in (1, 14) else "thing.poke", f"thing:{n}")
            place.clock.advance(3_600 * SECOND)
        seen, cursor, pages = [], None, 0
        while pages == 0 or cursor is not None:
            page = await place.admin.audit(action="rare", cursor=cursor, limit=2)
            seen += [line.subject for line in page.lines]
            assert page.stopped == (page.cursor is not None)
            cursor, pages = page.cursor, pages + 1
        assert (seen, pages) == (["thing:14", "thing:1"], 5)
        assert [line.subject for line in (await place.admin.audit(limit=3)).lines] == ["thing:22", "thing:21", "thing:20"]
        assert len((await place.admin.audit(limit=50)).lines) == 5
        late = await place.admin.audit(action="rare", since=moment(place.now - 3 * 3_600 * SECOND))
        assert (late.lines, late.cursor, late.stopped) == ((), None, False), "nothing older can be meant"
        early = await place.admin.audit(action="rare", since=moment(place.now - 20 * 3_600 * SECOND))
        assert early.stopped

    monkeypatch.setattr(audit, "LOOK", 5)
    tell(story)


def test_a_large_group_is_shown_by_its_first_members(tell: Tell) -> None:
    async def story(place: Place) -> None:
        group = NewGroup(group_id="g", name="nightly")
        jobs = [NewJob(id=f"j{n}", type="t", group_id="g", group_seq=9 - n, opens=group) for n in range(5)]
        await place.client.driver.enqueue(jobs, now=place.now)
        for limit, ids, more in ((2, ["j4", "j3"], True), (5, ["j4", "j3", "j2", "j1", "j0"], False)):
            found = await place.admin.group("g", limit=limit)
            assert ([job.id for job in found.members], found.more) == (ids, more)
        whole = await place.admin.group("g")
        assert ([job.id for job in whole.members], whole.more) == (["j4", "j3", "j2", "j1", "j0"], False)
        bounded = place.admin.acting_as("ada", org_id="acme")
        assert (await bounded.groups()).groups == ()
        assert [group.id for group in (await place.admin.groups()).groups] == ["g"]

    tell(story)


def test_the_doctor_looks_at_every_run_only_when_it_is_asked_to(tell: Tell) -> None:
    async def story(place: Place) -> None:
        await place.put("a")
        await place.claim()
        names = [check.name for check in (await place.admin.doctor()).checks]
        without = await place.admin.doctor(rows=False)
        assert [name for name in names if name != "rows"] == [check.name for check in without.checks]
        assert "rows" in names
        assert [check.says for check in without.checks if check.name == "leases"] == [
            "1 job is running, under a valid lease"
        ]

    tell(story)
