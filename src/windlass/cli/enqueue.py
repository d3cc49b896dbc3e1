"""`windlass enqueue`: store a job from a shell."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from cyclopts import Parameter

from windlass.admin import Admin
from windlass.cli.session import Common, described
from windlass.cli.typed import admin_of, arguments_of
from windlass.errors import InvalidInput
from windlass.options import JobOptions


async def enqueue(
    task: str,
    /,
    *arguments: str,
    app: str | None = None,
    payload: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    queue: str | None = None,
    delay: str | None = None,
    run_at: str | None = None,
    priority: int | None = None,
    idempotency_key: str | None = None,
    org: str | None = None,
    tag: Annotated[list[str] | None, Parameter(negative=())] = None,
    common: Common = Common(),
) -> None:
    """Store a job. With --app the task's own options hold and its signature checks the arguments.

    Args:
        task: the task's name, which is the job's type
        arguments: name=value; a value that is JSON is taken as JSON, anything else as text, and so is what --app's task
            takes as text
        app: module:attribute, module, or a path to a .py file
        payload: arguments as a JSON object: '{"to": "ada"}', @file, or - for stdin
        queue: the queue to put it in
        delay: not before this long from now, such as 5m
        run_at: not before this instant, such as 2030-01-01T09:00:00+01:00
        priority: larger goes first
        idempotency_key: a second job with this key is not stored
        org: the organisation it belongs to
        tag: a tag; may be given several times
    """
    said: dict[str, Any] = {
        "queue": queue, "delay": delay, "priority": priority, "idempotency_key": idempotency_key, "org_id": org,
        "run_at": None if run_at is None else _instant(run_at), "tags": tuple(tag) if tag else None,
    }  # fmt: skip
    options: JobOptions = {name: value for name, value in said.items() if value is not None}  # type: ignore[assignment]
    async with admin_of(app, common) as admin:
        await _store(admin, task, arguments_of(payload, arguments, admin.texts_of(task)), options, common)
    if app is None and not common.json:
        put = "" if queue is not None else ", nor which is its queue: stored in the queue default"
        common.out.note(f"not checked: whether there is a task {task!r} that takes this{put}")
        common.out.note("  with --app, such as --app tasks:app, its program is asked")


async def _store(admin: Admin, task: str, values: dict[str, Any], options: JobOptions, common: Common) -> None:
    queued = await admin.enqueue(task, values, options)
    if common.json:
        common.out.emit(queued)
        return
    common.out.line(queued.job_id)
    if queued.existed:
        common.out.note("a job with this key was there already; this is its id, and nothing was stored")
    if not admin.client.driver.capabilities.durable:
        common.out.note("this store is in memory: the job is gone when this command ends")
    see = common.again(f"jobs show {queued.job_id}", admin.client.url)
    common.out.note(f"in {described(admin.client.url)}; see: {see}")


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("run_at", f"{text!r} is no instant; write 2030-01-01T09:00:00+01:00, or --delay 5m") from None
    if at.utcoffset() is None:
        with_zone = f"{at.isoformat()}Z for UTC, or {at.isoformat()}+01:00 for another"
        raise InvalidInput("run_at", f"{text!r} does not say in which time zone; write {with_zone}")
    return at
