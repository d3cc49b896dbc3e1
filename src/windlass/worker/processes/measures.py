"""Measures what a run costs its process: CPU, and the most memory that it used. Also limits that memory."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.clock import SECOND

_MAXRSS: Final = 1 if sys.platform == "darwin" else 1_024  # the unit of ru_maxrss
_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")


def bound_memory(limit: int) -> None:
    """Allocations beyond it fail. Counted is what the process has asked for and may write to, not what is mapped: many
    libraries map far more than they use."""
    if limit:
        kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
        with suppress(ValueError, OSError):  # a lower bound is in force already
            resource.setrlimit(kind, (limit, limit))


def usage_of(usage: resource.struct_rusage) -> tuple[int, int]:
    """CPU in microseconds, peak of the resident memory in bytes."""
    return round((usage.ru_utime + usage.ru_stime) * SECOND), usage.ru_maxrss * _MAXRSS


def cpu_so_far() -> int:
    """Of this process and of those that it has waited for."""
    return sum(usage_of(resource.getrusage(who))[0] for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def forget_peak() -> None:
    """So that the next run's peak is its own. Where the kernel cannot, it is the largest of all runs so far."""
    with suppress(OSError):
        _CLEAR.write_text("5")


def memory() -> tuple[int, int]:
    """The peak since it was forgotten, and what is used now, in bytes."""
    peak = usage_of(resource.getrusage(resource.RUSAGE_SELF))[1]
    found: dict[str, int] = {}
    with suppress(OSError, ValueError):
        for line in _STATUS.read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("VmHWM", "VmRSS"):
                found[name] = int(value.split()[0]) * 1_024
    return found.get("VmHWM", peak), found.get("VmRSS", peak)
