"""One request, from its route to its answer: who asks, may they, what did they say, what does the handler answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response

from windlass.web.answers import Answer, Events, Page, Redirect, Text
from windlass.web.encoding import encoded
from windlass.web.gate import log, problem_response
from windlass.web.identity import NOBODY, Caller, admitted, caller_of, check_fetched, check_origin
from windlass.web.problems import Trouble, problem_of, trouble_of
from windlass.web.reading import FORM, form_pairs, media_type, raw_body, read_json, read_pairs, read_query
from windlass.web.request import Request
from windlass.web.route import Route
from windlass.web.sessions import SESSION_COOKIES, cookie_of, csrf_of, new_name
from windlass.web.site import Site
from windlass.web.streaming import stream

YEAR: Final = 365 * 24 * 3600  # seconds


async def answered(site: Site, route: Route, path: Mapping[str, str], http: HttpRequest) -> Response:
    visit = http.cookies.get(cookie_of(http)) or new_name()
    try:
        request = await _request(site, route, path, http, csrf_of(visit))
        response = _response(site, route, request, await route.handler(request), visit)
    except Exception as error:
        response = _failed(site, route, http, error)
    site.count(route.method, route.path, response.status_code)
    return response


async def _request(site: Site, route: Route, path: Mapping[str, str], http: HttpRequest, csrf: str) -> Request[Any, Any]:
    caller = await caller_of(site, http) if route.scope is not None else Caller(None, ambient=route.is_page)
    check_fetched(http, caller)  # before it is counted: another site's page must not use up what is the caller's
    site.pace.take(
        caller.principal.who if caller.principal else http.client.host if http.client else "",
        site.bounds.work_cost if route.scope == "work" else 1.0,
    )
    principal = admitted(route, caller.principal)
    return Request(
        admin=site.admin(principal), app=site.app, principal=principal, path=path, bounds=site.bounds,
        query=read_query(http, route.query, site.bounds) if route.query else None,
        body=await _body(site, route, http, caller, csrf) if route.unsafe else None,
        http=http, csrf=csrf, correlation_id=http.scope["windlass.correlation_id"],
    )  # fmt: skip


async def _body(site: Site, route: Route, http: HttpRequest, caller: Caller, csrf: str) -> Any:
    bounds, given = site.bounds, media_type(http)
    size, objects = (bounds.work_body, bounds.work_objects) if route.scope == "work" else (bounds.body, bounds.objects)
    raw = await raw_body(http, size)
    form = form_pairs(raw, bounds.fields) if route.is_page and given == FORM else ()
    check_origin(http, caller, form, csrf, is_page=route.is_page)
    if route.body is None:
        return None
    if route.is_page:
        return read_pairs([pair for pair in form if pair[0] != "csrf"], route.body, "form")
    return read_json(raw, route.body, bounds, given, objects)


def _response(site: Site, route: Route, request: Request[Any, Any], answer: Any, visit: str) -> Response:
    match answer:
        case Page():
            shown = {
                **answer.shown, "csrf": request.csrf, "principal": request.principal, "request": request,
                "may": request.principal.may,
            }  # fmt: skip
            response = _rendered(site, request.http, answer.template, shown, answer.status)
            _set_cookie(response, cookie_of(request.http), visit)
        case Redirect():
            response = RedirectResponse(request.url(answer.path), 303)
            for name, value in answer.cookies.items():
                _set_cookie(response, name, value)
        case Text():
            response = Response(answer.content, answer.status, media_type=answer.media_type)
            if answer.filename is not None:
                response.headers["Content-Disposition"] = f'attachment; filename="{answer.filename}"'
        case Events():
            response = stream(site, request, answer)
        case Answer():
            response = Response(encoded(answer.value), answer.status, answer.headers, "application/json")
        case _:
            response = Response(encoded(answer), route.status, media_type="application/json")
    return response


def _rendered(site: Site, http: HttpRequest, template: str, shown: Mapping[str, Any], status: int) -> Response:
    """`url` and `static` lead below wherever we are mounted."""
    root = http.scope.get("root_path", "")
    places = {"url": lambda path: f"{root}{path}", "static": lambda name: f"{root}/static/{name}"}
    return HTMLResponse(site.templates.get_template(template).render({**shown, **places}), status)


def _set_cookie(response: Response, name: str, value: str | None) -> None:
    secure = name.startswith("__Host-")
    if value is None:
        response.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="lax")
    else:
        life = None if name in SESSION_COOKIES else YEAR  # how somebody likes to see things outlives the browser
        response.set_cookie(name, value, max_age=life, path="/", secure=secure, httponly=True, samesite="lax")


def _failed(site: Site, route: Route, http: HttpRequest, error: Exception) -> Response:
    name = http.scope["windlass.correlation_id"]
    if not route.is_page:
        return problem_response(error, name)
    trouble: Trouble = trouble_of(error)
    root = http.scope.get("root_path", "")
    if trouble.status == 401 and not route.unsafe:
        here = http.url.path.removeprefix(root) + (f"?{http.url.query}" if http.url.query else "")
        return RedirectResponse(f"{root}/sign-in?next={quote(here, safe='')}", 303)
    if trouble.status >= 500:
        log.error("request %s failed", name, exc_info=error)
    shown = {"problem": problem_of(trouble, name), "principal": NOBODY, "may": NOBODY.may}
    return _rendered(site, http, "problem.html", shown, trouble.status)
