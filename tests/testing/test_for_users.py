"""What users' own tests may rely on: nothing mocked, time that stands still, messages that help."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from windlass import Context, Retry, Snooze, Windlass, fixed
from windlass.clock import SECOND, instant
from windlass.core.queries import AllQueues
from windlass.errors import AppClosed, InvalidInput
from windlass.testing import Testing, testing

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
Store = Literal["memory", "sqlite"]
stores = pytest.mark.parametrize("store", ["memory", "sqlite"])


class Shop:
    """An app as users have it, with a log of what its handlers did."""

    def __init__(self) -> None:
        self.app = app = Windlass("memory://")
        self.log: list[Any] = []

        @app.task
        async def send(to: str, *, subject: str = "Hello", copies: int = 1) -> str:
            self.log.append((to, subject))
            return f"sent to {to}"

        @app.task(retry=Retry(max_retries=3, backoff=fixed("1m")))
        def flaky(failures: int) -> str:
            self.log.append("tried")
            if self.log.count("tried") <= failures:
                raise ConnectionError("the line is down")
            return "done"

        @app.task(context=True)
        async def order(ctx: Context, item: str) -> None:
            self.log.append(item)
            await send.enqueue(f"{item}@example.com")

        @app.task
        def anything(value):  # type: ignore[no-untyped-def]
            self.log.append(value)

        self.send, self.flaky, self.order, self.anything = send, flaky, order, anything


@pytest.fixture
def shop() -> Shop:
    return Shop()


# -------------------------------------------------------------------------------------------------------- the block


@stores
def test_the_block_has_a_store_of_its_own_and_gives_the_old_one_back(shop: Shop, store: Store) -> None:
    before = shop.app.client
    outside = shop.send.enqueue_sync("outside")
    with testing(shop.app, store=store, now=NOON) as test:
        assert shop.app.client is not before
        inside = shop.send.enqueue_sync("inside")
        assert [one.args for one in test.enqueued()] == [("inside",)]
        assert test.clock.now() == instant(NOON)
    assert shop.app.client is before
    assert asyncio.run(outside.fetch()).state == "queued"
    with pytest.raises(AppClosed):
        asyncio.run(inside.fetch())


def test_the_old_client_is_back_also_after_an_error(shop: Shop) -> None:
    before = shop.app.client
    with pytest.raises(ZeroDivisionError), testing(shop.app):
        raise ZeroDivisionError
    assert shop.app.client is before


def test_a_temporary_file_is_gone_afterwards(shop: Shop) -> None:
    with testing(shop.app, store="sqlite"):
        path = Path(shop.app.client.url.removeprefix("sqlite:///"))
        shop.send.enqueue_sync("x")
        assert path.is_file()
    assert not path.parent.exists()


def test_two_blocks_with_the_same_now_have_the_same_ids(shop: Shop) -> None:
    ids = []
    for _ in range(2):
        with testing(shop.app, now=NOON):
            ids.append([shop.send.enqueue_sync("x").id for _ in range(3)])
    assert ids[0] == ids[1]


def test_without_now_the_clock_stands_at_the_present(shop: Shop) -> None:
    with testing(shop.app) as test:
        assert abs(test.clock.now() - instant(datetime.now(UTC))) < 60 * SECOND
        assert test.clock.now() == shop.app.client.now()


def test_queues_keep_their_presets_in_every_block() -> None:
    app = Windlass("memory://")
    app.queue("slow", preset="scheduler")

    @app.task(queue="slow")
    async def work() -> None: ...

    work.enqueue_sync()  # the app's own store knows the queue by now
    for _ in range(2):
        with testing(app):
            work.enqueue_sync()
            [queue] = asyncio.run(app.client.driver.read(AllQueues()))
            assert (queue.name, queue.positions, queue.preset) == ("slow", "dense", "scheduler")
    with testing(app):
        app.queue("later", positions="dense")
    work.enqueue_sync()
    assert {queue.name for queue in asyncio.run(app.client.driver.read(AllQueues()))} == {"slow", "later"}


def test_the_repository_follows_the_block(shop: Shop) -> None:
    outside = shop.app.repository
    with testing(shop.app) as test:
        asyncio.run(shop.app.repository.enqueue("send", payload={"to": "ada"}))
        test.assert_enqueued(shop.send, to="ada")
    assert shop.app.repository is not outside
    assert asyncio.run(shop.app.repository.claim()) == []


# --------------------------------------------------------------------------------------------------------- draining


@stores
def test_drain_runs_what_is_due_and_what_that_enqueues(shop: Shop, store: Store) -> None:
    async def main(test: Testing) -> None:
        job = await shop.order.enqueue("tea")
        late = await shop.send.using(delay="5m").enqueue("late")
        stats = await test.drain()
        assert (stats.succeeded, stats.claimed) == (2, 2)
        assert shop.log == ["tea", ("tea@example.com", "Hello")]
        assert (await job.fetch()).state == "succeeded"
        assert (await late.fetch()).state == "queued"

    with testing(shop.app, store=store) as test:
        asyncio.run(main(test))


@stores
def test_a_delay_is_over_when_the_test_says_so(shop: Shop, store: Store) -> None:
    with testing(shop.app, store=store) as test:
        shop.send.using(delay="5m").enqueue_sync("ada")
        test.advance("299s")
        assert test.drain_sync().claimed == 0
        test.advance(timedelta(seconds=1))
        assert test.drain_sync().succeeded == 1
        assert shop.log == [("ada", "Hello")]


def test_advance_takes_seconds_not_microseconds(shop: Shop) -> None:
    with testing(shop.app, now=NOON) as test:
        test.advance(90)
        assert test.clock.now() - instant(NOON) == 90 * SECOND


@stores
def test_retries_wait_for_their_time(shop: Shop, store: Store) -> None:
    with testing(shop.app, store=store) as test:
        job = shop.flaky.enqueue_sync(2)
        assert test.drain_sync().retried == 1
        assert test.drain_sync().claimed == 0
        test.advance("1m")
        assert test.drain_sync().retried == 1
        test.advance("1m")
        assert test.drain_sync().succeeded == 1
        assert asyncio.run(job.result(1)) == "done"


@stores
def test_drain_with_retries_lets_time_pass_until_all_is_at_rest(shop: Shop, store: Store) -> None:
    async def main(test: Testing) -> None:
        ends_well, ends_badly = await shop.flaky.enqueue(2), await shop.flaky.enqueue(99)
        scheduled = await shop.send.using(delay="30d").enqueue("much later")
        stats = await test.drain(retries=True)
        states = {(await job.fetch()).state for job in (ends_well, ends_badly)}
        assert stats.succeeded + stats.dead == 2 <= stats.retried
        assert states <= {"succeeded", "dead"}
        assert (await scheduled.fetch()).state == "queued"
        assert test.clock.now() - instant(NOON) <= 4 * 60 * SECOND

    with testing(shop.app, store=store, now=NOON) as test:
        asyncio.run(main(test))


def test_chains_of_new_jobs_come_to_rest_too() -> None:
    app = Windlass("memory://")

    @app.task(retry_mode="new_job", retry=Retry(max_retries=2, backoff=fixed("1h")))
    async def fails() -> None:
        raise ValueError("never")

    with testing(app, now=NOON) as test:
        fails.enqueue_sync()
        stats = test.drain_sync(retries=True)
        assert (stats.retried, stats.dead) == (2, 1)
        assert len(test.jobs()) == 3
        assert len(test.enqueued(fails)) == 1
        assert test.clock.now() - instant(NOON) == 2 * 3_600 * SECOND


def test_retries_without_end_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Windlass("memory://")
    monkeypatch.setattr("windlass.testing.app.ROUNDS", 5)

    @app.task(retry=Retry(max_attempts=0))
    async def hopeless() -> None:
        raise ValueError("never")

    with testing(app) as test:
        hopeless.enqueue_sync()
        with pytest.raises(AssertionError, match=r"bound them with Retry"):
            test.drain_sync(retries=True)


def test_a_snoozed_job_waits_for_the_clock() -> None:
    app = Windlass("memory://")
    seen: list[int] = []

    @app.task
    async def polls() -> None:
        seen.append(1)
        if len(seen) < 2:
            raise Snooze("10m")

    with testing(app) as test:
        polls.enqueue_sync()
        assert test.drain_sync().snoozed == 1
        test.advance("10m")
        assert test.drain_sync().succeeded == 1


@stores
@pytest.mark.parametrize("policy", ["requeue", "fail"])
def test_leases_follow_the_clock(store: Store, policy: Literal["requeue", "fail"]) -> None:
    app = Windlass("memory://")
    ran: list[str] = []

    @app.task(crash_policy=policy, retry=Retry(max_retries=0))
    def work() -> None:
        ran.append("here")

    async def claimed_by_a_worker_that_dies() -> None:
        assert len(await app.repository.claim()) == 1

    with testing(app, store=store) as test:
        work.enqueue_sync()
        asyncio.run(claimed_by_a_worker_that_dies())
        test.drain_sync()
        assert test.jobs()[0].state == "running"
        test.advance("31s")
        test.drain_sync()
        assert test.jobs()[0].state == "dead"
        assert (ran, test.jobs()[0].lost) == ([], 1)


def test_every_queue_is_drained_also_those_named_by_handlers(shop: Shop) -> None:
    @shop.app.task
    async def forwards() -> None:
        await shop.send.using(queue="elsewhere").enqueue("ada")

    with testing(shop.app) as test:
        forwards.using(queue="here").enqueue_sync()
        assert test.drain_sync().succeeded == 2


@stores
def test_draining_works_where_an_event_loop_runs_already(shop: Shop, store: Store) -> None:
    async def main() -> None:
        with testing(shop.app, store=store) as test:
            shop.send.enqueue_sync("sync")
            await shop.send.enqueue("async")
            assert test.drain_sync().succeeded == 2
            await shop.send.enqueue("again")
            assert (await test.drain()).succeeded == 1
            assert len(test.enqueued()) == 3

    asyncio.run(main())


def test_time_that_passes_runs_everything_at_its_moment() -> None:
    app = Windlass("memory://")
    ran: list[tuple[str, int]] = []

    def note(what: str) -> None:
        ran.append((what, (test.clock.now() - instant(NOON)) // SECOND // 60))

    @app.cron("0 * * * *")
    @app.task
    def hourly() -> None:
        note("hourly")

    @app.task(retry=Retry(max_retries=1, backoff=fixed("10m")))
    async def flaky() -> None:
        note("flaky")
        if len(ran) < 3:
            raise ConnectionError

    with testing(app, now=NOON) as test:
        flaky.using(delay="65m").enqueue_sync()
        stats = test.run_for_sync("2h30m")
        assert ran == [("hourly", 60), ("flaky", 65), ("flaky", 75), ("hourly", 120)]
        assert (stats.succeeded, stats.retried) == (3, 1)
        assert test.clock.now() - instant(NOON) == 150 * 60 * SECOND


@stores
def test_schedules_count_from_the_begin_of_the_block(store: Store) -> None:
    app = Windlass("memory://")
    ran: list[int] = []

    @app.cron(every="1h")
    @app.task
    def hourly() -> None:
        ran.append(1)

    with testing(app, store=store) as test:
        test.advance("1h")
        test.drain_sync()
        assert ran == [1]


def test_time_that_never_comes_to_its_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Windlass("memory://")
    monkeypatch.setattr("windlass.testing.app.MOMENTS", 3)

    @app.cron(every="1s")
    @app.task
    def busy() -> None: ...

    with testing(app) as test, pytest.raises(AssertionError, match="let less time pass"):
        test.run_for_sync("1d")


def test_hooks_are_called_as_they_are_in_production(shop: Shop) -> None:
    told: list[str] = []
    shop.app.on("job.succeeded")(lambda event: told.append(event.job_id))
    with testing(shop.app) as test:
        job = shop.send.enqueue_sync("ada")
        test.drain_sync()
        assert told == [job.id]


# --------------------------------------------------------------------------------------------------------- asserting


def test_enqueued_tells_arguments_as_the_handler_gets_them(shop: Shop) -> None:
    with testing(shop.app) as test:
        shop.send.enqueue_sync("ada", subject="Hi")
        shop.flaky.enqueue_sync(failures=0)
        first, second = test.enqueued()
        assert (first.task, first.args, first.kwargs) == ("send", ("ada",), {"subject": "Hi"})
        assert (second.task, second.args, second.job.type) == ("flaky", (0,), "flaky")
        assert [one.task for one in test.enqueued(shop.flaky)] == ["flaky"]
        test.drain_sync()
        assert len(test.enqueued()) == 2
        assert [job.state for job in test.jobs()] == ["succeeded", "succeeded"]


def test_more_than_one_page_of_jobs_is_seen(shop: Shop) -> None:
    with testing(shop.app) as test:
        shop.app.enqueue_many_sync(shop.flaky.job(n) for n in range(1_203))
        assert [one.args for one in test.enqueued()] == [(n,) for n in range(1_203)]


def test_assert_enqueued_looks_only_at_what_is_named(shop: Shop) -> None:
    with testing(shop.app) as test:
        shop.send.using(priority=9, delay="5m", org_id="acme", tags=("a",)).enqueue_sync("ada", subject="Hi")
        test.assert_enqueued(shop.send)
        test.assert_enqueued(shop.send, "ada")
        test.assert_enqueued(shop.send, to="ada", subject="Hi", copies=1)
        test.advance("1m")
        found = test.assert_enqueued(shop.send, using={"priority": 9, "delay": "5m", "org_id": "acme", "tags": ["a"]})
        assert found.kwargs == {"subject": "Hi"}
        for args, kwargs, using in (
            (("bob",), {}, {}), ((), {"subject": "Hello"}, {}), ((), {"copies": 2}, {}), ((), {}, {"priority": 0}),
            ((), {}, {"delay": "4m"}), ((), {}, {"org_id": "other"}), ((), {}, {"idempotency_key": "k"}),
        ):  # fmt: skip
            with pytest.raises(AssertionError, match="was not enqueued"):
                test.assert_enqueued(shop.send, *args, using=using, **kwargs)
        with pytest.raises(AssertionError):
            test.assert_enqueued(shop.order)


def test_arguments_are_compared_as_they_are_stored(shop: Shop) -> None:
    with testing(shop.app) as test:
        shop.anything.enqueue_sync((1, (2, 3)))
        test.assert_enqueued(shop.anything, (1, (2, 3)))
        test.assert_enqueued(shop.anything, [1, [2, 3]])
        test.assert_not_enqueued(shop.anything, (1, 2))
        test.assert_not_enqueued(shop.anything, object())


def test_a_failed_assertion_lists_what_was_enqueued_nearest_first(shop: Shop) -> None:
    with testing(shop.app) as test:
        with pytest.raises(AssertionError, match="nothing was enqueued at all"):
            test.assert_enqueued(shop.send, "ada")
        shop.flaky.enqueue_sync(1)
        shop.send.enqueue_sync("bob", subject="Yo")
        shop.send.enqueue_sync("ada", subject="Yo")
        with pytest.raises(AssertionError) as failure:
            test.assert_enqueued(shop.send, "ada", subject="Hi", using={"priority": 0})
    lines = str(failure.value).splitlines()
    assert lines[0].startswith(
        "send('ada', subject='Hi') with {'priority': 0} was not enqueued; these were, nearest first:"
    )
    assert lines[1] == "  send('ada', subject='Yo'): subject is 'Yo', not 'Hi'"
    assert lines[2].startswith("  send('bob', subject='Yo'): to is 'bob', not 'ada'; subject is 'Yo'")
    assert lines[3] == "  flaky(1): is a flaky"


def test_a_long_list_is_cut(shop: Shop) -> None:
    with testing(shop.app) as test:
        for n in range(15):
            shop.send.enqueue_sync(f"user{n}")
        with pytest.raises(AssertionError, match="and 5 more"):
            test.assert_enqueued(shop.send, "ada")


def test_assert_not_enqueued_names_the_job_it_found(shop: Shop) -> None:
    with testing(shop.app) as test:
        test.assert_not_enqueued(shop.send)
        shop.send.enqueue_sync("ada")
        test.assert_not_enqueued(shop.send, "bob")
        test.assert_not_enqueued(shop.flaky)
        with pytest.raises(AssertionError, match=r"send\(\) was enqueued: send\('ada'\)"):
            test.assert_not_enqueued(shop.send)


def test_a_wrong_question_is_an_error_not_an_answer(shop: Shop) -> None:
    with testing(shop.app) as test:
        shop.send.enqueue_sync("ada")
        with pytest.raises(TypeError, match="unexpected keyword argument 'subjekt'"):
            test.assert_not_enqueued(shop.send, subjekt="Hi")
        with pytest.raises(InvalidInput, match="did you mean 'priority'"):
            test.assert_not_enqueued(shop.send, using={"prority": 1})
        with pytest.raises(InvalidInput, match="cannot be seen"):
            test.assert_enqueued(shop.send, using={"on_duplicate": "raise"})
    with pytest.raises(InvalidInput, match="'memory' or 'sqlite'"), testing(shop.app, store="redis"):  # type: ignore[arg-type]
        pass
    with pytest.raises(InvalidInput, match="inline=True"), testing(shop.app, raise_errors=True):
        pass


def test_jobs_of_unknown_types_are_listed_too(shop: Shop) -> None:
    with testing(shop.app) as test:
        asyncio.run(shop.app.repository.enqueue("elsewhere", payload={"a": 1}))
        [one] = test.enqueued()
        assert (one.task, one.args, str(one)) == ("elsewhere", None, "elsewhere(<7 bytes>)")


# ------------------------------------------------------------------------------------------------------------- inline


@stores
def test_inline_runs_a_job_before_enqueue_returns(shop: Shop, store: Store) -> None:
    async def main() -> None:
        job = await shop.order.enqueue("tea")
        assert shop.log == ["tea", ("tea@example.com", "Hello")]
        assert (await job.fetch()).state == "succeeded"
        assert (await (await shop.send.enqueue("ada")).result(1)) == "sent to ada"
        assert shop.flaky.enqueue_sync(0).id in {job.id for job in test.jobs()}
        assert "tried" in shop.log

    with testing(shop.app, store=store, inline=True) as test:
        asyncio.run(main())
        shop.send.enqueue_sync("no loop")
        assert shop.log[-1] == ("no loop", "Hello")
        shop.app.enqueue_many_sync([shop.send.job("one"), shop.send.job("two")])
        assert [entry[0] for entry in shop.log[-2:]] == ["one", "two"]
        assert {job.state for job in test.jobs()} == {"succeeded"}
        assert all(job.executions == 1 for job in test.jobs())


def test_inline_jobs_that_are_enqueued_at_once_are_all_done(shop: Shop) -> None:
    """Also when the worker of one enqueue has taken the job of another."""

    @shop.app.task
    async def slow(n: int) -> None:
        await asyncio.sleep(0.02)
        shop.log.append(n)

    async def enqueue(n: int) -> None:
        job = await slow.enqueue(n)
        assert n in shop.log
        assert (await job.fetch()).state == "succeeded"

    async def main() -> None:
        await asyncio.gather(*(enqueue(n) for n in range(5)))

    with testing(shop.app, inline=True):
        asyncio.run(main())
    assert sorted(shop.log) == list(range(5))


def test_inline_still_encodes_and_decodes(shop: Shop) -> None:
    class Thing:
        pass

    with testing(shop.app, inline=True):
        with pytest.raises(InvalidInput, match="value"):
            shop.anything.enqueue_sync(Thing())
        shop.anything.enqueue_sync((1, 2))
    assert shop.log == [[1, 2]]


def test_inline_leaves_delayed_jobs_for_their_time(shop: Shop) -> None:
    with testing(shop.app, inline=True) as test:
        shop.send.using(delay="1h").enqueue_sync("later")
        assert shop.log == []
        test.advance("1h")
        assert test.drain_sync().succeeded == 1


@stores
def test_an_inline_error_is_recorded_as_ever(shop: Shop, store: Store) -> None:
    with testing(shop.app, store=store, inline=True) as test:
        job = shop.flaky.enqueue_sync(1)
        row = asyncio.run(job.fetch())
        assert (row.state, row.attempts, row.last_error) == ("queued", 1, "ConnectionError: the line is down")
        assert test.drain_sync(retries=True).succeeded == 1


@stores
def test_an_inline_error_is_raised_when_asked_for(shop: Shop, store: Store) -> None:
    async def main() -> None:
        with pytest.raises(ConnectionError, match="the line is down"):
            await shop.flaky.enqueue(99)

    with testing(shop.app, store=store, inline=True, raise_errors=True) as test:
        with pytest.raises(ConnectionError, match="the line is down"):
            shop.flaky.enqueue_sync(99)
        asyncio.run(main())
        assert [job.attempts for job in test.jobs()] == [1, 1]
        shop.send.enqueue_sync("fine")


# ------------------------------------------------------------------------------------------------------ in test modules


def test_importing_it_is_light_and_test_runners_leave_it_alone(tmp_path: Path) -> None:
    module = tmp_path / "test_of_a_user.py"
    module.write_text(
        "import sys\nimport windlass.testing\n"
        "light = not [m for m in sys.modules if m.split('.')[0] in ('hypothesis', 'apsw')]\n"
        "from windlass.testing import EnqueuedJob, Testing, testing\ndef test_one(): assert light\n"
    )
    done = subprocess.run([sys.executable, str(module)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:hypothesispytest", "-p", "no:cacheprovider",
               "-p", "no:schemathesis", "-p", "no:asyncio"]  # fmt: skip
    done = subprocess.run([*command, str(module)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
