"""Who may come in, as the one who serves says it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request as HttpRequest

from windlass.admin.tokens import TokenList
from windlass.principal import SCOPES, Principal

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
EVERY_SCOPE: Final = frozenset(SCOPES)
LOCAL: Final = Principal(actor="local", scopes=EVERY_SCOPE)  # whoever sits at this machine, where nobody asked for tokens

Authenticate = Callable[[HttpRequest], Awaitable[Principal | None]]


def is_closed(made: TokenList) -> bool:
    """Whether somebody made a token, and did not take it back. That one has expired opens no door."""
    return any(token.state != "revoked" for token in made.tokens)


@dataclass(frozen=True)
class Access:
    """API tokens of the store always count. `authenticate` asks the program around us (its own users, a proxy) who a
    request comes from. `anonymous` is who a caller without credentials is; None: nobody, it is refused. With `until_token`
    that ends as soon as the store has a token. `hosts` are the names by which we may be called, without a port: a page of
    another name that resolves to us is not us; "*": any."""

    anonymous: Principal | None = None
    until_token: bool = False
    authenticate: Authenticate | None = None
    hosts: tuple[str, ...] = LOOPBACK
