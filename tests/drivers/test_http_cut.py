"""The `http://` driver behind a proxy that cuts answers short, or garbles them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from served import Server
from windlass.clock import SECOND
from windlass.core.alterations import Cancel
from windlass.core.changes import Ack
from windlass.drivers.http import HttpDriver
from windlass.drivers.http.encoding import decoded
from windlass.drivers.http.link import is_whole
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim
from windlass.errors import OutcomeUnknown, StoreError
from windlass.types import NewJob


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def url(server: Server, tmp_path: Path) -> str:
    return server.store(SqliteDriver(tmp_path / "jobs.db", durability="relaxed"))


class Piece(httpx2.AsyncByteStream):
    def __init__(self, piece: bytes) -> None:
        self._piece = piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._piece


def ends_with_its_connection(body: bytes) -> httpx2.Response:
    """Nobody says how long it is."""
    response = httpx2.Response(200, content=body)
    response.headers.pop("content-length", None)
    return response


class Cutting(httpx2.AsyncHTTPTransport):
    """The server hears everything. Answers to these calls end with their connection, too soon; `packed` ones are no gzip
    any more."""

    def __init__(self, *, packed: bool) -> None:
        super().__init__()
        self.packed = packed
        self.cut: dict[str, int] = {}
        self.sent: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        name = request.url.path.rpartition("/")[2]
        self.sent.append(name)
        if self.cut.get(name, 0) == 0:
            return response
        self.cut[name] -= 1
        whole = await response.aread()
        await response.aclose()
        if self.packed:
            return httpx2.Response(200, headers={"Content-Encoding": "gzip"}, stream=Piece(gzip.compress(whole)[1:]))
        return httpx2.Response(200, stream=Piece(whole[: len(whole) // 2]))


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_that_was_cut_is_a_lost_one(url: str, packed: bool) -> None:
    async def main() -> None:
        net = Cutting(packed=packed)
        driver = HttpDriver(url, transport=net)
        now = driver.clock.now()
        net.cut = {"enqueue": 1, "claim": 2, "settle": 1, "get": 1, "wait": 1}
        assert [one.id for one in await driver.enqueue([NewJob(id="a", type="t"), NewJob(id="b", type="t")], now=now)] == [
            "a",
            "b",
        ]
        assert net.sent.count("enqueue") == 1, "it was looked for, and found"
        claim = Claim(queues=("default",), limit=9, lease_for=30 * SECOND, worker_id="w", token="t")
        jobs = await driver.claim(claim, now=now)
        assert [job.id for job in jobs] == ["a", "b"]
        assert await driver.settle([Ack(handle=jobs[0].handle, token="t", at=now)], now=now) == ["repeated"]
        assert await driver.wait(timeout=0.01) in (True, False)
        net.cut = {"alter": 1}
        with pytest.raises(OutcomeUnknown):
            await driver.alter([Cancel("b")], now=now)
        assert await driver.alter([Cancel("b")], now=now) == ["unchanged"]
        await driver.close()

    asyncio.run(main())


@pytest.mark.parametrize("body", [b'{"answer":[1', b'{"answer":-', b'{"answer":1.', b'["a"', b'{"answer":"a', b""])
def test_what_was_cut_is_known_by_its_end(body: bytes) -> None:
    assert not is_whole(ends_with_its_connection(body))


@pytest.mark.parametrize("body", [b'{"answer":[1]}', b"[]", b"<html>", b"Not found.", b'{"answer":"\xff"}', b"null"])
def test_what_was_not_cut_is_whole_whoever_says_it(body: bytes) -> None:
    assert is_whole(ends_with_its_connection(body))


def test_an_answer_that_is_no_text_is_told_as_one_of_somebody_else() -> None:
    with pytest.raises(StoreError, match="not of our protocol"):
        decoded(b'{"answer":"\xff"}', dict[str, str])


def test_an_answer_of_somebody_else_is_not_asked_for_again(url: str) -> None:
    class Foreign(Cutting):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.path.endswith("/get"):
                self.sent.append("get")
                return httpx2.Response(200, stream=Piece(b"<h1>log in first</h1>"))
            return await super().handle_async_request(request)

    async def main() -> None:
        net = Foreign(packed=False)
        driver = HttpDriver(url, transport=net)
        with pytest.raises(StoreError, match="not of our protocol"):
            await driver.get(["a"])
        assert net.sent.count("get") == 1
        await driver.close()

    asyncio.run(main())
