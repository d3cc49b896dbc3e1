"""The description of the API (OpenAPI 3.1), made from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from windlass import __version__
from windlass.web.answers import Events, Text
from windlass.web.problems import MEDIA_TYPE, Problem
from windlass.web.route import Route

SCHEMAS: Final = "#/components/schemas/{name}"
PROBLEM: Final = {"$ref": "#/components/responses/Problem"}
_IN_PATH: Final = re.compile(r"{(\w+)}")


def described(routes: Sequence[Route], servers: Sequence[str] = ()) -> dict[str, Any]:
    """The whole document. Pages are no part of it."""
    shown = [route for route in routes if not route.is_page]
    kinds = [kind for route in shown for kind in (route.query, route.body, _json(route)) if kind is not None]
    found, components = msgspec.json.schema_components([Problem, *kinds], ref_template=SCHEMAS)
    schemas = dict(zip(map(repr, [Problem, *kinds]), found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Windlass", "version": __version__, "description": "A durable job queue."},
        "servers": [{"url": server} for server in servers],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {"Problem": {
                "description": "What went wrong.", "content": {MEDIA_TYPE: {"schema": schemas[repr(Problem)]}},
            }},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }  # fmt: skip


def _json(route: Route) -> Any:
    return None if route.answer in (Text, Events) else route.answer


def _operation(route: Route, schemas: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    words = " ".join((route.handler.__doc__ or "").split())
    made: dict[str, Any] = {
        "operationId": f"{route.handler.__module__.rpartition('.')[2]}.{route.handler.__name__}",
        "tags": [route.path.split("/")[2] if route.path.startswith("/api/") else "server"],
        "summary": words.split(". ")[0].removesuffix("."),
        "description": words,
        "responses": _responses(route, schemas),
    }
    parameters = [*_in_path(route), *_in_query(route, components), *_in_header(route)]
    if parameters:
        made["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": schemas[repr(route.body)]}}
        made["requestBody"] = {"content": content, "required": not _optional(route)}
    if route.scope is not None:
        made |= {"security": [{"token": []}], "x-scope": route.scope}
    return made


def _optional(route: Route) -> bool:
    """Whether an empty body says enough."""
    try:
        msgspec.convert({}, route.body)
    except msgspec.ValidationError:
        return False
    return True


def _responses(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    if route.answer is Events:
        content: dict[str, Any] = {"text/event-stream": {"schema": {"type": "string"}}}
    elif route.answer is Text:
        content = {"text/csv" if route.path.endswith(".csv") else "text/plain": {"schema": {"type": "string"}}}
    else:
        content = {"application/json": {"schema": schemas[repr(route.answer)]}}
    good = {"description": "Done.", "content": content}
    statuses = [400, 413, 414, 421, 422, 429, 500, 503]
    statuses += [401, 403] if route.scope is not None else []
    statuses += [404] if "{" in route.path or route.query is not None else []
    statuses += [409, 415] if route.unsafe else []
    statuses += [404] if route.unsafe and 404 not in statuses else []
    return {str(status): good for status in {200, route.status}} | {str(status): PROBLEM for status in sorted(statuses)}


def _in_path(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _IN_PATH.findall(route.path)
    ]


def _in_query(route: Route, components: Mapping[str, Any]) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = components[route.query.__name__]
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": _without_null(shape)}
        for name, shape in schema["properties"].items()
    ]


def _without_null(shape: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter that is left out is not null; there is no way to write null in a query string."""
    made = {name: value for name, value in shape.items() if name != "default" or value is not None}
    if "anyOf" in made:
        choices = [one for one in made.pop("anyOf") if one != {"type": "null"}]
        made |= choices[0] if len(choices) == 1 else {"anyOf": choices}
    if isinstance(made.get("type"), list):
        made["type"] = [kind for kind in made["type"] if kind != "null"]
    if "enum" in made:
        made["enum"] = [value for value in made["enum"] if value is not None]
    return made


def _in_header(route: Route) -> list[dict[str, Any]]:
    if route.path != "/api/jobs" or not route.unsafe:
        return []
    return [{"name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string"}}]
