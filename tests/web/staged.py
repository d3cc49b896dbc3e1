"""A store with one of everything, by names that would break out of a page that forgot to escape one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from web.conftest import Desk
from windlass import Retry, Windlass
from windlass.admin import Admin
from windlass.clock import SECOND
from windlass.core.changes import Ack, Fail, Report
from windlass.core.changes import Retry as Again
from windlass.core.duties import RollUpUsage, SampleQueues
from windlass.core.webhooks import Answer
from windlass.drivers.values import Claim
from windlass.records import WorkerInfo
from windlass.types import NewJob

EVIL: Final = """x"><script>alert('1')</script>/../%2e أ"""
LONG: Final = "long-" + "name-" * 30
BIG: Final = 9_223_372_036_854_775_809
MINUTE: Final = 60 * SECOND


class Ids(Struct, frozen=True, kw_only=True):
    ready: str
    scheduled: str
    running: str
    done: str
    dead: str
    retrying: str
    cancelled: str
    group: str
    hold: str
    held: str
    webhook: str
    silent: str


class Receiver:
    """Whoever is sent a message, without a network: it answers what is ours to show."""

    def __init__(self, status: int) -> None:
        self.status = status

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> Answer:
        return Answer(took=SECOND, status=self.status, body=EVIL)


async def hooks(app: Windlass, admin: Admin) -> list[str]:
    """One that answered well and then badly, and one that said it is gone and was switched off."""
    before, made = app.client.sender, []
    for place, statuses in enumerate([(200, 500), (410,)]):
        url = f"https://receiver.invalid/key-{EVIL.replace(' ', '')}{place}"
        hook = (await admin.create_webhook(url, ["job.dead", "group.finished"], org_id=EVIL)).webhook
        for status in statuses:
            app.client.sender = Receiver(status)
            await admin.ping_webhook(hook.webhook_id)
        made.append(hook.webhook_id)
    app.client.sender = before
    return made


def evil_tasks(app: Windlass) -> Any:
    @app.task(name=EVIL, queue=EVIL, retry=Retry(max_retries=3))
    async def evil(note: str = "", big: int = 0, deep: Any = None) -> str:
        return note

    @app.task(name="plain", queue="plain")
    async def plain(n: int = 0) -> int:
        return n

    return evil, plain


async def stage(desk: Desk) -> Ids:
    """What every page shows something of."""
    return await staged(desk.app)


async def staged(app: Windlass) -> Ids:
    if EVIL not in app.tasks:
        evil_tasks(app)
    client, now = app.client, app.client.now()
    driver, admin = client.driver, Admin(client, app.tasks)
    payload = msgspec.json.encode({"note": EVIL, "big": BIG, "deep": {"a": [1, None, True, {"b": EVIL}]}, EVIL: 1})

    def job(**more: Any) -> NewJob:
        usual = {
            "type": EVIL, "queue": EVIL, "org_id": EVIL, "tags": (EVIL,), "headers": {EVIL: EVIL}, "payload": payload,
            "max_attempts": 4,
        }  # fmt: skip
        return NewJob(id=client.ids.job(now), **{**usual, **more})

    names = ("done", "dead", "retrying", "running", "cancelled", "ready", "scheduled")
    jobs = {name: job(run_at=now + 600 * SECOND) if name == "scheduled" else job() for name in names}
    await driver.enqueue([jobs[name] for name in names[:4]], now=now - 3 * MINUTE)
    wish = Claim(queues=(EVIL,), limit=4, lease_for=60 * MINUTE, worker_id=EVIL, token="t")
    got = {one.id: one for one in await driver.claim(wish, now=now - 2 * MINUTE)}
    error = f"shop.Broken: {EVIL}"
    trace = f'Traceback (most recent call last):\n  File "{EVIL}.py", line 3, in run\n    {EVIL}\n{error}\n'

    def said(name: str) -> dict[str, Any]:
        one = got[jobs[name].id]
        return {
            "handle": one.handle,
            "token": one.token,
            "at": now - MINUTE,
            "report": Report(traceback=trace, exit_code=-9),
        }

    await driver.settle(
        [
            Ack(**said("done"), result=payload),
            Fail(**said("dead"), kind="exhausted", reason=error, error=error, attempts=4),
            Again(**said("retrying"), run_at=now + 300 * SECOND, attempts=1, error=error),
        ],
        now=now - MINUTE,
    )
    await driver.enqueue([jobs[name] for name in names[4:]], now=now)
    await admin.cancel(jobs["cancelled"].id, EVIL)
    await driver.beat(
        WorkerInfo(
            id=EVIL, hostname=EVIL, pid=1, pool_size=8, version=EVIL, queues=(EVIL,), types=(EVIL,), wakeups="polled",
            running=1, started_at=now - 60 * MINUTE,
        ), now=now,
    )  # fmt: skip
    await app.templates.put(EVIL, EVIL, {"note": EVIL})
    await app.templates.put("plain", "plain", {"n": 1})
    await app.schedules.put(EVIL, EVIL, "30 2 * * *", tz="Europe/Berlin", params={"note": EVIL})
    await app.schedules.put("plain", "plain", every="5m")
    await app.limits.set(f"org:{EVIL}", 3)
    async with app.group(EVIL, mode="sequential") as group:
        group.add(app.tasks["plain"].job(n=1))
        group.add(app.tasks[EVIL].job(note=EVIL))
    await admin.create_token(EVIL[:60], ["read"], org_id=EVIL, queues=[EVIL])
    app.queue("held")
    await client.declare()
    hold = await admin.acquire("held", EVIL, expires_in="10m", wait=0)
    await driver.maintain(SampleQueues(keep=60 * MINUTE), epoch=None, now=now)
    await driver.maintain(RollUpUsage(until=now), epoch=None, now=now + MINUTE)
    groups = (await admin.groups()).groups
    webhook, silent = await hooks(app, admin)
    return Ids(
        **{name: one.id for name, one in jobs.items()}, group=groups[0].id, hold=hold.id, held="held", webhook=webhook,
        silent=silent,
    )  # fmt: skip


def paths(ids: Ids) -> list[str]:
    """Every page that there is to look at."""
    from urllib.parse import quote

    evil = quote(EVIL, safe="")
    jobs = [
        f"/jobs/{one}" for one in (ids.ready, ids.scheduled, ids.running, ids.done, ids.dead, ids.retrying, ids.cancelled)
    ]
    return [
        "/", "/?span=24h&latency=run", "/jobs", "/jobs?state=dead", f"/jobs?queue={evil}&type={evil}&org={evil}&tag={evil}",
        "/jobs?type=none", "/jobs/new", *jobs, "/dead-letters", "/dead-letters?by=type", "/dead-letters?by=list",
        "/dead-letters?span=1h&queue=none", "/schedules", f"/schedules?edit={evil}", "/schedules?new=1",
        "/schedules?only=paused",
        "/queues", f"/queues/{evil}", "/workers", "/groups", f"/groups/{ids.group}", "/templates", f"/templates/{evil}",
        "/holds", "/usage", "/usage?span=30d&by=org", "/audit", f"/audit?actor={evil}", "/tokens", "/settings", "/sign-in",
        "/webhooks", f"/webhooks/{ids.webhook}", f"/webhooks/{ids.webhook}?status=sent", f"/webhooks/{ids.silent}",
        f"/webhooks/{ids.webhook}?status=queued",
    ]  # fmt: skip
