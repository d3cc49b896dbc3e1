"""Who asks, by which credential, and whether a page of another site may have made the browser ask."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from starlette.requests import Request as HttpRequest

from windlass.principal import Principal
from windlass.web.problems import Trouble
from windlass.web.route import Route
from windlass.web.sessions import cookie_of
from windlass.web.site import Site

OWN: Final = "its own jobs are listed by GET /api/jobs and counted by GET /api/matching"
NOBODY: Final = Principal(actor="nobody", scopes=frozenset())


class Caller(Struct, frozen=True):
    """`ambient`: the browser adds the credential by itself, so another site's page could use it."""

    principal: Principal | None
    ambient: bool


async def caller_of(site: Site, http: HttpRequest) -> Caller:
    """A token, else a session, else whom the program around us knows, else the one that nobody need be."""
    scheme, _, secret = http.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        found = await site.verify(secret.strip())
        if found is None and site.access.authenticate is not None:
            found = await site.access.authenticate(http)
        return Caller(found, ambient=False)
    found = await site.sessions.who(http.cookies.get(cookie_of(http), ""))
    if found is None and site.access.authenticate is not None:
        found = await site.access.authenticate(http)
    return Caller(found or await site.anonymous(), ambient=True)


def admitted(route: Route, principal: Principal | None) -> Principal:
    """The caller, if it may."""
    if route.scope is None:
        return principal or NOBODY
    if principal is None:
        raise Trouble(401, "unauthenticated", "send a token that is valid: Authorization: Bearer …")
    if not principal.may(route.scope):
        raise Trouble(403, "forbidden", f"this needs the scope {route.scope}, which your token does not have")
    if is_narrow(principal) and not route.tenants:
        raise Trouble(403, "forbidden", f"this concerns the whole store, and your token is for a part of it; {OWN}")
    return principal


def is_narrow(principal: Principal) -> bool:
    return principal.org_id is not None or principal.queues is not None


def check_fetched(http: HttpRequest, caller: Caller) -> None:
    """Refuse what a page of another site fetches with a credential that is not its own. It could not read the answer; it
    could open all streams that there may be. A link may lead here."""
    site, mode = http.headers.get("sec-fetch-site"), http.headers.get("sec-fetch-mode")
    if caller.ambient and caller.principal is not None and site in ("cross-site", "same-site") and mode != "navigate":
        raise Trouble(403, "cross-site", "a page of another site cannot do this")


def check_origin(http: HttpRequest, caller: Caller, form: Sequence[tuple[str, str]], csrf: str, *, is_page: bool) -> None:
    """Refuse what another site's page made a browser send. A browser says where an unsafe request comes from, and only a
    page of ours knows what belongs to its cookie. Other programs say neither; nobody can make them act for another."""
    if not caller.ambient:
        return
    site, origin = http.headers.get("sec-fetch-site"), http.headers.get("origin")
    ours = f"{http.url.scheme}://{http.headers.get('host', '')}"
    if (site is not None and site not in ("same-origin", "none")) or (origin is not None and origin != ours):
        raise Trouble(403, "cross-site", "a page of another site cannot do this")
    if is_page or site is not None or origin is not None or "cookie" in http.headers:
        given = http.headers.get("x-csrf-token") or dict(form).get("csrf", "")
        if not hmac.compare_digest(given.encode(), csrf.encode()):
            raise Trouble(403, "csrf", "this does not come from a page that we gave to you; load the page again")
