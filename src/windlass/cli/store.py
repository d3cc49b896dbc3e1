"""`windlass doctor` and `windlass migrate`: is the store well, and which schema has it."""

from __future__ import annotations

import sys

from windlass.cli.output import FAILED, OK, STYLES
from windlass.cli.session import Common, Flag, opened
from windlass.errors import InvalidInput


async def doctor(*, common: Common = Common()) -> int:
    """Look for what is wrong: store, disk, clock, leases, paused queues, jobs that nobody takes, dead letters, workers."""
    async with opened(common) as admin:
        found = await admin.doctor()
    if common.json:
        common.out.emit(found, health=found.health)
    else:
        for check in found.checks:
            common.out.line((check.health.ljust(8), STYLES[check.health]), f" {check.name}: {check.says}")
            if check.next and check.health != "ok":
                common.out.line("          try: ", (check.next, "bold"))
    return FAILED if found.health == "problem" else OK


async def migrate(
    *, plan: Flag = False, sql: Flag = False, common: Common = Common()
) -> None:  # fmt: skip
    """Bring the store's schema up to date. Opening a SQLite store does this by itself.

    Args:
        plan: only say which steps are missing
        sql: print the statements of the missing steps instead of running them
    """
    if plan and sql:
        raise InvalidInput("plan", "give --plan or --sql, not both")
    async with opened(common, create=True) as admin:
        status = admin.migrations()
        if not plan and not sql:
            admin.client.driver  # noqa: B018 - opening it applies what is missing
    names = [step.name for step in status.missing]
    if common.json:
        steps = [{"name": s.name, "applied": s.applied, **({"sql": s.sql} if sql else {})} for s in status.steps]
        common.out.emit(where=status.where, steps=steps, applied_now=[] if plan or sql else names)
    elif sql:
        sys.stdout.write("\n".join(step.sql for step in status.missing))
    else:
        common.out.note(status.where)
        for step in status.steps:
            word = "applied before" if step.applied else "missing" if plan else "applied now"
            common.out.line(step.name, "  ", word)
        if plan and names:
            common.out.note(f"apply them: {common.again('migrate')}")
