"""Pages that stay true: the fragments of a page are rendered again, and those that changed are sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import repeat
from typing import Any, Final

from windlass.web.answers import Page
from windlass.web.request import Request
from windlass.web.site import site_of

PAUSE: Final = 2.0  # seconds between two looks
endless = partial(repeat, None)

Show = Callable[[Request[Any, Any]], Awaitable[Any]]


Rows = Callable[[Mapping[str, Any]], Iterable[tuple[str, str, Mapping[str, Any]]]]


async def fragments(
    request: Request[Any, Any], show: Show, *names: str, rows: Rows | None = None
) -> AsyncIterator[tuple[str, Any]]:
    """`show` is the page's own handler. `rows` adds fragments of their own: an id in the page, a template, what it shows.
    Everything is sent once at the beginning: what changed since the page was loaded, or while nobody listened, is made good
    by that."""
    site = site_of(request.http)
    sent: dict[str, str] = {}
    for _ in endless():
        page = await show(request)
        if not isinstance(page, Page):
            return
        shown = {**page.shown, **around(request)}
        wanted: list[tuple[str, str, Mapping[str, Any]]] = [(name, name, {}) for name in names]
        for name, template, more in [*wanted, *(rows(shown) if rows is not None else ())]:
            text = site.templates.get_template(f"fragments/{template}.html").render({**shown, **more}).strip()
            if text and sent.get(name) != text:
                sent[name] = text
                yield "fragment", {"id": name, "html": text, "now": shown["now"]}
        await asyncio.sleep(PAUSE)


def around(request: Request[Any, Any]) -> dict[str, Any]:
    """What every template may use."""
    return {
        "url": request.url, "static": lambda name: request.url(f"/static/{name}"), "csrf": request.csrf,
        "principal": request.principal, "may": request.principal.may, "request": request,
    }  # fmt: skip
