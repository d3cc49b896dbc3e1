"""Tokens as people see them: made, listed, revoked; and who it is that comes with one."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Literal

from msgspec import Struct

from windlass.client import Client
from windlass.clock import duration, moment
from windlass.core.alterations import CreateToken, NoteUse, RevokeToken
from windlass.core.queries import AllTokens, TokenByDigest
from windlass.core.tokens import is_good, needs_note
from windlass.errors import InUse, InvalidInput, StoreError, UnknownToken
from windlass.policies import Duration
from windlass.principal import Principal, digest_of, looks_right, new_token
from windlass.records import ApiToken
from windlass.types import Micros
from windlass.words import did_you_mean


class TokenView(Struct, frozen=True, kw_only=True):
    """A token without its secret. `last_used_at` is exact to the minute."""

    id: str
    name: str
    state: Literal["good", "expired", "revoked"]
    scopes: tuple[str, ...]
    org_id: str | None
    queues: tuple[str, ...] | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class TokenList(Struct, frozen=True, kw_only=True):
    at: datetime
    tokens: tuple[TokenView, ...]


async def listed(client: Client) -> TokenList:
    now = client.now()
    return TokenList(at=moment(now), tokens=tuple(_view(row, now) for row in await client.driver.read(AllTokens())))


async def create(
    client: Client, name: str, scopes: Iterable[str], org_id: str | None, queues: Iterable[str] | None,
    expires_in: Duration | None,
) -> tuple[TokenView, str]:  # fmt: skip
    for field, given in (("scopes", scopes), ("queues", queues)):
        if isinstance(given, str):
            raise InvalidInput(field, f"give several names, such as ({given!r},), not one text")
    now, secret = client.now(), new_token()
    term = None if expires_in is None else duration(expires_in, field="expires_in")
    if term == 0:
        raise InvalidInput("expires_in", "must be more than zero")
    change = CreateToken(
        token_id=client.ids.job(now), name=name, digest=digest_of(secret), scopes=tuple(scopes), org_id=org_id,
        queues=None if queues is None else tuple(queues), expires_at=None if term is None else now + term,
    )  # fmt: skip
    [answer] = await client.driver.alter([change], now=now)
    if answer == "duplicate":
        raise InUse(f"a token named {name!r} is there already; revoke it first, or take another name")
    return await named(client, change.token_id), secret


async def revoke(client: Client, token: str) -> TokenView:
    """Revoke a token, given by its id, or by its name if only one token that is not revoked has it."""
    rows = await client.driver.read(AllTokens())
    found = [row for row in rows if row.token_id == token]
    found = found or [row for row in rows if row.name == token and row.revoked_at is None]
    if not found:
        raise UnknownToken(token, did_you_mean(token, [row.name for row in rows if row.revoked_at is None]))
    if len(found) > 1:
        raise InvalidInput("token", f"tokens of several orgs are named {token!r}; name it by its id")
    await client.driver.alter([RevokeToken(found[0].token_id)], now=client.now())
    return await named(client, found[0].token_id)


async def named(client: Client, token_id: str) -> TokenView:
    for row in await client.driver.read(AllTokens()):
        if row.token_id == token_id:
            return _view(row, client.now())
    raise UnknownToken(token_id)


async def authenticate(client: Client, secret: str) -> Principal | None:
    """Whose secret this is. None for every reason, so that a caller learns nothing from the refusal."""
    if not looks_right(secret):
        return None
    digest, now = digest_of(secret), client.now()
    rows = await client.driver.read(TokenByDigest(digest=digest))
    if not rows or not hmac.compare_digest(rows[0].digest, digest) or not is_good(rows[0], now):
        return None
    [token] = rows
    if needs_note(token, now):
        with suppress(StoreError):  # a store that only answers lets people in all the same
            await client.driver.alter([NoteUse(token.token_id)], now=now)
    return Principal(
        actor=f"token:{token.name}", scopes=frozenset(token.scopes), org_id=token.org_id, queues=token.queues
    )  # fmt: skip


def _view(row: ApiToken, now: Micros) -> TokenView:
    return TokenView(
        id=row.token_id, name=row.name,
        state="revoked" if row.revoked_at is not None else "good" if is_good(row, now) else "expired",
        scopes=row.scopes, org_id=row.org_id, queues=row.queues, created_at=moment(row.created_at),
        expires_at=_at(row.expires_at), last_used_at=_at(row.last_used_at), revoked_at=_at(row.revoked_at),
    )  # fmt: skip


def _at(value: Micros | None) -> datetime | None:
    return None if value is None else moment(value)
