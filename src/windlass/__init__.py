"""Windlass: a durable job queue and scheduler for Python.

The public names are imported when they are first used, so that `windlass --version` does not pay for a worker.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.context import Context, current
    from windlass.copy_errors import StoreMoved
    from windlass.core.groups import Progress
    from windlass.core.uniqueness import dedupe_key
    from windlass.errors import (
        GroupNotFound,
        GroupRefused,
        HoldLost,
        JobCancelled,
        JobDead,
        JobNotFound,
        LeaseLost,
        ProcessDied,
        ResourceBusy,
        WindlassError,
    )
    from windlass.groups import GroupHandle
    from windlass.handles import JobHandle
    from windlass.parents import Parent
    from windlass.policies import Retry, backoff_delay_ms, can_retry, exponential, fixed, linear, rule, table
    from windlass.redaction import Secret
    from windlass.signals import Cancel, Reject, RetryAfter, Snooze

__version__ = "0.1.0.dev0"

_HOMES = {
    "windlass.app": ("Windlass",),
    "windlass.handles": ("JobHandle",),
    "windlass.context": ("Context", "current"),
    "windlass.copy_errors": ("StoreMoved",),
    "windlass.core.groups": ("Progress",),
    "windlass.core.uniqueness": ("dedupe_key",),
    "windlass.groups": ("GroupHandle",),
    "windlass.parents": ("Parent",),
    "windlass.errors": (
        "GroupNotFound",
        "GroupRefused",
        "HoldLost",
        "JobCancelled",
        "JobDead",
        "JobNotFound",
        "LeaseLost",
        "ProcessDied",
        "ResourceBusy",
        "WindlassError",
    ),
    "windlass.policies": ("Retry", "backoff_delay_ms", "can_retry", "exponential", "fixed", "linear", "rule", "table"),
    "windlass.redaction": ("Secret",),
    "windlass.signals": ("Cancel", "Reject", "RetryAfter", "Snooze"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Cancel",
    "Context",
    "GroupHandle",
    "GroupNotFound",
    "GroupRefused",
    "HoldLost",
    "JobCancelled",
    "JobDead",
    "JobHandle",
    "JobNotFound",
    "LeaseLost",
    "Parent",
    "ProcessDied",
    "Progress",
    "Reject",
    "ResourceBusy",
    "Retry",
    "RetryAfter",
    "Secret",
    "Snooze",
    "StoreMoved",
    "Windlass",
    "WindlassError",
    "backoff_delay_ms",
    "can_retry",
    "current",
    "dedupe_key",
    "exponential",
    "fixed",
    "linear",
    "rule",
    "table",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
