"""One line of the table of routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from windlass.principal import Scope
from windlass.web.answers import Answer, Page, Redirect
from windlass.web.request import Request

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Handler = Callable[[Request[Any, Any]], Awaitable[Any]]


class Route:
    """A handler says the rest by its annotations: `async def show(request: Request[Query, Body]) -> View`.

    `scope` is what the caller needs; None: nothing, everybody may. `tenants`: also for those who are bound to an
    organisation or to some queues, because the handler only touches what their `admin` shows."""

    def __init__(
        self, method: Method, path: str, scope: Scope | None, handler: Handler, *, tenants: bool = False, status: int = 200
    ) -> None:
        self.method: Final = method
        self.path: Final = path
        self.scope: Final = scope
        self.handler: Final = handler
        self.tenants: Final = tenants
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
        found = _known(self._hints["return"])
        return get_args(found)[0] if get_origin(found) is Answer else found

    @cached_property
    def is_page(self) -> bool:
        """It takes forms instead of JSON, and whoever is not signed in is asked to."""
        return bool({Page, Redirect} & {self.answer, *get_args(self.answer)})

    @property
    def unsafe(self) -> bool:
        return self.method != "GET"


def _known(annotation: Any) -> Any:
    return None if annotation is type(None) else annotation
