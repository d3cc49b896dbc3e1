"""Tokens for programs that call from outside: when one is valid, and when its use is noted."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import CreateToken
from windlass.records import ApiToken
from windlass.types import Micros

NOTED_EVERY: Final = 60 * SECOND  # a token may be used a thousand times a second: its use is written once a minute


def created(change: CreateToken, now: Micros) -> ApiToken:
    return ApiToken(
        token_id=change.token_id, name=change.name, digest=change.digest, scopes=change.scopes, org_id=change.org_id,
        queues=change.queues, expires_at=change.expires_at, created_at=now,
    )  # fmt: skip


def is_good(token: ApiToken, now: Micros) -> bool:
    """The instant of expiry is expired."""
    return token.revoked_at is None and (token.expires_at is None or token.expires_at > now)


def needs_note(token: ApiToken, now: Micros) -> bool:
    """Whether its last use was written so long ago that this one is news."""
    return token.last_used_at is None or token.last_used_at <= now - NOTED_EVERY


def used(token: ApiToken, now: Micros) -> ApiToken:
    return replace(token, last_used_at=now)


def revoked(token: ApiToken, now: Micros) -> ApiToken:
    return replace(token, revoked_at=now)
