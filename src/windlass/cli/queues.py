"""`windlass queues …`: what waits where, and which queues stand still."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from cyclopts import App, Parameter
from msgspec.structs import replace

from windlass.admin.capacity import WITHIN
from windlass.admin.views import QueueView
from windlass.cli.capacity import drains, needs, show_capacity
from windlass.cli.output import STYLES, Part
from windlass.cli.session import Common, epilogue, opened
from windlass.cli.show import show_order
from windlass.types import Label
from windlass.wording import relative

app = App(name="queues", help="What waits where, and which queues stand still.")
SHOWN: Final[tuple[Label, ...]] = ("queued", "scheduled", "blocked", "parked", "claimed", "running", "dead")


Within = Annotated[str | None, Parameter(help="how many workers drain it in this time, such as 10m")]


@app.command(name="list", help_epilogue=epilogue("windlass queues list", "windlass queues list --within 1h"))
async def list_queues(*, within: Within = None, common: Common = Common()) -> None:
    """Every queue with its jobs by state, whether it is paused, when it drains, and the workers it needs to keep up.

    With --within: the workers that it needs to drain in that time. Finished successes are not counted.
    """
    async with opened(common) as admin:
        found = await admin.capacity(within or WITHIN)
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
        sized = drains(queue.capacity), needs(queue.capacity, in_time=within is not None)
        rows.append((queue.name, *numbers, _claims(queue, found.at), *sized, queue.preset or ""))
    common.out.table(("QUEUE", *(label.upper() for label in used), "CLAIMS", "DRAINS", "NEEDS", "PRESET"), rows)


@app.command(help_epilogue=epilogue("windlass queues capacity", "windlass queues capacity mail --within 1h --json"))
async def capacity(queue: str | None = None, /, *, within: Within = None, common: Common = Common()) -> None:
    """Is the fleet big enough? Each queue: whether it drains, when, what that takes, and what the answer rests on.

    Args:
        queue: only this one
    """
    async with opened(common) as admin:
        found = await admin.capacity(within or WITHIN)
        if queue is not None:
            found = replace(found, queues=tuple(one for one in found.queues if one.name == queue))
            if not found.queues:
                await admin.order(queue, limit=1)  # says so where there is no such queue
    if common.json:
        common.out.emit(found)
    elif not found.queues:
        common.out.note("nothing waits or runs in any queue" if queue is None else f"nothing waits or runs in {queue}")
    else:
        show_capacity(found.queues, common.out)


def _claims(queue: QueueView, now: datetime) -> Part:
    if queue.paused_at is not None:
        return f"paused {relative(queue.paused_at, now)}", "yellow"
    return ("open", "green") if queue.held_by is None else (f"held by {queue.held_by}", "yellow")


def _number(count: int, label: Label) -> Part:
    return (f"{count:,}", STYLES[label]) if count else ("0", "dim")


@app.command(help_epilogue=epilogue("windlass queues show mail", "windlass queues show mail --limit 500 --json"))
async def show(queue: str, /, *, limit: int = 50, common: Common = Common()) -> None:
    """What is queued in one queue, first to last as it will be dispatched, whatever it waits for, with its positions.

    Args:
        queue: the queue
        limit: at most so many jobs
    """
    await show_order(queue, limit, common)


@app.command(help_epilogue=epilogue("windlass queues renormalise mail"))
async def renormalise(queue: str, /, *, common: Common = Common()) -> None:
    """Give the queued jobs of a queue fresh positions, a gap apart and in the same order."""
    async with opened(common) as admin:
        changed = await admin.renormalise(queue)
    if common.json:
        common.out.emit(queue=queue, changed=changed)
    else:
        common.out.line(f"{queue} has fresh positions" if changed else f"{queue} had such positions already")


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
