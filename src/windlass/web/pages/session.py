"""`/sign-in` and `/sign-out`: an API token is exchanged for a session cookie."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from windlass.web.answers import Page, Redirect
from windlass.web.request import Request
from windlass.web.sessions import cookie_of
from windlass.web.site import site_of


class Next(Struct, frozen=True):
    next: str = "/"


class SignIn(Struct, frozen=True):
    token: str
    next: str = "/"


async def ask(request: Request[Next, None]) -> Page:
    return Page("sign-in.html", await _shown(request, request.query.next, refused=False))


async def sign_in(request: Request[None, SignIn]) -> Page | Redirect:
    sessions, path = site_of(request.http).sessions, local(request.body.next)
    found = await sessions.begin(request.body.token.strip())
    who = None if found is None else await sessions.who(found)
    if found is None or who is None:
        return Page("sign-in.html", await _shown(request, request.body.next, refused=True), 403)
    path = "/jobs/new" if path == "/" and not who.may("read") else path  # all that there is for who may only enqueue
    return Redirect(path, {cookie_of(request.http): found})


async def _shown(request: Request[Any, Any], to: str, *, refused: bool) -> dict[str, Any]:
    """`onwards`: where somebody without a token may go, too."""
    onwards = local(to) if await site_of(request.http).anonymous() is not None else None
    return {"next": to, "refused": refused, "onwards": onwards}


async def sign_out(request: Request[None, None]) -> Redirect:
    cookie = cookie_of(request.http)
    site_of(request.http).sessions.end(request.http.cookies.get(cookie, ""))
    return Redirect("/sign-in", {cookie: None})


def local(path: str) -> str:
    """Never to another site: `//evil.example` and `/\\evil.example` are addresses of hosts."""
    return path if path.startswith("/") and path[1:2] not in ("/", "\\") and path.isprintable() else "/"
