"""Which addresses may be called, in every disguise."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from windlass.errors import InvalidInput
from windlass.outgoing import Forbidden, Networks, Sender
from windlass.outgoing.addresses import is_public
from windlass.outgoing.sending import resolve

METADATA = [
    "169.254.169.254", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "169.254.43518",
    "169.16689662", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::169.254.169.254]", "[64:ff9b::169.254.169.254]",
    "[2002:a9fe:a9fe::1]", "[0:0:0:0:0:ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]",
]  # fmt: skip
LOCAL = [
    "127.0.0.1", "127.1", "0x7f.1", "2130706433", "017700000001", "0.0.0.00", "0", "[::1]", "[::]", "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]", "localhost", "127.255.255.254",
]  # fmt: skip
PRIVATE = [
    "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1", "192.0.0.1", "192.0.2.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "0.1.2.3", "192.88.99.1", "[fd00::1]",
    "[fc00::1]", "[fe80::1]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[2001::1]", "[2002:0a00:0001::]", "[100::1]",
    "[64:ff9b:1::1]", "[64:ff9b::10.0.0.1]", "[::ffff:10.0.0.1]", "[4000::1]", "[5f00::1]", "[3fff::1]",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::808:808", "2002:0808:0808::1"]


def called(url: str, sender: Sender | None = None) -> Sequence[str]:
    return asyncio.run((sender or Sender()).check(url))


@pytest.mark.parametrize("host", METADATA + LOCAL + PRIVATE)
def test_nothing_leads_to_a_network_that_is_not_public(host: str) -> None:
    with pytest.raises(Forbidden, match="not of the public internet"):
        called(f"https://{host}/latest/meta-data")


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_called(address: str) -> None:
    assert is_public(ip_address(address))


def test_nothing_is_public_that_the_library_calls_private() -> None:
    rng = random.Random(7)
    drawn: list[IPv4Address | IPv6Address] = [IPv4Address(rng.getrandbits(32)) for _ in range(20_000)]
    drawn += [IPv6Address((0b001 << 125) | rng.getrandbits(125)) for _ in range(5_000)]
    drawn += [IPv6Address((0xFFFF << 32) | rng.getrandbits(32)) for _ in range(5_000)]
    assert sum(map(is_public, drawn)) > 10_000, "next to nothing may be called"
    for address in drawn:
        plain = getattr(address, "ipv4_mapped", None) or address
        assert not is_public(address) or (plain.is_global and not plain.is_multicast), address


def names(*answers: Sequence[str]) -> Sender:
    left = list(answers)

    async def answer(host: str, port: int) -> Sequence[str]:
        return left.pop(0)

    return Sender(Networks("10.1.0.0/16"), resolve=answer)


def test_one_bad_address_among_good_ones_is_enough() -> None:
    with pytest.raises(Forbidden):
        called("https://example.com/", names(["93.184.216.34", "127.0.0.1"]))
    with pytest.raises(Forbidden):
        called("https://example.com/", names(["2606:4700::1", "fe80::1%eth0"]))
    assert called("https://example.com/", names(["93.184.216.34"])) == ["93.184.216.34"]


def test_a_listed_network_may_be_called_by_http_and_at_any_port() -> None:
    assert called("http://inside:8080/", names(["10.1.2.3"])) == ["10.1.2.3"]
    assert called("http://inside/", names(["::ffff:10.1.2.3"])) == ["::ffff:10.1.2.3"]
    with pytest.raises(Forbidden):
        called("http://inside/", names(["10.2.0.1"]))


def test_the_public_internet_is_called_by_https_and_at_listed_ports() -> None:
    with pytest.raises(Forbidden, match="https"):
        called("http://example.com/", names(["93.184.216.34"]))
    with pytest.raises(Forbidden, match="https"):
        called("http://example.com/", names(["93.184.216.34", "10.1.0.1"]))
    with pytest.raises(Forbidden, match="port 22"):
        called("https://example.com:22/", names(["93.184.216.34"]))


def test_a_name_without_an_address_is_an_error_of_the_network() -> None:
    with pytest.raises(OSError, match="no address"):
        called("https://example.com/", names([]))


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.1/8", "example.com", "10.0.0.0/8;127.0.0.1", "::/200"])
def test_networks_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="webhook_networks"):
        Networks(text)


def test_a_silent_name_server_does_not_keep_the_threads_that_others_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking up happens in threads of its own, and who gives up does not wait for them."""

    async def main() -> None:
        import threading

        go = threading.Event()
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: go.wait(30) and [])
        waiting = [asyncio.create_task(resolve("slow.example", 443)) for _ in range(40)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 5) == 7
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        go.set()

    asyncio.run(main())
