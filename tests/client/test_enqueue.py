"""Enqueueing: what was said is what is stored, from any thread and any loop, once per key."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windlass import Retry, Windlass, dedupe_key, fixed
from windlass.clock import SECOND, instant
from windlass.core.queries import AllQueues
from windlass.core.uniqueness import stored_dedupe_key
from windlass.errors import DuplicateId, DuplicateJob

from .conftest import START, Place, only, rows


@pytest.fixture
def app(place: Place) -> Windlass:
    return place.app()


def declare(app: Windlass, **options: Any) -> Any:
    async def send(to: str, *, subject: str = "Hello") -> str:
        return f"{to}: {subject}"

    return app.task(**options)(send)


# ----------------------------------------------------------------------------------------------------------- one job


def test_what_was_enqueued_is_stored_and_runs(app: Windlass) -> None:
    send = declare(app)

    async def main() -> None:
        job = await send.enqueue("ada", subject="Hi")
        row = await job.fetch()
        assert (row.id, row.type, row.queue, row.state) == (job.id, "send", "default", "queued")
        assert (row.payload, row.codec, row.created_at) == (b'{"to":"ada","subject":"Hi"}', "json", instant(START))
        assert not job.existed
        await app.worker().run(drain=True)
        assert await job.result(1) == "ada: Hi"

    asyncio.run(main())


def test_a_task_is_still_its_function(app: Windlass) -> None:
    send = declare(app)

    @app.task
    def add(a: int, b: int = 1) -> int:
        """Adds."""
        return a + b

    assert asyncio.run(send("ada")) == "ada: Hello"
    assert (add(1), add(1, b=2), add.__doc__, add.name) == (2, 3, "Adds.", "add")


def test_arguments_may_have_any_name(app: Windlass) -> None:
    @app.task
    async def names(*, self: int, args: int, task: int) -> int:
        return self + args + task

    async def main() -> None:
        job = await names.enqueue(self=1, args=2, task=3)
        await app.worker().run(drain=True)
        assert await job.result(1) == 6
        assert await names(self=1, args=2, task=3) == 6

    asyncio.run(main())


def test_enqueue_sync_stores_the_same_row(app: Windlass) -> None:
    send = declare(app)

    async def main() -> None:
        await send.enqueue("ada")
        one, two = await rows(app)
        assert (one.payload, one.retry_policy, one.max_attempts) == (two.payload, two.retry_policy, two.max_attempts)

    send.enqueue_sync("ada")
    asyncio.run(main())


def test_enqueue_sync_inside_a_running_loop_does_not_touch_it(app: Windlass) -> None:
    send = declare(app)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        before = asyncio.all_tasks()
        job = send.enqueue_sync("ada")
        assert asyncio.get_running_loop() is loop
        assert asyncio.all_tasks() == before
        assert (await job.fetch()).state == "queued"

    asyncio.run(main())


def test_enqueue_sync_never_asks_for_an_event_loop(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    send = declare(app)
    send.enqueue_sync("first")  # the store is open by now

    def refuse(*_: object) -> None:
        raise AssertionError("an event loop was touched")

    for name in ("get_running_loop", "get_event_loop", "new_event_loop", "set_event_loop", "run"):
        monkeypatch.setattr(asyncio, name, refuse)
    send.enqueue_sync("second")
    app.enqueue_many_sync([send.job("third")])
    monkeypatch.undo()
    assert len(asyncio.run(rows(app))) == 3


def test_the_first_enqueue_sync_may_be_in_a_running_loop_and_declare_queues(app: Windlass) -> None:
    app.queue("mail", preset="scheduler")
    send = declare(app, queue="mail")

    async def main() -> None:
        send.enqueue_sync("ada")
        [queue] = await app.client.driver.read(AllQueues())
        assert (queue.name, queue.preset, queue.positions) == ("mail", "scheduler", "dense")

    asyncio.run(main())


def test_plain_threads_enqueue_at_the_same_time(app: Windlass) -> None:
    send = declare(app)
    ids: list[str] = []
    start = threading.Barrier(8)

    def work(n: int) -> None:
        start.wait()
        ids.extend(send.enqueue_sync(f"{n}-{i}").id for i in range(25))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 200
    assert {row.id for row in asyncio.run(rows(app))} == set(ids)


def test_one_app_serves_several_loops_after_each_other(app: Windlass) -> None:
    send = declare(app)
    for n in range(3):
        asyncio.run(send.enqueue(f"{n}"))
    assert len(asyncio.run(rows(app))) == 3


# ----------------------------------------------------------------------------------------------------------- options


def test_using_says_everything_about_one_job(app: Windlass) -> None:
    send = declare(app)

    async def main() -> None:
        chosen = send.using(
            queue="mail", priority=9, delay="5m", org_id="acme", tags=("a", "b"), headers={"trace": "1"}, limits=("gpu",),
            timeout="3s", max_lost=7, on_unknown="dead", retry=Retry(max_retries=1, backoff=fixed("9s")), id="mine",
            idempotency_key="key", dedupe="only-one",
        )  # fmt: skip
        job = await chosen.enqueue("ada")
        row = await only(app)
        assert (job.id, row.id, row.queue, row.priority) == ("mine", "mine", "mail", 9)
        assert row.run_at == instant(START) + 300 * SECOND
        assert (row.org_id, row.tags, row.headers, row.limit_keys) == ("acme", ("a", "b"), {"trace": "1"}, ("key:gpu",))
        assert (row.timeout_ns, row.max_lost, row.on_unknown, row.max_attempts) == (3_000_000_000, 7, "dead", 2)
        assert (row.idempotency_key, row.dedupe_key) == ("key", "only-one")
        assert row.retry_policy is not None
        assert Retry.decode(row.retry_policy).backoff == fixed("9s")

    asyncio.run(main())


def test_using_is_frozen_and_builds_on_itself(app: Windlass) -> None:
    send = declare(app, priority=1)
    high = send.using(priority=9)
    later = high.using(delay="1m")
    at = later.using(run_at=START + timedelta(days=1))

    async def main() -> None:
        for one in (send, high, later, at, at.using(delay="2m")):
            await one.enqueue("ada")
        found = [(row.priority, row.run_at and row.run_at - instant(START)) for row in await rows(app)]
        assert found == [(1, None), (9, None), (9, 60 * SECOND), (9, 86_400 * SECOND), (9, 120 * SECOND)]

    asyncio.run(main())


def test_a_delay_counts_from_the_enqueue_not_from_using(place: Place, app: Windlass) -> None:
    later = declare(app).using(delay=60)
    place.clock.advance("1h")
    later.enqueue_sync("ada")
    assert asyncio.run(only(app)).run_at == place.clock.now() + 60 * SECOND


@pytest.mark.parametrize("delay", ["90s", 90, 90.0, timedelta(seconds=90), "1m30s"])
def test_durations_are_written_as_people_like(app: Windlass, delay: Any) -> None:
    declare(app).using(delay=delay).enqueue_sync("ada")
    assert asyncio.run(only(app)).run_at == instant(START) + 90 * SECOND


def test_a_time_in_any_zone_is_the_same_instant(app: Windlass) -> None:
    from zoneinfo import ZoneInfo

    send = declare(app)
    at = datetime(2030, 7, 1, 9, tzinfo=ZoneInfo("Europe/Berlin"))
    send.using(run_at=at).enqueue_sync("ada")
    assert asyncio.run(only(app)).run_at == instant(datetime(2030, 7, 1, 7, tzinfo=UTC))


def test_a_higher_priority_runs_first_and_a_delayed_job_only_when_due(place: Place, app: Windlass) -> None:
    seen: list[str] = []

    @app.task
    async def note(name: str) -> None:
        seen.append(name)

    async def main() -> None:
        await note.enqueue("low")
        await note.using(priority=5).enqueue("high")
        await note.using(delay="1m", priority=9).enqueue("later")
        await app.worker(concurrency=1).run(drain=True)
        assert seen == ["high", "low"]
        place.clock.advance("1m")
        await app.worker().run(drain=True)
        assert seen == ["high", "low", "later"]

    asyncio.run(main())


# -------------------------------------------------------------------------------------------------------- precedence


def test_using_wins_over_task_over_preset_over_settings(place: Place) -> None:
    app = place.app(max_lost=11, on_duplicate="touch", on_unknown="dead", timeout="1s", retry=Retry(max_retries=9))
    app.queue("h", preset="harmonyk")

    @app.task(name="settings")
    async def from_settings() -> None: ...

    @app.task(queue="h", name="preset")
    async def from_preset() -> None: ...

    @app.task(queue="h", name="task", max_lost=5, timeout="2s", retry=Retry(max_retries=1), on_unknown="dead")
    async def from_task() -> None: ...

    async def main() -> None:
        for one in (from_settings, from_preset, from_task, from_task.using(max_lost=6, retry=Retry(max_retries=2))):
            await one.enqueue()
        found = [(r.max_lost, r.on_unknown, r.timeout_ns // 10**9, r.max_attempts) for r in await rows(app)]
        assert found == [(11, "dead", 1, 10), (3, "wait", 1, 6), (5, "dead", 2, 2), (6, "dead", 2, 3)]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("taskharbor", (25, "same_job", "requeue", "dead")),
        ("orchestrator", (4, "same_job", "requeue", "dead")),
        ("scheduler", (4, "new_job", "fail", "wait")),
        ("harmonyk", (6, "same_job", "requeue", "wait")),
    ],
)
def test_a_queue_with_a_preset_behaves_as_its_system(app: Windlass, preset: Any, expected: tuple[Any, ...]) -> None:
    app.queue("q", preset=preset)
    send = declare(app, queue="q")
    send.using(idempotency_key="k").enqueue_sync("ada")
    row = asyncio.run(only(app))
    assert (row.max_attempts, row.retry_mode, row.crash_policy, row.on_unknown) == expected
    assert row.idempotency_scope == ("queue:q" if preset == "taskharbor" else "type:send")


def test_using_another_queue_takes_that_queues_preset(app: Windlass) -> None:
    app.queue("h", preset="harmonyk")
    app.queue("s", preset="scheduler")
    send = declare(app, queue="h")
    send.using(queue="s").enqueue_sync("ada")
    assert asyncio.run(only(app)).retry_mode == "new_job"


# --------------------------------------------------------------------------------------------------------------- keys


def test_a_taken_idempotency_key_answers_the_job_that_holds_it(place: Place, app: Windlass) -> None:
    send = declare(app)
    keyed = send.using(idempotency_key="user-1")

    async def main() -> None:
        first = await keyed.enqueue("ada")
        again = await keyed.enqueue("bob")
        assert (again.id, again.existed, first.existed) == (first.id, True, False)
        await app.worker().run(drain=True)
        place.clock.advance("30d")
        assert keyed.enqueue_sync("bob").existed  # also long after the job has ended
        assert await again.result(1) == "ada: Hello"
        other_org = await keyed.using(org_id="acme").enqueue("bob")
        assert not other_org.existed
        blank = await send.using(idempotency_key="  ").enqueue("x")
        assert not blank.existed

    asyncio.run(main())


def test_a_key_may_have_an_end(place: Place, app: Windlass) -> None:
    keyed = declare(app).using(idempotency_key="k", idempotency_for="1h")
    first = keyed.enqueue_sync("ada")
    place.clock.advance("59m")
    assert keyed.enqueue_sync("ada").existed
    place.clock.advance("1m")
    again = keyed.enqueue_sync("ada")
    assert not again.existed
    assert again.id != first.id


def test_a_key_is_unique_within_its_scope(app: Windlass) -> None:
    @app.task
    async def other() -> None: ...

    send = declare(app)
    key: dict[str, Any] = {"idempotency_key": "k"}
    assert not send.using(**key).enqueue_sync("a").existed
    assert not other.using(**key).enqueue_sync().existed
    assert not send.using(**key, idempotency_scope="global").enqueue_sync("a").existed
    assert other.using(**key, idempotency_scope="global").enqueue_sync().existed
    assert not send.using(**key, idempotency_scope="queue").enqueue_sync("a").existed
    assert other.using(**key, idempotency_scope="queue").enqueue_sync().existed


def test_dedupe_holds_while_a_job_is_active(app: Windlass) -> None:
    send = declare(app, dedupe=True)

    async def main() -> None:
        first = await send.enqueue("ada", subject="x")
        same = await send.enqueue(to="ada", subject="x")
        other = await send.enqueue("bob")
        assert (same.id, same.existed, other.existed) == (first.id, True, False)
        assert (await first.fetch()).dedupe_key == stored_dedupe_key("send", None, {"subject": "x", "to": "ada"})
        await app.worker().run(drain=True)
        assert not (await send.enqueue("ada", subject="x")).existed

    asyncio.run(main())
    assert dedupe_key("send", None, {"b": 1, "a": 2}) == 'send::global::{"a":2,"b":1}'


def test_on_duplicate_decides_about_the_job_that_is_there(place: Place, app: Windlass) -> None:
    send = declare(app)

    async def main() -> None:
        first = await send.using(dedupe="k").enqueue("ada")
        before = await first.fetch()
        place.clock.advance("1m")
        assert (await send.using(dedupe="k").enqueue("bob")).existed
        assert await first.fetch() == before
        assert (await send.using(dedupe="k", on_duplicate="touch").enqueue("bob")).existed
        touched = await first.fetch()
        assert (touched.updated_at, touched.payload) == (place.clock.now(), before.payload)
        assert (await send.using(dedupe="k", on_duplicate="replace", delay="1h").enqueue("bob")).existed
        replaced = await first.fetch()
        assert (replaced.payload, replaced.run_at) == (b'{"to":"bob"}', place.clock.now() + 3_600 * SECOND)
        with pytest.raises(DuplicateJob, match="on_duplicate='raise'"):
            await send.using(dedupe="k", on_duplicate="raise").enqueue("eve")
        assert len(await rows(app)) == 1

    asyncio.run(main())


def test_an_id_of_ones_own_is_used_once(app: Windlass) -> None:
    send = declare(app)
    assert send.using(id="mine").enqueue_sync("ada").id == "mine"
    with pytest.raises(DuplicateId, match="idempotency key"):
        send.using(id="mine").enqueue_sync("ada")
    assert len(asyncio.run(rows(app))) == 1


def test_ids_of_one_process_sort_in_the_order_of_enqueue(app: Windlass) -> None:
    send = declare(app)
    ids = [send.enqueue_sync("x").id for _ in range(50)]
    assert ids == sorted(ids)
    assert all(one[14] == "7" for one in ids)


# --------------------------------------------------------------------------------------------------------------- many


def test_many_jobs_of_different_tasks_are_one_batch(app: Windlass) -> None:
    send = declare(app)

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    async def main() -> None:
        mixed: list[Any] = [send.job("ada"), add.job(1, 2), send.using(priority=3).job("bob", subject="x")]
        jobs = await app.enqueue_many(mixed)
        stored = await rows(app)
        assert [row.id for row in stored] == [job.id for job in jobs]
        assert [row.priority for row in stored] == [0, 0, 3]
        await app.worker().run(drain=True)
        assert [await job.result(1) for job in jobs] == ["ada: Hello", 3, "bob: x"]
        assert await app.enqueue_many([]) == []

    asyncio.run(main())


def test_many_jobs_from_a_generator_blocking(app: Windlass) -> None:
    send = declare(app)
    jobs = app.enqueue_many_sync(send.job(f"user{n}") for n in range(300))
    assert len({job.id for job in jobs}) == 300
    assert app.enqueue_many_sync(()) == []


def test_a_batch_is_stored_whole_or_not_at_all(app: Windlass) -> None:
    send = declare(app)
    send.using(dedupe="k").enqueue_sync("first")
    with pytest.raises(DuplicateJob):
        app.enqueue_many_sync([send.job("a"), send.using(dedupe="k", on_duplicate="raise").job("b"), send.job("c")])
    assert len(asyncio.run(rows(app))) == 1


def test_duplicates_in_a_batch_are_told_apart(app: Windlass) -> None:
    keyed = declare(app).using(idempotency_key="k")
    first, second = app.enqueue_many_sync([keyed.job("a"), keyed.job("b")])
    assert (first.existed, second.existed, first.id) == (False, True, second.id)
