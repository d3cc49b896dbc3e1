"""A night's work: a schedule starts it, a sequence does it, a limit spares the other side, a hold keeps the queue still.

    python examples/nightly_pipeline.py

`nightly` is fired at 02:30 in Berlin, once per day whatever crashes. It puts the day's steps into a sequential group: each
begins when the one before it has ended, and a failure stops the rest. `fetch` may run twice at a time on all machines
together. An operator who wants the queue to himself holds it; nothing of it starts meanwhile.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from windlass import Windlass
from windlass.clock import ManualClock, moment

QUEUE = "nightly"


def pipeline(url: str, clock: ManualClock) -> tuple[Windlass, list[str]]:
    app, log = Windlass(url, clock=clock), list[str]()
    app.queue(QUEUE)
    app.limit("source", 2)

    @app.task(queue=QUEUE, limits=("source",))
    async def fetch(day: str, part: int) -> int:
        log.append(f"fetch {day} {part}")
        return part

    @app.task(queue=QUEUE)
    async def load(day: str) -> None:
        log.append(f"load {day}")

    @app.task(queue=QUEUE)
    async def report(day: str) -> None:
        log.append(f"report {day}")

    @app.cron("30 2 * * *", tz="Europe/Berlin", catch_up="last", overlap="skip")
    async def nightly() -> str:
        day = moment(clock.now()).date().isoformat()
        async with app.group(f"night of {day}", mode="sequential", on_failure="stop") as night:
            for part in range(2):
                night.add(fetch.job(day, part))
            night.add(load.job(day))
            night.add(report.job(day))
        return night.id

    return app, log


async def main(url: str = "memory://") -> list[str]:
    clock = ManualClock(datetime(2026, 3, 28, 20, tzinfo=UTC))  # the night in which clocks are put forward
    app, log = pipeline(url, clock)
    await app.tick()  # what the code declares is stored, and nothing is due
    [schedule] = await app.schedules.list()
    log.append(f"next at {moment(schedule.next_trigger_at or 0):%Y-%m-%d %H:%M} UTC")
    async with app.hold(QUEUE, by="operator"):
        clock.advance("1h")
        log.append(f"held: {(await app.tick()).claimed} jobs begun")
    clock.advance((schedule.next_trigger_at or 0) - clock.now())
    while (await app.tick(limit=10)).claimed:
        pass
    await app.close()
    return log


if __name__ == "__main__":
    print("\n".join(asyncio.run(main())))
