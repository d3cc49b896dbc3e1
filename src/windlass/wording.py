"""Durations, policies and errors as people say them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from windlass.clock import SECOND
from windlass.policies import DEFAULT_RETRY, Retry
from windlass.types import Job, Micros

UNKEPT: Final = "history of successes is not kept for this job (history='failures'): its usage is counted, it has no run"
_STEPS: Final = (("d", 86_400 * SECOND), ("h", 3_600 * SECOND), ("min", 60 * SECOND), ("s", SECOND))


def in_words(micros: Micros) -> str:
    """`250 ms`, `1 s`, `2 min 5 s`, `3 d 4 h`: at most two units, the smaller one rounded down."""
    if micros < SECOND:
        return f"{micros / 1_000:.3g} ms" if micros else "0 s"
    if micros < 10 * SECOND:
        return f"{micros / SECOND:.2g} s"
    for place, (unit, size) in enumerate(_STEPS):
        whole, rest = divmod(micros, size)
        if whole:
            smaller = _STEPS[place + 1] if place + 1 < len(_STEPS) else None
            part = rest // smaller[1] if smaller else 0
            return f"{whole} {unit} {part} {smaller[0]}" if smaller and part else f"{whole} {unit}"
    raise AssertionError("a second or more has a unit")


def rate_in_words(per_second: float) -> str:
    """`1,200/s`, `3.5/s`, `12/min`, `0.5/h`."""
    for unit, times in (("s", 1), ("min", 60), ("h", 3_600)):
        value = per_second * times
        if value >= 0.95 or unit == "h" or not value:
            break
    number = f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")
    return f"{number}/{unit}" if per_second else "0/s"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def are(count: int, noun: str) -> str:
    """`1 job is`, `2 jobs are`."""
    return f"{plural(count, noun)} {'is' if count == 1 else 'are'}"


def policy_in_words(job: Job) -> str:
    """`up to 6 executions, waits 1 s, 2 s, 4 s …`, and what follows a crash."""
    policy = DEFAULT_RETRY if job.retry_policy is None else Retry.decode(job.retry_policy)
    words = _executions(job, policy)
    if job.timeout_ns:
        words += f"; {in_words(job.timeout_ns // 1_000)} for each"
    if job.retry_mode == "new_job":
        words += "; each retry is a new job"
    if job.crash_policy == "fail":
        words += "; a crash counts as a failure"
    elif job.max_lost:
        words += f"; dead after {job.max_lost} crashes" if job.max_lost > 1 else "; dead after a crash"
    return words


def _executions(job: Job, policy: Retry) -> str:
    if job.max_attempts == 1:
        return "one execution, no retries"
    most = f"up to {job.max_attempts} executions" if job.max_attempts else "as many executions as it takes"
    shown = min(job.max_attempts - 1, 3) if job.max_attempts else 3
    waits = [policy.backoff.delay(n) for n in range(1, shown + 2)]
    if len(set(waits)) == 1:
        text = in_words(waits[0]) + (" each time" if shown > 1 else "")
    else:
        more = " …" if not job.max_attempts or job.max_attempts - 1 > shown else ""
        text = ", ".join(in_words(wait) for wait in waits[:shown]) + more
    jitter = {"none": "", "full": " (anything up to that)", "equal": " (half of it at random)"}[policy.jitter]
    return f"{most}, waits {text}{jitter}"


def named(names: Sequence[str], most: int) -> str:
    """`a, b and 998 more`: there may be thousands of them."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def relative(at: datetime, now: datetime) -> str:
    """`3 min ago`, `in 5 s`, `now`."""
    apart = round((at - now).total_seconds()) * SECOND
    if apart == 0:
        return "now"
    return f"in {in_words(apart)}" if apart > 0 else f"{in_words(-apart)} ago"


def age(at: datetime, now: datetime) -> str:
    """How long ago, in one unit: what a column has room for."""
    return " ".join(in_words(max(round((now - at).total_seconds()), 0) * SECOND).split()[:2])
