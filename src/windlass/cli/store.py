"""`windlass doctor` and `windlass migrate`: is the store well, and which schema has it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from windlass.cli.output import FAILED, OK, STYLES
from windlass.cli.session import Common, Flag, opened
from windlass.errors import InvalidInput
from windlass.wording import plural

if TYPE_CHECKING:
    from windlass.admin.views import MigrationStep


async def doctor(*, repair: Flag = False, security: Flag = False, common: Common = Common()) -> int:
    """Look for what is wrong: store, disk, clock, leases, paused queues, jobs that nobody takes, dead letters, workers, and
    rows that contradict each other.

    Args:
        repair: put right what others wrote to the store: runs without a job, running jobs without a run or whose run has
            ended, permits that nobody holds; each is printed before anything is done
        security: look for who gets in who should not, instead: file modes, rights and TLS of PostgreSQL, tokens, webhooks,
            key ring, passwords in the process list
    """
    if repair and security:
        raise InvalidInput("repair", "give --repair or --security, not both")
    if repair:
        return await _repair(common)
    _look_at_django(common)
    async with opened(common) as admin:
        found = await (admin.security() if security else admin.doctor())
    if common.json:
        common.out.emit(found, health=found.health)
    else:
        for check in found.checks:
            common.out.line((check.health.ljust(8), STYLES[check.health]), f" {check.name}: {check.says}")
            if check.next and check.health != "ok":
                common.out.line("          try: ", (check.next, "bold"))
    return FAILED if found.health == "problem" else OK


def _look_at_django(common: Common) -> None:
    """Where a project's settings are named, so that a file which is Django's as well is known to be."""
    if "DJANGO_SETTINGS_MODULE" not in os.environ:
        return
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        from django.conf import settings

        assert settings.DATABASES is not None, "reading it makes Django load them"
    except Exception as error:  # somebody else's module
        common.out.note(f"Django's settings ({os.environ['DJANGO_SETTINGS_MODULE']}) cannot be read: {error}")


async def _repair(common: Common) -> int:
    from windlass.admin.repair import plan_of

    async with opened(common) as admin:
        found = await admin.faults()
        if not common.json:
            for fault in found:
                common.out.line(plan_of(fault))
        mended = await admin.repair(found)
    if common.json:
        common.out.emit(found=found, rows=mended.rows, jobs=mended.jobs, left=mended.left)
    elif not found:
        common.out.line("nothing to repair: no row contradicts another")
    else:
        common.out.note(f"{plural(mended.rows, 'row')} put right, {plural(mended.jobs, 'job')} ended or retried")
        for fault in mended.left:
            common.out.line(("left     ", STYLES["problem"]), plan_of(fault))
    return FAILED if mended.left else OK


async def migrate(
    *, plan: Flag = False, sql: Flag = False, common: Common = Common()
) -> None:  # fmt: skip
    """Bring the store's schema up to date. Opening a SQLite file, or a PostgreSQL schema that is empty, does it by itself.

    Args:
        plan: only say which steps are missing
        sql: print a script for psql or sqlite3 that does the same, instead of running it
    """
    if plan and sql:
        raise InvalidInput("plan", "give --plan or --sql, not both")
    async with opened(common, create=True) as admin:
        status = admin.migrations()
        applied = () if plan or sql else admin.migrate()
    if common.json:
        steps = [_step(step, sql) for step in status.steps]
        script = {"script": status.script} if sql else {}
        common.out.emit(where=status.where, steps=steps, applied_now=applied, unsure=status.unsure, **script)
    elif sql:
        sys.stdout.write(status.script)
    else:
        common.out.note(status.where)
        for step in status.steps:
            found = "applied now" if step.name in applied else "applied before"  # perhaps by others, since it was missing
            word = _to_do(step) if plan and not step.applied else found
            common.out.line(step.name, "  ", word)
        if plan and status.missing:
            common.out.note(f"apply them: {common.again('migrate')}")
    if (plan or sql) and status.unsure and not common.json:
        common.out.note(status.unsure)


def _to_do(step: MigrationStep) -> str:
    return "missing, concurrent: outside of transactions, workers go on" if step.concurrent else "missing, one transaction"


def _step(step: MigrationStep, sql: bool) -> dict[str, object]:
    told = {"name": step.name, "applied": step.applied, "concurrent": step.concurrent}
    return {**told, "sql": step.sql} if sql else told
