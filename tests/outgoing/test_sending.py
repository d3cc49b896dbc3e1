"""One request to receivers that misbehave: bounded time, bounded memory, nothing followed, nothing trusted."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from outgoing.receiver import LOOPBACK, Receiver, drip, endless, posted, raw, receiving, status
from windlass.clock import SECOND
from windlass.core.webhooks import Answer
from windlass.outgoing import Sender
from windlass.outgoing.sending import READ_MOST, pause_asked

HASTY = Sender(LOOPBACK, timeout=SECOND // 2)


def test_a_request_is_what_it_should_be() -> None:
    async def main() -> None:
        async with receiving(status(200, "thanks")) as there:
            url = f"http://127.0.0.1:{there.port}/päth?a=b&c=ü"
            answer = await Sender(LOOPBACK).post(url, {"webhook-id": "m", "webhook-signature": "v1,x"}, b'{"a":1}')
            assert (answer.status, answer.body, answer.is_success) == (200, "thanks", True)
            [request] = there.requests
            assert request.line == "POST /p%C3%A4th?a=b&c=%C3%BC HTTP/1.1"
            assert request.body == b'{"a":1}'
            assert request.headers["host"] == f"127.0.0.1:{there.port}"
            assert request.headers["content-type"] == "application/json"
            assert request.headers["user-agent"].startswith("windlass/")
            assert (request.headers["webhook-id"], request.headers["webhook-signature"]) == ("m", "v1,x")

    asyncio.run(main())


@pytest.mark.parametrize(("code", "good"), [(200, True), (201, True), (204, True), (299, True), (300, False), (400, False)])
def test_only_two_hundreds_are_a_success(code: int, good: bool) -> None:
    async def main() -> None:
        async with receiving(status(code)) as there:
            assert (await posted(there.url)).is_success is good

    asyncio.run(main())


@pytest.mark.parametrize("where", ["http://169.254.169.254/latest/", "/elsewhere", "//127.0.0.1/x"])
def test_a_redirect_is_not_followed(where: str) -> None:
    async def main() -> Answer:
        async with receiving(status(302, location=where)) as there:
            answer = await posted(there.url)
            assert len(there.requests) == 1
            return answer

    answer = asyncio.run(main())
    assert (answer.status, answer.is_success, answer.error) == (302, False, "redirects are not followed (302)")


@pytest.mark.parametrize(
    "bad",
    [
        lambda: raw(b"", then=30), lambda: raw(b"HTTP/1.1 200 OK\r\n", then=30),
        lambda: raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", then=30),
        lambda: drip(b"HTTP/1.1 200 OK\r\nx: y\r\n", 0.05),
        lambda: drip(b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n" + b"a" * 4000, 0.01),
    ],
    ids=["silent", "half a head", "half a body", "a head by drops", "a body by drops"],
)  # fmt: skip
def test_a_slow_receiver_is_left_when_its_time_is_over(bad: Callable[[], Any]) -> None:
    async def main() -> None:
        async with receiving(bad()) as there:
            answer = await asyncio.wait_for(posted(there.url, HASTY), 5)
            assert (answer.status, answer.error) == (None, "no whole answer within 0.5 s")
            assert answer.took < 4 * SECOND

    asyncio.run(main())


def test_of_ten_gigabytes_the_beginning_is_read() -> None:
    async def main() -> None:
        there: Receiver
        async with receiving() as there:
            there.answers = [endless(there)]
            tracemalloc.start()
            answer = await asyncio.wait_for(posted(there.url), 15)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert (answer.status, answer.body) == (200, "x" * READ_MOST)
            assert peak < 20_000_000
            assert there.sent < 100_000_000

    asyncio.run(main())


@pytest.mark.parametrize(
    "said",
    [
        b"SMTP ready\r\n\r\n",
        b"HTTP/1.1 999999 x\r\n\r\n",
        b"",
        b"\x00" * 100,
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 40_000,
    ],
    ids=["another protocol", "no status", "nothing", "zeros", "endless head"],
)
def test_what_is_no_answer_is_an_error(said: bytes) -> None:
    async def main() -> None:
        async with receiving(raw(said)) as there:
            answer = await asyncio.wait_for(posted(there.url, HASTY), 5)
            assert answer.status is None
            assert answer.error

    asyncio.run(main())


def test_a_body_that_breaks_off_does_not_undo_the_status() -> None:
    async def main() -> None:
        async with receiving(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nabc")) as there:
            answer = await posted(there.url)
            assert (answer.status, answer.body, answer.is_success) == (200, "abc", True)

    asyncio.run(main())


def test_a_port_where_nobody_listens_is_an_error() -> None:
    async def main() -> None:
        async with receiving() as there:
            url = there.url
        answer = await posted(url)
        assert answer.status is None
        assert "Connect" in (answer.error or "")

    asyncio.run(main())


def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with receiving() as there, receiving() as proxy:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
            assert (await posted(there.url)).is_success
            assert (len(there.requests), proxy.connections) == (1, 0)

    asyncio.run(main())


# ----------------------------------------------------------------------------------------------------- changing names


def test_a_name_is_resolved_once_and_what_was_judged_is_called() -> None:
    """A name that changes between the look and the connection leads nowhere else."""

    async def main() -> None:
        async with receiving() as good, receiving() as bad:
            asked: list[str] = []

            async def changing(host: str, port: int) -> Sequence[str]:
                asked.append(host)
                return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

            sender = Sender(LOOPBACK, resolve=changing)
            answer = await sender.post(f"http://changing.example:{good.port}/", {}, b"{}")
            assert answer.is_success
            assert (asked, bad.connections) == (["changing.example"], 0)
            assert good.requests[0].headers["host"] == f"changing.example:{good.port}"

    asyncio.run(main())


def test_a_name_that_leads_inside_by_the_time_it_is_called_is_refused() -> None:
    async def main() -> None:
        async with receiving() as inside:
            answers = [["93.184.216.34"], ["127.0.0.1"]]

            async def rebinding(host: str, port: int) -> Sequence[str]:
                return answers.pop(0)

            sender = Sender(resolve=rebinding, ports=(443, inside.port))
            url = f"https://rebinding.example:{inside.port}/"
            assert await sender.check(url) == ["93.184.216.34"]
            answer = await sender.post(url, {}, b"{}")
            assert "not of the public internet" in (answer.error or "")
            assert inside.connections == 0

    asyncio.run(main())


def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async def main() -> None:
        async with receiving() as there:

            async def two(host: str, port: int) -> Sequence[str]:
                return ["::1", "127.0.0.1"]

            assert (await Sender(LOOPBACK, resolve=two).post(f"http://two.example:{there.port}/", {}, b"{}")).is_success

    asyncio.run(main())


# ---------------------------------------------------------------------------------------------------------------- TLS


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of good.example, signed by itself."""
    place = tmp_path_factory.mktemp("tls")
    key, cert = place / "key.pem", place / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=good.example",
         "-addext", "subjectAltName=DNS:good.example", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def server_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@pytest.mark.parametrize(
    ("host", "trusted", "good"),
    [("good.example", True, True), ("bad.example", True, False), ("good.example", False, False)],
)
def test_a_certificate_is_checked_against_the_name(
    certificate: tuple[Path, Path], host: str, trusted: bool, good: bool
) -> None:
    """Although the connection goes to an address."""

    async def main() -> None:
        tls = ssl.create_default_context(cafile=str(certificate[0]) if trusted else None)
        async with receiving(tls=server_context(certificate)) as there:
            sender = Sender(LOOPBACK, resolve=loopback, tls=tls)
            answer = await sender.post(f"https://{host}:{there.port}/", {}, b"{}")
            assert answer.is_success is good
            assert good or "certificate verify failed" in (answer.error or "")
            assert len(there.requests) == good

    asyncio.run(main())


def test_a_receiver_that_speaks_no_tls_is_an_error() -> None:
    async def main() -> None:
        async with receiving(raw(b"hello there\r\n\r\n")) as there:
            answer = await Sender(LOOPBACK, resolve=loopback, timeout=2 * SECOND).post(
                f"https://good.example:{there.port}/", {}, b"{}"
            )
            assert answer.status is None
            assert answer.error

    asyncio.run(main())


# -------------------------------------------------------------------------------------------------------- Retry-After


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "120"}, 120), ({"retry-after": " 7 "}, 7), ({}, None), ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None), ({"retry-after": "9" * 400}, 10**9), ({"retry-after": "٣"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:27:00 GMT"}, 60),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 09:27:00 GMT"}, 0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
    ],
)  # fmt: skip
def test_a_pause_is_read_in_seconds_or_as_a_date(headers: dict[str, str], seconds: int | None) -> None:
    assert pause_asked(headers) == (None if seconds is None else seconds * SECOND)
