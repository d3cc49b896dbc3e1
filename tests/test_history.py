"""`history="failures"` as people meet it: options, pages, commands, logs, and the doctor."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import httpx2
import pytest

from windlass import Context, Retry, Windlass
from windlass.admin import Admin
from windlass.admin.views import JobDetail
from windlass.cli import main as windlass
from windlass.clock import SECOND
from windlass.drivers.values import Claim
from windlass.errors import InvalidInput
from windlass.policies import fixed
from windlass.web.access import LOCAL, Access
from windlass.web.app import web_app

SAYS = "history of successes is not kept for this job"


def on(url: str, **settings: Any) -> Windlass:
    app = Windlass(url, **settings)

    @app.task(history="failures")
    async def well() -> int:
        return 1

    @app.task(history="failures", retry=Retry(max_retries=1, backoff=fixed(0)), context=True)
    def second_time(ctx: Context) -> None:
        ctx.log("attempt %d", ctx.attempt)
        if ctx.attempt == 1:
            raise ValueError("not yet")

    @app.task(history="failures", context=True)
    def draws(ctx: Context) -> None:
        ctx.artifact("chart.svg")

    return app


async def done(app: Windlass, name: str) -> JobDetail:
    job = await app.tasks[name].enqueue()
    await app.worker().run(drain=True)
    return await app.admin.job(job.id)


def told(detail: JobDetail) -> list[tuple[str, int | None]]:
    return [(entry.what, entry.attempt) for entry in detail.timeline]


def test_a_success_is_told_whole_and_said_to_have_no_run(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with on(url, log_root=str(tmp_path / "logs")) as app:
            well = await done(app, "well")
            assert (well.runs, well.job.history, well.job.result) == ((), "failures", 1)
            assert well.unkept is not None
            assert well.unkept.startswith(SAYS)
            assert [what for what, _ in told(well)][-1] == "succeeded"
            assert told(well)[-1] == ("succeeded", 1)

            retried = await done(app, "second_time")
            assert [(run.attempt, run.status, run.error) for run in retried.runs] == [(1, "failed", "ValueError: not yet")]
            assert retried.unkept is not None
            assert [entry for entry in told(retried) if entry[0] in ("failed", "succeeded")] == [
                ("failed", 1),
                ("succeeded", 2),
            ]
            assert "attempt 2" in ((await app.admin.logs(retried.job.id)).text or "")
            assert "attempt 1" in ((await app.admin.logs(retried.job.id, run=1)).text or "")

            drawn = await done(app, "draws")
            assert (drawn.unkept, [run.artifacts for run in drawn.runs]) == (None, [("chart.svg",)])

    asyncio.run(main())


def test_the_page_says_why_a_run_is_missing() -> None:
    async def main() -> None:
        async with on("memory://") as app:
            job = (await done(app, "well")).job
            transport = httpx2.ASGITransport(app=web_app(app, access=Access(anonymous=LOCAL)))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                page = (await client.get(f"/jobs/{job.id}")).text
                assert SAYS in page
                assert "none yet" not in page
                assert (await client.get(f"/api/jobs/{job.id}")).json()["job"]["history"] == "failures"

    asyncio.run(main())


def test_the_command_says_why_a_run_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = f"sqlite:///{tmp_path}/w.db"

    async def main() -> str:
        async with on(store) as app:
            return (await done(app, "well")).job.id

    job_id = asyncio.run(main())
    assert windlass(["jobs", "show", job_id, "--store", store]) == 0
    assert SAYS in capsys.readouterr().out


def test_who_runs_without_a_row_is_no_damage(tmp_path: Path) -> None:
    """The doctor finds nothing and mends nothing; but one of which nothing of a claim is known is found."""
    file = tmp_path / "w.db"

    async def main() -> None:
        async with on(f"sqlite:///{file}") as app:
            admin, driver, now = Admin(app.client), app.client.driver, app.client.now()
            job = await app.tasks["well"].enqueue()
            wish = Claim(queues=("default",), limit=1, lease_for=60 * SECOND, worker_id="w", token="t")
            [claimed] = await driver.claim(wish, now=now)
            assert await admin.faults() == []
            assert (await admin.repair([])).rows == 0
            [run] = await driver.runs(job.id)
            assert (run.run_id, run.status) == (claimed.run_id, None)
            db = apsw.Connection(str(file))
            db.execute("drop trigger jobs_count_by_ones")  # whoever damages a store by hand can do that too
            db.execute("pragma ignore_check_constraints = on")
            db.execute("update jobs set executions = 0, claimed_at = null")
            db.close()
            found = await admin.faults()
            assert [(fault.kind, fault.subject) for fault in found] == [("missing_run", job.id)]
            assert (await admin.repair(found)).left == ()
            [failed] = await driver.runs(job.id)
            assert (failed.attempt_no, failed.status) == (1, "failed")

    asyncio.run(main())


def test_the_nearest_word_counts_and_chains_have_their_runs(tmp_path: Path) -> None:
    app = Windlass(f"sqlite:///{tmp_path}/w.db", history="failures")
    app.queue("links", preset="scheduler")

    @app.task
    async def usual() -> None: ...

    @app.task(history="full")
    async def whole() -> None: ...

    @app.task(queue="links")
    async def linked() -> None: ...

    async def main() -> None:
        async with app:
            plans = (usual, whole, linked, whole.using(history="failures"))
            jobs = [await plan.enqueue() for plan in plans]
            rows = await app.client.driver.get([job.id for job in jobs])
            assert [row.history for row in rows if row is not None] == ["failures", "full", "full", "failures"]
            with pytest.raises(InvalidInput, match=r"history: must be 'full' with retry_mode='new_job'"):
                await linked.using(history="failures").enqueue()
            with pytest.raises(InvalidInput, match="history: must be one of failures, full"):
                usual.using(history="some")  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_template_gives_its_jobs_their_history(tmp_path: Path) -> None:
    async def main() -> None:
        async with on(f"sqlite:///{tmp_path}/w.db") as app:
            await app.templates.put("nightly", "well", history="failures")
            await app.schedules.put("at-night", "nightly", "@daily")
            job = await app.schedules.run("at-night")
            [row] = await app.client.driver.get([job.id])
            assert row is not None
            assert row.history == "failures"

    asyncio.run(main())
