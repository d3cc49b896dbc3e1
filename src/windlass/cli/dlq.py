"""`windlass dlq …`: dead letters, by job or by what killed them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Parameter

from windlass.admin import Filter
from windlass.admin.dead_letters import Swept
from windlass.cli.jobs import retry
from windlass.cli.output import FAILED, OK, one_line
from windlass.cli.session import Common, Flag, Paging, Which, epilogue, opened
from windlass.clock import duration
from windlass.errors import InvalidInput
from windlass.types import Micros
from windlass.wording import age

app = App(name="dlq", help="Dead letters: jobs that have failed for good.")


@Parameter(name="*")
@dataclass(frozen=True)
class WhichDead(Which):
    error: Annotated[str | None, Parameter(help="a fingerprint (dlq list --by-error), or a part of the text")] = None

    def filter(self, older_than: Micros | None = None) -> Filter:
        return Filter(queue=self.queue, type=self.type, org_id=self.org, error=self.error, older_than=older_than)


@app.command(name="list", help_epilogue=epilogue("windlass dlq list --by-error", "windlass dlq list --queue mail"))
async def list_dead(
    *,
    by_error: Flag = False,
    which: WhichDead = WhichDead(),
    page: Paging = Paging(),
    common: Common = Common(),
) -> None:
    """Dead letters, newest first, or with --by-error grouped by what killed them.

    Args:
        by_error: one line for each kind of error, the most frequent first
    """
    if by_error:
        await _groups(which.filter(), page.limit, common)
        return
    async with opened(common) as admin:
        found = await admin.dead_letters(which.filter(), limit=page.limit, cursor=page.cursor)
    if common.json:
        common.out.emit(found)
        return
    if not found.jobs:
        common.out.note("no dead letters")
        return
    rows = [
        (job.id, one_line(job.type, 40), job.queue, age(job.finished_at or job.created_at, found.at),
         job.dead_kind or "", one_line(job.dead_reason or job.last_error))
        for job in found.jobs
    ]  # fmt: skip
    common.out.table(("ID", "TYPE", "QUEUE", "DEAD FOR", "KIND", "ERROR"), rows)
    if found.cursor is not None:
        common.out.note(f"there is more: --cursor {found.cursor}")


async def _groups(wanted: Filter, limit: int, common: Common) -> None:
    async with opened(common) as admin:
        found = await admin.errors(wanted)
    if common.json:
        common.out.emit(found)
        return
    if not found.groups:
        common.out.note("no dead letters")
        return
    rows = [
        (group.fingerprint, f"{group.jobs:,}", one_line(", ".join(group.types), 40), one_line(group.error))
        for group in found.groups[:limit]
    ]
    common.out.table(("ERROR", "JOBS" if found.complete else "AT LEAST", "TYPES", "WHAT IT SAID LAST"), rows)
    if not found.complete:
        common.out.note(f"only the youngest {found.looked_at:,} were looked at; narrow it with --queue or --type")
    common.out.note(f"run them again: {common.again(f'dlq replay --error {found.groups[0].fingerprint}')}")


@app.command(
    help_epilogue=epilogue("windlass dlq replay ID", "windlass dlq replay --error 1f2e3d4c", "windlass dlq replay --all")
)
async def replay(
    *job_ids: str,
    all_: Annotated[Flag, Parameter(name="--all")] = False,
    which: WhichDead = WhichDead(),
    limit: int = 1_000,
    common: Common = Common(),
) -> int:
    """Run dead letters again: those named, those that match, or all. At most --limit of them, the youngest.

    Args:
        job_ids: dead letters by id
        all_: every one that matches; needed when nothing narrows it
        limit: at most so many
    """
    wanted = which.filter()
    if job_ids:
        if all_ or wanted != Filter():
            raise InvalidInput("job_ids", "name jobs or say which ones match, not both")
        return await retry(*job_ids, common=common)
    _narrowed(wanted, all_)
    async with opened(common) as admin:
        swept = await admin.replay(wanted, limit=limit)
    return _told(swept, "queued again", common)


@app.command(help_epilogue=epilogue("windlass dlq purge --older-than 30d --yes"))
async def purge(
    *,
    all_: Annotated[Flag, Parameter(name="--all")] = False,
    which: WhichDead = WhichDead(),
    older_than: str | None = None,
    limit: int = 1_000,
    yes: Flag = False,
    common: Common = Common(),
) -> int:
    """Delete dead letters for good, with their runs. At most --limit of them, the youngest that match.

    Args:
        all_: every one that matches; needed when nothing narrows it
        older_than: only those that died at least so long ago, such as 30d
        limit: at most so many
        yes: do not ask
    """
    age = None if older_than is None else duration(older_than, field="older_than")
    wanted = which.filter(age)
    _narrowed(wanted, all_)
    if not yes and not _agreed(limit):
        raise InvalidInput("yes", "dead letters are deleted for good; say --yes to agree")
    async with opened(common) as admin:
        swept = await admin.purge(wanted, limit=limit)
    return _told(swept, "deleted", common)


def _narrowed(wanted: Filter, all_: bool) -> None:
    if not all_ and wanted == Filter():
        raise InvalidInput("which", "say which dead letters: --queue, --type, --org or --error, or --all")


def _agreed(limit: int) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"delete at most {limit:,} dead letters and their runs for good? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _told(swept: Swept, what: str, common: Common) -> int:
    if common.json:
        common.out.emit(swept)
    else:
        common.out.line(f"{len(swept.done):,} {what}")
        for job_id, why in swept.left.items():
            common.out.note(f"{job_id} was left alone: {why}")
    return FAILED if swept.left and not swept.done else OK
