"""`web_app`: the API and the dashboard of a `Windlass`, as an ASGI application that can be served or mounted anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.routing import Route as Path
from starlette.staticfiles import StaticFiles

from windlass.app import Windlass
from windlass.web.access import Access
from windlass.web.answering import endpoint
from windlass.web.gate import Gate, problem_response
from windlass.web.problems import Trouble
from windlass.web.rendering import HERE, environment
from windlass.web.routes import ROUTES, Route
from windlass.web.sessions import Sessions
from windlass.web.site import Site, verified


def web_app(
    app: Windlass, *, access: Access | None = None, base_path: str = "", routes: Sequence[Route] = ROUTES
) -> Starlette:
    """Serve it at `base_path`, or leave that out and mount it: `Mount("/jobs", web_app(app, access=…))`.

    Without `access` only API tokens of the store come in, and only by a name of this machine."""
    access = access or Access()
    client = app.client
    site = Site(app, access, Sessions(lambda token: verified(site.admin(), token), client.now), environment())
    paths: list[BaseRoute] = [
        Path(path, endpoint(site, found), methods=list(found), include_in_schema=False)
        for path, found in _by_path(routes).items()
    ]
    paths.append(Mount("/static", StaticFiles(directory=HERE / "static"), name="static"))
    made = Starlette(
        routes=[Mount(base_path, routes=paths)] if base_path.strip("/") else paths,
        middleware=[Middleware(Gate, access=access)], exception_handlers={HTTPException: _unrouted},
    )  # fmt: skip
    made.state.site = site
    return made


def _by_path(routes: Sequence[Route]) -> dict[str, dict[str, Route]]:
    found: dict[str, dict[str, Route]] = {}
    for route in routes:
        methods = found.setdefault(route.path, {})
        assert route.method not in methods, f"{route} is there twice"
        methods[route.method] = route
    return found


async def _unrouted(http: HttpRequest, error: Exception) -> Response:
    """What Starlette itself refuses: no such path, or not by this method."""
    assert isinstance(error, HTTPException)
    what = {404: "there is nothing at this path", 405: f"this path does not take {http.method}"}
    kinds = {404: "no-such-path", 405: "no-such-method"}
    trouble = Trouble(error.status_code, kinds.get(error.status_code, "http"), what.get(error.status_code, error.detail))
    response = problem_response(trouble, http.scope["windlass.correlation_id"])
    response.headers.update(error.headers or {})
    return response
