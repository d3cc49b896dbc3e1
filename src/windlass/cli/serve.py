"""`windlass serve`: the API and the dashboard of a store."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from windlass.admin import Admin
from windlass.app import Windlass
from windlass.cli.output import OK, Output
from windlass.cli.session import Common, Flag, check_there, described, opened_app
from windlass.cli.worker import log_to_stderr
from windlass.errors import InvalidInput
from windlass.extras import needs
from windlass.telemetry.notify import announced, service_manager

PORT = 8420
Names = Annotated[list[str] | None, Parameter(negative=())]


async def serve(
    app: str | None = None,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    base_path: str = "",
    allow_host: Names = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    verbose: Flag = False,
    common: Common = Common(),
) -> int:
    """Serve the API and the dashboard until SIGTERM or Ctrl-C.

    On this machine everybody may come in until a token is made: windlass tokens create. From then on, and on every other
    address, only those who have one.

    Args:
        app: module:attribute, module, or a path to a .py file; its tasks check what is enqueued, and a tick can run them
        host: the address to listen on
        port: 0 is any that is free
        base_path: answer below this path only, such as /windlass
        allow_host: a name by which browsers may call this server; may be given several times
        tls_cert: a file with the certificate, for HTTPS
        tls_key: a file with its key
        verbose: log everything
    """
    log_to_stderr(logging.DEBUG if verbose else logging.INFO)
    async with _program(app, common) as loaded:
        await run(loaded, host, port, base_path, allow_host or (), (tls_cert, tls_key), common.out)
    return OK


async def run(
    app: Windlass, host: str, port: int, base_path: str, names: Sequence[str], tls_files: tuple[str | None, str | None],
    out: Output, stop: asyncio.Event | None = None, taken: socket.socket | None = None,
) -> None:  # fmt: skip
    """`taken`: what listens there already."""
    needs("server", "uvicorn")
    from windlass.web.app import web_app
    from windlass.web.serving import Tls, address, bound, guarded, stopped_by_signals
    from windlass.web.serving import serve as answer

    certificate, key = tls_files
    if (certificate is None) != (key is None):
        raise InvalidInput("tls-cert", "give --tls-cert and --tls-key, or neither")
    tls = Tls(certificate, key) if certificate is not None and key is not None else None
    if tls is not None:
        tls.check()
    await app.client.ready()
    access = await guarded(Admin(app.client), host, names)
    web = web_app(app, access=access, base_path=base_path)
    with taken or bound(host, port) as listening:
        where = address(listening, tls, base_path)
        if out.json:
            out.emit(url=where, store=described(app.client.url), tokens=access.anonymous is None)
        else:
            out.line(where)
            out.note(f"store   {described(app.client.url)}")
            known = "only with a token" if access.anonymous is None else "everybody on this machine, until a token is made"
            out.note(f"access  {known}")
            out.note("stop    Ctrl-C")
        sys.stdout.flush()  # whoever started us may wait for the address
        stop, ready = stop or asyncio.Event(), asyncio.Event()
        ready.set()  # the port is taken: whoever comes now is answered
        async with announced(service_manager(), ready, stop, f"answers at {where}"):
            with stopped_by_signals(stop):
                await answer(web, listening, stop, tls=tls)


@asynccontextmanager
async def _program(target: str | None, common: Common) -> AsyncIterator[Windlass]:
    """The program that was named, else the bare store."""
    if target is not None:
        async with opened_app(target, common) as loaded:
            yield loaded
        return
    check_there(common.url)
    bare = Windlass(common.url)
    bare.client.settings = replace(bare.client.settings, migrate="never")
    try:
        yield bare
    finally:
        await bare.close()
