"""A program whose handlers fork, and whose copies come out of the handler: `python forking.py STORE KIND ENDS`."""

from __future__ import annotations

import asyncio
import os
import sys

from windlass import Windlass

STORE, KIND, ENDS = sys.argv[1:] or ("memory://", "async", "exits")
app = Windlass(STORE)


def forked() -> int:
    pid = os.fork()
    if pid == 0 and ENDS == "exits":
        sys.exit(7)
    if pid == 0 and ENDS == "raises":
        raise ValueError("in the copy")
    return pid


def code_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@app.task
async def beside() -> int:
    pid = forked()
    return await asyncio.to_thread(code_of, pid) if pid else -1


@app.task
def apart() -> int:
    pid = forked()
    return code_of(pid) if pid else -1


async def main() -> None:
    task = beside if KIND == "async" else apart
    async with app, app.running(concurrency=1, threads=1):
        for _ in range(2):
            job = await task.enqueue()
            print("result", await job.result(timeout="10s"), (await job.fetch()).executions, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
