"""`windlass queues …`: what waits where, and which queues stand still."""

from __future__ import annotations

from typing import Final

from cyclopts import App

from windlass.admin.wording import relative
from windlass.cli.output import STYLES, Part
from windlass.cli.session import Common, epilogue, opened
from windlass.types import Label

app = App(name="queues", help="What waits where, and which queues stand still.")
SHOWN: Final[tuple[Label, ...]] = ("queued", "scheduled", "blocked", "parked", "claimed", "running", "dead")


@app.command(name="list", help_epilogue=epilogue("windlass queues list"))
async def list_queues(*, common: Common = Common()) -> None:
    """Every queue with its jobs by state, and whether it is paused. Finished successes are not counted."""
    async with opened(common) as admin:
        found = await admin.overview()
    if common.json:
        common.out.emit(found)
        return
    if not found.queues:
        common.out.note("nothing waits, runs or is dead in any queue, and none is paused")
        return
    present = {"queued", "running", "dead"}.union(*(queue.counts for queue in found.queues))
    used = [label for label in SHOWN if label in present]
    rows: list[tuple[Part, ...]] = []
    for queue in found.queues:
        numbers = [_number(queue.counts.get(label, 0), label) for label in used]
        paused = f"paused {relative(queue.paused_at, found.at)}" if queue.paused_at else "open"
        rows.append((queue.name, *numbers, (paused, "yellow" if queue.paused_at else "green"), queue.preset or ""))
    common.out.table(("QUEUE", *(label.upper() for label in used), "CLAIMS", "PRESET"), rows)


def _number(count: int, label: Label) -> Part:
    return (f"{count:,}", STYLES[label]) if count else ("0", "dim")


@app.command(help_epilogue=epilogue("windlass queues pause mail"))
async def pause(queue: str, /, *, common: Common = Common()) -> None:
    """Stop claims from a queue. What runs goes on; what is enqueued waits."""
    async with opened(common) as admin:
        changed = await admin.pause(queue)
    if common.json:
        common.out.emit(queue=queue, paused=True, changed=changed)
    else:
        common.out.line(f"{queue} is paused" if changed else f"{queue} was paused already")


@app.command(help_epilogue=epilogue("windlass queues resume mail"))
async def resume(queue: str, /, *, common: Common = Common()) -> None:
    """Let claims from a queue begin again."""
    async with opened(common) as admin:
        changed = await admin.resume(queue)
    if common.json:
        common.out.emit(queue=queue, paused=False, changed=changed)
    else:
        common.out.line(f"{queue} is open" if changed else f"{queue} was not paused")
