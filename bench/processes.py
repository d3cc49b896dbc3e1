"""What a running worker costs, read from outside of it: the same for ours and for any other, whatever it is made of.

The standard library only, because the other side runs in an environment of its own.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

TICKS: Final = os.sysconf("SC_CLK_TCK")
PACE: Final = 0.002


def tree(pid: int) -> list[int]:
    """A process and whatever it has started."""
    found = [pid]
    with suppress(OSError):  # it may end while we look
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    return found


def rss_mb(pid: int) -> float:
    kilobytes = 0
    for one in tree(pid):
        with suppress(OSError):
            status = Path(f"/proc/{one}/status").read_text().splitlines()
            kilobytes += sum(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return kilobytes / 1024


def cpu_seconds(pid: int) -> float:
    """User and system time so far, in steps of a hundredth of a second."""
    ticks = 0
    for one in tree(pid):
        with suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS


def reaped_seconds(pid: int) -> float:
    """The same of its children that have ended: a server's sessions come and go."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[13]) + int(fields[14])) / TICKS
    return 0.0


def cpu_percent(pid: int, seconds: float) -> float:
    """Of one core, over so many seconds of doing whatever it does."""
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_seconds(pid) - before) / (time.monotonic() - began)


def latencies_ms(marks: Path) -> list[float]:
    """From just before the call that enqueued a job to the start of its handler. Handlers have left both times there."""
    return [(began - sent) * 1_000 for sent, began in marked(marks)]


def marked(marks: Path) -> list[tuple[float, float]]:
    """When each was sent, when its handler began."""
    written = marks.read_bytes() if marks.exists() else b""
    return list(struct.iter_unpack("dd", written[: len(written) // 16 * 16]))


def cdf(values: Sequence[float], points: int = 100) -> list[tuple[float, float]]:
    """So much of them is at most so long: from the smallest to the largest."""
    ordered = sorted(values)
    places = sorted({round((len(ordered) - 1) * n / points) for n in range(points + 1)})
    return [(round(ordered[place], 3), round((place + 1) / len(ordered), 4)) for place in places]


def percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """By the names that the plans know."""
    return {f"p{percent}_ms": percentile(values, percent) for percent in (50, 95, 99)}


def wait_until(reached: Callable[[], bool], seconds: float, otherwise: Callable[[], str], pace: float = PACE) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > deadline:
            raise SystemExit(otherwise())
        time.sleep(pace)
