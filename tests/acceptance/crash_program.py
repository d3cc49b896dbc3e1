"""A scheduler that dies, for real, at a chosen point: `python -m acceptance.crash_program URL SCHEMA LOG NOW POINT`.

Its clock stands still at NOW, so that whoever comes after it need not wait for the lease: it sets its own clock later.
"""

from __future__ import annotations

import asyncio
import os
import sys
from random import Random

from faults import crash
from windlass import Windlass, current
from windlass.clock import ManualClock
from windlass.types import Micros

QUEUE = "stories"
HELD: Micros = 600_000
DIED = 7


def scheduler(url: str, schema: str, log: str, clock: ManualClock, ending: str = "") -> Windlass:
    """`ending`: how its handler ends; as it should, unless told."""
    app = Windlass(url, schema=schema, clock=clock, random=Random(), lease="30s")
    app.queue(QUEUE, preset="scheduler")

    @app.task(name="story", queue=QUEUE)
    async def story() -> None:
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, f"{current().job.id}\n".encode())
        os.close(fd)
        if ending == "dies":
            os._exit(DIED)
        if ending == "fails":
            raise OSError("no plot")

    return app


async def hold(app: Windlass, clock: ManualClock, *, until_renewed: bool) -> None:
    """Renewed after a third of its time, by its own clock and by the one that stands still."""
    async with app.hold(QUEUE, by="the dead", expires_in=f"{HELD}us"):
        if until_renewed:
            clock.advance(HELD // 3)
            await asyncio.sleep(60)


async def main(url: str, schema: str, log: str, now: str, point: str) -> None:
    ending = "dies" if point == "inside the handler" else "fails" if point.startswith("failure") else ""
    clock = ManualClock(int(now))
    app = scheduler(url, schema, log, clock, ending)
    await app.client.ready()
    if ":" in point:
        crash.at_commit(app.client.driver, point, lambda: os._exit(DIED))
    if point.startswith("enqueue"):
        await app.find_task("story").enqueue()
    elif point.startswith(("acquire", "grant", "renew", "give_back")):
        await hold(app, clock, until_renewed=point.startswith("renew"))
    else:
        await app.tick()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
