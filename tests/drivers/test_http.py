"""The `http://` driver on a network that loses replies, with servers that are gone, slow, strange or closed to us."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from msgspec.structs import replace

from served import Server
from windlass import Windlass
from windlass.admin import Admin
from windlass.clock import SECOND, ticking
from windlass.core.alterations import Cancel, SetPriority
from windlass.core.changes import Ack
from windlass.drivers import open_driver
from windlass.drivers.http import HttpDriver
from windlass.drivers.http import link as linking
from windlass.drivers.http.place import Place
from windlass.drivers.http.wire import Work
from windlass.drivers.memory import MemoryDriver
from windlass.drivers.protocol import Driver
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim, Renewal, RowsHeld
from windlass.errors import (
    DuplicateId,
    InvalidInput,
    OutcomeUnknown,
    StoreForbidden,
    StoreUnavailable,
    StoreUnreachable,
    UnknownStore,
    WrongConnection,
)
from windlass.principal import new_token
from windlass.testing.faulty import Faulty
from windlass.types import Claimed, NewJob
from windlass.urls import redacted
from windlass.web.access import Access


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def url(server: Server, tmp_path: Path) -> str:
    return server.store(SqliteDriver(tmp_path / "jobs.db", durability="relaxed"))


class Lossy(httpx2.AsyncHTTPTransport):
    """The server hears everything; replies to what is to be lost do not arrive, so many times. With a status a proxy says
    so."""

    def __init__(self, status: int | None = None) -> None:
        super().__init__()
        self.status = status
        self.lose: dict[str, int] = {}
        self.sent: list[str] = []
        self.refuse: dict[str, int] = {}  # with a status of the server's own

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        name = request.url.path.rpartition("/")[2]
        self.sent.append(name)
        if name in self.refuse:
            said = {"Content-Type": "application/problem+json"}
            return httpx2.Response(self.refuse[name], headers=said, content=b'{"detail":"no"}')
        response = await super().handle_async_request(request)
        if self.lose.get(name, 0) > 0:
            self.lose[name] -= 1
            await response.aread()
            await response.aclose()
            if self.status is not None:
                return httpx2.Response(self.status, content=b"<h1>upstream</h1>")
            raise httpx2.ReadError("the connection broke")
        return response


def wish(token: str, limit: int = 10) -> Claim:
    return Claim(queues=("default",), limit=limit, lease_for=30 * SECOND, worker_id="w", token=token)


def new(name: str, **fields: Any) -> NewJob:
    return NewJob(id=name, type="work", **fields)


@pytest.mark.parametrize("status", [None, 502, 503, 504])
def test_a_lost_reply_neither_loses_nor_doubles(url: str, status: int | None) -> None:
    async def main() -> None:
        net = Lossy(status)
        driver = HttpDriver(url, transport=net)
        now = driver.clock.now()
        key = {"idempotency_scope": "s", "idempotency_key": "k"}
        await driver.enqueue([new("first", **key)], now=now)
        net.lose = {"enqueue": 1}
        answers = await driver.enqueue([new("a"), new("twin", **key), new("b")], now=now)
        assert [(one.id, one.existed) for one in answers] == [("a", False), ("first", True), ("b", False)]
        net.lose = {"claim": 2}
        jobs = await driver.claim(wish("t1"), now=now)
        assert [job.id for job in jobs] == ["first", "a", "b"]
        net.lose = {"extend": 1, "settle": 1}
        acks = [Ack(handle=job.handle, token=job.token, at=now) for job in jobs]
        assert set(await driver.settle(acks, now=now)) == {"repeated"}
        assert [row.state for row in await driver.get(["first", "a", "b"]) if row] == ["succeeded"] * 3
        await driver.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "other",
    [
        new("chosen", payload=b'{"a":2}'), NewJob(id="chosen", type="other"), new("chosen", queue="mail"),
        new("chosen", org_id="acme"), new("chosen", idempotency_scope="s", idempotency_key="k"),
    ],
)  # fmt: skip
def test_a_job_of_somebody_else_under_the_same_id_is_not_taken_for_ours_after_a_lost_reply(url: str, other: NewJob) -> None:
    async def main() -> None:
        net = Lossy()
        driver = HttpDriver(url, transport=net)
        now = driver.clock.now()
        await driver.enqueue([other], now=now)
        net.lose = {"enqueue": 1}
        with pytest.raises(DuplicateId) as caught:
            await driver.enqueue([new("a"), new("chosen")], now=now)
        assert caught.value.job_id == "chosen"
        assert await driver.get(["a"]) == [None]
        await driver.close()

    asyncio.run(main())


def test_a_lost_enqueue_is_known_again_whatever_has_become_of_it(url: str) -> None:
    """It was replaced, raised and ended before anybody looked."""

    async def main() -> None:
        net = Lossy()
        driver = HttpDriver(url, transport=net)
        now = driver.clock.now()
        asked = new("ours", dedupe_key="d", payload=b'{"a":1}', headers={"h": "1"}, tags=("t",), run_at=now + SECOND)
        other = cast("HttpDriver", open_driver(url))
        look = net.handle_async_request

        async def meanwhile(request: httpx2.Request) -> httpx2.Response:
            if request.url.path.endswith("/get"):
                net.handle_async_request = look  # type: ignore[method-assign]
                later = new("late", dedupe_key="d", payload=b'{"a":2}', on_duplicate="replace")
                assert (await other.enqueue([later], now=now))[0].id == "ours"
                assert await other.alter([SetPriority("ours", 7)], now=now) == ["applied"]
                [job] = await other.claim(wish("t"), now=now)
                await other.settle([Ack(handle=job.handle, token=job.token, at=now)], now=now)
            return await look(request)

        net.handle_async_request = meanwhile  # type: ignore[method-assign]
        net.lose = {"enqueue": 1}
        [answer] = await driver.enqueue([asked], now=now)
        assert (answer.id, answer.existed) == ("ours", False)
        await driver.close()
        await other.close()

    asyncio.run(main())


def test_what_cannot_be_repeated_is_told_as_unknown(url: str) -> None:
    async def main() -> None:
        net = Lossy()
        driver = HttpDriver(url, transport=net)
        now = driver.clock.now()
        await driver.enqueue([new("a")], now=now)
        net.lose = {"alter": 1}
        with pytest.raises(OutcomeUnknown):
            await driver.alter([Cancel("a")], now=now)
        assert net.sent.count("alter") == 1
        broken = Lossy()
        short = HttpDriver(url, transport=broken, timeout=1.0)
        broken.lose = {"enqueue": 9, "get": 99}
        with pytest.raises(OutcomeUnknown):
            await short.enqueue([new("b")], now=now)
        with pytest.raises(DuplicateId) as caught:
            await driver.enqueue([new("a")], now=now)
        assert caught.value.job_id == "a"
        await driver.close()
        await short.close()

    asyncio.run(main())


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_lost_enqueue_that_cannot_be_looked_for_is_never_told_as_refused(url: str, status: int) -> None:
    """It is stored; whoever hears of a token, or of too many requests, would store it again."""

    async def main() -> None:
        net = Lossy()
        driver = HttpDriver(url, transport=net, timeout=1.0)
        net.lose, net.refuse = {"enqueue": 1}, {"get": status}
        with pytest.raises(OutcomeUnknown):
            await driver.enqueue([new("a")], now=driver.clock.now())
        net.refuse = {}
        assert [row.id for row in await driver.get(["a"]) if row] == ["a"]
        await driver.close()

    asyncio.run(main())


def test_an_enqueue_that_was_lost_may_come_late_whatever_the_next_one_meets(url: str) -> None:
    """It is not there yet, and the second try is refused: the first may still be on its way."""

    class Slow(Lossy):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.path.endswith("/enqueue") and "enqueue" not in self.sent:
                self.sent.append("enqueue")
                self.refuse = {"enqueue": 503}
                await request.extensions["trace"]("http11.send_request_headers.started", {})
                raise httpx2.ReadError("the connection broke")
            return await super().handle_async_request(request)

    async def main() -> None:
        driver = HttpDriver(url, transport=Slow(), timeout=1.0)
        with pytest.raises(OutcomeUnknown):
            await driver.enqueue([new("a")], now=driver.clock.now())
        await driver.close()

    asyncio.run(main())


def test_an_enqueue_that_is_lost_each_time_is_sent_again_after_pauses(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something on the way drops what it has taken, asking without a pause would be a flood."""
    pauses: list[float] = []

    class Dropping(Lossy):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.path.endswith("/enqueue") and self.sent.count("enqueue") < 20:
                self.sent.append("enqueue")
                await request.extensions["trace"]("http11.send_request_headers.started", {})
                raise httpx2.ReadError("the connection broke")
            return await super().handle_async_request(request)

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    async def main() -> None:
        net = Dropping()
        driver = HttpDriver(url, transport=net)
        monkeypatch.setattr(linking, "_pause", note)
        assert [one.id for one in await driver.enqueue([new("a")], now=driver.clock.now())] == ["a"]
        assert net.sent.count("enqueue") == 21
        await driver.close()

    asyncio.run(main())
    assert len(pauses) == 20
    assert pauses[-1] > 20 * linking.FIRST_PAUSE


