"""`Admin.acting_as`: what is done in somebody's name is noted, and whoever is bounded sees and changes what is theirs.

Each promise is kept on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from windlass import Context, Reject, Retry, Windlass
from windlass.admin import Admin, Filter
from windlass.admin.acting import MADE_BY
from windlass.core.alterations import PutLimit, PutWebhook
from windlass.core.queries import AllEvents, Faults, Query
from windlass.errors import GroupNotFound, InvalidInput, JobNotFound, OutOfScope, WindlassError
from windlass.options import JobOptions
from windlass.principal import SCOPES

STORES = ("memory", "sqlite", "postgres")
SECRET = "whsec_" + "c2VjcmV0" * 4


class House:
    """Two orgs in one store. `acme` and `evil` each have a job that waits and one that is dead."""

    def __init__(self, url: str) -> None:
        self.app = app = Windlass(url)
        self.admin = Admin(app.client, app.tasks)

        @app.task(queue="work", retry=Retry(max_retries=0))
        async def work(fail: bool = False) -> str:
            if fail:
                raise Reject("no")
            return "done"

        self.work = work
        self.jobs: dict[str, str] = {}

    async def move_in(self) -> None:
        for org in ("acme", "evil"):
            self.jobs[f"{org} dead"] = (await self.work.using(org_id=org).enqueue(fail=True)).id
        await self.app.worker().run(drain=True)
        for org in ("acme", "evil"):
            self.jobs[org] = (await self.work.using(org_id=org).enqueue()).id

    async def lines(self) -> list[tuple[str, str, str, int]]:
        return [(line.actor, line.action, line.subject, line.count) for line in (await self.admin.audit()).lines]


@pytest.fixture(params=STORES)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Callable[[House], Awaitable[None]]], None]:
    kind = request.param
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}.get(kind) or str(
        request.getfixturevalue("fresh_database")
    )

    def live(story: Callable[[House], Awaitable[None]]) -> None:
        async def whole() -> None:
            here = House(url)
            try:
                await here.move_in()
                await story(here)
            finally:
                await here.app.close()

        asyncio.run(whole())

    return live


Live = Callable[[Callable[[House], Awaitable[None]]], None]


def test_every_change_is_noted_in_the_name_of_who_made_it(house: Live) -> None:
    async def story(here: House) -> None:
        ada, job = here.admin.acting_as("ada"), here.jobs["acme"]
        await ada.set_priority(job, 5)
        await ada.cancel(job, "not today")
        await ada.retry(here.jobs["acme dead"])
        await ada.pause("work")
        await ada.resume("work")
        await ada.set_limit("gpu", 2)
        await ada.templates.put("t", "work", {})
        await ada.schedules.put("s", "t", "0 9 * * *")
        await ada.schedules.pause("s")
        await ada.delete(here.jobs["evil dead"])
        assert [line[:3] for line in reversed(await here.lines())] == [
            ("ada", "job.priority", f"job:{job}"), ("ada", "job.cancel", f"job:{job}"),
            ("ada", "job.retry", f"job:{here.jobs['acme dead']}"), ("ada", "queue.pause", "queue:work"),
            ("ada", "queue.resume", "queue:work"), ("ada", "limit.set", "limit:key:gpu"),
            ("ada", "template.put", "template:t"), ("ada", "schedule.put", "schedule:s"),
            ("ada", "schedule.pause", "schedule:s"), ("ada", "job.delete", f"job:{here.jobs['evil dead']}"),
        ]  # fmt: skip

    house(story)


def test_code_acts_as_code_and_a_plain_handle_as_nobody(house: Live) -> None:
    async def story(here: House) -> None:
        await here.app.admin.set_priority(here.jobs["acme"], 3)
        await here.app.job(here.jobs["acme"]).cancel()
        assert [line[:2] for line in await here.lines()] == [("code", "job.priority")]

    house(story)


def test_a_sweep_is_one_line_with_its_filter_and_its_count(house: Live) -> None:
    async def story(here: House) -> None:
        swept = await here.admin.acting_as("ada").replay(Filter(queue="work"), limit=10)
        assert len(swept.done) == 2
        [line] = (await here.admin.audit()).lines
        assert (line.action, line.subject, line.count, line.selection) == (
            "job.retry", "2 jobs", 2, "state=dead queue=work",
        )  # fmt: skip
        assert line.detail == {"subjects": [f"job:{here.jobs['acme dead']}", f"job:{here.jobs['evil dead']}"]}

    house(story)


def test_a_foreign_job_is_not_found_whatever_one_does(house: Live) -> None:
    async def story(here: House) -> None:
        for bound in (here.admin.acting_as("t", org_id="acme"), here.admin.acting_as("t", queues=["other"])):
            for job in (here.jobs["evil"], here.jobs["evil dead"]):
                for call in (
                    bound.job, bound.why, bound.logs, bound.cancel, bound.retry, bound.run_now, bound.delete,
                    lambda one, bound=bound: bound.set_priority(one, 3), lambda one, bound=bound: bound.move(one, "top"),
                    lambda one, bound=bound: bound.swap(one, here.jobs["acme"]),
                    lambda one, bound=bound: bound.move_beside(one, here.jobs["acme"], "after"),
                ):  # fmt: skip
                    with pytest.raises(JobNotFound):
                        await call(job)
        acme = here.admin.acting_as("t", org_id="acme")
        with pytest.raises(JobNotFound):
            await acme.swap(here.jobs["acme"], here.jobs["evil"])
        assert await here.lines() == []
        assert (await acme.job(here.jobs["acme"])).job.org_id == "acme"

    house(story)


def test_lists_hold_what_is_theirs(house: Live) -> None:
    async def story(here: House) -> None:
        acme = here.admin.acting_as("t", org_id="acme")
        assert {job.org_id for job in (await acme.jobs()).jobs} == {"acme"}
        assert (await acme.jobs(Filter(org_id="evil"))).jobs == ()
        assert {job.id for job in (await acme.dead_letters(Filter())).jobs} == {here.jobs["acme dead"]}
        assert [group.jobs for group in (await acme.errors(Filter())).groups] == [1]
        assert (await acme.replay(Filter(), limit=10)).done == (here.jobs["acme dead"],)
        assert [job.id for job in (await acme.order("work")).jobs if job.org_id != "acme"] == []
        looked = [(await acme.jobs()).looked_at, (await acme.matching(Filter())).looked_at]
        looked.append((await acme.bulk("cancel", Filter(), dry_run=True)).looked_at)
        assert looked == [2, 2, 2], "how many others there are is not told"
        narrow = here.admin.acting_as("t", queues=["other"])
        assert (await narrow.jobs()).jobs == ()
        assert (await narrow.overview()).queues == ()
        assert [queue.name for queue in (await here.admin.acting_as("t", queues=["work"]).overview()).queues] == ["work"]
        with pytest.raises(OutOfScope):
            await acme.overview()

    house(story)


def test_groups_of_others_are_not_there(house: Live) -> None:
    async def story(here: House) -> None:
        async with here.app.group("own") as own:
            own.add(here.work.using(org_id="acme").job())
        async with here.app.group("mixed") as mixed:
            mixed.add(here.work.using(org_id="acme").job())
            mixed.add(here.work.using(org_id="evil").job())
        acme = here.admin.acting_as("t", org_id="acme")
        assert [group.id for group in (await acme.groups()).groups] == [own.id]
        assert (await acme.group(own.id)).group.total == 1
        with pytest.raises(GroupNotFound):
            await acme.group(mixed.id)
        with pytest.raises(GroupNotFound):
            await acme.cancel_group(mixed.id)
        assert await acme.cancel_group(own.id) == "cancelled"

    house(story)


def test_what_is_made_is_theirs_and_says_by_whom(house: Live) -> None:
    async def story(here: House) -> None:
        acme = here.admin.acting_as("token:ci", org_id="acme", queues=["work"])
        made = await acme.enqueue("work", {}, {"headers": {"trace": "1", MADE_BY: "somebody else"}})
        job = (await here.admin.job(made.job_id)).job
        assert (job.org_id, job.headers) == ("acme", {"trace": "1", MADE_BY: "token:ci"})
        for options in ({"org_id": "evil"}, {"queue": "other"}, {"idempotency_key": "k", "idempotency_scope": "global"}):
            with pytest.raises(OutOfScope):
                await acme.enqueue("work", {}, options)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="after"):
            await acme.enqueue("work", {}, {"after": [here.jobs["evil"]]})
        assert (await acme.enqueue("work", {}, {"after": [here.jobs["acme"]]})).existed is False

    house(story)


def test_nobody_s_key_finds_the_job_of_another_org(house: Live) -> None:
    async def story(here: House) -> None:
        keys: list[JobOptions] = [
            {"idempotency_key": "k"}, {"idempotency_key": "q", "idempotency_scope": "queue"},
            {"dedupe": "d", "on_duplicate": "replace"}, {"dedupe": True},
        ]  # fmt: skip
        for options in keys:
            made = [
                await here.admin.acting_as("t", org_id=org).enqueue("work", {}, options) for org in ("acme", "evil", "acme")
            ]
            assert made[0].job_id == made[2].job_id != made[1].job_id, options
            assert [one.existed for one in made] == [False, False, True]

    house(story)


def test_a_key_finds_nothing_beyond_the_queues_that_one_has(house: Live) -> None:
    """Also when the task itself chose the key."""

    async def story(here: House) -> None:
        @here.app.task(queue="work", dedupe="nightly", on_duplicate="replace")
        async def nightly(by: str = "") -> None: ...

        for name in ("work", "nightly"):
            keys: list[dict[str, Any]] = [
                {"idempotency_key": "k"}, {"idempotency_key": name, "idempotency_scope": "org"}, {"dedupe": "d"},
                {"dedupe": True}, *([{}] if name == "nightly" else ()),
            ]  # fmt: skip
            ways: list[dict[str, Any]] = [{"queues": ["work"]}, {"queues": ["work"], "org_id": "acme"}, {"org_id": "evil"}]
            for options in keys:
                first = await here.app.tasks[name].using(**{**options, "queue": "away", "org_id": "acme"}).enqueue()
                for bounds in ways:
                    token = here.admin.acting_as("t", **bounds)
                    own = {"queue": "work", "org_id": bounds.get("org_id", "acme"), **options}
                    made = [await token.enqueue(name, {}, own) for _ in range(2)]  # type: ignore[arg-type]
                    assert made[0].job_id == made[1].job_id != first.id, (name, options, bounds)
                    assert made[1].existed, (name, options, bounds)
                kept = (await here.admin.job(first.id)).job
                assert (kept.state, kept.queue, kept.org_id) == ("queued", "away", "acme")
                await here.admin.cancel(first.id)

    house(story)


def test_a_key_with_a_colon_is_not_that_of_an_org_whose_name_has_one(house: Live) -> None:
    async def story(here: House) -> None:
        one = await here.admin.acting_as("t", org_id="acme:eu").enqueue("work", {}, {"dedupe": "d"})
        other = await here.admin.acting_as("t", org_id="acme").enqueue("work", {}, {"dedupe": "eu:d"})
        assert (other.existed, other.job_id != one.job_id) == (False, True)

    house(story)


def test_what_all_share_is_out_of_reach_and_unknown_questions_are_refused(house: Live) -> None:
    async def story(here: House) -> None:
        await here.app.client.driver.alter(
            [
                PutLimit("org:evil", 1), PutLimit("org:acme", 1), PutLimit("global", 9),
                PutWebhook(webhook_id="w", url="https://x", events=("job.recovered",), secret=SECRET, org_id="evil"),
            ],
            now=here.app.client.now(),
        )  # fmt: skip
        acme = here.admin.acting_as("t", org_id="acme")
        assert [limit.key for limit in (await acme.limits()).limits] == ["global", "org:acme"]
        assert await acme.client.driver.read(AllEvents()) == []
        refused: list[Callable[[], Awaitable[object]]] = [
            lambda: acme.pause("work"), lambda: acme.set_limit("org:acme", 99), lambda: acme.client.driver.read(Faults()),
            lambda: acme.client.driver.read(Strange()), lambda: acme.repair([]),
            lambda: acme.client.driver.expire(now=0, limit=1), lambda: acme.templates.put("t", "work", {}),
            lambda: acme.create_token("x", ("read",)),
        ]  # fmt: skip
        for call in refused:
            with pytest.raises(OutOfScope, match="t is bound to the org 'acme'"):
                await call()
        assert all(worker.hostname == "-" for worker in (await acme.workers()).workers)

    house(story)


class Strange(Query[int], frozen=True):
    """A question that was added later."""


def test_acting_as_another_does_not_lift_the_bounds(house: Live) -> None:
    async def story(here: House) -> None:
        acme = here.admin.acting_as("t", org_id="acme", queues=["work", "mail"])
        other = acme.acting_as("u")
        with pytest.raises(JobNotFound):
            await other.cancel(here.jobs["evil"])
        await other.acting_as("v", queues=["work"]).cancel(here.jobs["acme"])
        [line] = (await here.admin.audit()).lines
        assert (line.actor, line.org_id) == ("v", "acme")
        for bad in ({"org_id": "evil"}, {"queues": ["other"]}):
            with pytest.raises(OutOfScope):
                acme.acting_as("u", **bad)

    house(story)


def test_whoever_has_some_queues_does_not_read_the_lines_of_a_namesake_in_an_org(house: Live) -> None:
    async def story(here: House) -> None:
        for _ in range(3):
            await here.admin.acting_as("ci", org_id="acme").note("x.note", "x")
            await here.admin.acting_as("ci", queues=["work"]).note("own.note", "own")
        theirs = await here.admin.acting_as("ci", queues=["work"]).audit(limit=2)
        assert [line.action for line in theirs.lines] == ["own.note"] * 2
        rest = await here.admin.acting_as("ci", queues=["work"]).audit(limit=2, cursor=theirs.cursor)
        assert [line.action for line in rest.lines] == ["own.note"]

    house(story)


def test_an_org_reads_its_own_lines_of_the_audit_log(house: Live) -> None:
    async def story(here: House) -> None:
        for org in ("acme", "evil"):
            await here.admin.acting_as(f"token:{org}", org_id=org).set_priority(here.jobs[org], 4)
        lines = (await here.admin.acting_as("x", org_id="acme").audit()).lines
        assert [line.actor for line in lines] == ["token:acme"]
        assert (await here.admin.acting_as("x", queues=["work"]).audit()).lines == ()
        first = await here.admin.audit(limit=1)
        second = await here.admin.audit(limit=1, cursor=first.cursor)
        assert [first.lines[0].actor, second.lines[0].actor] == ["token:evil", "token:acme"]

    house(story)


def test_a_token_s_bounds_are_those_of_the_admin_it_gets(house: Live) -> None:
    async def story(here: House) -> None:
        _, secret = await here.admin.acting_as("ada").create_token("ci", SCOPES, "acme", ("work",))
        who = await here.admin.authenticate(secret)
        assert who is not None
        theirs = here.admin.acting_as(who.actor, org_id=who.org_id, queues=who.queues)
        await theirs.cancel(here.jobs["acme"])
        with pytest.raises(WindlassError):
            await theirs.cancel(here.jobs["evil"])
        assert [line[:2] for line in await here.lines()] == [("token:ci", "job.cancel"), ("ada", "token.create")]

    house(story)


def test_nothing_is_enqueued_in_somebody_s_name_inside_of_a_transaction(house: Live) -> None:
    """It would join the transaction without being looked at."""

    async def story(here: House) -> None:
        refused: list[str] = []

        @here.app.task(context=True, queue="work")
        async def sly(ctx: Context) -> None:
            async with ctx.transaction():
                try:
                    await here.admin.acting_as("t", queues=["other"]).enqueue("work", {}, {"queue": "work"})
                except InvalidInput as error:
                    refused.append(error.field)

        await sly.enqueue()
        await here.app.worker().run(drain=True)
        assert refused == ["transaction"]

    house(story)
