"""The table of all routes. Routing, the OpenAPI description and the test of who may do what are made from it.

A handler says the rest by its annotations: `async def show(request: Request[Query, Body]) -> View`. A handler that answers
`Page` or `Redirect` is a page: it takes forms instead of JSON, and whoever is not signed in is asked to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from windlass.principal import Scope
from windlass.web.answers import Page, Redirect
from windlass.web.api import queues
from windlass.web.pages import overview, session
from windlass.web.request import Request

Method = Literal["GET", "POST", "PUT", "DELETE"]
Handler = Callable[[Request[Any, Any]], Awaitable[Any]]


class Route:
    """`scope` is what the caller needs; None: nothing, everybody may."""

    def __init__(self, method: Method, path: str, scope: Scope | None, handler: Handler, status: int = 200) -> None:
        self.method: Final = method
        self.path: Final = path
        self.scope: Final = scope
        self.handler: Final = handler
        self.status: Final = status

    def __repr__(self) -> str:
        return f"{self.method} {self.path}"

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.handler)

    @cached_property
    def query(self) -> Any:
        """The Struct that the query string is decoded to, or None."""
        return _known(get_args(self._hints["request"])[0])

    @cached_property
    def body(self) -> Any:
        return _known(get_args(self._hints["request"])[1])

    @cached_property
    def answer(self) -> Any:
        return _known(self._hints["return"])

    @cached_property
    def is_page(self) -> bool:
        return self.answer in (Page, Redirect) or (get_origin(self.answer) is not None and Page in get_args(self.answer))

    @property
    def unsafe(self) -> bool:
        return self.method != "GET"


def _known(annotation: Any) -> Any:
    return None if annotation is type(None) else annotation


API: Final[tuple[Route, ...]] = (
    Route("GET", "/api/queues", "read", queues.listed),
)  # fmt: skip

PAGES: Final[tuple[Route, ...]] = (
    Route("GET", "/", "read", overview.show),
    Route("GET", "/sign-in", None, session.ask),
    Route("POST", "/sign-in", None, session.sign_in),
    Route("POST", "/sign-out", None, session.sign_out),
)

ROUTES: Final = (*API, *PAGES)
