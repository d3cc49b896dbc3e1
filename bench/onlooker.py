"""Somebody who looks at the dashboard again and again, in a process of its own, while others work.

python bench/onlooker.py URL --seconds 10        one line of JSON: how many pages, how long they took
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Final

from pages import Desk
from processes import percentile

PAGES: Final = ("/", "/jobs", "/jobs?state=succeeded", "/queues", "/workers", "/dead-letters", "/api/jobs?limit=50")
PAUSE_S: Final = 0.1


async def looks(url: str, seconds: float) -> dict[str, float]:
    desk, taken = Desk(url), list[float]()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for address in PAGES:
            answer = await desk.ask(address)
            assert answer.status == 200, (address, answer.status)
            taken.append(answer.ms)
            await asyncio.sleep(PAUSE_S)
    await desk.app.close()
    return {"pages": len(taken), "page_p50_ms": percentile(taken, 50), "page_p99_ms": percentile(taken, 99)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Look at the dashboard.")
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(looks(options.url, options.seconds))))
