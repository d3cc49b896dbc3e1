"""What a person does with one job. Each is a form; those that matter ask back."""

from __future__ import annotations

from typing import Any

from windlass.types import End
from windlass.web.answers import Page, Redirect
from windlass.web.pages.formats import part, short_id
from windlass.web.pages.shell import Sure, ask, done
from windlass.web.request import Request


class Move(Sure, frozen=True, kw_only=True):
    to: End


class Priority(Sure, frozen=True, kw_only=True):
    priority: int


def path_of(job_id: str) -> str:
    return f"/jobs/{part(job_id)}"


async def cancel(request: Request[None, Sure]) -> Page | Redirect:
    text = "A queued job will not run. A running one is asked to stop. Its history stays."
    if not request.body.sure:
        return await _ask(request, "Cancel this job?", text, "Cancel job")
    changed = await request.admin.cancel(request.path["id"], f"cancelled by {request.principal.actor}")
    return done(path_of(changed.job_id), "cancelled" if changed.what == "cancelled" else "cancel-requested")


async def retry(request: Request[None, Sure]) -> Page | Redirect:
    if not request.body.sure:
        return await _ask(request, "Retry this job?", "It returns to its queue with a fresh set of attempts.", "Retry")
    return done(path_of((await request.admin.retry(request.path["id"])).job_id), "queued")


async def run_now(request: Request[None, Sure]) -> Page | Redirect:
    if not request.body.sure:
        return await _ask(request, "Run this job now?", "It skips its wait. Limits and pauses still apply.", "Run now")
    return done(path_of((await request.admin.run_now(request.path["id"])).job_id), "due")


async def move(request: Request[None, Move]) -> Redirect:
    return done(path_of((await request.admin.move(request.path["id"], request.body.to)).job_id), "moved")


async def priority(request: Request[None, Priority]) -> Redirect:
    return done(path_of((await request.admin.set_priority(request.path["id"], request.body.priority)).job_id), "priority")


async def delete(request: Request[None, Sure]) -> Page | Redirect:
    text = "Its runs, logs and results go with it. This cannot be undone."
    if not request.body.sure:
        return await _ask(request, "Delete this job?", text, "Delete", danger=True)
    await request.admin.delete(request.path["id"])
    return done("/jobs", "deleted")


async def _ask(request: Request[Any, Any], question: str, text: str, button: str, *, danger: bool = False) -> Page:
    job = (await request.admin.job(request.path["id"])).job  # what is not there is told before anything is asked
    about = f"{job.type} {short_id(job.id)}. {text}"
    return await ask(request, "jobs", question, about, button, back=path_of(job.id), danger=danger)
