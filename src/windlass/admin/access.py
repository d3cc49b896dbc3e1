"""The part of `Admin` that is about who may come in."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.admin import tokens as book
from windlass.admin.tokens import TokenList, TokenView
from windlass.client import Client
from windlass.policies import Duration
from windlass.principal import Principal


class Access:
    client: Client

    async def tokens(self) -> TokenList:
        """Every token that was made, without its secret, in the order in which they were."""
        return await book.listed(self.client)

    async def create_token(
        self, name: str, scopes: Iterable[str], org_id: str | None = None, queues: Iterable[str] | None = None,
        expires_in: Duration | None = None,
    ) -> tuple[TokenView, str]:  # fmt: skip
        """A new token and its secret, which is told here and never again."""
        return await book.create(self.client, name, scopes, org_id, queues, expires_in)

    async def revoke_token(self, token: str) -> TokenView:
        """By id or name. It lets nobody in from now on."""
        return await book.revoke(self.client, token)

    async def authenticate(self, secret: str) -> Principal | None:
        """Who comes with this secret; None when it is not good, whyever."""
        return await book.authenticate(self.client, secret)
