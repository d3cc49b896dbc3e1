"""`/jobs/new`: enqueue a job by hand."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from windlass.errors import WindlassError
from windlass.web.answers import Page, Redirect
from windlass.web.arguments import decoded, whole
from windlass.web.identity import is_narrow
from windlass.web.pages.formats import part
from windlass.web.pages.payloads import pretty
from windlass.web.pages.shell import done, page
from windlass.web.request import Request


class Form(Struct, frozen=True, kw_only=True):
    type: str = ""
    params: str = ""
    queue: str = ""
    delay: str = ""
    priority: int | None = None


class Like(Struct, frozen=True, kw_only=True):
    """`like`: a job whose arguments are to be changed, or used once more."""

    like: str = ""
    reveal: bool = False  # copy what is hidden too, for those who may see it


async def show(request: Request[Like, None]) -> Page:
    if not request.query.like or not request.principal.may("read"):
        return await _page(request, Form(), "")
    reveal = request.query.reveal and request.principal.may("read:payload")
    job = (await request.admin.job(request.query.like, reveal=reveal)).job
    hides = "payload" in job.hidden
    params = "" if hides or job.payload is None else pretty(job.payload)  # stars would be enqueued as they stand
    form = Form(type=job.type, queue=job.queue, params=params)
    return await _page(request, form, "", hidden=job.id if hides else "", revealed=reveal)


async def _page(request: Request[Any, Any], form: Form, error: str, *, hidden: str = "", revealed: bool = False) -> Page:
    sees_all = request.principal.may("read") and not is_narrow(request.principal)
    known = sorted(request.admin.tasks or ()) or (await request.admin.types() if sees_all else ())
    shown = {"form": form, "error": error, "tasks": known, "hidden": hidden, "revealed": revealed}
    return await page(request, "new-job.html", "jobs", shown, 422 if error else 200)


async def enqueue(request: Request[None, Form]) -> Page | Redirect:
    form = request.body
    options: Any = {"queue": form.queue.strip(), "delay": form.delay.strip(), "priority": form.priority}
    said = {name: value for name, value in options.items() if value not in ("", None)}
    try:
        params = whole(decoded(form.params, request.bounds))
        queued = await request.admin.enqueue(form.type.strip(), params, said)  # type: ignore[arg-type]
    except WindlassError as error:
        return await _page(request, form, str(error))
    if not request.principal.may("read"):
        return done("/jobs/new", "existed" if queued.existed else "enqueued")
    return done(f"/jobs/{part(queued.job_id)}", "existed" if queued.existed else "enqueued")
