"""Why is my job not running? One test for each reason, on a store and a clock of its own."""

from __future__ import annotations

import pytest

from test_admin import NEVER_TWICE, Place, member, on_a_place
from windlass.clock import SECOND
from windlass.core.alterations import Acquire, Cancel, PauseLimit, PutLimit, SetPaused
from windlass.core.duties import SampleQueues
from windlass.core.settle import Failed, Succeeded
from windlass.core.why import Kind
from windlass.errors import JobNotFound
from windlass.policies import Retry, fixed
from windlass.records import WorkerInfo


async def told(place: Place, job_id: str) -> dict[Kind, str]:
    return {reason.kind: reason.text for reason in (await place.admin.why(job_id)).reasons}


async def commands(place: Place, job_id: str) -> list[str | None]:
    return [reason.command for reason in (await place.admin.why(job_id)).reasons]


async def alive(place: Place, name: str = "w1", **about: object) -> None:
    """A worker with free slots that serves everything and knows the task t."""
    fields: dict[str, object] = {"queues": (), "types": ("t",), "running": 0, "pool_size": 2, **about}
    row = member(name, place.clock.now())
    kept = {field: getattr(row, field) for field in WorkerInfo.__struct_fields__}
    await place.client.driver.beat(WorkerInfo(**{**kept, **fields}), now=place.clock.now())


@on_a_place
async def test_a_job_for_later_says_when(place: Place) -> None:
    await alive(place)
    await place.put("a", run_at=place.clock.now() + 90 * SECOND)
    assert await told(place, "a") == {"time": "it is to run later: in 1 min 30 s"}
    assert await commands(place, "a") == ["windlass jobs run-now a"]


@on_a_place
async def test_a_job_that_failed_says_when_it_is_tried_again_and_why(place: Place) -> None:
    await alive(place)
    await place.put("a", max_attempts=3, retry_policy=Retry(max_attempts=3, backoff=fixed("20s")).encode())
    await place.end(await place.claim(), Failed("ValueError: no\nmore"))
    assert await told(place, "a") == {"backoff": "it failed once and is tried again in 20 s (ValueError: no)"}


@on_a_place
async def test_a_paused_queue_is_named(place: Place) -> None:
    await alive(place)
    await place.put("a")
    await place.client.driver.alter([SetPaused("default", True)], now=place.clock.now())
    assert await told(place, "a") == {"paused": "queue default is paused"}
    assert await commands(place, "a") == ["windlass queues resume default"]


@on_a_place
async def test_those_that_must_end_first_are_named(place: Place) -> None:
    await alive(place)
    for name in ("a", "b"):
        await place.put(name)
    await place.put("c", after=("a", "b"))
    assert await told(place, "c") == {"predecessor": "it waits for 2 predecessors to end: a, b"}
    await place.end(await place.claim(), Succeeded())
    assert await told(place, "c") == {"predecessor": "it waits for a predecessor to end: b"}
    assert await commands(place, "c") == ["windlass jobs why b"]


@on_a_place
async def test_who_holds_the_queue_is_named_and_for_how_long(place: Place) -> None:
    await alive(place)
    await place.put("a")
    await place.client.driver.alter([Acquire("h", "default", "night-shift", 90_000_000)], now=place.clock.now())
    assert await told(place, "a") == {"held": "queue default is held by night-shift, for another 1 min 30 s at most"}
    assert await commands(place, "a") == ["windlass holds list"]
    place.clock.advance("90s")
    assert "held" not in await told(place, "a")


@on_a_place
async def test_a_limit_is_named_with_those_who_hold_it(place: Place) -> None:
    await alive(place)
    await place.client.driver.alter([PutLimit("k", 1)], now=place.clock.now())
    for name in ("a", "b"):
        await place.put(name, limit_keys=("k",))
    await place.claim()
    await place.put("c", queue="mail")
    await place.claim()  # it meets b, and parks it
    assert await told(place, "b") == {"limit": "it waits for a permit of k: 1 of 1 permits are in use by a"}


@on_a_place
async def test_what_is_paused_of_a_job_is_named(place: Place) -> None:
    await alive(place)
    await place.put("a", org_id="acme", limit_keys=("key:gpu",))
    for key in ("type:t", "key:gpu", "org:acme"):
        await place.client.driver.alter([PauseLimit(key, True)], now=place.clock.now())
        assert await told(place, "a") == {"paused": f"{key.replace(':', ' ')} is paused"}
        assert await commands(place, "a") == [f"windlass limits resume {key}"]
        await place.client.driver.alter([PauseLimit(key, False)], now=place.clock.now())
    await place.client.driver.alter([PauseLimit("org:acme", True)], now=place.clock.now())
    await place.put("b", queue="mail")
    await place.claim()  # it meets a, and parks it
    assert await told(place, "a") == {"paused": "org acme is paused"}


@on_a_place
async def test_a_rate_says_when_the_next_may_begin(place: Place) -> None:
    await alive(place)
    await place.client.driver.alter([PutLimit("key:api", per_second=0.1, burst=1.0)], now=place.clock.now())
    for name in ("a", "b"):
        await place.put(name, limit_keys=("key:api",))
    await place.claim()
    place.clock.advance(3 * SECOND)
    rate = {"rate": "key:api allows no more for now; the next in 7 s"}
    assert await told(place, "b") == rate, "before any claim has met it"
    await place.put("c", queue="mail")
    await place.claim()  # it meets b, and parks it
    assert await told(place, "b") == rate
    assert await commands(place, "b") == ["windlass limits list"]


