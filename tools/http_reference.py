"""Write docs/reference/http.md from the table of routes, so that the page cannot say anything else.

python tools/http_reference.py            write the page
python tools/http_reference.py --check    fail when the page is not what would be written
"""

from __future__ import annotations

import sys

from generated import ROOT, write_or_check

from windlass.web.openapi import described
from windlass.web.route import Route
from windlass.web.routes import API

PAGE = ROOT / "docs" / "reference" / "http.md"


def line(route: Route) -> str:
    words = " ".join((route.handler.__doc__ or "").split()).replace("|", "\\|")
    who = "everybody" if route.scope is None else f"`{route.scope}`" + ("" if route.tenants else ", whole store")
    return f"| `{route.method} {route.path}` | {who} | {words} |"


def fields(name: str, schemas: dict[str, dict[str, object]]) -> str:
    found = schemas[name]
    needed = found.get("required", ())
    properties = found["properties"]
    assert isinstance(properties, dict)
    assert isinstance(needed, list | tuple)
    shown = []
    for field, shape in properties.items():
        told = shape.get("description")
        shown.append(f"`{field}`{' (needed)' if field in needed else ''}" + (f": {told}" if told else ""))
    return f"**{name}.** {found.get('description', '')} " + "; ".join(shown) + "."


def page() -> str:
    schemas = described(API)["components"]["schemas"]
    said = sorted(name for name in schemas if name.endswith(("Wish", "Query")) or name in ("Which", "Sweep", "Place"))
    parts = [
        "# The HTTP API\n",
        "This page is generated from the table of routes: `make docs` writes it, `make lint` fails when it is out of date.",
        "A server tells the same, with all types, at `/api/openapi.json`. First read [the guide](../guides/http-api.md).\n",
        "*Whole store*: not with a token that is bound to an organisation or to queues.\n",
        "| endpoint | needs | what it does |\n|---|---|---|",
        *map(line, API),
        "\n## What is said\n",
        "Names of query strings (`…Query`) and fields of bodies. What is not *needed* may be left out.\n",
        *(f"{fields(name, schemas)}\n" for name in said),
    ]
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), sys.argv[1:]))
