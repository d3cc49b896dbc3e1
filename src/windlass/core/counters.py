"""Arithmetic for rows that many jobs share. SQL runs the same formulas as deltas; memory calls these functions.

None of it may start from a value read earlier: two workers that both read "one left" and both write "none left" count
one ending instead of two.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.changes import Ending
from windlass.types import Group, Micros

MOST_COUNTED: Final = 2**53  # of failures and losses of one job. The stores refuse more: their migrations name the number


def one_more(count: int) -> int:
    """A counter that has come to its end stays there: one row that cannot be counted on must not stop its neighbours."""
    return min(count + 1, MOST_COUNTED)


def give_back(used: int, returned: int = 1) -> int:
    """Never below zero: a permit returned twice must not become a permit out of thin air."""
    return max(used - returned, 0)


def count_member(group: Group, ending: Ending, now: Micros, members: int = 1) -> Group:
    """So many members have ended. A group that has no member left is not counted further."""
    if group.remaining == 0:
        return group
    members = min(members, group.remaining)
    remaining = group.remaining - members
    return replace(
        group,
        remaining=remaining,
        succeeded=group.succeeded + members * (ending == "succeeded"),
        failed=group.failed + members * (ending == "failed"),
        cancelled=group.cancelled + members * (ending == "cancelled"),
        finished_at=now if remaining == 0 else None,
    )


def uncount_member(group: Group, ending: Ending) -> Group:
    """A member that had ended was brought back by a person."""
    if getattr(group, ending) == 0:
        return group
    return replace(
        group,
        remaining=group.remaining + 1,
        succeeded=group.succeeded - (ending == "succeeded"),
        failed=group.failed - (ending == "failed"),
        cancelled=group.cancelled - (ending == "cancelled"),
        finished_at=None,
    )


def refill(tokens: float, burst: float, per_second: float, elapsed: Micros) -> float:
    """A token bucket after `elapsed`; time that runs backwards adds nothing."""
    return min(burst, tokens + per_second * max(elapsed, 0) / SECOND)


def wait_for(tokens: float, per_second: float, wanted: float = 1.0) -> Micros:
    """How long until `wanted` tokens are there, rounded up so that nobody wakes a microsecond early."""
    missing = max(wanted - tokens, 0.0)
    return -int(-missing * SECOND // per_second)
