"""A request as a handler sees it: checked, decoded, and with an `Admin` that acts as the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.requests import Request as HttpRequest

from windlass.admin import Admin
from windlass.app import Windlass
from windlass.principal import Principal
from windlass.web.bounds import Bounds

Q = TypeVar("Q")
B = TypeVar("B")


@dataclass(frozen=True)
class Request(Generic[Q, B]):
    """`Request[Query, Body]`: Structs that the query string and the body were decoded to; None where there is none.

    The body of an API route is JSON, that of a page is a form."""

    admin: Admin
    app: Windlass
    principal: Principal
    path: Mapping[str, str]  # the parts of the path that the route names in braces
    query: Q
    body: B
    http: HttpRequest
    csrf: str  # what forms send back as the field `csrf`, and scripts as the header X-CSRF-Token
    correlation_id: str
    bounds: Bounds

    def url(self, path: str) -> str:
        """Where a path of ours is from outside, wherever we are mounted."""
        return f"{self.http.scope.get('root_path', '')}{path}"

    @property
    def reveal(self) -> bool:
        """Whether the caller may see what has a telling name in payloads and results."""
        return self.principal.may("read:payload")

    def page(self, limit: int) -> int:
        """How many rows of a list to give to who asked for so many."""
        return min(limit, self.bounds.page)
