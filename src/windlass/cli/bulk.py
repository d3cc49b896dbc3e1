"""`windlass jobs bulk`: one change to all jobs that match."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from windlass.admin import Admin, Filter
from windlass.admin.bulk import Action, Bulk, How, Progress, check
from windlass.cli.output import FAILED, OK
from windlass.cli.session import Common, Flag, opened
from windlass.cli.which import WhichJobs
from windlass.errors import InvalidInput
from windlass.types import End
from windlass.wording import plural


async def bulk(
    action: Action,
    /,
    *,
    which: WhichJobs = WhichJobs(),
    all_: Annotated[Flag, Parameter(name="--all")] = False,
    dry_run: Flag = False,
    limit: int = 1_000,
    priority: int | None = None,
    to: End | None = None,
    reason: str = "cancelled",
    yes: Flag = False,
    common: Common = Common(),
) -> int:
    """Change all jobs that match, the newest first to be found, in bites. Says how many there are, and asks.

    Args:
        action: cancel, retry, run-now, delete, priority or move
        all_: every job that this can be done to; needed when nothing narrows it
        dry_run: only say how many there are
        limit: at most so many
        priority: with priority
        to: with move: top or bottom
        reason: with cancel
        yes: do not ask
    """
    if which == WhichJobs() and not all_:
        raise InvalidInput("which", "say which jobs: --queue, --type, --state, --error and others, or --all")
    async with opened(common) as admin:
        wanted = which.filter(common, admin.client.now())
        found = await admin.bulk(action, wanted, dry_run=True, priority=priority, to=to)
        if dry_run or not found.matched:
            return _told(found, common)
        check(action, How(priority=priority, to=to), limit)
        if not yes and not _agreed(action, found):
            raise InvalidInput("yes", f"{_number(found)} would be changed; say --yes to agree, or --dry-run to look")
        return _told(await _in_parts(admin, action, wanted, limit, priority, to, reason, common), common)


async def _in_parts(
    admin: Admin, action: Action, wanted: Filter, limit: int, priority: int | None, to: End | None, reason: str,
    common: Common,
) -> Bulk:  # fmt: skip
    def report(progress: Progress) -> None:
        if common.out.tty:
            common.out.note(f"{progress.done + progress.left:,} of {progress.of:,}")

    return await admin.bulk(action, wanted, limit=limit, priority=priority, to=to, reason=reason, report=report)


def _number(found: Bulk) -> str:
    return f"{'' if found.exact else 'at least '}{plural(found.matched, 'job')}"


def _agreed(action: Action, found: Bulk) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{action} {_number(found)}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _told(answer: Bulk, common: Common) -> int:
    if common.json:
        common.out.emit(answer)
    elif answer.dry_run:
        common.out.line(f"{answer.action}: {_number(answer)} match")
    else:
        common.out.line(f"{answer.action}: {len(answer.done):,} done")
        for job_id, why in answer.left.items():
            common.out.note(f"{job_id} was left alone: {why}")
        if answer.cursor is not None:
            common.out.note("there are more that match: say the same again, or raise --limit")
    return FAILED if answer.left and not answer.done else OK
