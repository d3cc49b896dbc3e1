"""`windlass limits …`: what bounds jobs by type, org, tag, queue or a key of your own."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from windlass.admin.limits import LimitView
from windlass.cli.output import Part
from windlass.cli.session import Common, epilogue, opened
from windlass.wording import relative

app = App(name="limits", help="How many jobs of a type, org, tag, queue or key may run at once, or per second.")


@app.command(name="list", help_epilogue=epilogue("windlass limits list", "windlass limits list --json"))
async def list_limits(*, common: Common = Common()) -> None:
    """Every limit: how much of it is used, who holds it, how many jobs wait for it."""
    async with opened(common) as admin:
        found = await admin.limits()
    if common.json:
        common.out.emit(found)
        return
    if not found.limits:
        common.out.note("nothing is limited; windlass limits set gpu 2 lets two jobs with limits=('gpu',) run at once")
        return
    rows: list[tuple[Part, ...]] = []
    for limit in found.limits:
        state: Part = (f"paused {relative(limit.paused_at, found.at)}", "yellow") if limit.paused_at else ("open", "green")
        rows.append((limit.key, *_used(limit), f"{limit.waiting:,}", state, " ".join(limit.holders) or "-"))
    common.out.table(("LIMIT", "USED", "MOST", "RATE", "WEIGHT", "WAITING", "CLAIMS", "HELD BY"), rows)


def _used(limit: LimitView) -> tuple[Part, ...]:
    full = limit.most is not None and limit.used >= limit.most
    rate = "-" if limit.per_second is None else f"{limit.per_second:g}/s, burst {limit.burst:g}"
    return (
        (f"{limit.used:,}", "yellow" if full else "dim"), "-" if limit.most is None else f"{limit.most:,}", rate,
        "-" if limit.weight == 1 else f"{limit.weight:g}",
    )  # fmt: skip


@app.command(
    name="set",
    help_epilogue=epilogue(
        "windlass limits set gpu 2", "windlass limits set org:acme 5 --weight 2",
        "windlass limits set key:api --rate 10/s --burst 20", "windlass limits set queue:mail 1",
    ),
)  # fmt: skip
async def set_limit(
    key: str, most: int | None = None, /, *,
    rate: Annotated[str | None, Parameter(help="Claims per time: 10/s, 100/m, 5000/h; none takes it away.")] = None,
    burst: Annotated[float | None, Parameter(help="How many may pass at once; as many as per second if left out.")] = None,
    weight: Annotated[float | None, Parameter(help="Turns of an org beside others, in fair queues.")] = None,
    common: Common = Common(),
) -> None:  # fmt: skip
    """Bound a key, on all machines, from the next claim on. What is not said stays as it is. What runs goes on.

    KEY is global, queue:NAME, type:NAME, org:NAME, tag:NAME, or a key of your own as tasks name it in limits=(...)."""
    async with opened(common) as admin:
        name = await admin.set_limit(key, most, rate, burst, weight)
    if common.json:
        common.out.emit(limit=name, changed=True)
    else:
        common.out.line(f"{name} is set")


@app.command(help_epilogue=epilogue("windlass limits remove gpu"))
async def remove(key: str, /, *, common: Common = Common()) -> None:
    """Bound a key no more: whoever waits for it may run."""
    async with opened(common) as admin:
        name = await admin.remove_limit(key)
    if common.json:
        common.out.emit(limit=name, removed=True)
    else:
        common.out.line(f"{name} bounds nothing any more")


@app.command(help_epilogue=epilogue("windlass limits pause type:render", "windlass limits pause org:acme"))
async def pause(key: str, /, *, common: Common = Common()) -> None:
    """Claim no more jobs of a type, an org, a tag or a key. What runs goes on; what is enqueued waits."""
    await _set_paused(key, True, common)


@app.command(help_epilogue=epilogue("windlass limits resume type:render"))
async def resume(key: str, /, *, common: Common = Common()) -> None:
    """Claim them again."""
    await _set_paused(key, False, common)


async def _set_paused(key: str, paused: bool, common: Common) -> None:
    async with opened(common) as admin:
        name, changed = await admin.pause_limit(key, paused)
    said = ("paused", "was paused already") if paused else ("open", "was not paused")
    if common.json:
        common.out.emit(limit=name, paused=paused, changed=changed)
    else:
        common.out.line(f"{name} is {said[0]}" if changed else f"{name} {said[1]}")
