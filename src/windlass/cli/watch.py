"""`windlass watch JOB`: follow a job to its end, with a progress bar where there is a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from windlass.admin import Admin
from windlass.admin.views import JobView
from windlass.cli.output import FAILED, OK, one_line, state_of
from windlass.cli.session import Common, opened
from windlass.wording import plural

PATIENCE: Final = 5.0  # seconds


async def watch(job_id: str, /, *, common: Common = Common()) -> int:
    """Follow a job until it ends: 0 when it succeeded, 1 when it is dead or cancelled."""
    async with opened(common) as admin:
        seen = Seen()
        hint = asyncio.create_task(why_it_waits(seen, common))
        try:
            job = await (_bar if common.out.tty else _lines)(admin, job_id, common, seen)
        finally:
            hint.cancel()
    if common.json:
        common.out.emit(job=job)
    elif job.state != "succeeded":
        common.out.note(f"{job.label}: {one_line(job.dead_reason or job.last_error)}")
        common.out.note(f"  see: {common.again(f'jobs show {job.id}')}")
    return OK if job.state == "succeeded" else FAILED


@dataclass
class Seen:
    """The job as it was seen last."""

    job: JobView | None = None


async def why_it_waits(seen: Seen, common: Common, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Said once, of a job that has not begun after a while: it may wait for ever."""
    await sleep(PATIENCE)
    if seen.job is not None and seen.job.state == "queued":
        common.out.note(f"it still waits; see why: {common.again(f'jobs why {seen.job.id}')}")


async def _lines(admin: Admin, job_id: str, common: Common, seen: Seen) -> JobView:
    """One line for every change that can be seen. With --json they are notes."""
    said, last = "", None
    async for job in admin.follow(job_id, system=common.words):
        line, last = _said(job), job
        seen.job = job
        if line != said:
            said = line
            common.out.note(line) if common.json else common.out.line(line)
    assert last is not None, "a job that is there is seen once at least"
    return last


async def _bar(admin: Admin, job_id: str, common: Common, seen: Seen) -> JobView:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    said = TextColumn("{task.description}", markup=False)
    last: JobView | None = None
    with Progress(SpinnerColumn(), said, BarColumn(), TaskProgressColumn(), TimeElapsedColumn()) as progress:
        shown = progress.add_task(job_id, total=None)
        async for job in admin.follow(job_id, system=common.words):
            last = seen.job = job
            done = 1.0 if job.state == "succeeded" else job.progress
            progress.update(
                shown, description=_said(job, percent=False), total=None if done is None else 1.0, completed=done
            )
    assert last is not None, "a job that is there is seen once at least"
    return last


def _said(job: JobView, *, percent: bool = True) -> str:
    state = state_of(job)
    text = f"{job.type} {state if isinstance(state, str) else state[0]}"
    if job.state == "running":
        amount = f" {job.progress:.0%}" if percent and job.progress is not None else ""
        text += amount + (f" {one_line(job.progress_note, 60)}" if job.progress_note else "")
    elif job.state == "queued" and job.last_error:
        text += f" after {plural(job.attempts, 'failure')}: {one_line(job.last_error, 80)}"
    return text
