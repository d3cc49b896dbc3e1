"""`/jobs/{id}`: one job, and everything that is known of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from windlass.admin.views import JobDetail, JobView, LogView, RunView
from windlass.core.history import RUNS_LIMIT
from windlass.errors import WindlassError
from windlass.types import TERMINAL
from windlass.web.answers import Events, Page, Text
from windlass.web.pages.bars import Bars, bars
from windlass.web.pages.formats import part, query
from windlass.web.pages.live import fragments
from windlass.web.pages.loglines import LogLine, log_lines
from windlass.web.pages.shell import Told, page
from windlass.web.request import Request

RUNS = 50  # runs that the page lists, the newest of them
LINES = 500


class Shown(Told, frozen=True, kw_only=True):
    run: int | None = None  # whose log
    before: Annotated[int, Meta(ge=1)] | None = None  # only runs that are older than this one
    reveal: bool = False  # show what is hidden, to those who may see it


class Replay(Struct, frozen=True):
    """`before`: the run that came of it; None: none yet. Who asked for it is in the audit log."""

    before: int | None


async def show(request: Request[Shown, None]) -> Page:
    job_id = request.path["id"]
    reveal = request.query.reveal and request.principal.may("read:payload")
    detail = await request.admin.job(job_id, reveal=reveal)
    job = detail.job
    why = await request.admin.why(job_id) if job.state == "queued" else None
    own = await own_runs(request, detail)
    log = await log_of(request, job, own)
    here = f"/jobs/{part(job.id)}"
    oldest = own[-RUNS:][0].attempt if own else 1  # of those that are listed
    kept = {"reveal": "1" if reveal else None}
    again = {"run": request.query.run, "before": request.query.before, **kept}
    shown = {
        "detail": detail, "job": job, "why": why, "runs": list(reversed(own[-RUNS:])), "before": request.query.before,
        "more_runs": oldest - 1, "older_runs": here + query({"before": oldest, **kept}),
        "bars": drawn(detail, own), "log": log, "lines": lines_of(log), "here_path": here, "reveal": reveal,
        "counted": counted(own, request.query.before), "work": sum(worked(run, detail.at) for run in own),
        "waiting": sum(run.waited or 0 for run in own), "replay": replay_of(detail, own),
        "live": None if job.state in TERMINAL else f"/live{here}" + query(again),
    }  # fmt: skip
    return await page(request, "job.html", "jobs", shown)


async def own_runs(request: Request[Shown, None], detail: JobDetail) -> list[RunView]:
    """Of this link alone, first to last, the newest or those before one. Later links may have taken all places among the
    newest of the chain."""
    job, before = detail.job, request.query.before
    own = [run for run in detail.runs if run.job_id == job.id]
    if before is None and (own or not job.runs):
        return own
    found = await request.admin.runs(job.id, before=before or job.runs + 1, limit=RUNS_LIMIT if before is None else RUNS)
    return [run for run in found.runs if run.job_id == job.id]


def worked(run: RunView, now: datetime) -> float:
    """Seconds; of a run that goes on, so far."""
    if run.took is not None or run.status is not None:
        return run.took or 0.0
    return max((now - (run.started_at or run.claimed_at)).total_seconds(), 0.0)


def counted(own: list[RunView], before: int | None) -> str:
    """Which runs the sums are of, where that is not all of them."""
    if before is not None and own:
        return f" in runs {own[0].attempt} to {own[-1].attempt}"
    return f" in the newest {len(own)}" if own and own[0].attempt > 1 else ""


def replay_of(detail: JobDetail, own: list[RunView]) -> Replay | None:
    """The last time that somebody brought it back from the dead, where the runs at hand reach back to it."""
    told = [entry.at for entry in detail.timeline if entry.what == "replayed" and entry.job_id == detail.job.id]
    if not told or not own or own[0].claimed_at > told[-1]:
        return None
    return Replay(next((run.attempt for run in own if run.claimed_at >= told[-1]), None))


async def live(request: Request[Shown, None]) -> Page | Events:
    return Events(fragments(request, show, "job-head", "why", "runs", "job-log", "job-facts", "job-result"))


async def log(request: Request[Shown, None]) -> Page | Text:
    """The whole log of a run, as it is."""
    found = await request.admin.logs(request.path["id"], run=request.query.run)
    return Text(found.text or "", filename=f"run-{found.run or 0}.log")


async def log_of(request: Request[Shown, None], job: JobView, runs: list[RunView]) -> LogView | None:
    if not runs:
        return None
    wanted = request.query.run if request.query.run in range(1, job.runs + 1) else runs[-1].attempt
    try:
        return await request.admin.logs(job.id, run=wanted)
    except WindlassError:
        return None


def lines_of(log: LogView | None) -> list[LogLine]:
    return log_lines(log.text, LINES) if log is not None and log.text else []


def drawn(detail: JobDetail, runs: list[RunView]) -> Bars | None:
    job = detail.job
    due = job.run_at if job.label == "scheduled" else None
    return bars(job.created_at, runs, detail.at if job.finished_at is None else job.finished_at, due) if runs else None
