"""The service under every edge: what it answers is tried here once, on the memory driver with a clock of its own and on a
real file where the file matters."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from windlass import Windlass
from windlass.admin import Admin, Filter, doctor, fleet
from windlass.admin.bounded import narrowed
from windlass.admin.schedules import template_view
from windlass.admin.views import JobDetail
from windlass.client import Client
from windlass.clock import SECOND, ManualClock, moment
from windlass.config import Settings
from windlass.core.acting import By
from windlass.core.alterations import PutLimit, PutQueue
from windlass.core.failures import fingerprint
from windlass.core.queries import AllQueues, AllTemplates, Query
from windlass.core.settle import Execution, Failed, Outcome, Snoozed, Succeeded, WasCancelled, settle
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Claim, Renewal
from windlass.errors import InvalidInput, JobNotFound, Refused, UnknownTask
from windlass.policies import Retry, fixed
from windlass.presets import SCHEDULER
from windlass.records import WorkerInfo
from windlass.types import Claimed, NewJob, Template
from windlass.wording import age, in_words, named, policy_in_words, relative

NEVER_TWICE: dict[str, Any] = {"retry_mode": "new_job", "crash_policy": "fail"}


class Place:
    """A store, a clock, and a worker that does as it is told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.client = Client("memory://", Settings(), driver=MemoryDriver(), clock=self.clock)
        self.admin = Admin(self.client)

    async def claim(self, worker: str = "w1", *, start: bool = True) -> Claimed:
        wish = Claim(
            queues=("default", "mail"), limit=1, lease_for=30 * SECOND, worker_id=worker, token=self.client.ids.token(),
            start=start,
        )  # fmt: skip
        [job] = await self.client.driver.claim(wish, now=self.clock.now())
        return job

    async def end(self, job: Claimed, outcome: Outcome) -> None:
        now = self.clock.now()
        change = settle(job, outcome, Execution(now, None, self.client.ids.job(now)))
        assert await self.client.driver.settle([change], now=now) == ["applied"]

    async def fail(self, error: str = "ValueError: no") -> str:
        job = await self.claim()
        await self.end(job, Failed(error))
        return job.id

    async def put(self, job_id: str, **fields: Any) -> str:
        said: dict[str, Any] = {"max_attempts": 1, **fields}
        await self.client.driver.enqueue([NewJob(id=job_id, type="t", **said)], now=self.clock.now())
        return job_id


def on_a_place(promise: Callable[[Place], Awaitable[None]]) -> Callable[[], None]:
    def test() -> None:
        asyncio.run(promise(Place()))  # type: ignore[arg-type]

    test.__name__ = promise.__name__
    test.__doc__ = promise.__doc__
    return test


def told(detail: JobDetail) -> list[str]:
    return [entry.what for entry in detail.timeline]


# ---------------------------------------------------------------------------------------------------------------- timeline


@on_a_place
async def test_a_retried_job_is_told_from_its_row_and_its_runs(place: Place) -> None:
    retry = Retry(max_attempts=3, backoff=fixed("5s"))
    await place.put("a", max_attempts=3, retry_policy=retry.encode(), run_at=place.clock.now() + 10 * SECOND)
    assert told(await place.admin.job("a")) == ["enqueued", "waits"]
    place.clock.advance("10s")
    assert told(await place.admin.job("a")) == ["enqueued", "due"]
    job = await place.claim(start=False)
    place.clock.advance("1s")
    renewal = Renewal(job.handle, job.token, place.clock.now(), 0.25, "first page")
    await place.client.driver.extend([renewal], lease_for=30 * SECOND, now=place.clock.now())
    running = await place.admin.job("a")
    assert told(running) == ["enqueued", "due", "claimed", "started", "progress"]
    assert running.timeline[-1].text == "25%, first page"
    place.clock.advance("2s")
    await place.end(job, Failed("ValueError: no"))
    assert told(await place.admin.job("a"))[-2:] == ["failed", "waits"]
    place.clock.advance("5s")
    second = await place.claim("w2")
    place.clock.advance("1s")
    await place.end(second, Succeeded(b"42"))
    done = await place.admin.job("a")
    assert told(done) == ["enqueued", "due", "claimed", "started", "failed", "due", "started", "succeeded"]
    assert [entry.attempt for entry in done.timeline] == [None, 1, 1, 1, 1, 2, 2, 2]
    assert [(run.attempt, run.status, run.took) for run in done.runs] == [(1, "failed", 2.0), (2, "completed", 1.0)]
    assert done.job.result == 42
    assert "by w2" in done.timeline[6].text
    assert done.timeline[4].text == "after 2 s: ValueError: no"


