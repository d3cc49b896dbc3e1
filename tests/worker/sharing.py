"""An app that a child process imports: a resource and a middleware, each telling in which process it is."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar

from windlass import Context, Windlass

surrounded: ContextVar[str] = ContextVar("surrounded", default="bare")
app = Windlass("sqlite:///never.db", children=1)


class Pool:
    def __init__(self) -> None:
        self.pid = os.getpid()


@app.resource
async def pool() -> AsyncIterator[Pool]:
    if os.environ.get("POOL_OPENS_ONLY_IN", str(os.getpid())) != str(os.getpid()):
        raise OSError("broken")
    yield Pool()


@app.middleware
def around(ctx: Context) -> Iterator[None]:
    surrounded.set("around")
    yield


@app.task(context=True, run="process")
async def pid_of_opener(ctx: Context) -> tuple[str, str]:
    return "child" if ctx.resource(Pool).pid == os.getpid() else "worker", surrounded.get()
