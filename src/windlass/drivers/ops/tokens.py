"""Tokens that let programs in: values → statements."""

from __future__ import annotations

from windlass.core.alterations import AlterAnswer, CreateToken, NoteUse, OfTokens, RevokeToken
from windlass.core.tokens import NOTED_EVERY
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.rows import to_json
from windlass.drivers.statement import Op
from windlass.types import Micros


def of_tokens(db: Dialect, change: OfTokens, now: Micros) -> Op[AlterAnswer]:
    match change:
        case CreateToken():
            rows = yield db.sql.create_token(
                token_id=change.token_id, name=change.name, digest=change.digest, scopes=to_json(change.scopes),
                org_id=change.org_id, queues=None if change.queues is None else to_json(change.queues),
                expires_at=change.expires_at, now=now,
            )  # fmt: skip
            return "applied" if rows else "duplicate"
        case RevokeToken():
            rows = yield db.sql.revoke_token(token_id=change.token_id, now=now)
        case NoteUse():
            rows = yield db.sql.note_use(token_id=change.token_id, before=now - NOTED_EVERY, now=now)
    if rows:
        return "applied"
    return "unchanged" if (yield db.sql.token_exists(token_id=change.token_id)) else "not_found"