@on_a_place
async def test_a_chain_is_one_story_with_each_link_named(place: Place) -> None:
    retry = Retry(max_attempts=2, backoff=fixed("1s"))
    await place.put("a", max_attempts=2, retry_policy=retry.encode(), **NEVER_TWICE)
    await place.fail()
    place.clock.advance("1s")
    child = await place.fail("RuntimeError: again")
    detail = await place.admin.job("a")
    assert detail.links == ("a", child)
    assert (detail.job.id, detail.head.id, detail.head.state) == ("a", child, "dead")
    assert told(detail) == ["enqueued", "started", "failed", "superseded", "due", "started", "failed", "dead"]
    assert detail.timeline[3].text == f"by {child}"
    assert [run.job_id for run in detail.runs] == ["a", child]
    assert (await place.admin.job(child)).links == detail.links
    again = await place.admin.retry("a")
    assert (await place.admin.job("a")).links == ("a", child, again.job_id)
    assert any("by a person" in entry.text for entry in (await place.admin.job("a")).timeline)


@on_a_place
async def test_a_replay_and_the_death_before_it_stay_in_the_story(place: Place) -> None:
    await place.put("a")
    await place.fail()
    place.clock.advance("1s")
    assert told(await place.admin.job("a")) == ["enqueued", "started", "failed", "dead"]
    assert (await place.admin.replay(Filter(), limit=9)).done == ("a",)
    detail = await place.admin.job("a")
    assert told(detail) == ["enqueued", "started", "failed", "dead", "replayed"]
    assert "windlass audit --action job.retry" in detail.timeline[-1].text
    place.clock.advance("1s")
    await place.end(await place.claim(), Snoozed(0))
    await place.fail("KeyError: 'x'")
    detail = await place.admin.job("a")
    again = ["replayed", "started", "failed", "dead"]
    assert told(detail)[:3] == ["enqueued", "started", "failed"]
    assert told(detail)[-4:] == again
    await place.admin.retry("a")
    await place.end(await place.claim(), Succeeded(b"1"))
    assert told(await place.admin.job("a"))[-5:] == ["failed", "dead", "replayed", "started", "succeeded"]


@on_a_place
async def test_a_job_that_was_only_snoozed_or_failed_was_not_replayed(place: Place) -> None:
    await place.put("a", max_attempts=9)
    await place.end(await place.claim(), Snoozed(0))
    await place.fail()
    place.clock.advance("1h")
    await place.end(await place.claim(), Snoozed(0))
    await place.claim()
    assert not {"dead", "replayed"} & set(told(await place.admin.job("a")))


@on_a_place
async def test_a_replay_is_told_of_a_job_whose_successes_are_not_kept(place: Place) -> None:
    await place.put("a", history="failures")
    await place.fail()
    await place.admin.retry("a")
    job = await place.claim()
    assert told(await place.admin.job("a"))[:5] == ["enqueued", "started", "failed", "dead", "replayed"]
    await place.end(job, Succeeded(b"1"))
    assert told(await place.admin.job("a"))[3:] == ["dead", "replayed", "started", "succeeded"]


