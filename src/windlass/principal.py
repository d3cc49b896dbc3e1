"""Who asks: a name for the audit log, what it may do, and the jobs that it may see."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Scope = Literal["enqueue", "read", "read:payload", "operate", "admin"]


class Principal(Struct, frozen=True):
    """`org_id` and `queues` narrow what exists for it; None: everything."""

    actor: str
    scopes: frozenset[Scope]
    org_id: str | None = None
    queues: tuple[str, ...] | None = None
