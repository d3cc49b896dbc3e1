"""Reading who may come in, and what was done in whose name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.queries import AllTokens, AuditLog, AuditPage, LastAudited, OwnersOf, TokenByDigest
from windlass.drivers.memory.bounds import owners
from windlass.drivers.memory.tables import Tables
from windlass.records import AuditEntry


def access(
    tables: Tables, query: AllTokens | TokenByDigest | AuditLog | AuditPage | LastAudited | OwnersOf
) -> Sequence[Any]:  # fmt: skip
    match query:
        case AllTokens():
            return sorted(tables.tokens.values(), key=lambda token: (token.created_at, token.token_id))
        case TokenByDigest():
            return [token for token in tables.tokens.values() if token.digest == query.digest]
        case AuditLog():
            return [line for line in tables.audit if line.at >= query.since]
        case AuditPage():
            return audit_page(tables, query)
        case LastAudited():
            return [len(tables.audit)] if tables.audit else []
        case OwnersOf():
            return owners(tables, query.ids)


def audit_page(tables: Tables, query: AuditPage) -> list[AuditEntry]:
    found = [
        AuditEntry(number, line)
        for number, line in enumerate(tables.audit, 1)
        if query.after < number
        and (query.before is None or number < query.before)
        and line.at >= query.since
        and (query.actor is None or line.actor == query.actor)
        and (query.action is None or line.action == query.action or line.action.startswith(f"{query.action}."))
        and (query.subject is None or line.subject == query.subject)
        and (query.org_id is None or line.org_id == query.org_id)
    ]
    return found[::-1][: query.limit]
