"""`windlass dev`: a worker and the dashboard in one process that begins anew when the program changes."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

from windlass.cli.output import FAILED, OK
from windlass.cli.reloading import Sources
from windlass.cli.serve import PORT, run
from windlass.cli.session import Common, Flag, opened_app, passed_on, with_what_was_passed_on
from windlass.cli.worker import log_to_stderr
from windlass.errors import BrokenModule, InvalidInput
from windlass.extras import needs
from windlass.loading import load_app


def dev(
    app: str,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    concurrency: int | None = None,
    verbose: Flag = False,
    common: Common = Common(),
) -> int:
    """Work on a program: run its jobs, serve its dashboard, and start again when a .py file below it or below this
    directory changes. Until SIGTERM or Ctrl-C.

    Args:
        app: module:attribute, module, or a path to a .py file
        host: the address to listen on
        port: the port of the dashboard
        concurrency: async handlers at once
        verbose: log everything
    """
    log_to_stderr(logging.DEBUG if verbose else logging.INFO)
    common = with_what_was_passed_on(common)
    changed = asyncio.run(_until_changed(app, host, port, concurrency, common))
    if changed is None:
        return OK
    common.out.note(f"{os.path.relpath(changed)} has changed")
    sys.stdout.flush()
    options = {"--host": host, "--port": port, "--concurrency": concurrency}
    said = [word for name, value in options.items() if value is not None for word in (name, str(value))]
    flags = [name for name, given in (("--verbose", verbose), ("--json", common.json)) if given]
    command = [sys.executable, "-m", "windlass", "dev", app, *said, *flags]
    return os.execve(sys.executable, command, {**os.environ, **passed_on(common)})  # noqa: S606  # ourselves


async def _until_changed(app: str, host: str, port: int, concurrency: int | None, common: Common) -> Path | None:
    """The file that changed, or None when we were told to stop."""
    sources = Sources(Path.cwd(), *([Path(app.partition(":")[0]).parent] if ".py" in app else []))
    stop = asyncio.Event()
    watching = asyncio.create_task(_watch(sources, stop))
    try:
        await _work(app, host, port, concurrency, common, stop)
    except (BrokenModule, InvalidInput) as error:
        if isinstance(error, InvalidInput) and error.field != "app":
            raise
        common.out.fail(str(error), "change the file: it is tried again then", FAILED)
        await watching
    if watching.done():
        return watching.result()
    watching.cancel()
    return None


async def _watch(sources: Sources, stop: asyncio.Event) -> Path:
    try:
        return await sources.changed()
    finally:
        stop.set()


async def _work(app: str, host: str, port: int, concurrency: int | None, common: Common, stop: asyncio.Event) -> None:
    load_app(app)  # what is wrong with it is told before anything is opened
    needs("server", "uvicorn")
    from windlass.web.serving import bound

    with bound(host, port) as taken:  # as is a port that is in use: the worker begins after that
        async with opened_app(app, common) as loaded, loaded.running(concurrency=concurrency):
            await run(loaded, host, port, "", (), (None, None), common.out, stop, taken)
