"""Tokens that let programs in."""

from __future__ import annotations

from windlass.core import tokens as rules
from windlass.core.alterations import AlterAnswer, CreateToken, NoteUse, OfTokens, RevokeToken
from windlass.drivers.memory.tables import Tables
from windlass.records import ApiToken
from windlass.types import Micros


def of_tokens(tables: Tables, change: OfTokens, now: Micros) -> AlterAnswer:
    if isinstance(change, CreateToken):
        return create(tables, change, now)
    token = tables.tokens.get(change.token_id)
    if token is None:
        return "not_found"
    match change:
        case RevokeToken():
            wanted, row = token.revoked_at is None, rules.revoked(token, now)
        case NoteUse():
            wanted, row = rules.needs_note(token, now), rules.used(token, now)
    if wanted:
        tables.put_in(tables.tokens, token.token_id, row)
    return "applied" if wanted else "unchanged"


def create(tables: Tables, change: CreateToken, now: Micros) -> AlterAnswer:
    if any(collides(change, token) for token in tables.tokens.values()):
        return "duplicate"
    tables.put_in(tables.tokens, change.token_id, rules.created(change, now))
    return "applied"


def collides(change: CreateToken, other: ApiToken) -> bool:
    named_alike = other.revoked_at is None and (other.name, other.org_id) == (change.name, change.org_id)
    return named_alike or other.token_id == change.token_id or other.digest == change.digest
