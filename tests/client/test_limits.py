"""`app.limit`, `app.limits`, queues that are bounded or fair, and debounced calls, as a program says them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass import Windlass
from windlass.clock import SECOND, ManualClock
from windlass.core.alterations import PutLimit, PutQueue
from windlass.core.limits import limit_key
from windlass.errors import InvalidInput
from windlass.limits import per_second


def made(**settings: Any) -> Windlass:
    return Windlass("memory://", clock=ManualClock(), **settings)


def test_a_plain_name_stands_for_a_key() -> None:
    assert [limit_key(text) for text in ("gpu", "key:gpu", "org:acme", "global")] == [
        "key:gpu",
        "key:gpu",
        "org:acme",
        "global",
    ]


@pytest.mark.parametrize("text", ["", " ", "foo:bar", "org:", 7, None])
def test_a_key_that_is_none_is_refused(text: Any) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        limit_key(text)


@pytest.mark.parametrize(("text", "pace"), [("10/s", 10.0), ("90 / m", 1.5), ("3600/h", 1.0), (0.5, 0.5)])
def test_a_rate_is_written_as_people_say_it(text: Any, pace: float) -> None:
    assert per_second(text) == pace


@pytest.mark.parametrize("text", ["10", "10/y", "-1/s", "ten/s"])
def test_a_rate_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="rate"):
        per_second(text)


def test_declared_limits_are_stored_before_anything_else() -> None:
    app = made()
    app.limit("gpu", 2)
    app.limit("api", rate="10/s", burst=20)
    app.queue("nightly", max_running=3)
    app.limits.set_sync("other", 1)
    stored = {limit.key: limit for limit in app.limits.list_sync()}
    assert (stored["key:gpu"].max_used, stored["queue:nightly"].max_used) == (2, 3)
    assert (stored["key:api"].per_second, stored["key:api"].burst) == (10.0, 20)


def test_what_a_person_changed_survives_a_restart_of_the_program() -> None:
    first = made()
    first.limit("gpu", 2)
    first.open()
    first.limits.set_sync("gpu", 9)
    again = Windlass("memory://", driver=first.client.driver, clock=ManualClock())
    again.limit("gpu", 2)
    again.open()
    assert [limit.max_used for limit in again.limits.list_sync()] == [9]
    new = Windlass("memory://", driver=first.client.driver, clock=ManualClock())
    new.limit("gpu", 3)
    new.open()
    assert [limit.max_used for limit in new.limits.list_sync()] == [3]


def test_the_scheduler_preset_runs_one_job_at_a_time() -> None:
    app = made()
    app.queue("jobs", preset="scheduler")
    assert PutLimit("queue:jobs", 1, declared=True) in app.declared


@pytest.mark.parametrize(
    ("key", "said", "field"),
    [
        ("gpu", {}, "limit"), ("gpu", {"most": -1}, "limit"), ("gpu", {"most": True}, "limit"),
        ("gpu", {"most": 1, "weight": 2}, "weight"), ("gpu", {"rate": "0/s"}, "rate"),
        ("gpu", {"most": 1, "burst": 2}, "burst"),
        ("x:y", {"most": 1}, "limit"),
    ],
)  # fmt: skip
def test_a_limit_that_makes_no_sense_is_refused_at_once(key: str, said: dict[str, Any], field: str) -> None:
    app = made()
    with pytest.raises(InvalidInput) as refused:
        app.limit(key, **said)
    assert (refused.value.field, app.declared) == (field, [])


def test_one_key_is_described_once() -> None:
    app = made()
    app.limit("gpu", 2)
    with pytest.raises(InvalidInput, match="twice"):
        app.limit("key:gpu", 3)


@pytest.mark.parametrize("said", [{"max_running": -1}, {"order": "random"}, {"ageing": "10m"}, {"ageing": ("0s", 1)}])
def test_a_queue_that_makes_no_sense_is_refused(said: dict[str, Any]) -> None:
    app = made()
    with pytest.raises(InvalidInput):
        app.queue("q", **said)
    assert app.declared == []


def test_a_queue_says_its_order_and_ageing() -> None:
    app = made()
    app.queue("q", order="fair", ageing=("10m", 5))
    assert app.declared == [PutQueue("q", order="fair", age_after=600 * SECOND, age_to=5)]


def test_a_job_cannot_name_what_it_is_by_itself() -> None:
    app = made()
    with pytest.raises(InvalidInput, match="limits"):

        @app.task(limits=("type:x",))
        async def work() -> None: ...


def test_pausing_a_queue_as_a_limit_says_what_to_type() -> None:
    with pytest.raises(InvalidInput, match="windlass queues pause mail"):
        made().limits.pause_sync("queue:mail")


def test_removing_and_pausing_tell_whether_that_was_news() -> None:
    app = made()
    limits = app.limits
    limits.set_sync("gpu", 2)
    told = [limits.pause_sync("gpu"), limits.pause_sync("gpu"), limits.resume_sync("gpu"), limits.resume_sync("gpu")]
    assert told == [True, False, True, False]
    assert (limits.remove_sync("gpu"), limits.remove_sync("gpu")) == (True, False)


def test_a_debounced_call_runs_once_after_the_last_with_its_arguments() -> None:
    app = made()
    seen: list[str] = []

    @app.task
    async def reindex(reason: str) -> None:
        seen.append(reason)

    async def main() -> None:
        clock = app.client._clock
        assert isinstance(clock, ManualClock)
        calls = reindex.using(dedupe="one", debounce="5s")
        first = await calls.enqueue("price")
        clock.advance(4 * SECOND)
        second = await calls.enqueue("name")
        assert first.id == second.id
        clock.advance(4 * SECOND)
        await app.tick()
        assert seen == []
        clock.advance(SECOND)
        await app.tick()

    asyncio.run(main())
    assert seen == ["name"]


@pytest.mark.parametrize("said", [{}, {"dedupe": "k", "delay": "1s"}, {"dedupe": "k", "on_duplicate": "ignore"}])
def test_debounce_says_what_it_needs(said: dict[str, Any]) -> None:
    app = made()

    @app.task
    async def work() -> None: ...

    with pytest.raises(InvalidInput, match="debounce"):
        work.using(debounce="5s", **said).enqueue_sync()
