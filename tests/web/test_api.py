"""Every endpoint does what it says, on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from web.conftest import Desk
from windlass import Reject, Retry
from windlass.web.access import LOCAL, Access

STORES = ("memory", "sqlite", "postgres")


class Api:
    """Short calls that expect to succeed."""

    def __init__(self, desk: Desk, client: httpx2.AsyncClient) -> None:
        self.desk = desk
        self.client = client

    async def __call__(self, method: str, path: str, status: int = 200, **said: Any) -> Any:
        answer = await self.client.request(method, path, **said)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def get(self, path: str, status: int = 200) -> Any:
        return await self("GET", path, status)

    async def post(self, path: str, body: Any = None, status: int = 200, **said: Any) -> Any:
        return await self("POST", path, status, **({} if body is None else {"json": body}), **said)

    async def add(self, **said: Any) -> str:
        wish = {"type": "add", "payload": {"a": 1, "b": 2}, **said}
        return str((await self.post("/api/jobs", wish, 201))["job_id"])

    async def state(self, job_id: str) -> str:
        return str((await self.get(f"/api/jobs/{job_id}"))["job"]["label"])


Story = Callable[[Api], Awaitable[None]]


@pytest.fixture(params=STORES)
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    kind = request.param
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}
    url = urls.get(kind) or str(request.getfixturevalue("fresh_database"))

    def live(story: Story) -> None:
        async def main() -> None:
            desk = Desk(Access(anonymous=LOCAL), url=url)

            @desk.app.task(retry=Retry(max_retries=0))
            async def fail(why: str) -> None:
                raise Reject(why)

            async with desk.app, desk.client() as client:
                await story(Api(desk, client))

        asyncio.run(main())

    return live


def test_a_job_is_stored_read_and_run(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        job = await api.add(tags=["x"], priority=7.0, delay="0s", headers={"trace": "1"})
        seen = (await api.get(f"/api/jobs/{job}?words=harmonyk"))["job"]
        assert (seen["type"], seen["priority"], seen["tags"], seen["payload"]) == ("add", 7, ["x"], {"a": 1, "b": 2})
        assert seen["words"]["state"] == "queued"
        assert (await api.get(f"/api/jobs/{job}/why"))["job_id"] == job
        assert await api.post("/api/jobs/tick", {"limit": 5}) == {
            "ok": True, "claimed": 1, "succeeded": 1, "retried": 0, "dead": 0, "snoozed": 0, "cancelled": 0, "released": 0,
            "recovered": 0,
        }  # fmt: skip
        done = await api.get(f"/api/jobs/{job}")
        assert (done["job"]["label"], done["job"]["result"]) == ("succeeded", 3)
        assert [run["status"] for run in (await api.get(f"/api/jobs/{job}/runs"))["runs"]] == ["completed"]
        assert (await api.get(f"/api/jobs/{job}/chain"))["head"] == job
        assert (await api.get(f"/api/jobs/{job}/logs"))["run"] == 1
        assert (await api.post("/api/jobs/tick"))["claimed"] == 0

    api(story)


def test_a_batch_is_answered_in_its_order(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        wishes = [{"type": "add", "payload": {"a": n, "b": n}, "id": f"j{n}"} for n in range(5)]
        stored = await api.post("/api/jobs", wishes, 201)
        assert stored == [{"job_id": f"j{n}", "existed": False} for n in range(5)]
        assert (await api.post("/api/jobs", wishes, 409))["type"] == "urn:windlass:duplicate-id"

    api(story)


def test_the_same_key_stores_a_job_once(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        wish = {"type": "add", "payload": {"a": 1, "b": 2}}
        key = {"Idempotency-Key": "import-7"}
        first = await api.post("/api/jobs", wish, 201, headers=key)
        again = await api.post("/api/jobs", wish, 200, headers=key)
        assert again == {"job_id": first["job_id"], "existed": True}
        batch = await api.post("/api/jobs", [wish, wish], 201, headers={"Idempotency-Key": "b"})
        assert len({job["job_id"] for job in batch}) == 2
        assert await api.post("/api/jobs", [wish, wish], 200, headers={"Idempotency-Key": "b"}) == [
            {**job, "existed": True} for job in batch
        ]
        told = await api.post("/api/jobs", {**wish, "idempotency_key": "other"}, 422, headers=key)
        assert told["field"] == "idempotency_key"

    api(story)


def test_jobs_are_found_by_what_they_are_page_by_page(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        for n in range(5):
            await api.add(id=f"a{n}", queue="mail", tags=["odd" if n % 2 else "even"])
        await api.add(id="later", delay="1h")
        found, cursor = list[str](), ""
        while True:
            page = await api.get(f"/api/jobs?queue=mail&limit=2{cursor}")
            found += [job["id"] for job in page["jobs"]]
            if page["cursor"] is None:
                break
            cursor = f"&cursor={page['cursor']}"
        assert found == ["a4", "a3", "a2", "a1", "a0"]
        for query, ids in {
            "tag=odd": ["a3", "a1"], "label=scheduled": ["later"], "state=scheduled": ["later"], "type=none": [],
            "queues=mail&queues=default&limit=1": ["later"], "first=oldest&limit=1": ["a0"], "worker_id=w": [],
            "created_until=2000-01-01T00:00:00Z": [], "words=harmonyk&state=queued&tag=even&limit=1": ["a4"],
        }.items():  # fmt: skip
            assert [job["id"] for job in (await api.get(f"/api/jobs?{query}"))["jobs"]] == ids, query
        assert (await api.get("/api/matching?tag=odd")) == {"jobs": 2, "exact": True, "looked_at": 6}

    api(story)


def test_one_job_is_changed(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        first, second, third = [await api.add(id=name) for name in ("x", "y", "z")]
        late = await api.add(delay="1h")

        async def order() -> list[str]:
            return [job["id"] for job in (await api.get("/api/queues/default/order"))["jobs"]]

        await api.post(f"/api/jobs/{third}/move", {"to": "top"})
        assert (await order())[:3] == [third, first, second]
        await api.post(f"/api/jobs/{third}/move", {"to": "after", "other": second})
        assert (await order())[:3] == [first, second, third]
        await api.post(f"/api/jobs/{third}/move", {"to": "swap", "other": first})
        assert (await order())[:3] == [third, second, first]
        assert (await api.post(f"/api/jobs/{third}/move", {"to": "before"}, 422))["field"] == "other"
        await api.post(f"/api/jobs/{first}/priority", {"priority": 3})
        assert (await order())[0] == first
        assert (await api.post(f"/api/jobs/{late}/run-now"))["what"] == "due now"
        assert (await api.post(f"/api/jobs/{second}/cancel", {"reason": "no more"}))["what"] == "cancelled"
        assert await api.state(second) == "cancelled"
        assert (await api.post(f"/api/jobs/{first}/retry", status=409))["type"] == "urn:windlass:refused"
        assert (await api.post(f"/api/jobs/{second}/delete"))["what"] == "deleted"
        assert (await api.get(f"/api/jobs/{second}", 404))["type"] == "urn:windlass:job-not-found"
        actions = [line["action"] for line in (await api.get("/api/audit"))["lines"]]
        assert actions[0] == "job.delete"
        assert {line["actor"] for line in (await api.get("/api/audit"))["lines"]} == {"local"}

    api(story)


def test_many_jobs_are_changed_after_they_were_counted(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        for n in range(4):
            await api.add(id=f"j{n}", queue="mail" if n else "default")
        wish = {"action": "cancel", "filter": {"queue": "mail"}}
        dry = await api.post("/api/jobs/bulk", {**wish, "dry_run": True})
        assert (dry["matched"], dry["exact"], dry["done"]) == (3, True, [])
        done = await api.post("/api/jobs/bulk", {**wish, "limit": 2})
        assert done["done"] == ["j2", "j3"]
        rest = await api.post("/api/jobs/bulk", {**wish, "limit": 2, "cursor": done["cursor"]})
        assert rest["done"] == ["j1"]
        named = await api.post("/api/jobs/bulk", {"action": "delete", "ids": ["j1", "j0", "nobody"]})
        assert named["done"] == ["j1"]
        assert set(named["left"]) == {"j0", "nobody"}
        assert (await api.post("/api/jobs/bulk", {"action": "cancel"}, 422))["field"] == "ids"
        [line, *_] = (await api.get("/api/audit?action=job.cancel"))["lines"]
        assert (line["count"], line["selection"]) == (1, "queue=mail")

    api(story)


def test_dead_letters_are_grouped_replayed_and_purged(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        for why in ("no user 1", "no user 2", "broken"):
            await api.post("/api/jobs", {"type": "fail", "payload": {"why": why}}, 201)
        assert (await api.post("/api/jobs/tick"))["dead"] == 3
        groups = (await api.get("/api/dlq/errors"))["groups"]
        assert [group["jobs"] for group in groups] == [2, 1]
        mark = groups[0]["fingerprint"]
        assert len((await api.get(f"/api/dlq?error={mark}"))["jobs"]) == 2
        assert len((await api.get("/api/failures?span=1h"))["groups"]) == 2
        assert len((await api.post("/api/dlq/replay", {"filter": {"error": mark}, "limit": 1}))["done"]) == 1
        assert len((await api.post("/api/dlq/purge", {"filter": {"error": mark}}))["done"]) == 1
        assert len((await api.get("/api/dlq"))["jobs"]) == 1

    api(story)


def test_queues_and_limits_are_steered(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        await api.add()
        assert await api.post("/api/queues/default/pause") == {"name": "default", "paused": True, "changed": True}
        assert (await api.post("/api/jobs/tick"))["claimed"] == 0
        assert (await api.get("/api/queues"))["queues"][0]["paused_at"] is not None
        assert await api.post("/api/queues/default/resume") == {"name": "default", "paused": False, "changed": True}
        assert (await api.post("/api/queues/defualt/pause", status=422))["field"] == "queue"
        made = await api("PUT", "/api/limits/gpu", json={"most": 2, "rate": "10/s"})
        assert (made["key"], made["most"], made["per_second"]) == ("key:gpu", 2, 10.0)
        assert (await api("PUT", "/api/limits/gpu", json={"most": 3}))["per_second"] == 10.0
        assert (await api.post("/api/limits/type:add/pause"))["changed"]
        assert (await api.post("/api/jobs/tick"))["claimed"] == 0
        assert (await api.post("/api/limits/type:add/resume"))["changed"]
        assert (await api("DELETE", "/api/limits/gpu"))["name"] == "key:gpu"
        assert "key:gpu" not in [limit["key"] for limit in (await api.get("/api/limits"))["limits"]]

    api(story)


def test_templates_and_schedules_are_made_and_run(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        template = await api("PUT", "/api/templates/report", json={"task": "add", "params": {"a": 1, "b": 2}})
        assert (template["version"], template["params"]) == (1, {"a": 1, "b": 2})
        assert (await api("PUT", "/api/templates/report", json={"task": "add", "params": {"a": 2, "b": 2}}))["version"] == 2
        assert len((await api.get("/api/templates/report"))["templates"]) == 2
        made = await api("PUT", "/api/schedules/a%2Fb", json={"template": "report", "cron": "0 9 * * *"})
        assert (made["name"], made["enabled"], made["catch_up"]) == ("a/b", True, "last")
        changed = await api("PATCH", "/api/schedules/a%2Fb", json={"tz": "Europe/Berlin", "params": {"b": 5}})
        assert (changed["timezone"], changed["cron_expression"], changed["param_overrides"]) == (
            "Europe/Berlin", "0 9 * * *", {"b": 5},
        )  # fmt: skip
        bad = {"template": "report", "cron": "0 9 * *"}
        assert (await api("PUT", "/api/schedules/x", 422, json=bad))["type"] == "urn:windlass:invalid-input"
        assert (await api("PUT", "/api/schedules/x", 404, json={"template": "none", "every": "5m"}))["status"] == 404
        shown = await api.post("/api/schedules/preview", {"rule": "30 2 * * *", "tz": "Europe/Berlin", "count": 3})
        assert len(shown["times"]) == 3
        assert len((await api.post("/api/schedules/preview", {"rule": "a/b"}))["times"]) == 5
        assert (await api.post("/api/schedules/a%2Fb/pause"))["changed"]
        assert not (await api.get("/api/schedules/a%2Fb"))["enabled"]
        assert (await api.post("/api/schedules/a%2Fb/resume"))["changed"]
        job = (await api.post("/api/schedules/a%2Fb/run"))["job_id"]
        await api.post("/api/jobs/tick")
        assert (await api.get(f"/api/jobs/{job}"))["job"]["result"] == 7
        assert (await api("DELETE", "/api/templates/report", 409))["type"] == "urn:windlass:in-use"
        assert (await api("DELETE", "/api/schedules/a%2Fb"))["name"] == "a/b"
        assert (await api.post("/api/templates/report/archive"))["changed"]
        assert (await api("DELETE", "/api/templates/report"))["name"] == "report"
        assert (await api.get("/api/schedules"))["schedules"] == (await api.get("/api/templates"))["templates"] == []

    api(story)


def test_groups_are_seen_cancelled_and_retried(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        async with api.desk.app.group("nightly", mode="sequential") as group:
            group.add(api.desk.app.tasks["fail"].job("no"))
            group.add(api.desk.add.job(1, 2))
        [seen] = (await api.get("/api/groups"))["groups"]
        assert (seen["name"], seen["total"]) == ("nightly", 2)
        await api.post("/api/jobs/tick")
        assert len((await api.get(f"/api/groups/{group.id}"))["members"]) == 2
        assert (await api.post(f"/api/groups/{group.id}/retry"))["jobs"] == 2
        assert (await api.post(f"/api/groups/{group.id}/cancel", {"reason": "enough"}))["what"] == "cancelled"
        assert (await api.get("/api/groups/nobody", 404))["type"] == "urn:windlass:group-not-found"

    api(story)


def test_a_queue_is_held_renewed_and_released(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        await api.add(queue="gpu")
        hold = await api.post("/api/holds", {"queue": "gpu", "expires_in": "1m"}, 201)
        assert (hold["by"], hold["status"], hold["granted_at"] is None) == ("local", "ACTIVE", False)
        busy = await api.post("/api/holds", {"queue": "gpu", "by": "other", "wait": 0.05}, 409)
        assert busy["type"] == "urn:windlass:resource-busy"
        renewed = await api.post(f"/api/holds/{hold['id']}/renew", {"expires_in": "10m"})
        assert renewed["expires_at"] > hold["expires_at"]
        assert (await api.post(f"/api/holds/{hold['id']}/release"))["status"] == "RELEASED"
        assert (await api.post(f"/api/holds/{hold['id']}/renew", status=409))["type"] == "urn:windlass:hold-lost"
        assert (await api.post("/api/holds/nobody/renew", status=404))["type"] == "urn:windlass:hold-not-found"
        assert (await api.get("/api/holds"))["holds"] == []
        assert len((await api.get("/api/holds?ended=true"))["holds"]) == 1

    api(story)


def test_tokens_are_made_and_revoked_and_their_secret_is_told_once(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        made = await api.post("/api/tokens", {"name": "ci", "scopes": ["enqueue"], "expires_in": "90d"}, 201)
        assert made["secret"].startswith("wl_")
        assert made["token"]["scopes"] == ["enqueue"]
        listed = await api.client.get("/api/tokens")
        assert made["secret"] not in listed.text
        assert (await api.post("/api/tokens", {"name": "x", "scopes": ["all"]}, 400))["field"] == "scopes[0]"
        assert (await api.post("/api/tokens", {"name": "ci", "scopes": ["read"]}, 409))["type"] == "urn:windlass:in-use"
        assert (await api.post("/api/tokens/ci/revoke"))["state"] == "revoked"
        assert (await api.post("/api/tokens/nobody/revoke", status=404))["type"] == "urn:windlass:unknown-token"
        assert made["secret"] not in (await api.client.get("/api/audit")).text

    api(story)


def test_webhooks_are_made_changed_and_removed_and_their_secret_is_told_once(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        wish = {"url": "https://hooks.example.invalid/in", "events": ["job.dead"]}
        made = await api.post("/api/webhooks", wish, 201)
        hook = made["webhook"]["webhook_id"]
        assert made["secret"].startswith("whsec_")
        for path in ("/api/webhooks", f"/api/webhooks/{hook}", "/api/audit"):
            assert made["secret"] not in (await api.client.get(path)).text
        assert (await api("PATCH", f"/api/webhooks/{hook}", json={"enabled": False}))["enabled"] is False
        rotated = await api.post(f"/api/webhooks/{hook}/rotate", {"keep": "1h"})
        assert rotated["secret"] != made["secret"]
        assert (await api.get(f"/api/webhooks/{hook}/deliveries"))["deliveries"] == []
        assert (await api.post(f"/api/webhooks/{hook}/replay"))["messages"] == 0
        assert (await api.post("/api/webhooks", {**wish, "events": ["job.nonsense"]}, 422))["status"] == 422
        assert (await api("DELETE", f"/api/webhooks/{hook}"))["name"] == hook
        assert (await api.get(f"/api/webhooks/{hook}", 404))["type"] == "urn:windlass:unknown-webhook"
        assert (await api.get("/api/deliveries/nobody", 404))["type"] == "urn:windlass:unknown-delivery"

    api(story)


SPELLINGS = (
    "169.254.169.254", "2852039166", "0xa9fea9fe", "0xa9.0xfe.0xa9.0xfe", "0251.0376.0251.0376", "169.254.43518",
    "169.16689662", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::169.254.169.254]", "[2002:a9fe:a9fe::]",
    "0251.254.0xa9fe",
)  # fmt: skip


def test_a_webhook_never_leads_to_the_metadata_of_the_machine(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        for host in SPELLINGS:
            told = await api.post("/api/webhooks", {"url": f"https://{host}/latest", "events": ["job.dead"]}, 422)
            assert told["field"] == "url", host
        assert (await api.get("/api/webhooks"))["webhooks"] == []

    api(story)


def test_how_things_are_is_told(api: Callable[[Story], None]) -> None:
    async def story(api: Api) -> None:
        await api.add()
        assert (await api.get("/api/overview?span=24h"))["span"] == "24h"
        assert (await api.get("/api/queues/trends"))["span"] == "1h"
        assert (await api.get("/api/counts?exact=true"))["labels"]["queued"]["jobs"] == 1
        assert (await api.get("/api/completions"))["types"] == ["add"]
        assert (await api.get("/api/workers"))["workers"] == []
        assert (await api.get("/api/usage?by=org&by=type&step=all"))["rows"] == []
        table = await api.client.get("/api/usage.csv")
        assert table.headers["content-type"] == "text/csv; charset=utf-8"
        assert table.headers["content-disposition"] == 'attachment; filename="usage.csv"'

    api(story)


def test_a_server_without_tasks_runs_none() -> None:
    async def main() -> None:
        desk = Desk()
        desk.app.tasks.clear()
        async with desk.app, desk.client() as client:
            answer = await client.post("/api/jobs/tick")
            assert (answer.status_code, answer.json()["type"]) == (409, "urn:windlass:no-tasks")

    asyncio.run(main())
