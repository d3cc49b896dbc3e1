"""`/api/tokens`: who may come in by the API."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from windlass.admin.tokens import TokenList, TokenView
from windlass.principal import Scope
from windlass.web.request import Request


class TokenWish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="as the audit log will name its bearer")]
    scopes: tuple[Scope, ...]
    org_id: Annotated[str | None, Meta(description="only what belongs to this organisation")] = None
    queues: Annotated[tuple[str, ...] | None, Meta(description="only these queues")] = None
    expires_in: Annotated[str | float | None, Meta(description="seconds, or text such as 90d; else never")] = None


class NewToken(Struct, frozen=True):
    """`secret` is told here and never again."""

    token: TokenView
    secret: str


async def listed(request: Request[None, None]) -> TokenList:
    """Every token that was made, without its secret."""
    return await request.admin.tokens()


async def create(request: Request[None, TokenWish]) -> NewToken:
    """Make a token."""
    wish = request.body
    view, secret = await request.admin.create_token(wish.name, wish.scopes, wish.org_id, wish.queues, wish.expires_in)
    return NewToken(view, secret)


async def revoke(request: Request[None, None]) -> TokenView:
    """By id or name. It lets nobody in from now on."""
    return await request.admin.revoke_token(request.path["token"])
