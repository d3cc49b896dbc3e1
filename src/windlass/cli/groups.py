"""`windlass groups …`: jobs that belong together, looked at and changed as one."""

from __future__ import annotations

from typing import Final

from cyclopts import App

from windlass.admin.groups import GroupView
from windlass.cli.output import Part, one_line, state_of
from windlass.cli.session import Common, epilogue, opened
from windlass.wording import age, relative

app = App(name="groups", help="Jobs that belong together: how far they are, and changing them as one.")
LOOKS: Final = {
    "pending": "cyan", "running": "bold yellow", "completed": "green", "partial": "yellow", "failed": "bold red",
    "cancelled": "magenta",
}  # fmt: skip


@app.command(name="list", help_epilogue=epilogue("windlass groups list", "windlass groups list --limit 5 --json"))
async def list_groups(*, limit: int = 50, common: Common = Common()) -> None:
    """Groups, newest first, with what has become of their members.

    Args:
        limit: at most so many
    """
    async with opened(common) as admin:
        found = await admin.groups(limit)
    if common.json:
        common.out.emit(found)
        return
    if not found.groups:
        common.out.note('no groups yet; a program makes them: async with app.group("nightly") as g: g.add(task.job(...))')
        return
    rows = [
        (group.id, one_line(group.name, 30), _status(group), group.mode, f"{_ended(group)}/{group.total}", _ends(group),
         age(group.created_at, found.at))
        for group in found.groups
    ]  # fmt: skip
    common.out.table(("ID", "NAME", "STATUS", "MODE", "ENDED", "HOW", "AGE"), rows)
    if found.more:
        common.out.note(f"there are more: --limit {2 * limit}")


@app.command(help_epilogue=epilogue("windlass groups show 0192f0c1-2345-7890-8abc-def012345678"))
async def show(group_id: str, /, *, common: Common = Common()) -> None:
    """One group: its rule, its status and every member in order.

    Args:
        group_id: of the group; `windlass groups list` has them
    """
    async with opened(common) as admin:
        found = await admin.group(group_id, system=common.words)
    if common.json:
        common.out.emit(found)
        return
    out, group = common.out, found.group
    out.line((group.name or "group", "bold"), "  ", _status(group), "  ", (group.id, "dim"))
    out.line(
        f"  {group.mode}, on failure {group.on_failure}; {_ended(group)} of {group.total} ended: {_ends(group) or '-'}"
    )
    out.line(f"  made {relative(group.created_at, found.at)}")
    out.line()
    for number, job in enumerate(found.members, 1):
        note = one_line(job.dead_reason or job.last_error or "", 80) if job.state in ("dead", "cancelled") else ""
        out.line(f"  {number:>3}  ", job.id, "  ", one_line(job.type, 30), "  ", state_of(job), "  ", (note, "dim"))
    out.line()
    for command, why in _next_steps(group):
        out.note(f"{common.again(command)}   {why}")


@app.command(help_epilogue=epilogue("windlass groups cancel 0192f0c1-2345-7890-8abc-def012345678"))
async def cancel(group_id: str, /, *, reason: str = "cancelled", common: Common = Common()) -> None:
    """Cancel what has not begun, and ask what runs to stop.

    Args:
        group_id: of the group
        reason: kept with each member
    """
    async with opened(common) as admin:
        answer = await admin.cancel_group(group_id, reason)
    if common.json:
        common.out.emit(id=group_id, what=answer)
    else:
        common.out.line(f"{group_id}: {'cancelled' if answer == 'cancelled' else 'running members were asked to stop'}")


@app.command(help_epilogue=epilogue("windlass groups retry 0192f0c1-2345-7890-8abc-def012345678"))
async def retry(group_id: str, /, *, common: Common = Common()) -> None:
    """Run the members again that died, were skipped or cancelled, in their order. What succeeded stays.

    Args:
        group_id: of the group
    """
    async with opened(common) as admin:
        members = await admin.retry_group(group_id)
    if common.json:
        common.out.emit(id=group_id, members=members)
    else:
        common.out.line(f"{group_id}: {members} queued again")


def _status(group: GroupView) -> Part:
    return group.status, LOOKS[group.status]


def _ended(group: GroupView) -> int:
    return group.total - group.running - group.waiting


def _ends(group: GroupView) -> str:
    told = (
        ("succeeded", group.succeeded), ("failed", group.failed), ("skipped", group.skipped),
        ("cancelled", group.cancelled), ("running", group.running),
    )  # fmt: skip
    return ", ".join(f"{count:,} {what}" for what, count in told if count)


def _next_steps(group: GroupView) -> list[tuple[str, str]]:
    steps: list[tuple[str, str]] = []
    if group.failed or group.skipped or group.cancelled:
        steps.append((f"groups retry {group.id}", "run again what failed, was skipped or cancelled"))
    if group.status in ("pending", "running"):
        steps.append((f"groups cancel {group.id}", "stop it"))
    return steps