@on_a_place
async def test_a_lost_lease_a_snooze_and_a_cancellation_have_their_own_words(place: Place) -> None:
    await place.put("a", max_attempts=9)
    await place.claim()
    place.clock.advance("31s")
    snoozed = await place.claim("w2")
    await place.end(snoozed, Snoozed(SECOND))
    place.clock.advance("1s")
    last = await place.claim("w3")
    place.clock.advance("1s")
    assert (await place.admin.cancel("a", "enough")).what == "cancel requested"
    place.clock.advance("1s")
    await place.end(last, WasCancelled("enough"))
    assert told(await place.admin.job("a")) == [
        "enqueued", "started", "lost", "started", "skipped", "due", "started", "cancel requested", "cancelled",
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- listing


@on_a_place
async def test_a_rare_label_is_found_behind_many_others(place: Place) -> None:
    await place.put("rare", run_at=place.clock.now() + 3_600 * SECOND)
    many = [NewJob(id=f"n{n}", type="t") for n in range(510 + 10)]
    await place.client.driver.enqueue(many, now=place.clock.now())
    page = await place.admin.jobs(Filter(state="scheduled"), limit=5)
    assert [job.id for job in page.jobs] == ["rare"]
    assert page.cursor is None
    first = await place.admin.jobs(Filter(state="queued"), limit=510 + 5)
    rest = await place.admin.jobs(Filter(state="queued"), limit=100, cursor=first.cursor)
    assert len({job.id for job in first.jobs + rest.jobs}) == 510 + 11


@on_a_place
async def test_a_word_finds_what_it_shows(place: Place) -> None:
    await place.put("dead")
    await place.fail()
    await place.put("gone")
    await place.admin.cancel("gone")
    await place.put("waits")
    found = await place.admin.jobs(Filter(state="dlq", system="taskharbor"))
    assert [job.id for job in found.jobs] == ["gone", "dead"]
    assert [job.words.flag if job.words else None for job in found.jobs] == ["cancelled", None]
    for word, system, expected in (
        ("CANCELLED", "scheduler", ["gone"]), ("failed", "orchestrator", ["gone"]),
        ("dead_letter", "orchestrator", ["dead"]), ("ready", "taskharbor", ["waits"]), ("scheduled", "taskharbor", []),
    ):  # fmt: skip
        page = await place.admin.jobs(msgspec.convert({"state": word, "system": system}, Filter))
        assert [job.id for job in page.jobs] == expected, f"{system} {word}"
    with pytest.raises(InvalidInput, match="did you mean 'pending'"):
        await place.admin.jobs(Filter(state="pnding", system="orchestrator"))
    with pytest.raises(InvalidInput, match="between 1 and"):
        await place.admin.jobs(limit=0)


@on_a_place
async def test_counts_are_by_queue_and_label(place: Place) -> None:
    await place.put("dead", queue="mail")
    await place.fail()
    await place.put("a", queue="mail")
    await place.put("b", queue="mail", run_at=place.clock.now() + SECOND)
    await place.client.driver.alter([PutQueue("idle", preset="scheduler")], now=place.clock.now())
    idle, mail = (await place.admin.overview()).queues
    assert (idle.name, idle.preset, idle.counts) == ("idle", "scheduler", {})
    assert (mail.name, mail.counts) == ("mail", {"dead": 1, "queued": 1, "scheduled": 1})


@on_a_place
async def test_a_queue_nobody_knows_cannot_be_paused(place: Place) -> None:
    await place.put("a", queue="mail")
    with pytest.raises(InvalidInput, match="did you mean 'mail'"):
        await place.admin.pause("mial")
    assert (await place.client.driver.read(AllQueues())) == []
    assert await place.admin.pause("mail") is True
    assert await place.admin.pause("mail") is False
    assert (await place.admin.overview()).queues[0].paused_at is not None
    assert await place.admin.resume("mail") is True


@on_a_place
async def test_a_queue_whose_jobs_have_all_ended_is_still_known(place: Place) -> None:
    await place.put("a", queue="mail")
    await place.end(await place.claim(), Succeeded())
    assert await place.admin.pause("mail") is True


@on_a_place
async def test_following_ends_with_the_job_and_tells_each_change(place: Place) -> None:
    await place.put("a")
    seen = []
    async for job in place.admin.follow("a"):
        seen.append(job.label)
        if job.label == "queued":
            lease = await place.claim()
        elif job.label == "running":
            await place.end(lease, Succeeded())
    assert seen == ["queued", "running", "succeeded"]
    with pytest.raises(JobNotFound):
        _ = [job async for job in place.admin.follow("nope")]


# ---------------------------------------------------------------------------------------------------------------- changing


@on_a_place
async def test_each_change_says_what_became_of_it(place: Place) -> None:
    await place.put("a", run_at=place.clock.now() + SECOND)
    await place.put("b")
    assert (await place.admin.run_now("a")).what == "due now"
    assert (await place.admin.move("b", "top")).what == "moved"
    assert (await place.claim()).id == "b"
    with pytest.raises(Refused):
        await place.admin.delete("b")
    assert (await place.admin.cancel("a")).what == "cancelled"
    assert (await place.admin.delete("a")).what == "deleted"
    with pytest.raises(JobNotFound):
        await place.admin.job("a")


@on_a_place
async def test_a_raw_type_is_stored_by_the_rules_of_the_repository(place: Place) -> None:
    queued = await place.admin.enqueue("service:nextjs", {"b": 1, "a": [2]}, {"priority": 3})
    [row] = await place.client.driver.get([queued.job_id])
    assert row is not None
    assert (row.type, row.payload, row.priority, row.max_attempts) == ("service:nextjs", b'{"a":[2],"b":1}', 3, 6)
    with pytest.raises(InvalidInput, match="JSON"):
        await place.admin.enqueue("t", {"x": float("nan")}, {})
    with pytest.raises(UnknownTask):
        await Admin(place.client, {}).enqueue("t", {}, {})


# ------------------------------------------------------------------------------------------------------------ dead letters


@on_a_place
async def test_errors_that_differ_in_details_are_one_group(place: Place) -> None:
    for n, error in enumerate(["Timeout after 30 s for 'ada'", "Timeout after 31 s for 'bob'", "KeyError: 'x'"]):
        await place.put(f"d{n}", queue="mail" if n else "default")
        await place.fail(error)
    found = await place.admin.errors(Filter())
    assert [(group.jobs, group.example) for group in found.groups] == [(2, "d1"), (1, "d2")]
    assert found.complete
    assert found.groups[0].queues == ("default", "mail")
    only = await place.admin.dead_letters(Filter(error=found.groups[0].fingerprint))
    assert [job.id for job in only.jobs] == ["d1", "d0"]


@on_a_place
async def test_replay_is_bounded_and_keeps_the_order(place: Place) -> None:
    for n in range(4):
        await place.put(f"d{n}")
        await place.fail()
    swept = await place.admin.replay(Filter(), limit=3)
    assert swept.done == ("d1", "d2", "d3")
    assert (await place.admin.dead_letters(Filter())).jobs[0].id == "d0"
    assert [(await place.claim()).id for _ in range(3)] == ["d1", "d2", "d3"]


@on_a_place
async def test_a_dead_letter_that_cannot_be_replayed_is_named_with_the_reason(place: Place) -> None:
    await place.put("dead", dedupe_key="k")
    await place.fail()
    await place.put("living", dedupe_key="k")
    swept = await place.admin.replay(Filter(), limit=9)
    assert swept.done == ()
    assert "dedupe key" in swept.left["dead"]


@on_a_place
async def test_purge_removes_only_what_is_old_enough(place: Place) -> None:
    await place.put("old")
    await place.fail()
    place.clock.advance("2d")
    await place.put("young")
    await place.fail()
    swept = await place.admin.purge(Filter(older_than=86_400 * SECOND), limit=9)
    assert swept.done == ("old",)
    assert [job.id for job in (await place.admin.jobs()).jobs] == ["young"]


# -------------------------------------------------------------------------------------------------------------- the fleet


def member(name: str, started_at: int) -> WorkerInfo:
    return WorkerInfo(
        id=name, hostname="h", pid=7, pool_size=12, version="1", queues=("a", "b"), types=("t",), wakeups="poll", running=3,
        started_at=started_at,
    )  # fmt: skip


@on_a_place
async def test_what_a_worker_runs_is_told_by_its_leases(place: Place) -> None:
    """A heartbeat is seconds old: it said 0 while the pages and lists of jobs showed four running ones."""
    await place.client.driver.beat(member("w1", place.clock.now()), now=place.clock.now())
    for job_id in ("a", "b"):
        await place.put(job_id)
    await place.claim("w1")
    await place.claim("w1", start=False)
    assert [one.running for one in (await place.admin.workers()).workers] == [2]
    board = await place.admin.dashboard("1h")
    assert (board.slots.busy, sum(queue.running for queue in board.queues)) == (2, 2)


@on_a_place
async def test_the_fleet_tells_who_lives_and_who_leads(place: Place) -> None:
    driver, began = place.client.driver, place.clock.now()
    for name in ("w1", "w2"):
        await driver.beat(member(name, began), now=began)
    await driver.lead("w1", lease_for=90 * SECOND, now=began)
    place.clock.advance(60 * SECOND - 1)
    await driver.beat(member("w1", began), now=place.clock.now())
    found = await place.admin.workers()
    assert [(one.id, one.alive, one.is_leader) for one in found.workers] == [("w1", True, True), ("w2", True, False)]
    assert (found.at, found.leader) == (moment(place.clock.now()), "w1")
    first = found.workers[0]
    assert (first.running, first.pool_size, first.queues, first.wakeups) == (0, 12, ("a", "b"), "poll")
    assert (first.started_at, first.leader_until) == (moment(began), moment(began + 90 * SECOND))
    place.clock.advance(1)
    assert [one.alive for one in (await place.admin.workers()).workers] == [True, False]
    place.clock.advance(30 * SECOND)
    found = await place.admin.workers()
    assert (found.leader, [one.is_leader for one in found.workers]) == (None, [False, False])
    assert found.workers[0].leader_until == moment(began + 90 * SECOND), "it led last"


@on_a_place
async def test_the_doctor_looks_at_the_fleet(place: Place) -> None:
    async def look() -> dict[str, tuple[str, str]]:
        return {check.name: (check.health, check.says) for check in await fleet.checks(place.client)}

    driver, began = place.client.driver, place.clock.now()
    assert await look() == {"fleet": ("ok", "no worker is registered")}
    for name in ("w1", "w2"):
        await driver.beat(member(name, began), now=began)
    place.clock.advance(30 * SECOND)
    assert await look() == {"fleet": ("ok", "2 workers are alive")}, "somebody may be about to take over"
    place.clock.advance(1)
    found = await look()
    assert found["leader"][0] == "warning"
    assert "2 workers are alive and none has led for 30 s" in found["leader"][1]
    await driver.lead("w1", lease_for=30 * SECOND, now=place.clock.now())
    assert "leader" not in await look()
    place.clock.advance(29 * SECOND)
    await driver.beat(member("w1", began), now=place.clock.now())
    place.clock.advance(1 * SECOND)
    assert await look() == {"fleet": ("warning", "1 of 2 workers: no sign of life for 1 min or longer")}
    place.clock.advance(30 * SECOND + 1)
    assert "none has led for 30 s" in (await look())["leader"][1]
    found_by_doctor = {check.name: check.next for check in (await place.admin.doctor()).checks}
    assert found_by_doctor["fleet"] == found_by_doctor["leader"] == "windlass workers"


# ------------------------------------------------------------------------------------------------------------- the doctor


@on_a_place
async def test_the_doctor_sees_lapsed_leases_waiting_jobs_and_dead_letters(place: Place) -> None:
    await place.put("dead")
    await place.fail()
    await place.put("left", max_attempts=9)
    await place.claim()
    place.clock.advance("5m")
    found = {check.name: check for check in (await place.admin.doctor()).checks}
    assert found["leases"].health == "warning"
    assert found["dead letters"].next == "windlass dlq list --by-error"
    assert "workers" not in found
    await place.end(await place.claim("w2"), Succeeded())
    await place.put("waits", queue="mail")
    place.clock.advance("5m")
    found = {check.name: check for check in (await place.admin.doctor()).checks}
    assert found["leases"].health == "ok"
    assert "nothing runs" in found["workers"].says
    assert found["workers"].next == "windlass worker APP --queues mail"


@on_a_place
async def test_of_a_task_that_no_worker_knows_the_doctor_does_not_say_to_start_another_worker(place: Place) -> None:
    await place.put("typo", queue="a")
    place.clock.advance("5m")
    now = place.clock.now()
    await place.client.driver.beat(replace(member("w1", now), types=("other",)), now=now)
    found = {check.name: check for check in (await place.admin.doctor()).checks}
    assert found["tasks"].next == "windlass jobs why typo"
    assert "knows their task (t)" in found["tasks"].says
    assert "workers" not in found
    await place.client.driver.beat(member("w2", now), now=now)
    found = {check.name: check for check in (await place.admin.doctor()).checks}
    assert "tasks" not in found
    assert found["workers"].next == "windlass jobs why typo", "w2 would take it, so something else is in the way"


def test_the_doctor_looks_at_those_that_wait_or_run_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at so many of them, and the others may be as fresh as can be."""
    monkeypatch.setattr(doctor, "LOOK", 2)

    async def main(place: Place) -> None:
        async def found(name: str) -> str:
            place.clock.advance("5m")
            for n in range(3):
                await place.put(f"{name}-{n}")
                if name == "leases":
                    await place.claim("w2")
            return {check.name: check.health for check in (await place.admin.doctor()).checks}[name]

        await place.put("waits", **NEVER_TWICE)
        assert await found("workers") == "warning"
        await place.claim()
        assert await found("leases") == "warning"

    asyncio.run(main(Place()))


def test_the_doctor_reports_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    client = Client(f"sqlite:///{tmp_path / 'nowhere' / 'x.db'}", Settings())
    found = asyncio.run(Admin(client).doctor())
    assert found.health == "problem"
    assert "mkdir -p" in found.checks[0].says


def test_the_plan_of_a_store_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    admin = Admin(Client(f"sqlite:///{path}", Settings()))
    status = admin.migrations()
    assert status.where == str(path)
    assert status.missing == status.steps != ()
    assert not path.exists()

    async def opened() -> None:
        _ = admin.client.driver
        await admin.client.close()

    asyncio.run(opened())
    assert admin.migrations().missing == ()
    assert Admin(Client("memory://", Settings())).migrations().steps == ()


# ---------------------------------------------------------------------------------------------------------------- wording


def test_of_many_names_the_first_are_told_and_the_others_counted() -> None:
    assert named(["a", "b"], 2) == "a, b"
    assert named([f"q{number}" for number in range(1_003)], 2) == "q0, q1 and 1,001 more"


@pytest.mark.parametrize(
    ("micros", "words"),
    [
        (0, "0 s"), (250_000, "250 ms"), (1_500, "1.5 ms"), (SECOND, "1 s"), (1_500_000, "1.5 s"), (59 * SECOND, "59 s"),
        (60 * SECOND, "1 min"), (125 * SECOND, "2 min 5 s"), (3_600 * SECOND, "1 h"), (90_000 * SECOND, "1 d 1 h"),
    ],
)  # fmt: skip
def test_durations_read_as_people_say_them(micros: int, words: str) -> None:
    assert in_words(micros) == words


def test_instants_are_told_from_now() -> None:
    now = moment(10**15)
    assert relative(now, now) == "now"
    assert relative(moment(10**15 + 5 * SECOND), now) == "in 5 s"
    assert relative(moment(10**15 - 125 * SECOND), now) == "2 min 5 s ago"
    assert age(moment(10**15 - 125 * SECOND), now) == "2 min"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_attempts": 6}, "up to 6 executions, waits 1 s, 2 s, 4 s …"),
        ({"max_attempts": 1}, "one execution, no retries"),
        ({"max_attempts": 2, "timeout_ns": 30 * 10**9}, "up to 2 executions, waits 1 s; 30 s for each"),
        ({"max_attempts": 0, "max_lost": 3}, "as many executions as it takes, waits 1 s, 2 s, 4 s …; dead after 3 crashes"),
        (
            {"max_attempts": 4, "retry_policy": Retry(max_attempts=4, backoff=fixed("1m"), jitter="full").encode()},
            "up to 4 executions, waits 1 min each time (anything up to that)",
        ),
        (
            {"max_attempts": 4, "retry_policy": SCHEDULER.retry().encode(), **NEVER_TWICE},
            "up to 4 executions, waits 10 s, 20 s, 40 s; each retry is a new job; a crash counts as a failure",
        ),
    ],
)
def test_a_policy_reads_as_people_say_it(fields: dict[str, Any], words: str) -> None:
    async def stored() -> str:
        place = Place()
        await place.put("a", **fields)
        [row] = await place.client.driver.get(["a"])
        assert row is not None
        return policy_in_words(row)

    assert asyncio.run(stored()) == words


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("no user 17", "no user 18", True),
        ("KeyError: 'ada'", "KeyError: 'bob'", True),
        ("at 0x7f00aa", "at 0x7f11bb", True),
        ("job 0192f0c1-2345-7890-8abc-def012345678", "job 0192f0c1-2345-7890-8abc-def012345679", True),
        ("Timeout: a", "Timeout: b", False),
        ("first\nline 1", "first\nanother", True),
        ("deadbeef99 is gone", "cafebabe00 is gone", True),
    ],
)
def test_a_fingerprint_forgets_what_differs_from_job_to_job(one: str, other: str, same: bool) -> None:
    assert (fingerprint(one) == fingerprint(other)) is same


@on_a_place
async def test_everything_it_answers_can_be_encoded(place: Place) -> None:
    await place.put("bytes", codec="other", payload=b"\xff\x00")
    await place.put("none", codec="none", payload=b"")
    await place.client.driver.alter([PutLimit("k", 1)], now=place.clock.now())
    answers = [await place.admin.jobs(), await place.admin.job("bytes"), await place.admin.overview()]
    answers += [await place.admin.errors(Filter()), await place.admin.doctor(), await place.admin.replay(Filter(), limit=1)]
    for answer in answers:
        assert msgspec.json.encode(answer)
    assert (await place.admin.job("none")).job.payload is None
    assert (await place.admin.job("bytes")).job.payload == "\\xff\x00"


def test_a_slow_disk_holds_nobody_up_while_the_doctor_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_by: list[threading.Thread] = []

    def slow(*_: object) -> list[Path]:
        looked_by.append(threading.current_thread())
        return []

    monkeypatch.setattr(doctor, "_stores_below", slow)

    async def main() -> None:
        async with Windlass(f"sqlite:///{tmp_path}/jobs.db") as app:
            await app.admin.doctor()

    asyncio.run(main())
    assert [thread is threading.main_thread() for thread in looked_by] == [False]


def test_a_template_that_cannot_be_read_tells_nothing_and_hides_no_others() -> None:
    """What its task keeps secret, and whose it is, is said by settings of a newer version."""
    template = Template(template_id="t", version=1, name="t", type="work", queue="q", params=b'{"colour":"mauve"}')
    newer = replace(template, template_id="n", name="n", settings='{"weight":2}')
    assert template_view(template).params == {"colour": "mauve"}
    assert "mauve" not in repr(template_view(newer))

    class Templates:
        async def read(self, query: Query[Any]) -> list[Template]:
            return [template, newer]

    def seen(by: By) -> list[str]:
        found = asyncio.run(narrowed(cast("Driver", Templates()), by, AllTemplates()))
        return [one.name for one in found]

    assert seen(By(actor="a", queues=("q",))) == ["t", "n"]
    assert seen(By(actor="a", org_id="acme")) == []
