"""The worker protocol over HTTP: who may take what, whose clock counts, and what a repeated call is told."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import httpx2
import pytest

from web.conftest import Desk, on_a_desk
from windlass import Retry
from windlass.clock import SECOND
from windlass.core.changes import Ack
from windlass.core.queries import AuditLog
from windlass.core.usage import DAY
from windlass.drivers.http.encoding import encoded
from windlass.drivers.http.wire import ROOT, SettleCall
from windlass.drivers.values import Claim
from windlass.types import Claimed
from windlass.web.access import LOCAL, Access
from windlass.web.app import web_app
from windlass.web.bounds import Bounds
from windlass.web.replies import Replies

JSON = {"Content-Type": "application/json"}
AGES = -9_200_000_000_000_000_000


async def ask(client: httpx2.AsyncClient, path: str, status: int = 200, token: str | None = None, /, **body: Any) -> Any:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    answer = await client.post(f"{ROOT}/{path}", json=body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


async def take(client: httpx2.AsyncClient, fence: str = "t1", **wish: Any) -> dict[str, Any]:
    [job] = (await ask(client, "claim", worker_id="w", token=fence, **wish))["jobs"]
    return dict(job)


async def end(client: httpx2.AsyncClient, job: dict[str, Any], outcome: str, **more: Any) -> dict[str, Any]:
    [told] = await ask(client, "finish", ended=[{"id": job["id"], "token": job["token"], "outcome": outcome, **more}])
    return dict(told)


@on_a_desk
async def test_a_worker_takes_a_job_and_its_result_is_the_job_s(desk: Desk, client: httpx2.AsyncClient) -> None:
    job = await desk.add.enqueue(1, 2)
    work = await take(client)
    assert work["id"] == job.id
    assert json.loads(base64.b64decode(work["payload"])) == {"a": 1, "b": 2}
    [held] = await ask(client, "extend", renewals=[{"id": job.id, "token": "t1", "progress": 0.5}], lease="60s")
    assert (held["answer"], held["cancel_requested"]) == ("applied", False)
    assert held["expires_at"] > work["lease_expires_at"]
    assert await end(client, work, "succeeded", result=3) == {
        "id": job.id, "answer": "applied", "state": "succeeded", "run_at": None, "superseded_by": None,
    }  # fmt: skip
    assert await job.result(timeout=5) == 3


@on_a_desk
async def test_the_same_claim_again_is_answered_the_same_until_its_reply_was_heard(
    desk: Desk, client: httpx2.AsyncClient
) -> None:
    await desk.add.enqueue(1, 2)
    first = await take(client)
    assert await take(client) == first
    other = await ask(client, "claim", worker_id="w", token="t2")
    assert other["jobs"] == []
    await end(client, first, "succeeded")
    assert (await ask(client, "claim", worker_id="w", token="t1"))["jobs"] == []


@on_a_desk
async def test_the_same_claim_to_another_server_of_the_store_finds_what_it_holds(
    desk: Desk, client: httpx2.AsyncClient
) -> None:
    """Also after the first one was started anew, and however large the jobs are."""

    @desk.app.task
    async def pack(text: str) -> None: ...

    for _ in range(3):
        await pack.enqueue("x" * 600_000)
    first = (await ask(client, "claim", worker_id="w", token="t1", limit=2))["jobs"]
    assert len(first) == 2
    desk.web = web_app(desk.app, access=Access(anonymous=LOCAL))
    async with desk.client() as other:
        again = (await ask(other, "claim", worker_id="w", token="t1", limit=2))["jobs"]
        assert again == first
        await end(other, first[0], "succeeded")
        assert (await ask(other, "claim", worker_id="w", token="t1", limit=2))["jobs"] == first[1:]
        [last] = (await ask(other, "claim", worker_id="another", token="t1", limit=2))["jobs"]  # it holds nothing yet
        assert last["id"] not in {job["id"] for job in first}


@on_a_desk
async def test_one_claim_sent_twice_at_once_takes_once(desk: Desk, client: httpx2.AsyncClient) -> None:
    await desk.app.enqueue_many(desk.add.job(n, n) for n in range(4))
    one, two = await asyncio.gather(*[ask(client, "claim", worker_id="w", token="t", limit=2) for _ in range(2)])
    assert one["jobs"] == two["jobs"]
    assert len((await ask(client, "claim", worker_id="w", token="u", limit=9))["jobs"]) == 2


def test_one_claim_sent_twice_at_once_is_one_also_when_the_first_caller_is_gone() -> None:
    async def main() -> None:
        replies, asked, go_on = Replies(), 0, asyncio.Event()
        wish = Claim(queues=("default",), limit=1, lease_for=SECOND, worker_id="w", token="t")

        async def ask() -> list[Claimed]:
            nonlocal asked
            asked += 1
            await go_on.wait()
            return []

        one, two = (asyncio.ensure_future(replies.once("ada", wish, ask)) for _ in range(2))
        other = asyncio.ensure_future(replies.once("bob", wish, ask))
        await asyncio.sleep(0)
        one.cancel()
        await asyncio.sleep(0)
        go_on.set()
        assert (await two, await other, asked) == ([], [], 2)
        assert await replies.once("ada", wish, ask) == []
        assert asked == 3

    asyncio.run(main())


@on_a_desk
async def test_a_failure_is_tried_again_as_the_job_itself_says(desk: Desk, client: httpx2.AsyncClient) -> None:
    job = await desk.add.using(retry=Retry(max_retries=1)).enqueue(1, 2)
    work = await take(client)
    told = await end(client, work, "failed", error="boom", retry_in="10s")
    row = await desk.app.client.head(job.id)
    assert (told["answer"], told["state"], told["run_at"]) == ("applied", "queued", row.run_at)
    assert row.run_at is not None
    assert 9 * SECOND < row.run_at - desk.app.client.now() <= 10 * SECOND
    assert (await end(client, work, "failed", error="boom"))["answer"] == "repeated"
    await ask(client, "driver/alter", changes=[{"op": "RunNow", "job_id": job.id}])
    last = await take(client, "t2")
    assert (await end(client, last, "failed", error="boom"))["state"] == "dead"
    assert (await end(client, last, "failed", error="boom"))["answer"] == "repeated"
    assert (await end(client, last, "succeeded"))["answer"] == "not_inflight"


@on_a_desk
async def test_other_ends_are_what_they_say(desk: Desk, client: httpx2.AsyncClient) -> None:
    ends = {"rejected": "dead", "snoozed": "queued", "released": "queued", "cancelled": "cancelled"}
    for n, (outcome, state) in enumerate(ends.items()):
        await desk.add.using(priority=n).enqueue(n, n)
        work = await take(client, f"t{n}")
        more = {"retry_in": "1h"} if outcome == "snoozed" else {"reason": "because"}
        assert (await end(client, work, outcome, **more))["state"] == state
        assert (await end(client, work, outcome, **more))["answer"] == "repeated"


@on_a_desk
async def test_a_stale_token_cannot_finish(desk: Desk, client: httpx2.AsyncClient) -> None:
    job = await desk.add.enqueue(1, 2)
    work = await take(client)
    assert (await end(client, {**work, "token": "other"}, "succeeded"))["answer"] == "mismatch"
    assert (await end(client, {**work, "id": "nobody"}, "succeeded"))["answer"] == "not_inflight"
    assert (await desk.app.client.head(job.id)).state == "running"


@on_a_desk
async def test_no_run_began_before_it_was_claimed_whatever_is_said(desk: Desk, client: httpx2.AsyncClient) -> None:
    """What runs took is added up, and one that took an age would bar the sum."""
    job = await desk.add.enqueue(1, 2)
    work = await take(client)
    assert (await end(client, work, "succeeded", started_at=AGES))["answer"] == "applied"
    [run] = await job.runs()
    assert run.started_at is not None
    assert run.claimed_at <= run.started_at
    held = await desk.add.enqueue(3, 4)
    work = await take(client, "t2")
    renewal = {"id": work["id"], "token": work["token"], "started_at": AGES}
    [told] = await ask(client, "extend", renewals=[renewal])
    assert told["answer"] == "applied"
    row = await desk.app.client.head(held.id)
    assert row.started_at is not None
    assert row.started_at > desk.app.client.now() - 2 * DAY


@pytest.mark.parametrize("trusting", [False, True])
def test_only_a_server_of_tests_hears_what_time_a_caller_says_it_is(trusting: bool) -> None:
    async def main() -> None:
        desk = Desk()
        desk.web = web_app(desk.app, access=Access(anonymous=LOCAL), trust_now=trusting)
        async with desk.app, desk.client() as client:
            await desk.add.enqueue(1, 2)
            await take(client)
            later = desk.app.client.now() + 3_600 * SECOND
            stolen = await ask(client, "claim", worker_id="thief", token="t2", now=later)
            assert bool(stolen["jobs"]) is trusting

    asyncio.run(main())


@on_a_desk
async def test_nothing_ends_in_the_future(desk: Desk, client: httpx2.AsyncClient) -> None:
    job = await desk.add.enqueue(1, 2)
    work = await take(client)
    ahead = Ack(handle=job.id, token=work["token"], at=desk.app.client.now() + 3_600 * SECOND)
    answer = await client.post(f"{ROOT}/driver/settle", content=encoded(SettleCall(changes=(ahead,))), headers=JSON)
    assert answer.json() == ["applied"]
    finished = (await desk.app.client.head(job.id)).finished_at
    assert finished is not None
    assert finished <= desk.app.client.now()


@on_a_desk
async def test_no_run_took_an_age_whoever_decides_how_it_ends(desk: Desk, client: httpx2.AsyncClient) -> None:
    for fence, said in (("t1", {"started_at": AGES}), ("t2", {"at": AGES}), ("t3", {"at": AGES, "started_at": -AGES})):
        job = await desk.add.enqueue(1, 2)
        work = await take(client, fence, start=False)
        now = desk.app.client.now()
        ack = Ack(**{"handle": job.id, "token": work["token"], "at": now, **said})
        answer = await client.post(f"{ROOT}/driver/settle", content=encoded(SettleCall(changes=(ack,))), headers=JSON)
        assert answer.json() == ["applied"]
        [run] = await job.runs()
        assert run.started_at is None or now - 2 * DAY < run.started_at <= desk.app.client.now()
        assert run.finished_at is not None
        assert now - 2 * DAY < run.finished_at <= desk.app.client.now()


def test_a_token_of_some_queues_works_there_and_nowhere_else() -> None:
    async def main() -> None:
        desk = Desk(Access())
        async with desk.app, desk.client() as client:
            admin = desk.web.state.site.admin()
            _, mine = await admin.create_token("mail", ["work"], None, ["mail"])
            _, whole = await admin.create_token("all", ["work"])
            _, org = await admin.create_token("acme", ["work"], "acme")
            await desk.add.using(queue="mail").enqueue(1, 1)
            other = await desk.add.using(queue="other").enqueue(2, 2)
            [work] = (await ask(client, "claim", 200, mine, worker_id="w", queues=["mail"], token="a"))["jobs"]
            await ask(client, "claim", 403, mine, worker_id="w", queues=["mail", "other"], token="b")
            await ask(client, "claim", 403, org, worker_id="w", queues=["mail"], token="b")
            await ask(client, "claim", 200, whole, worker_id="w", queues=["other"], token="c")
            foreign = {"id": other.id, "token": "c"}
            [told] = await ask(client, "finish", 200, mine, ended=[{**foreign, "outcome": "succeeded"}])
            assert told["answer"] == "not_inflight"
            answers = await ask(client, "extend", 200, mine, renewals=[foreign, {"id": work["id"], "token": "a"}])
            assert [one["answer"] for one in answers] == ["not_inflight", "applied"]
            assert (await desk.app.client.head(other.id)).state == "running"
            await ask(client, "driver/get", 403, mine, ids=[other.id])

    asyncio.run(main())


def test_a_worker_is_no_admin() -> None:
    async def main() -> None:
        desk = Desk(Access())
        async with desk.app, desk.client() as client:
            admin = desk.web.state.site.admin()
            _, worker = await admin.create_token("worker", ["work"])
            _, chief = await admin.create_token("chief", ["admin"])
            token = {"op": "CreateToken", "token_id": "x", "name": "x", "digest": "AAAA", "scopes": ["admin"]}
            await ask(client, "driver/alter", 403, worker, changes=[token])
            await ask(client, "driver/alter", 403, worker, changes=[{"op": "Delete", "job_id": "x"}])
            await ask(client, "driver/alter", 403, worker, changes=[], by={"actor": "somebody else"})
            await ask(client, "driver/read", 403, worker, query={"op": "AllTokens"})
            await ask(client, "driver/maintain", 403, worker, duty={"op": "Prune", "succeeded": 0})
            await ask(client, "driver/alter", 200, worker, changes=[{"op": "Leave", "worker_id": "x"}])
            await ask(client, "driver/read", 200, worker, query={"op": "AllWebhooks"})
            assert (await ask(client, "driver/maintain", 200, worker, duty={"op": "Prune"}, epoch=7))["done"] is None
            await ask(client, "driver/alter", 200, chief, changes=[{"op": "Delete", "job_id": "x"}])
            assert len((await ask(client, "driver/read", 200, chief, query={"op": "AllTokens"}))["rows"]) == 2

    asyncio.run(main())


def test_what_people_change_is_audited_under_the_name_of_their_token() -> None:
    async def main() -> None:
        desk = Desk(Access())
        async with desk.app, desk.client() as client:
            admin = desk.web.state.site.admin()
            _, chief = await admin.create_token("chief", ["admin"])
            jobs = [(await desk.add.enqueue(n, n)).id for n in range(3)]
            before = len(await desk.app.client.driver.read(AuditLog()))
            for job_id, by in zip(jobs, (None, {"actor": "somebody else"}, {"actor": "token:other"}), strict=True):
                change = {"op": "Cancel", "job_id": job_id}
                assert await ask(client, "driver/alter", 200, chief, changes=[change], by=by) == ["applied"]
            lines = (await desk.app.client.driver.read(AuditLog()))[before:]
            assert [(line.actor, line.action, line.subject) for line in lines] == [
                ("token:chief", "job.cancel", f"job:{job_id}") for job_id in jobs
            ]
            theirs = await desk.add.enqueue(1, 1)
            bounded = {"actor": "ada", "org_id": "acme"}  # who wants to reach less far may
            change = {"op": "Cancel", "job_id": theirs.id}
            assert await ask(client, "driver/alter", 200, chief, changes=[change], by=bounded) == ["not_found"]

    asyncio.run(main())


@on_a_desk
async def test_what_comes_between_a_claim_and_the_wait_is_told(desk: Desk, client: httpx2.AsyncClient) -> None:
    async def quiet(wake: str) -> str:
        while (told := await ask(client, "wait", timeout=0.05, wake=wake))["told"]:
            wake = told["wake"]
        return str(told["wake"])

    await quiet((await ask(client, "claim", worker_id="w"))["wake"])
    before = (await ask(client, "claim", worker_id="w"))["wake"]
    await desk.add.enqueue(1, 2)
    for _ in range(2):  # also when the first reply was lost
        assert (await ask(client, "wait", timeout=20, wake=before))["told"] is True
    here = await quiet(before)
    waiting = [asyncio.ensure_future(ask(client, "wait", timeout=20, wake=here)) for _ in range(2)]
    await asyncio.sleep(0.02)
    await desk.add.enqueue(1, 2)
    assert [told["told"] for told in await asyncio.gather(*waiting)] == [True, True]
    assert (await ask(client, "wait", timeout=0.1, wake="of another process"))["told"] is True


@on_a_desk
async def test_an_error_does_not_tell_what_the_payload_keeps_secret(desk: Desk, client: httpx2.AsyncClient) -> None:
    @desk.app.task
    async def sign_in(password: str) -> None: ...

    job = await sign_in.enqueue("hunter22hunter22")
    work = await take(client)
    await end(client, work, "failed", error="no: hunter22hunter22", traceback="in hunter22hunter22")
    [run] = await desk.app.client.driver.runs(job.id)
    assert "hunter22" not in f"{run.error} {run.traceback} {(await desk.app.client.head(job.id)).last_error}"


@on_a_desk
async def test_what_a_worker_asks_for_is_bounded(desk: Desk, client: httpx2.AsyncClient) -> None:
    told = (await client.get(ROOT)).json()
    assert (told["protocol"], told["longest_wait"], told["largest_body"]) == (1, Bounds.wait, Bounds.work_body)
    await ask(client, "claim", 422, worker_id="w", lease=0)
    await ask(client, "claim", 422, worker_id="w", lease="8d")
    await ask(client, "extend", 422, renewals=[], lease="8d")
    await ask(client, "driver/settle", 422, changes=[{"op": "Ack", "handle": {}, "token": "t", "at": 1}])
    large = await client.post(f"{ROOT}/driver/get", content=b" " * (Bounds.work_body + 1), headers=JSON)
    assert large.status_code == 413
    fits = await client.post(f"{ROOT}/driver/get", content=b'{"ids": []}' + b" " * (2 * Bounds.body), headers=JSON)
    assert fits.status_code == 200


def test_a_worker_may_come_more_often_than_others() -> None:
    async def main() -> None:
        desk = Desk(bounds=Bounds(rate=0.001, burst=2))
        async with desk.app, desk.client() as client:
            for _ in range(50):
                await ask(client, "claim", worker_id="w")
            assert (await client.get("/api/jobs")).status_code == 200
            assert (await client.get("/api/jobs")).status_code == 429

    asyncio.run(main())


@on_a_desk
async def test_a_whole_number_is_one_however_it_is_written(desk: Desk, client: httpx2.AsyncClient) -> None:
    assert await ask(client, "driver/read", query={"op": "WaitingEvents", "limit": 1.0}) == {"rows": []}
    note = {"op": "Note", "action": "a", "subject": "s", "count": 2.0}
    assert await ask(client, "driver/alter", changes=[note], by={"actor": "ada"}) == ["applied"]
