"""Signed-in browsers. A session is a random name in a cookie, and here, in this process, the token that it stands for.

Every request asks the store about the token again, so revoking it ends the session. A restart asks people to sign in."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request as HttpRequest

from windlass.principal import Principal
from windlass.types import Micros

LIFE: Final = 12 * 3600 * 1_000_000
MOST: Final = 1_000  # the oldest of the token that has most of them makes room: nobody signs out others by signing in
SESSION_COOKIES: Final = ("__Host-windlass", "windlass")

Verify = Callable[[str], Awaitable[Principal | None]]


@dataclass(frozen=True)
class Session:
    token: str
    ends_at: Micros


class Sessions:
    def __init__(self, verify: Verify, now: Callable[[], Micros]) -> None:
        self._verify = verify
        self._now = now
        self._known: dict[str, Session] = {}

    async def begin(self, token: str) -> str | None:
        """A new session for a token that is valid, by a name that nobody had before."""
        if await self._verify(token) is None:
            return None
        name = new_name()
        self._known[name] = Session(token, self._now() + LIFE)
        if len(self._known) > MOST:
            [(crowd, _)] = Counter(session.token for session in self._known.values()).most_common(1)
            del self._known[next(name for name, session in self._known.items() if session.token == crowd)]
        return name

    async def who(self, name: str) -> Principal | None:
        session = self._known.get(name)
        if session is None:
            return None
        found = await self._verify(session.token) if self._now() < session.ends_at else None
        if found is None:
            self.end(name)
        return found

    def has(self, name: str) -> bool:
        """Whether somebody signed in under it. Who did not has nothing to sign out of."""
        return name in self._known

    def end(self, name: str) -> None:
        self._known.pop(name, None)


def new_name() -> str:
    return secrets.token_urlsafe(32)


def csrf_of(name: str) -> str:
    """What only a page that we gave to the owner of the cookie can send back. The name cannot be found from it."""
    return hashlib.sha256(f"windlass csrf {name}".encode()).hexdigest()


def cookie_of(http: HttpRequest) -> str:
    """Browsers take `__Host-` cookies over TLS only; without it we are on loopback."""
    return SESSION_COOKIES[http.url.scheme != "https"]
