"""Who may use the API and the dashboard, as configured by whoever serves them."""

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
    """Whether there is a token that is not revoked. An expired one counts: it must not open the door to everybody."""
    return any(token.state != "revoked" for token in made.tokens)


@dataclass(frozen=True)
class Access:
    """Who is let in. API tokens of the store always are. `authenticate` asks the surrounding program (its own users, a
    proxy) who a request comes from. `anonymous` is who a caller without credentials is; None: such callers are refused.
    With `until_token`, `anonymous` ends as soon as the store has a token. `hosts` are the names, without a port, by which
    this server may be called; "*": any. A page under another name that resolves to this address is refused."""

    anonymous: Principal | None = None
    until_token: bool = False
    authenticate: Authenticate | None = None
    hosts: tuple[str, ...] = LOOPBACK
