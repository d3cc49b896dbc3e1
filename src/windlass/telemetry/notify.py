"""Word to systemd, or whoever else started us so: ready, still alive, stopping. A datagram with a few lines, no library.

The address is taken out of the environment: a program that a handler starts must not speak in our name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Final

from windlass.clock import SECOND

log: Final = logging.getLogger("windlass.notify")


class ServiceManager:
    """`every`: seconds between signs of life, half of what is asked for. None: nobody waits for them."""

    def __init__(self, address: str, every: float | None = None) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.every: Final = every

    def tell(self, *lines: str) -> None:
        """A service manager that cannot be reached changes nothing of our work."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.setblocking(False)
                out.connect(self._address)
                out.send("\n".join(lines).encode())
        except OSError as error:
            log.warning("the service manager cannot be told %s: %s", lines[0], error)


def service_manager(environment: MutableMapping[str, str] | None = None) -> ServiceManager | None:
    """The one that the environment names. It is asked once: what it says is removed."""
    env = os.environ if environment is None else environment
    address, micros, pid = (env.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"))
    if not address.startswith(("/", "@")):
        return None
    watched = micros.isdecimal() and int(micros) > 0 and pid in ("", str(os.getpid()))
    return ServiceManager(address, int(micros) / SECOND / 2 if watched else None)


@asynccontextmanager
async def announced(
    manager: ServiceManager | None, ready: asyncio.Event, stopping: asyncio.Event, status: str
) -> AsyncIterator[None]:  # fmt: skip
    """While the block lasts. Signs of life come from the event loop: one that hangs gives none. They go on while handlers
    have their grace."""
    if manager is None:
        yield
        return
    telling = asyncio.get_running_loop().create_task(_tell(manager, ready, stopping, status), name="windlass-notify")
    try:
        yield
    finally:
        if not stopping.is_set() and ready.is_set():
            manager.tell("STOPPING=1")
        telling.cancel()
        await asyncio.wait({telling})


async def _tell(manager: ServiceManager, ready: asyncio.Event, stopping: asyncio.Event, status: str) -> None:
    await _living(manager, ready)
    manager.tell("READY=1", f"STATUS={status}")
    await _living(manager, stopping)
    manager.tell("STOPPING=1", "STATUS=finishing what runs")
    await _living(manager, asyncio.Event())


async def _living(manager: ServiceManager, until: asyncio.Event) -> None:
    while not until.is_set():
        if manager.every is not None:
            manager.tell("WATCHDOG=1")
        try:
            async with asyncio.timeout(manager.every):
                await until.wait()
        except TimeoutError:
            continue
