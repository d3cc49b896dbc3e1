"""`windlass templates …`: what schedules make their jobs of."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from windlass.admin.schedules import template_view
from windlass.cli.output import Part, one_line
from windlass.cli.session import Common, epilogue, opened
from windlass.cli.typed import admin_of, arguments_of
from windlass.clock import moment
from windlass.definitions import TemplateOptions
from windlass.wording import age

app = App(name="templates", help="Reusable jobs: a task, its arguments and its policies, in versions.")


@app.command(name="list", help_epilogue=epilogue("windlass templates list"))
async def list_templates(*, common: Common = Common()) -> None:
    """The newest version of every template."""
    async with opened(common) as admin:
        rows, now = [template_view(row) for row in await admin.templates.list()], admin.client.now()
    if common.json:
        common.out.emit(templates=msgspec.to_builtins(rows))
    elif not rows:
        common.out.note(f"there is no template; make one: {common.again('templates put NAME --task TASK name=value')}")
    else:
        shown: list[tuple[Part, ...]] = [
            (row.name, str(row.version), row.type, row.queue, ("archived", "yellow") if row.archived_at else "in use",
             age(row.created_at, moment(now)), one_line(msgspec.json.encode(row.params).decode()))
            for row in rows
        ]  # fmt: skip
        common.out.table(("NAME", "VERSION", "TASK", "QUEUE", "STATE", "AGE", "PARAMS"), shown)


@app.command(help_epilogue=epilogue("windlass templates show report"))
async def show(template: str, /, *, common: Common = Common()) -> None:
    """Every version of a template, oldest first. Jobs keep the version that they were made of."""
    async with opened(common) as admin:
        rows = [template_view(row) for row in await admin.templates.versions(template)]
    if common.json:
        common.out.emit(versions=msgspec.to_builtins(rows))
        return
    for row in rows:
        common.out.line((f"version {row.version}", "bold"), f"  {row.created_at.isoformat(sep=' ', timespec='seconds')}")
        common.out.line(f"  task {row.type}, queue {row.queue}" + (", archived" if row.archived_at else ""))
        common.out.line(f"  params {msgspec.json.encode(row.params).decode()}")
        if row.settings is not None:
            common.out.line(f"  {msgspec.json.encode(row.settings).decode()}")


@app.command(
    help_epilogue=epilogue(
        "windlass templates put report --app tasks --task send_report region=eu",
        "windlass templates put backup --task backup --queue slow --params '{\"keep\": 7}'",
    )
)
async def put(
    name: str, /, *arguments: str, task: str, app: str | None = None, queue: str | None = None,
    params: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None, priority: int | None = None,
    timeout: str | None = None, org: str | None = None,
    tag: Annotated[list[str] | None, Parameter(negative=())] = None, common: Common = Common(),
) -> None:  # fmt: skip
    """Make a template, or a new version of it. With --app the task's own options hold and its signature checks.

    Args:
        name: what it is called
        arguments: name=value; a value that is JSON is taken as JSON, anything else as text
        task: the task's name
        app: module:attribute, module, or a path to a .py file
        queue: the queue of its jobs
        params: arguments as a JSON object, @file, or - for stdin
        priority: larger goes first
        timeout: of one execution, such as 5m
        org: the organisation that its jobs belong to
        tag: a tag; may be given several times
    """
    given: dict[str, Any] = {
        "queue": queue, "priority": priority, "timeout": timeout, "org_id": org, "tags": tuple(tag) if tag else None,
    }  # fmt: skip
    said: TemplateOptions = {name: value for name, value in given.items() if value is not None}  # type: ignore[assignment]
    async with admin_of(app, common) as admin:
        row = await admin.templates.put(name, task, arguments_of(params, arguments, admin.texts_of(task)), **said)
    if common.json:
        common.out.emit(template_view(row))
        return
    common.out.line(f"{row.name} is at version {row.version}: task {row.type}, queue {row.queue}")
    if app is None:
        common.out.note("without --app nobody could look whether a task of that name exists and takes these arguments")


@app.command(help_epilogue=epilogue("windlass templates archive report"))
async def archive(template: str, /, *, common: Common = Common()) -> None:
    """Make no more jobs of it: its schedules go on without making any. Putting it again takes it back into use."""
    async with opened(common) as admin:
        changed = await admin.templates.archive(template)
    if common.json:
        common.out.emit(template=template, archived=True, changed=changed)
    else:
        common.out.line(f"{template} is archived" if changed else f"{template} was archived already")


@app.command(help_epilogue=epilogue("windlass templates delete report"))
async def delete(template: str, /, *, common: Common = Common()) -> None:
    """Remove a template with all its versions, unless a schedule uses it. Jobs that were made of it stay."""
    async with opened(common) as admin:
        await admin.templates.delete(template)
    if common.json:
        common.out.emit(template=template, deleted=True)
    else:
        common.out.line(f"{template} is deleted")
