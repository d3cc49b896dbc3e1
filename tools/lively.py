"""A store in which something has been going on: an hour of jobs that ran, failed, wait and run, made by the driver's own
calls at times that have passed. For screenshots, and for looking at pages by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from windlass import Retry, Windlass
from windlass.admin import Admin
from windlass.clock import SECOND, ManualClock
from windlass.core.changes import Ack, Fail, Report, Settlement
from windlass.core.changes import Retry as Again
from windlass.core.duties import RollUpUsage, SampleQueues
from windlass.core.settle import riders_of
from windlass.core.webhooks import Answer
from windlass.drivers.values import Claim, Renewal
from windlass.records import WorkerInfo
from windlass.types import Claimed, DeadKind, Micros, NewJob

MINUTE: Final = 60 * SECOND
DAY: Final = 24 * 60 * MINUTE
ORGS: Final = ("acme", "globex", "initech", "umbrella", None)
# queue, type, jobs a minute, seconds a run, share that fails
WORK: Final = (
    ("mail", "mail.send_receipt", 34, 0.35, 0.004),
    ("default", "crm.sync_contact", 22, 0.18, 0.006),
    ("billing", "billing.capture_payment", 9, 1.6, 0.02),
    ("search", "search.reindex_product", 16, 0.5, 0.003),
    ("media", "media.thumbnail", 6, 2.4, 0.03),
    ("exports", "exports.orders_csv", 1, 14.0, 0.02),
)  # fmt: skip
ERRORS: Final = {
    "billing.capture_payment": (
        "shop.gateways.RateLimited: 429 too many requests on POST /charges", "shop/billing.py", "capture_payment",
        "charge = await gateway.charge(order.intent, amount)", "shop/gateways.py", "charge",
        'raise RateLimited(response.headers["Retry-After"])',
    ),
    "media.thumbnail": (
        "shop.media.UnreadableImage: cannot identify image file 'upload-{n}.heic'", "shop/media.py", "thumbnail",
        "image = open_image(path)", "shop/media.py", "open_image", "raise UnreadableImage(path)",
    ),
}  # fmt: skip
OTHER_ERROR: Final = (
    "httpx.ConnectTimeout: api.example.com:443 did not answer in 10 s", "shop/tasks.py", "run",
    "answer = await client.post(url, json=body)", "shop/http.py", "post", "raise ConnectTimeout(request)",
)  # fmt: skip
WOVEN: Final = (
    "warehouse.extract_orders", "warehouse.extract_customers", "warehouse.extract_stock", "warehouse.validate",
    "warehouse.load_all", "marts.rebuild", "search.refresh", "partners.export", "dashboards.refresh", "warehouse.digest",
)  # fmt: skip
WORKERS: Final = ("worker-eu-1", "worker-eu-2", "worker-eu-3", "worker-us-1")


def lively_app(url: str) -> Windlass:
    """The program that the jobs belong to. Nothing here is ever run."""
    app = Windlass(url)

    def task(name: str, queue: str, **options: Any) -> None:
        async def run(order: int = 0, day: str = "", month: str = "", source: str = "") -> None: ...

        app.task(name=name, queue=queue, retry=Retry(max_retries=5), **options)(run)

    for queue, name, *_ in WORK:
        task(name, queue, timeout="30s")
    task("ml.embed_documents", "gpu", timeout="1h")
    for name in ("warehouse.extract", "warehouse.load", "reports.refresh"):
        task(name, "exports")
    for name in WOVEN:
        task(name, "warehouse")
    return app


class Receiver:
    """Answers messages without a network."""

    status = 200

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> Answer:
        return Answer(took=SECOND // 8, status=self.status, body='{"ok":true}' if self.status < 300 else "try again later")


class Past:
    def __init__(self, app: Windlass, seed: int = 7) -> None:
        self.app, self.client, self.driver = app, app.client, app.client.driver
        self.dice = random.Random(seed)  # noqa: S311
        self.now = self.client.now()
        self.count = 0
        self.admin = Admin(self.client, app.tasks)

    async def make(self, minutes: int = 60, share: float = 1.0) -> None:
        for worker in WORKERS:
            await self.beat(worker, self.now - minutes * MINUTE, 0)
        for back in range(minutes, 0, -1):
            await self.minute(self.now - back * MINUTE, back, share)
        await self.present()

    # ------------------------------------------------------------------------------------------------------- an hour

    async def minute(self, begin: Micros, back: int, share: float) -> None:
        incident = 18 <= back <= 30
        for queue, kind, rate, took, fails in WORK:
            wave = 1 + 0.25 * self.dice.random() + (0.3 if back % 20 < 7 else 0)
            many = max(round(rate * wave * share), 1)
            at = begin + self.dice.randrange(5) * SECOND
            await self.driver.enqueue([self.job(queue, kind, at) for _ in range(many)], now=at)
            slow = incident and queue == "billing"
            keep = max(many // 3, 1) if slow else 0  # so many wait
            await self.work(queue, many - keep + (3 if not incident else 0), at, took * (6 if slow else 1),
                            0.5 if slow else fails * 3)  # fmt: skip
        for worker in WORKERS:
            await self.beat(worker, begin + 55 * SECOND, 0)
        if back > 1:  # the last minute is sampled when everything is there
            await self.driver.maintain(SampleQueues(keep=7 * DAY), epoch=None, now=begin + MINUTE + 2 * SECOND)

    def job(self, queue: str, kind: str, at: Micros, **more: Any) -> NewJob:
        self.count += 1
        payload: dict[str, Any] = {"order": 88_000 + self.count, "amount": self.dice.randrange(500, 20_000)}
        if queue == "mail":
            payload = {"to": f"{self.dice.choice(['ada', 'grace', 'edsger', 'barbara'])}@example.com"}
        if queue == "search":
            payload = {"sku": f"WL-{2000 + self.count % 900}"}
        usual = {"org_id": self.dice.choice(ORGS), "payload": msgspec.json.encode(payload)}
        return NewJob(
            id=self.client.ids.job(at), type=kind, queue=queue, max_attempts=6, timeout_ns=30 * 10**9, **{**usual, **more}
        )  # fmt: skip

    async def work(self, queue: str, many: int, at: Micros, took: float, fails: float) -> None:
        begin = at + round((0.05 + self.dice.random() ** 3 * 1.5) * SECOND)
        got = await self.claim(queue, many, begin, self.dice.choice(WORKERS[:3]))
        ends = [(job, begin + round(took * (0.4 + self.dice.random() * 1.6) * SECOND)) for job in got]
        changes = [self.ended(job, end, fails) for job, end in ends]
        if changes:
            await self.driver.settle(changes, now=begin + SECOND)

    async def claim(self, queue: str, many: int, at: Micros, worker: str, lease: Micros = 10 * MINUTE) -> list[Claimed]:
        token = f"token-{self.count}-{self.dice.random()}"
        wish = Claim(queues=(queue,), limit=many, lease_for=lease, worker_id=worker, token=token)
        return await self.driver.claim(wish, now=at)

    def ended(self, job: Claimed, at: Micros, fails: float) -> Settlement:
        usual: dict[str, Any] = {"handle": job.handle, "token": job.token, "at": at}
        used: dict[str, Any] = {
            "cpu_us": self.dice.randrange(8_000, 220_000),
            "peak_rss": self.dice.randrange(60, 240) * 1_000_000,
        }
        if self.dice.random() >= fails:
            return Ack(**usual, result=b'{"ok":true}', report=Report(**used), riders=riders_of(job, "succeeded"))
        error = self.error(job.type)
        report = Report(traceback=traceback(error), **used)
        if job.type == "media.thumbnail" or job.attempts >= 1:
            kind: DeadKind = "rejected" if job.type == "media.thumbnail" else "exhausted"
            attempts = job.attempts + 1
            return Fail(**usual, kind=kind, reason=error[0], error=error[0], attempts=attempts, report=report)
        wait = self.dice.randrange(20, 90) * SECOND
        return Again(**usual, run_at=at + wait, attempts=job.attempts + 1, error=error[0], report=report)

    def error(self, kind: str) -> Sequence[str]:
        text, *frames = ERRORS.get(kind, OTHER_ERROR)
        return (text.replace("{n}", str(self.dice.randrange(100, 999))), *frames)

    async def beat(self, worker: str, at: Micros, running: int) -> None:
        queues = tuple(dict.fromkeys([*(queue for queue, *_ in WORK), "warehouse"]))
        await self.driver.beat(
            WorkerInfo(
                id=worker, hostname="10.4.1.11", pid=4100 + len(worker), pool_size=32 if "eu-1" in worker else 16,
                version="0.1.0", queues=queues, types=tuple(self.app.tasks), wakeups="notified", running=running,
                started_at=self.now - 3 * DAY,
            ), now=at,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------------ the present

    async def present(self) -> None:
        now, driver = self.now, self.driver
        await self.beats(now)
        await driver.lead("worker-eu-2", lease_for=10 * MINUTE, now=now)
        await self.limits()
        for queue, kind, rate, *_ in WORK:
            await driver.enqueue([self.job(queue, kind, now - 9 * SECOND) for _ in range(rate)], now=now - 9 * SECOND)
        for queue, many, worker in (("mail", 12, "worker-eu-1"), ("search", 7, "worker-eu-2"), ("media", 3, "worker-us-1")):
            await self.claim(queue, many, now - 3 * SECOND, worker, lease=60 * MINUTE)
        await driver.enqueue(
            [self.job("gpu", "ml.embed_documents", now - 20 * MINUTE) for _ in range(9)], now=now - 20 * MINUTE
        )
        got = await self.claim("exports", 2, now - 7 * MINUTE, "worker-us-1", lease=60 * MINUTE)
        begun, note = now - 7 * MINUTE, "4,100 of 9,800 rows"
        shares = [Renewal(job.handle, job.token, begun, 0.4 + place / 3, note) for place, job in enumerate(got)]
        await driver.extend(shares, lease_for=60 * MINUTE, now=now - SECOND)
        later = [self.job("mail", "mail.send_receipt", now, run_at=now + (place + 1) * 11 * MINUTE) for place in range(14)]
        await driver.enqueue(later, now=now)
        await self.admin.pause("gpu")
        await self.people()
        await driver.maintain(SampleQueues(keep=7 * DAY), epoch=None, now=now)
        await driver.maintain(RollUpUsage(until=now - MINUTE, limit=10_000), epoch=None, now=now)

    async def beats(self, now: Micros) -> None:
        """All workers say that they live, but for one."""
        for worker, running in zip(WORKERS, (18, 7, 0, 5), strict=True):
            await self.beat(worker, self.now - 70 * SECOND if worker == "worker-eu-3" else now, running)

    async def limits(self) -> None:
        await self.app.limits.set("payment-api", 6)
        await self.app.limits.set("queue:exports", 4)
        await self.app.limits.set("type:media.thumbnail", rate="5/s")
        now = self.now
        left = await self.claim("billing", 400, now - 4 * MINUTE, "worker-eu-1", lease=60 * MINUTE)
        await self.driver.settle(
            [self.ended(job, now - 4 * MINUTE + 2 * SECOND, 0.02) for job in left], now=now - 3 * MINUTE
        )
        jobs = [
            self.job("billing", "billing.capture_payment", now - 4 * MINUTE, limit_keys=("key:payment-api",))
            for _ in range(30)
        ]
        await self.driver.enqueue(jobs, now=now - 4 * MINUTE)
        await self.claim("billing", 60, now - 3 * SECOND, "worker-eu-1", lease=60 * MINUTE)

    async def people(self) -> None:
        app = self.app
        await app.templates.put("nightly_rollup", "exports.orders_csv", {"month": "2026-10"})
        await app.templates.put("daily_report", "reports.refresh", {})
        await app.templates.put("exchange_rates", "crm.sync_contact", {"source": "ecb"})
        await app.schedules.put("nightly_rollup", "nightly_rollup", "30 2 * * *", tz="Europe/Berlin")
        await app.schedules.put("daily_report", "daily_report", "0 9 * * MON-FRI", tz="America/New_York")
        await app.schedules.put("exchange_rates", "exchange_rates", every="5m")
        await app.schedules.put("purge_previews", "daily_report", "0 4 * * SUN", enabled=False)
        for name in ("nightly_rollup", "exchange_rates", "daily_report"):
            await self.fired(name)
        async with app.group("nightly", mode="sequential", on_failure="stop") as group:
            for name in ("warehouse.extract", "warehouse.load", "reports.refresh"):
                group.add(app.tasks[name].job(day="2026-11-15"))
        async with app.group("checkout 88207", on_failure="continue") as group:
            for _ in range(5):
                group.add(app.tasks["warehouse.load"].job(day="2026-11-15"))
        await self.woven()
        now = self.client.now()
        got = await self.claim("exports", 3, now, "worker-eu-2", lease=60 * MINUTE)
        await self.driver.settle([self.ended(job, now + SECOND, 0.3) for job in got[:2]], now=now + SECOND)
        await self.hooks()
        await self.admin.acquire("reports", "migration of the reports", expires_in="15m", wait=0)

    async def woven(self) -> None:
        """A group whose members wait for each other: some are done, one has died, two run, the rest waits."""
        tasks, clock = self.app.tasks, self.client._clock
        self.client._clock = ManualClock(self.now - 5 * MINUTE)
        async with self.app.group("warehouse refresh", on_failure="continue") as group:
            kinds = [f"warehouse.extract_{noun}" for noun in ("orders", "customers", "stock")]
            first = [group.add(tasks[kind].job(day="2026-11-15")) for kind in kinds]
            checked = group.add(tasks["warehouse.validate"].using(after=first).job(day="2026-11-15"))
            loaded = group.add(tasks["warehouse.load_all"].using(after=[checked]).job(day="2026-11-15"))
            marts, search, _ = (
                group.add(tasks[kind].using(after=[loaded]).job(day="2026-11-15"))
                for kind in ("marts.rebuild", "search.refresh", "partners.export")
            )
            group.add(tasks["dashboards.refresh"].using(after=[marts, search]).job(day="2026-11-15"))
            group.finish_with(tasks["warehouse.digest"].job(day="2026-11-15"))
        self.client._clock = clock
        at = self.now - 4 * MINUTE
        for many in (3, 1, 1):
            got = await self.claim("warehouse", many, at, "worker-eu-2", lease=60 * MINUTE)
            at += 20 * SECOND
            await self.driver.settle([self.ended(job, at, 0) for job in got], now=at)
        *_, dead = await self.claim("warehouse", 3, at, "worker-us-1", lease=60 * MINUTE)
        error = self.error("partners.export")
        report = Report(traceback=traceback(error))
        end = Fail(
            handle=dead.handle, token=dead.token, at=at + 9 * SECOND, kind="exhausted", reason=error[0], error=error[0],
            attempts=6, report=report, riders=riders_of(dead, "failed"),
        )  # fmt: skip
        await self.driver.settle([end], now=at + 9 * SECOND)

    async def hooks(self) -> None:
        """Three that were told of something: well, badly, and one that is gone."""
        for name, events, statuses in (
            ("chat.example/hooks/T02", ("job.dead", "queue.unhealthy"), (200, 200)),
            ("pager.example/v2/events", ("job.dead", "schedule.missed"), (202, 503)),
            ("old.example/jobs", ("group.finished",), (410,)),
        ):
            self.client.sender = receiver = Receiver()
            made = await self.admin.create_webhook(f"https://{name}", events)
            for receiver.status in statuses:
                await self.admin.ping_webhook(made.webhook.webhook_id)

    async def fired(self, name: str) -> None:
        schedule = await self.app.schedules.get(name)
        template = await self.app.templates.get({"nightly_rollup": name, "exchange_rates": name}.get(name, "daily_report"))
        for back in range(16, 0, -1):
            at = self.now - back * 5 * MINUTE
            queue = "reports"
            job = self.job(
                queue, template.type, at, schedule_id=schedule.schedule_id, fire_at=at, template_id=template.template_id
            )
            await self.driver.enqueue([job], now=at)
            await self.work(queue, 1, at, 4.0, 0.12)


def traceback(error: Sequence[str]) -> str:
    text, first, function, line, second, inner, raised = error
    return (
        "Traceback (most recent call last):\n"
        '  File "/srv/venv/lib/python3.12/site-packages/windlass/worker/slots.py", line 118, in _run\n'
        "    result = await handler(*args, **kwargs)\n"
        f'  File "/srv/{first}", line 64, in {function}\n    {line}\n'
        f'  File "/srv/{second}", line 203, in {inner}\n    {raised}\n{text}\n'
    )