@on_a_place
async def test_a_full_queue_or_store_is_said_with_those_who_run(place: Place) -> None:
    await alive(place)
    for name in ("a", "b"):
        await place.put(name)
    for key in ("queue:default", "global"):
        await place.client.driver.alter([PutLimit(key, 1)], now=place.clock.now())
    assert "limit" not in await told(place, "b")
    await place.claim()
    told_of = [reason.text for reason in (await place.admin.why("b")).reasons]
    uses = "1 of 1 permits are in use by a"
    assert told_of == [f"it waits for a permit of {key}: {uses}" for key in ("global", "queue:default")]
    assert set(await commands(place, "b")) == {"windlass limits list"}


@on_a_place
async def test_a_fleet_without_workers_is_said(place: Place) -> None:
    await place.put("a")
    assert await told(place, "a") == {"no worker": "no worker is alive"}
    await alive(place)
    place.clock.advance(61 * SECOND)
    assert list(await told(place, "a")) == ["no worker"], "a silent one is not alive"


@on_a_place
async def test_a_queue_that_nobody_serves_is_said(place: Place) -> None:
    await alive(place, queues=("mail",))
    await place.put("a")
    assert await told(place, "a") == {"not served": "no worker that is alive serves queue default (w1 serve others)"}
    assert await commands(place, "a") == ["windlass worker APP --queues default"]


@on_a_place
async def test_a_task_that_nobody_knows_is_said(place: Place) -> None:
    await alive(place, types=("other",))
    await place.put("a")
    assert await told(place, "a") == {"unknown type": "of the workers of queue default none knows the task 't': w1"}


@on_a_place
async def test_a_backlog_is_counted_and_the_wait_is_estimated(place: Place) -> None:
    await alive(place)
    for n in range(8):
        await place.put(f"j{n}")
    assert await told(place, "j7") == {"backlog": "7 jobs stand before it in queue default"}
    for _ in range(4):
        await place.end(await place.claim(), Succeeded())
    place.clock.advance(60 * SECOND - place.clock.now() % (60 * SECOND))
    await place.client.driver.maintain(SampleQueues(keep=3600 * SECOND), epoch=None, now=place.clock.now())
    await alive(place)
    expected = "3 jobs stand before it in queue default; at the present pace its turn comes in 45 s"
    assert await told(place, "j7") == {"backlog": expected}


@on_a_place
async def test_the_first_in_line_waits_for_a_slot_or_for_nothing(place: Place) -> None:
    await alive(place, running=2)
    await place.put("a")
    assert await told(place, "a") == {"busy": "it is first in line, and all slots are taken of w1"}
    await alive(place)
    assert await told(place, "a") == {"next": "nothing keeps it: it is first in line for w1"}


@on_a_place
async def test_what_would_come_next_is_told_too(place: Place) -> None:
    await place.put("a", run_at=place.clock.now() + SECOND)
    await place.client.driver.alter([SetPaused("default", True)], now=place.clock.now())
    assert list(await told(place, "a")) == ["time", "paused", "no worker"]


@on_a_place
async def test_a_job_that_is_under_way_says_where(place: Place) -> None:
    await place.put("a", max_attempts=3)
    job = await place.claim(start=False)
    assert list(await told(place, "a")) == ["claimed"]
    place.clock.advance(31 * SECOND)
    assert "the lease lapsed 1 s ago" in (await told(place, "a"))["lapsed"]
    job = await place.claim()
    assert await told(place, "a") == {"running": "it is running, on w1"}
    await place.client.driver.alter([Cancel("a")], now=place.clock.now())
    assert list(await told(place, "a")) == ["cancelling"]
    await place.end(job, Succeeded())
    place.clock.advance(5 * SECOND)
    assert await told(place, "a") == {"ended": "it does not wait: it succeeded 5 s ago"}


@on_a_place
async def test_a_job_that_has_ended_says_how(place: Place) -> None:
    await place.put("a")
    await place.fail("ValueError: no")
    place.clock.advance(5 * SECOND)
    assert await told(place, "a") == {"ended": "it does not wait: it was given up 5 s ago: ValueError: no"}
    assert await commands(place, "a") == ["windlass jobs retry a"]


@on_a_place
async def test_a_superseded_link_points_to_the_one_that_took_over(place: Place) -> None:
    await place.put("a", **NEVER_TWICE, max_attempts=2)
    await place.fail()
    [child] = (await place.client.driver.get(["a"]))[0:1]
    assert child is not None
    assert await commands(place, "a") == [f"windlass jobs why {child.superseded_by}"]
    await alive(place)
    assert "it failed once and is tried again in" in (await told(place, child.superseded_by or ""))["backoff"]


@on_a_place
async def test_an_unknown_job_is_an_error(place: Place) -> None:
    with pytest.raises(JobNotFound):
        await place.admin.why("nobody")
