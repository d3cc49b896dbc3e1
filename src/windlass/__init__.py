"""Windlass: a durable job queue and scheduler for Python."""

from windlass.app import Windlass
from windlass.client import JobHandle
from windlass.context import Context, current
from windlass.core.uniqueness import dedupe_key
from windlass.errors import JobCancelled, JobDead, JobNotFound, LeaseLost, WindlassError
from windlass.policies import Retry, backoff_delay_ms, can_retry, exponential, fixed, linear, rule, table
from windlass.signals import Cancel, Reject, RetryAfter, Snooze

__version__ = "0.1.0.dev0"

__all__ = [
    "Cancel",
    "Context",
    "JobCancelled",
    "JobDead",
    "JobHandle",
    "JobNotFound",
    "LeaseLost",
    "Reject",
    "Retry",
    "RetryAfter",
    "Snooze",
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
