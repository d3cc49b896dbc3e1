"""A network that fails on demand: a TCP proxy before a PostgreSQL server, in a thread of the test."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

from .framing import ClientFrames, ServerFrames, asks_for_an_answer
from .home import free_port

Direction = Literal["both", "to_server", "to_client"]
COMMIT = rb"^\s*commit\b"
CHUNK = 65536


@dataclass(eq=False)
class Trap:
    """Waits for the n-th statement whose text matches, then lets the connection fail and is used up."""

    pattern: re.Pattern[bytes]
    nth: int
    when: Literal["before", "after"]
    then: Literal["reset", "silence"]
    seen: int = 0
    sprung: threading.Event = field(default_factory=threading.Event)

    def fits(self, statement: bytes) -> bool:
        self.seen += bool(self.pattern.search(statement))
        return self.seen >= self.nth


class Proxy:
    """`with Proxy(server.port) as proxy: connect(proxy.dsn())`. Every order is in force when its call returns.

    Sessions must not be encrypted. `counts` tells what was done: accepted, refused_by_server, reset, cut_before,
    cut_after, silenced, faltered, bytes_to_server, bytes_to_client.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.port = free_port()
        self.counts: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._listener: asyncio.Server | None = None
        self._open = {"to_server": asyncio.Event(), "to_client": asyncio.Event()}
        self.fluent = asyncio.Event()  # answers come whole
        self._resets = False
        self._delay = 0.0
        self._rate = 0.0
        self._traps: list[Trap] = []
        self._connections: set[_Connection] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self.heal()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._order(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def heal(self) -> None:
        """All is well from now on. What was held back is delivered, as the network would have done."""
        self._order(self._heal())

    def blackhole(self, direction: Direction = "both") -> None:
        """Connections stay open and new ones are accepted, but nothing comes through, not even a farewell."""
        self._order(self._blackhole(direction))

    def falter(self) -> None:
        """Of every answer only the first bytes come through; then the line is silent."""
        self._order(self._falter())

    def delay(self, seconds: float, *, bytes_per_second: float = 0.0) -> None:
        """Everything arrives later, in both directions; with a rate, also slowly."""
        self._order(self._slow(seconds, bytes_per_second))

    def cut(self) -> None:
        """Reset the connections that exist; new ones work."""
        self._order(self._cut())

    def reset(self) -> None:
        """Reset the connections that exist, and every new one at once."""
        self._order(self._reset())

    def refuse(self) -> None:
        """Nobody listens any more; connections that exist go on."""
        self._order(self._refuse())

    def trap(
        self,
        pattern: bytes,
        *,
        nth: int = 1,
        when: Literal["before", "after"] = "after",
        then: Literal["reset", "silence"] = "reset",
    ) -> Trap:
        """Lose the n-th statement that matches `pattern` (any case), or its answer.

        With "after", the server has run it and has answered, and no byte of the answer reaches the client. With
        "before", the server never sees it. "silence" leaves the connection open where "reset" ends it.
        """
        trap = Trap(re.compile(pattern, re.IGNORECASE), nth, when, then)
        self._order(self._set(trap))
        return trap

    def cut_in_commit(self, *, nth: int = 1, when: Literal["before", "after"] = "after") -> Trap:
        """Lose the answer to a COMMIT that took effect, or the COMMIT itself."""
        return self.trap(COMMIT, nth=nth, when=when)

    def _order(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _heal(self) -> None:
        self._resets, self._delay, self._rate = False, 0.0, 0.0
        for gate in (*self._open.values(), self.fluent):
            gate.set()
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _blackhole(self, direction: Direction) -> None:
        for name, gate in self._open.items():
            if direction in ("both", name):
                gate.clear()

    async def _falter(self) -> None:
        self.fluent.clear()

    async def _slow(self, seconds: float, rate: float) -> None:
        self._delay, self._rate = seconds, rate

    async def _cut(self) -> None:
        doomed = list(self._connections)
        for connection in doomed:
            connection.end()
        await asyncio.gather(*(connection.task for connection in doomed))

    async def _reset(self) -> None:
        self._resets = True
        await self._cut()

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _set(self, trap: Trap) -> None:
        self._traps.append(trap)

    async def _close(self) -> None:
        await self._refuse()
        await self._cut()
        await asyncio.sleep(0)  # transports close in the next turn of the loop

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.counts["accepted"] += 1
        if self._resets:
            self.counts["reset"] += 1
            _slam(writer)
            return
        task = asyncio.current_task()
        assert task is not None
        connection = _Connection(self, task, reader, writer)
        self._connections.add(connection)
        try:
            await connection.serve()
        except asyncio.CancelledError:
            self.counts["reset"] += 1  # ended by an order
        finally:
            self._connections.discard(connection)

    async def let_through(self, direction: Literal["to_server", "to_client"], data: bytes) -> None:
        """Returns when `data` may go on."""
        if self._delay or self._rate:
            await asyncio.sleep(self._delay + (len(data) / self._rate if self._rate else 0.0))
        await self._open[direction].wait()
        self.counts[f"bytes_{direction}"] += len(data)

    def sprung_by(self, statement: bytes) -> Trap | None:
        for trap in self._traps:
            if trap.fits(statement):
                self._traps.remove(trap)
                return trap
        return None


class _Connection:
    """One client and, once something may reach it, the server."""

    def __init__(
        self, proxy: Proxy, task: asyncio.Task[Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.task = task
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._client = ClientFrames()
        self._server = ServerFrames(self._client)
        self._asked = 1  # the greeting ends with a report, too
        self._trap: Trap | None = None
        self._all_said = False  # the trap waits for nothing but the answer

    def end(self) -> None:
        self.task.cancel()

    async def serve(self) -> None:
        """Passes a farewell on as a farewell; every other end is a reset."""
        proxy, upstream, polite = self._proxy, None, False
        try:
            await proxy.let_through("to_server", b"")
            reader, upstream = await asyncio.open_connection("127.0.0.1", proxy.upstream)
            pumps = [asyncio.create_task(self._to_server(upstream)), asyncio.create_task(self._to_client(reader))]
            try:
                done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                polite = all(pump.exception() is None for pump in done)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except ConnectionRefusedError:
            proxy.counts["refused_by_server"] += 1
        finally:
            for writer in (self._writer, upstream):
                if writer is not None:
                    writer.close() if polite else _slam(writer)

    async def _to_server(self, upstream: asyncio.StreamWriter) -> None:
        """Until the client has left."""
        try:
            while data := await self._reader.read(CHUNK):
                await self._proxy.let_through("to_server", data)
                for message in self._client.feed(data):
                    await self._pass_on(message, upstream)
                await upstream.drain()
        except ConnectionError:
            await self._proxy.let_through("to_server", b"")  # the end of a connection is held back like everything else
            raise
        await self._proxy.let_through("to_server", b"")

    async def _pass_on(self, message: bytes, upstream: asyncio.StreamWriter) -> None:
        statement = self._client.statement(message)
        if self._trap is None and statement is not None:
            self._trap = self._proxy.sprung_by(statement)
            if self._trap is not None and self._trap.when == "before":
                await self._spring(self._trap)
        upstream.write(message)
        if asks_for_an_answer(message):
            self._asked += 1
            if self._trap is not None:
                self._all_said = True
                await asyncio.Event().wait()  # the answer ends this connection

    async def _to_client(self, upstream: asyncio.StreamReader) -> None:
        """Until the server has left, or has answered what a trap had waited for."""
        try:
            while data := await upstream.read(CHUNK):
                self._server.feed(data)
                if self._trap is None:
                    await self._proxy.let_through("to_client", data)
                    if not self._proxy.fluent.is_set():
                        self._proxy.counts["faltered"] += 1
                        self._writer.write(data[:3])
                        data = data[3:]
                        await self._proxy.fluent.wait()
                    self._writer.write(data)
                    await self._writer.drain()
                elif self._all_said and self._server.ready == self._asked:
                    await self._spring(self._trap)
        except ConnectionError:
            await self._proxy.let_through("to_client", b"")
            raise
        await self._proxy.let_through("to_client", b"")

    async def _spring(self, trap: Trap) -> None:
        self._proxy.counts[f"cut_{trap.when}"] += 1
        trap.sprung.set()
        if trap.then == "silence":
            self._proxy.counts["silenced"] += 1
            await asyncio.Event().wait()
        raise ConnectionAbortedError


def _slam(writer: asyncio.StreamWriter) -> None:
    """Close with a reset instead of a farewell."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
