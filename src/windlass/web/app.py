"""`web_app`: the API and the dashboard of a `Windlass`, as an ASGI application that can be served or mounted anywhere."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from windlass.app import Windlass
from windlass.web.access import Access
from windlass.web.bounds import Bounds
from windlass.web.dispatch import Dispatch
from windlass.web.gate import Gate, problem_response
from windlass.web.rendering import HERE, environment
from windlass.web.routes import ROUTES
from windlass.web.site import Site


def web_app(
    app: Windlass, *, access: Access | None = None, base_path: str = "", bounds: Bounds | None = None,
    trust_now: bool = False,
) -> Starlette:  # fmt: skip
    """Make the ASGI application. Serve it at `base_path`, or leave that out and mount it: `Mount("/jobs", web_app(app,
    access=…))`.

    Without `access` only callers with an API token of the store are let in, and only by a name of this machine.

    `trust_now` is for tests of remote workers: requests say what time it is."""
    site = Site(app, access or Access(), bounds or Bounds(), ROUTES, environment(), trust_now)
    paths: list[BaseRoute] = [
        Mount("/static", StaticFiles(directory=HERE / "static"), name="static"),
        Mount("/", Dispatch(site)),
    ]
    base = base_path.strip("/")
    made = Starlette(
        routes=[Mount(f"/{base}", routes=paths)] if base else paths, middleware=[Middleware(Gate, access=site.access)],
        exception_handlers={HTTPException: _refused},
    )  # fmt: skip
    made.state.site = site
    return made


async def _refused(http: HttpRequest, error: Exception) -> Response:
    """What Starlette itself refuses: a file that is not there, a path outside of the base path."""
    return problem_response(error, http.scope["windlass.correlation_id"])
