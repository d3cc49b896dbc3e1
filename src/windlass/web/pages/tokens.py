"""`/tokens`: who may come in by a token. The secret of a new one is shown once, in the answer to the form."""

from __future__ import annotations

from typing import Any, get_args

from msgspec import Struct

from windlass.errors import WindlassError
from windlass.principal import Scope
from windlass.web.answers import Page, Redirect
from windlass.web.pages.shell import Sure, Told, ask, done, page
from windlass.web.request import Request


class Form(Struct, frozen=True, kw_only=True):
    name: str = ""
    scopes: tuple[str, ...] = ()
    org: str = ""
    queues: str = ""
    expires_in: str = ""


async def show(request: Request[Told, None]) -> Page:
    return await _page(request, Form(scopes=("read",)))


async def _page(request: Request[Any, Any], form: Form, error: str = "", secret: str = "") -> Page:
    shown = {
        "tokens": (await request.admin.tokens()).tokens[::-1], "form": form, "error": error, "secret": secret,
        "scopes": get_args(Scope),
    }  # fmt: skip
    return await page(request, "tokens.html", "tokens", shown, 422 if error else 200)


async def create(request: Request[None, Form]) -> Page:
    form = request.body
    queues = tuple(name.strip() for name in form.queues.split(",") if name.strip()) or None
    try:
        _, secret = await request.admin.create_token(
            form.name.strip(), form.scopes, org_id=form.org.strip() or None, queues=queues,
            expires_in=form.expires_in.strip() or None,
        )  # fmt: skip
    except WindlassError as error:
        return await _page(request, form, str(error))
    return await _page(request, Form(scopes=("read",)), secret=secret)


async def revoke(request: Request[None, Sure]) -> Page | Redirect:
    if not request.body.sure:
        text = "It lets nobody in from now on, and who is signed in with it is signed out. This cannot be undone."
        return await ask(request, "tokens", "Revoke this token?", text, "Revoke", back="/tokens", danger=True)
    await request.admin.revoke_token(request.path["id"])
    return done("/tokens", "revoked")
