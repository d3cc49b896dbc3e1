"""From a path to its route. Names may hold a slash, so the path is taken apart as it was sent, before it is decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from starlette.requests import Request as HttpRequest
from starlette.types import Receive, Scope, Send

from windlass.web.answering import answered
from windlass.web.problems import Trouble
from windlass.web.route import Route
from windlass.web.site import Site


class Dispatch:
    """The application behind the gate."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._by_length: dict[int, list[tuple[tuple[str, ...], dict[str, Route]]]] = {}
        for pattern, routes in _by_pattern(site.routes).items():
            self._by_length.setdefault(len(pattern), []).append((pattern, routes))
        for patterns in self._by_length.values():  # what is spelled out goes before what is named
            patterns.sort(key=lambda one: [part.startswith("{") for part in one[0]])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = HttpRequest(scope, receive, send)
        route, path = self._find(http.method, self._parts(scope))
        response = await answered(self._site, route, path, http)
        await response(scope, receive, send)

    def _parts(self, scope: Scope) -> tuple[str, ...]:
        root = quote(scope.get("root_path", ""))
        raw = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("ascii", "replace").partition("?")[0]
        parts = raw.removeprefix(root).removeprefix("/").split("/")
        try:
            decoded = tuple(unquote(part, errors="strict") for part in parts)
        except UnicodeDecodeError:
            raise Trouble(400, "malformed-path", "the path is not UTF-8") from None
        for part in decoded:
            if len(part) > self._site.bounds.text:
                raise Trouble(414, "too-long", f"a part of the path is longer than {self._site.bounds.text} characters")
            if "\x00" in part:
                raise Trouble(422, "invalid-input", "the path holds a NUL")
        return decoded

    def _find(self, method: str, parts: tuple[str, ...]) -> tuple[Route, dict[str, str]]:
        allowed: set[str] = set()  # as the pattern says that fits best
        for pattern, routes in self._by_length.get(len(parts), ()):
            found = _matched(pattern, parts)
            if found is not None:
                route = routes.get("GET" if method == "HEAD" else method)
                if route is not None:
                    return route, found
                allowed = allowed or {*routes}
        if allowed:
            raise NotSo(method, allowed | ({"HEAD"} if "GET" in allowed else set()))
        raise Trouble(404, "no-such-path", "there is nothing at this path")


class NotSo(Trouble):
    """A path that takes other methods."""

    def __init__(self, method: str, allowed: set[str]) -> None:
        super().__init__(405, "no-such-method", f"this path does not take {method}")
        self.headers = {"Allow": ", ".join(sorted(allowed))}


def _matched(pattern: Sequence[str], parts: Sequence[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            if not part:
                return None
            found[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return found


def _by_pattern(routes: Sequence[Route]) -> Mapping[tuple[str, ...], dict[str, Route]]:
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for route in routes:
        methods = found.setdefault(tuple(route.path[1:].split("/")), {})
        assert route.method not in methods, f"{route} is there twice"
        methods[route.method] = route
    return found