def test_a_server_that_is_gone_is_unreachable_within_the_deadline(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never says a word
        port = silent.getsockname()[1]
        began = ticking()
        with pytest.raises(StoreUnreachable) as caught:
            HttpDriver(f"http://127.0.0.1:{port}/", timeout=0.3)
        assert caught.value.retryable
        assert ticking() - began < 3
    with pytest.raises(StoreUnreachable):
        HttpDriver(f"http://127.0.0.1:{port}/", timeout=0.3)


def test_it_is_asked_again_until_it_answers(url: str) -> None:
    class Away(Lossy):
        missed = 0

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if self.missed:
                self.missed -= 1
                raise httpx2.ConnectError("refused")
            return await super().handle_async_request(request)

    async def main() -> None:
        net = Away()
        driver = HttpDriver(url, transport=net)
        net.missed = 3
        assert (await driver.enqueue([new("a")], now=driver.clock.now()))[0].id == "a"
        net.missed = 2
        assert await driver.alter([Cancel("a")], now=driver.clock.now()) == ["applied"]  # it never left before
        await driver.close()

    asyncio.run(main())


def test_a_large_batch_of_ends_is_sent_in_parts(url: str) -> None:
    async def main() -> None:
        net = Lossy()
        driver = HttpDriver(url, transport=net)
        now = driver.clock.now()
        await driver.enqueue([new(f"j{n}") for n in range(8)], now=now)
        jobs = await driver.claim(wish("t"), now=now)
        driver._store = type(driver._store)(**{**_fields(driver._store), "largest_body": 2_000})
        acks = [Ack(handle=job.handle, token=job.token, at=now, result=b'"%s"' % (b"x" * 600)) for job in jobs]
        assert await driver.settle(acks, now=now) == ["applied"] * 8
        assert net.sent.count("settle") == 4
        await driver.close()

    asyncio.run(main())


def test_what_became_of_the_others_is_told_when_somebody_holds_a_row(server: Server) -> None:
    async def main() -> None:
        store = Faulty(MemoryDriver())

        async def held(call: Any, args: tuple[Sequence[Ack]]) -> Any:
            last = args[0][-1]
            told = await store.driver.settle(args[0][:-1], now=last.at)
            raise RowsHeld("the store", [*told, None])

        driver = HttpDriver(server.store(cast("Driver", store)))
        now = driver.clock.now()
        await driver.enqueue([new(f"j{n}") for n in range(3)], now=now)
        acks = [Ack(handle=job.handle, token=job.token, at=now) for job in await driver.claim(wish("t"), now=now)]
        store.faults["settle"] = held
        with pytest.raises(RowsHeld, match="1 of 3 ends are not stored, the others are answered") as told:
            await driver.settle(acks, now=now)
        assert told.value.answers == ["applied", "applied", None]
        store.mend()
        assert await driver.settle(acks, now=now) == ["repeated", "repeated", "applied"]
        await driver.close()

    asyncio.run(main())


class Small(Lossy):
    """A proxy that takes requests of so many bytes, and says of others only that they are too large."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if len(request.content) <= self.most:
            return await super().handle_async_request(request)
        self.sent.append("refused")
        return httpx2.Response(413, headers={"content-type": "text/html"}, content=b"<h1>Request Entity Too Large</h1>")


def test_what_a_proxy_takes_for_too_large_is_sent_in_parts_and_alone_is_refused_for_good(url: str) -> None:
    async def main() -> None:
        net = Small(2_000)
        driver = HttpDriver(url, transport=net, timeout=5)
        now = driver.clock.now()
        for n in range(8):
            await driver.enqueue([new(f"j{n}")], now=now)
        jobs = await driver.claim(wish("t"), now=now)
        renewals = [Renewal(job.handle, job.token, progress_note="x" * 600) for job in jobs]
        told = await driver.extend(renewals, lease_for=30 * SECOND, now=now)
        assert [one.answer for one in told] == ["applied"] * 8
        *acks, last = [Ack(handle=job.handle, token=job.token, at=now, result=b'"%s"' % (b"x" * 600)) for job in jobs]
        assert await driver.settle(acks, now=now) == ["applied"] * 7
        net.sent.clear()
        with pytest.raises(InvalidInput, match="proxy before it takes no request of this size") as caught:
            await driver.settle([replace(last, result=b'"%s"' % (b"x" * 3_000))], now=now)
        assert net.sent == ["refused"]
        assert not caught.value.retryable
        with pytest.raises(InvalidInput, match="of this size"):
            await driver.enqueue([new("large", payload=b"x" * 3_000)], now=now)
        await driver.close()

    asyncio.run(main())


def _fields(store: Any) -> dict[str, Any]:
    return {name: getattr(store, name) for name in store.__struct_fields__}


def test_tokens_open_the_door_and_are_never_shown(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        path = tmp_path / "jobs.db"
        owner = Windlass(f"sqlite:///{path}")
        async with owner:
            _, worker = await Admin(owner.client, None).create_token("worker", ["work"])
            _, narrow = await Admin(owner.client, None).create_token("narrow", ["work"], None, ["mail"])
        url = server.store(SqliteDriver(path, durability="relaxed"), access=Access())
        for given in (url.replace("//", f"//{worker}@", 1), url.replace("//", f"//token:{worker}@", 1)):
            driver = open_driver(given)
            await driver.enqueue([new(new_token()[:20])], now=1)
            assert worker not in repr(driver)
            with pytest.raises(StoreForbidden) as caught:
                await driver.alter([Cancel("x")], now=1)
            assert worker not in str(caught.value)
            await driver.close()
        strangers = HttpDriver(url, token=narrow)
        with pytest.raises(StoreForbidden, match="part of it"):
            await strangers.enqueue([new("x")], now=1)
        await strangers.close()
        with pytest.raises(StoreForbidden) as caught:
            HttpDriver(url, token=new_token())
        assert "tokens create" in str(caught.value)
        monkeypatch.setenv("WINDLASS_TOKEN", worker)
        app = Windlass(url)
        assert worker not in repr(app.client.settings)
        async with app:
            assert await app.client.driver.count(now=1) != []

    caplog.set_level(logging.DEBUG)
    asyncio.run(main())
    assert "wl_" not in caplog.text


def test_a_url_is_shown_without_its_token() -> None:
    for url in ("https://wl_secret@host/x", "http://user:wl_secret@host", "HTTPS://wl_secret:@host:8/"):
        assert "wl_secret" not in redacted(url)
        assert "host" in redacted(url)
        assert "wl_secret" not in repr(Place.of(url))
        assert Place.of(url).token == "wl_" + "secret"
    assert Place.of("http://h/a/b/", "given") == Place(where="http://h/a/b/", base="http://h/a/b", token="given")
    for nonsense in ("http://", "http:///x", "http://h/?q=1", "http://h:x/"):
        with pytest.raises(UnknownStore):
            Place.of(nonsense)


def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(url: str) -> None:
    """An error of whoever sends it would show it."""
    for token in ("wl_se\ncret", "wl_se cret", "wl_s\xe9cret", "wl_se\x00cret"):
        with pytest.raises(InvalidInput) as caught:
            HttpDriver(url, token=token, timeout=1)
        assert (caught.value.field, "cret" in str(caught.value)) == ("token", False)
    with pytest.raises(InvalidInput):
        Place.of("http://wl_se%0Acret@h/")


def test_a_token_from_a_file_ends_before_the_end_of_its_line() -> None:
    assert Place.of("http://h/", "wl_secret\r\n").token == Place.of("http://wl_secret%0A@h/").token == "wl_" + "secret"
    assert Place.of("http://h/", " \n").token is None


def test_who_is_no_windlass_is_told_apart(server: Server) -> None:
    with pytest.raises(StoreUnavailable, match="check the address"):
        HttpDriver(server.url + "nowhere/", timeout=1)


def test_what_is_not_offered_says_so(url: str) -> None:
    async def main() -> None:
        driver = HttpDriver(url)
        with pytest.raises(WrongConnection, match="over HTTP, which has no transactions"):
            driver.transaction()
        with pytest.raises(WrongConnection, match="after your own commit"):
            driver.enqueue_within(object(), [new("a")], now=1)
        with pytest.raises(InvalidInput):
            await driver.enqueue([new("a" * 9_999)], now=1)
        await driver.close()

    asyncio.run(main())


def test_pauses_between_attempts_grow_and_are_spread(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(linking, "_pause", noted)
    monkeypatch.setattr(linking, "_roll", lambda: 1.0)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(StoreUnreachable):
        HttpDriver(f"http://127.0.0.1:{port}/", timeout=1.0)
    assert pauses[:4] == [0.025, 0.05, 0.1, 0.2]


def test_a_worker_elsewhere_does_the_jobs_of_a_served_file(server: Server, tmp_path: Path) -> None:
    async def main() -> None:
        url = server.store(SqliteDriver(tmp_path / "jobs.db", durability="relaxed"), trust_now=False)
        remote = Windlass(url, log_root="none")

        @remote.task(name="double")
        async def double(n: int) -> int:
            return 2 * n

        async with remote, remote.running():
            jobs = await remote.enqueue_many(double.job(n) for n in range(20))
            assert [await job.result(timeout=30) for job in jobs] == [2 * n for n in range(20)]
        here = SqliteDriver(tmp_path / "jobs.db")
        rows = await here.get([job.id for job in jobs])
        await here.close()
        assert {row.state for row in rows if row} == {"succeeded"}

    asyncio.run(main())


def test_nothing_of_a_claimed_job_is_left_behind() -> None:
    """What a claim answers here, and over HTTP, is the same; but for the handle, which is the id there."""
    assert {*Claimed.__struct_fields__} - {"handle"} == {*Work.__struct_fields__}
