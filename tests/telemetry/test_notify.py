"""Word to the service manager, over a real socket."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from windlass.telemetry.notify import ServiceManager, announced, service_manager


@contextmanager
def manager_at(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        end.settimeout(5)
        yield end


def heard(end: socket.socket) -> list[str]:
    return end.recv(4_096).decode().split("\n")


def all_heard(end: socket.socket) -> list[str]:
    """The first line of each message that has come."""
    end.setblocking(False)
    found = []
    try:
        while True:
            found.append(heard(end)[0])
    except BlockingIOError:
        return found


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_a_service_manager_hears_that_we_are_ready_and_that_we_stop(kind: str, tmp_path: Path) -> None:
    address = str(tmp_path / "notify") if kind == "path" else f"@windlass-{secrets.token_hex(8)}"

    async def play() -> None:
        ready, stopping = asyncio.Event(), asyncio.Event()
        async with announced(service_manager({"NOTIFY_SOCKET": address}), ready, stopping, "serves mail"):
            await asyncio.sleep(0.01)
            assert all_heard(end) == []
            ready.set()
            await asyncio.sleep(0.01)
            end.setblocking(True)
            assert heard(end) == ["READY=1", "STATUS=serves mail"]
            stopping.set()
            await asyncio.sleep(0.01)
            assert all_heard(end) == ["STOPPING=1"]
        assert all_heard(end) == []

    with manager_at(address) as end:
        asyncio.run(play())


def test_one_that_ends_by_itself_says_so(tmp_path: Path) -> None:
    async def play() -> None:
        ready = asyncio.Event()
        ready.set()
        async with announced(ServiceManager(address), ready, asyncio.Event(), "drains"):
            await asyncio.sleep(0.01)

    address = str(tmp_path / "notify")
    with manager_at(address) as end:
        asyncio.run(play())
        assert all_heard(end) == ["READY=1", "STOPPING=1"]


def test_signs_of_life_come_before_it_is_ready_and_after_it_was_told_to_stop(tmp_path: Path) -> None:
    async def play() -> None:
        ready, stopping = asyncio.Event(), asyncio.Event()
        environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": str(os.getpid())}
        async with announced(service_manager(environment), ready, stopping, "serves"):
            for event in (ready, stopping, asyncio.Event()):
                async with asyncio.timeout(5):
                    while "WATCHDOG=1" not in all_heard(end):  # noqa: ASYNC110 - nothing tells a loop of it
                        await asyncio.sleep(0.002)
                event.set()
                await asyncio.sleep(0)

    address = str(tmp_path / "notify")
    with manager_at(address) as end:
        asyncio.run(play())


def test_an_event_loop_that_hangs_gives_no_sign_of_life(tmp_path: Path) -> None:
    async def play() -> None:
        async with announced(ServiceManager(address, every=0.005), asyncio.Event(), asyncio.Event(), "serves"):
            await asyncio.sleep(0.02)
            all_heard(end)
            end.settimeout(0.05)
            with pytest.raises(TimeoutError):
                end.recv(100)  # blocks the loop meanwhile, as a handler would

    address = str(tmp_path / "notify")
    with manager_at(address) as end:
        asyncio.run(play())


def test_what_the_environment_says_is_for_this_process_alone() -> None:
    environment = {
        "NOTIFY_SOCKET": "/run/notify",
        "WATCHDOG_USEC": "3000000",
        "WATCHDOG_PID": str(os.getpid()),
        "HOME": "/",
    }
    found = service_manager(environment)
    assert found is not None
    assert (found.every, environment) == (1.5, {"HOME": "/"})


@pytest.mark.parametrize(
    ("said", "every"),
    [
        ({"WATCHDOG_USEC": "1000000"}, 0.5), ({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None), ({"WATCHDOG_USEC": "0"}, None), ({}, None),
    ],
)  # fmt: skip
def test_signs_of_life_are_given_to_whoever_asks_this_process_for_them(said: dict[str, str], every: float | None) -> None:
    found = service_manager({"NOTIFY_SOCKET": "/run/notify", **said})
    assert found is not None
    assert found.every == every


@pytest.mark.parametrize("address", ["", "relative", "vsock:2:1"])
def test_nobody_is_told_where_nobody_can_be_reached(address: str) -> None:
    assert service_manager({"NOTIFY_SOCKET": address}) is None


def test_a_service_manager_that_is_gone_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ServiceManager(str(tmp_path / "nobody")).tell("READY=1")
    assert "cannot be told READY=1" in caplog.text
