"""Checks of tokens and of notes in the audit log, before anything is written."""

from __future__ import annotations

from windlass.core.alterations import CreateToken, Note, OfTokens
from windlass.core.fields import check_id, check_instant, check_name, check_number, check_once, check_one_of, check_text
from windlass.errors import InvalidInput, shown
from windlass.principal import SCOPES

DIGEST = 32  # bytes of a SHA-256


def check_access(change: OfTokens | Note) -> None:
    if isinstance(change, Note):
        check_name("action", change.action)
        check_name("subject", change.subject)
        check_number("count", change.count)
        if change.detail is not None:
            check_text("detail", change.detail)
    else:
        check_token(change)


def check_token(change: OfTokens) -> None:
    check_id(change.token_id)
    if isinstance(change, CreateToken):
        check_name("name", change.name)
        digest: object = change.digest
        if not isinstance(digest, bytes) or len(digest) != DIGEST:
            raise InvalidInput("digest", f"must be the {DIGEST} bytes of a SHA-256")
        check_names("scopes", change.scopes)
        for scope in change.scopes:
            check_one_of("scopes", scope, frozenset(SCOPES))
        if change.org_id is not None:
            check_name("org_id", change.org_id)
        if change.queues is not None:
            check_names("queues", change.queues)
        if change.expires_at is not None:
            check_instant("expires_at", change.expires_at, first=1)  # one that begins with its end is none


def check_names(field: str, values: object) -> None:
    if not isinstance(values, tuple) or not values:
        raise InvalidInput(field, f"give at least one, in a tuple, got {shown(values)}")
    for value in values:
        check_name(field, value)
    check_once(field, values)
