"""Receivers on loopback, as good or as bad as the test wants them. Real sockets, no HTTP library: it must be able to
misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from windlass.core.webhooks import Answer
from windlass.outgoing import Networks, Sender

LOOPBACK = Networks("127.0.0.0/8, ::1")
Write = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """Answers each request with the next of `answers`, the last one again and again."""

    port: int = 0
    requests: list[Request] = field(default_factory=list)
    answers: list[Write] = field(default_factory=list)
    connections: int = 0
    sent: int = 0  # bytes of answers that somebody took
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.requests.append(Request(head[0], headers, body))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):  # the test is over
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def status(code: int, body: str = "", **headers: str) -> Write:
    """An answer as it should be."""
    lines = {
        "content-length": str(len(body.encode())),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }

    async def write(writer: asyncio.StreamWriter) -> None:
        told = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"HTTP/1.1 {code} Whatever\r\n{told}\r\n{body}".encode())
        await writer.drain()

    return write


def raw(text: bytes, *, then: float = 0.0) -> Write:
    """These bytes, and then nothing for a while."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()
        await asyncio.sleep(then)

    return write


def drip(text: bytes, every: float) -> Write:
    """A byte at a time, for as long as anybody listens."""

    async def write(writer: asyncio.StreamWriter) -> None:
        for number in range(1_000_000):
            writer.write(text[number % len(text) : number % len(text) + 1])
            await writer.drain()
            await asyncio.sleep(every)

    return write


def endless(receiver: Receiver, size: int = 10_000_000_000) -> Write:
    """Ten gigabytes, announced and begun."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode())
        block = b"x" * 65_536
        while receiver.sent < size:
            writer.write(block)
            await writer.drain()
            receiver.sent += len(block)

    return write


@asynccontextmanager
async def receiving(*answers: Write, tls: Any = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(answers=list(answers) or [status(204)])
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        await receiver.close()
        await server.wait_closed()


async def posted(url: str, sender: Sender | None = None, content: bytes = b"{}") -> Answer:
    """One request by a sender that may call this machine."""
    return await (sender or Sender(LOOPBACK)).post(url, {"webhook-id": "m"}, content)
