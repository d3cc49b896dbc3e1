"""`windlass audit`: who changed what, newest first."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from cyclopts import Parameter

from windlass.admin.audit import AuditView
from windlass.cli.output import Part, local
from windlass.cli.session import Common, opened
from windlass.clock import SECOND, duration, moment


async def audit(
    *,
    actor: Annotated[str | None, Parameter(help="only what they did: token:ci, cli:ada, code")] = None,
    action: Annotated[str | None, Parameter(help="only this, such as job.cancel; job: all that was done to jobs")] = None,
    subject: Annotated[str | None, Parameter(help="only what was done to it: job:ID, queue:mail, limit:key:gpu")] = None,
    since: Annotated[str | None, Parameter(help="only of the last so long, such as 7d")] = None,
    limit: Annotated[int, Parameter(help="at most so many")] = 50,
    cursor: Annotated[int | None, Parameter(help="go on where the page before ended")] = None,
    common: Common = Common(),
) -> None:
    """Who changed what, how it was chosen and how many it were. Lines are never changed and never removed."""
    async with opened(common) as admin:
        begin = None
        if since is not None:
            begin = moment(admin.client.now()) - timedelta(seconds=duration(since, field="since") / SECOND)
        found = await admin.audit(
            limit=limit, cursor=cursor, since=begin, actor=actor, action=action, subject=subject
        )  # fmt: skip
    if common.json:
        common.out.emit(found)
        return
    if not found.lines:
        lately = " lately" if found.stopped else ""
        common.out.note(f"nobody has changed anything{' like that' if actor or action or subject or since else ''}{lately}")
    else:
        rows: list[tuple[Part, ...]] = [
            (local(line.at), line.actor, line.action, line.subject, f"{line.count:,}", _more(line)) for line in found.lines
        ]
        common.out.table(("WHEN", "WHO", "ACTION", "SUBJECT", "COUNT", "MORE"), rows)
    if found.cursor is not None:
        common.out.note(f"there may be more: {common.again('audit')} --cursor {found.cursor}")


def _more(line: AuditView) -> str:
    told = [f"all with {line.selection}"] if line.selection is not None else []
    told += [f"{name}={_short(value)}" for name, value in (line.detail or {}).items()]
    return ", ".join(told) or "-"


def _short(value: Any) -> str:
    return f"{len(value)}: {value[0]} …" if isinstance(value, list) and len(value) > 1 else str(value)
