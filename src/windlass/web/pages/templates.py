"""`/templates` and `/templates/{name}`: reusable jobs, in versions."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import Struct

from windlass.admin.schedules import TemplateView, template_view
from windlass.errors import WindlassError
from windlass.web.answers import Page, Redirect
from windlass.web.arguments import decoded, whole
from windlass.web.pages.formats import part
from windlass.web.pages.shell import Sure, Told, ask, done, page
from windlass.web.request import Request


class Form(Struct, frozen=True, kw_only=True):
    name: str = ""
    task: str = ""
    params: str = ""
    queue: str = ""


async def show(request: Request[Told, None]) -> Page:
    return await _page(request, Form(), "")


async def _page(request: Request[Any, Any], form: Form, error: str) -> Page:
    rows = [template_view(one) for one in await request.admin.templates.list()]
    uses = Counter(one.template for one in (await request.admin.scheduled()).schedules)
    tasks = sorted(request.admin.tasks or await request.admin.types())
    shown = {"rows": rows, "uses": uses, "tasks": tasks, "form": form, "error": error}
    return await page(request, "templates.html", "templates", shown, 422 if error else 200)


async def one(request: Request[Told, None]) -> Page:
    versions = [template_view(row) for row in await request.admin.templates.versions(request.path["name"])]
    newest: TemplateView = versions[-1]
    used = [one for one in (await request.admin.scheduled()).schedules if one.template == newest.name]
    shown = {"template": newest, "versions": versions[::-1], "used": used, "here_path": f"/templates/{part(newest.name)}"}
    return await page(request, "template.html", "templates", shown)


async def save(request: Request[None, Form]) -> Page | Redirect:
    form = request.body
    try:
        options: Any = {"queue": form.queue.strip()} if form.queue.strip() else {}
        params = whole(decoded(form.params, request.bounds))
        made = await request.admin.templates.put(form.name.strip(), form.task.strip(), params, **options)
    except WindlassError as error:
        return await _page(request, form, str(error))
    return done(f"/templates/{part(made.name)}", "saved")


async def archive(request: Request[None, Sure]) -> Page | Redirect:
    name = request.path["name"]
    if not request.body.sure:
        text = "Nothing more is made of it, also by schedules. Saving it again brings it back."
        return await ask(request, "templates", f"Archive {name}?", text, "Archive", back=f"/templates/{part(name)}")
    await request.admin.templates.archive(name)
    return done(f"/templates/{part(name)}", "archived")


async def delete(request: Request[None, Sure]) -> Page | Redirect:
    name = request.path["name"]
    if not request.body.sure:
        text = "It goes with all its versions. Jobs that were made of it stay. This cannot be undone."
        return await ask(
            request, "templates", f"Delete {name}?", text, "Delete", back=f"/templates/{part(name)}", danger=True
        )
    await request.admin.templates.delete(name)
    return done("/templates", "deleted")
