"""What the process list of this machine tells everybody: secrets among the arguments of our own programs, and servers that
others can reach. Names a process, never what it says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from windlass.admin.views import Check
from windlass.principal import LOOKS
from windlass.urls import is_loopback, redacted

PROC: Final = Path("/proc")
_OURS: Final = re.compile(r"(?:^|/)windlass(?:$|[./])|^windlass$")
_URL: Final = re.compile(r"(?!sqlite:)[A-Za-z][A-Za-z0-9+.-]*:/|.*password\s*=", re.IGNORECASE | re.DOTALL)


def checks() -> list[Check]:
    """Nothing where there is no list to look at."""
    if not PROC.is_dir():
        return []
    found = [check for pid, arguments in running() for check in told_by(pid, arguments)]
    return found or [Check("process list", "ok", "no secret is among the arguments of a program of ours")]


def running() -> Iterator[tuple[int, list[str]]]:
    """As far as this user may see."""
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            try:
                said = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            yield int(entry.name), [os.fsdecode(part) for part in said.split(b"\0")[:-1]]


def told_by(pid: int, arguments: list[str]) -> Iterator[Check]:
    if not any(_OURS.search(argument) for argument in arguments):
        return
    who = f"process {pid}" + (", which is this one," if pid == os.getpid() else "")
    if any(is_secret(value) for value in values(arguments)):
        yield Check(
            "process list", "problem", f"{who} has a password or a token among its arguments, where every user of this "
            "machine can read it", "WINDLASS_URL, WINDLASS_TOKEN or PGPASSFILE instead of --store; then change the secret",
        )  # fmt: skip
    command = next((word for word in ("serve", "dev", "worker") if word in arguments), None)
    host = _after(arguments, "--host")
    if command in ("serve", "dev") and host is not None and not is_loopback(host) and "--tls-cert" not in _names(arguments):
        yield Check(
            "server", "warning", f"{who} answers others at {host} without TLS: tokens can be read on the "
            "way, unless a proxy before it encrypts", "windlass serve --tls-cert FILE --tls-key FILE",
        )  # fmt: skip
    metrics = (_after(arguments, "--metrics") or "").rpartition(":")[0]
    if command == "worker" and metrics and not is_loopback(metrics):
        yield Check(
            "metrics", "warning", f"{who} tells the names of queues and tasks to whoever can reach {metrics}",
            "windlass worker APP --metrics PORT, or a network that only your scraper is in",
        )  # fmt: skip


def is_secret(value: str) -> bool:
    return bool(LOOKS.search(value)) or (bool(_URL.match(value)) and redacted(value) != value)


def values(arguments: Iterable[str]) -> Iterator[str]:
    """`--store=URL` is two words in one."""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        yield value if name.startswith("--") and equals else argument


def _names(arguments: Iterable[str]) -> set[str]:
    return {argument.partition("=")[0] for argument in arguments}


def _after(arguments: list[str], name: str) -> str | None:
    for place, argument in enumerate(arguments):
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
        if argument == name and place + 1 < len(arguments):
            return arguments[place + 1]
    return None
