"""One request, from its route to its answer: who asks, may they, what did they say, what does the handler answer."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from msgspec import Struct
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response

from windlass.principal import Principal, Scope
from windlass.web.answers import Page, Redirect, Text
from windlass.web.encoding import decoded_json, decoded_pairs, encoded
from windlass.web.gate import log, problem_response
from windlass.web.problems import Trouble, problem_of, trouble_of
from windlass.web.request import Request
from windlass.web.routes import Route
from windlass.web.sessions import cookie_of, csrf_of, new_name
from windlass.web.site import Site, verified

NOBODY: Final = Principal("nobody", frozenset())
FORM: Final = "application/x-www-form-urlencoded"


class Caller(Struct, frozen=True):
    """`ambient`: the browser adds the credential by itself, so another site's page could use it."""

    principal: Principal | None
    ambient: bool


def endpoint(site: Site, routes: dict[str, Route]) -> Callable[[HttpRequest], Awaitable[Response]]:
    """All methods of one path."""

    async def answer(http: HttpRequest) -> Response:
        route = routes["GET" if http.method == "HEAD" else http.method]
        try:
            return await _answered(site, route, http)
        except Exception as error:
            return _failed(site, route, http, error)

    return answer


async def _answered(site: Site, route: Route, http: HttpRequest) -> Response:
    caller = await _caller(site, http)
    principal = _admitted(route, caller.principal)
    visit = http.cookies.get(cookie_of(http)) or new_name()
    pairs = decoded_pairs(http.query_params.multi_items(), route.query, "query") if route.query else None
    body = await _body(route, http, caller, csrf_of(visit)) if route.unsafe else None
    request = Request[Any, Any](
        admin=site.admin(principal), app=site.app, principal=principal, path=http.path_params, query=pairs, body=body,
        http=http, csrf=csrf_of(visit), correlation_id=http.scope["windlass.correlation_id"],
    )  # fmt: skip
    return _response(site, route, request, await route.handler(request), visit)


async def _caller(site: Site, http: HttpRequest) -> Caller:
    scheme, _, secret = http.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return Caller(await verified(site.admin(), secret.strip()), ambient=False)
    found = await site.sessions.who(http.cookies.get(cookie_of(http), ""))
    if found is None and site.access.authenticate is not None:
        found = await site.access.authenticate(http)
    return Caller(found or site.access.anonymous, ambient=True)


def _admitted(route: Route, principal: Principal | None) -> Principal:
    if route.scope is None:
        return principal or NOBODY
    if principal is None:
        raise Trouble(401, "unauthenticated", "send a token that is valid: Authorization: Bearer wl_…")
    if not may(principal, route.scope):
        raise Trouble(403, "forbidden", f"this needs the scope {route.scope!r}, which your token does not have")
    return principal


def may(principal: Principal, scope: Scope) -> bool:
    """admin implies all, operate implies read."""
    held = principal.scopes
    return scope in held or "admin" in held or (scope == "read" and "operate" in held)


async def _body(route: Route, http: HttpRequest, caller: Caller, csrf: str) -> Any:
    raw = await http.body()
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    pairs = parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True) if kind == FORM else []
    if caller.ambient:
        _check_site(http)
        if route.is_page:
            given = dict(pairs).get("csrf", "") or http.headers.get("x-csrf-token", "")
            if not hmac.compare_digest(given.encode(), csrf.encode()):
                raise Trouble(403, "csrf", "this form is not from a page that we gave to you; go back and try again")
    if route.body is None:
        return None
    if route.is_page:
        return decoded_pairs([(name, value) for name, value in pairs if name != "csrf"], route.body, "form")
    if kind != "application/json":
        raise Trouble(415, "wrong-content-type", "send JSON, with Content-Type: application/json")
    return decoded_json(raw, route.body)


def _check_site(http: HttpRequest) -> None:
    """A browser says where a request comes from. Other programs say nothing, and nobody can make them act for another."""
    site, origin = http.headers.get("sec-fetch-site"), http.headers.get("origin")
    ours = f"{http.url.scheme}://{http.headers.get('host', '')}"
    if (site is not None and site not in ("same-origin", "none")) or (origin is not None and origin != ours):
        raise Trouble(403, "cross-site", "a page of another site cannot do this")


def _response(site: Site, route: Route, request: Request[Any, Any], answer: Any, visit: str) -> Response:
    match answer:
        case Page():
            shown = {
                **answer.shown, "url": request.url, "static": lambda name: request.url(f"/static/{name}"),
                "csrf": request.csrf, "principal": request.principal,
                "may": lambda scope: may(request.principal, scope), "request": request,
            }  # fmt: skip
            text = site.templates.get_template(answer.template).render(shown)
            response: Response = HTMLResponse(text, answer.status)
            _set_cookie(response, request.http, cookie_of(request.http), visit)
        case Redirect():
            response = RedirectResponse(request.url(answer.path), 303)
            for name, value in answer.cookies.items():
                _set_cookie(response, request.http, name, value)
        case Text():
            response = Response(answer.content, answer.status, media_type=answer.media_type)
            if answer.filename is not None:
                response.headers["Content-Disposition"] = f'attachment; filename="{answer.filename}"'
        case _:
            response = Response(encoded(answer), route.status, media_type="application/json")
    return response


def _set_cookie(response: Response, http: HttpRequest, name: str, value: str | None) -> None:
    secure = name.startswith("__Host-")
    if value is None:
        response.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="lax")
    else:
        response.set_cookie(name, value, path="/", secure=secure, httponly=True, samesite="lax")


def _failed(site: Site, route: Route, http: HttpRequest, error: Exception) -> Response:
    name = http.scope["windlass.correlation_id"]
    if not route.is_page:
        return problem_response(error, name)
    trouble = trouble_of(error)
    root = http.scope.get("root_path", "")
    if trouble.status == 401 and not route.unsafe:
        here = http.url.path.removeprefix(root) + (f"?{http.url.query}" if http.url.query else "")
        return RedirectResponse(f"{root}/sign-in?next={quote(here, safe='')}", 303)
    if trouble.status >= 500:
        log.error("request %s failed", name, exc_info=error)
    shown = {"problem": problem_of(trouble, name), "url": lambda path: f"{root}{path}"}
    shown["static"] = lambda file: f"{root}/static/{file}"
    return HTMLResponse(site.templates.get_template("problem.html").render(shown), trouble.status)
