"""Windlass: a durable job queue and scheduler for Python."""

from windlass.core.uniqueness import dedupe_key
from windlass.policies import Retry, backoff_delay_ms, can_retry, exponential, fixed, linear, rule, table

__version__ = "0.1.0.dev0"

__all__ = [
    "Retry",
    "backoff_delay_ms",
    "can_retry",
    "dedupe_key",
    "exponential",
    "fixed",
    "linear",
    "rule",
    "table",
]
