"""A queue taken for direct execution: when a hold is over, and what each change makes of its row.

A hold is active from the moment it is asked for, so that nothing of its queue starts any more, and granted when what ran
has ended. Its time counts from the last renewal, unless it had more. One whose time is over is stale: the next who meets
it, a claim or somebody who wants the queue, ends it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from windlass.core.alterations import Acquire
from windlass.records import AuditLine
from windlass.types import Hold, HoldStatus, Micros

KEPT: Final[Micros] = 7 * 86_400 * 1_000_000  # ended holds of a queue, until it is held again


def is_valid(hold: Hold, now: Micros) -> bool:
    """The instant of expiry is expired."""
    return hold.status == "ACTIVE" and hold.expires_at > now


def acquired(change: Acquire, now: Micros) -> Hold:
    return Hold(
        hold_id=change.hold_id, queue=change.queue, by=change.by, status="ACTIVE", reserved_at=now, granted_at=None,
        expires_at=now + change.expires_in,
    )  # fmt: skip


def renewed(hold: Hold, expires_in: Micros, now: Micros, *, granted: bool) -> Hold:
    """The hold with its time beginning anew, also when it is granted. A renewal that was overtaken shortens nothing,
    because its holder relies on a later one."""
    granted_at = hold.granted_at if hold.granted_at is not None or not granted else now
    return replace(hold, expires_at=max(hold.expires_at, now + expires_in), granted_at=granted_at)


def ended(hold: Hold, status: HoldStatus, now: Micros) -> Hold:
    return replace(hold, status=status, ended_at=now)


def line_of(hold: Hold, action: str, actor: str, now: Micros) -> AuditLine:
    """The line of the audit log: whose hold it was, and when its time was over."""
    detail = {"hold_id": hold.hold_id, "by": hold.by, "granted_at": hold.granted_at, "expires_at": hold.expires_at}
    return AuditLine(
        at=now, actor=actor, action=action, subject=f"queue:{hold.queue}", detail=msgspec.json.encode(detail).decode()
    )
