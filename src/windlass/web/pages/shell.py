"""What every page has around it: who reads it, by which clock and in which theme, where they are, what was just done."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Any, Final
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct

from windlass.clock import moment
from windlass.types import LABELS, TERMINAL
from windlass.web.answers import Page, Redirect
from windlass.web.identity import is_narrow
from windlass.web.pages.first_run import lesson
from windlass.web.pages.formats import query
from windlass.web.request import Request
from windlass.web.sessions import cookie_of
from windlass.web.site import site_of

THEME: Final = "windlass-theme"
ZONE: Final = "windlass-zone"
THEMES: Final = ("system", "light", "dark")

# What can be told after an action. The address only names one of these, so no link can put words into our mouth.
DONE: Final = {
    "cancelled": "Cancelled", "cancel-requested": "Asked to stop", "queued": "Queued again", "due": "Due now",
    "moved": "Moved", "priority": "Priority changed", "deleted": "Deleted", "paused": "Paused", "resumed": "Resumed",
    "saved": "Saved", "ran": "One extra job was made", "archived": "Archived", "released": "Released", "held": "Held",
    "revoked": "Revoked", "enabled": "Enabled", "disabled": "Disabled", "rotated": "The secret was changed",
    "renewed": "Renewed", "enqueued": "Enqueued", "existed": "It was enqueued before",
    "replayed": "{n} queued again", "purged": "{n} purged", "bulk": "{n} changed", "retried": "{n} queued again",
    "nothing": "Nothing had to change", "pinged": "The test message arrived",
    "ping-failed": "The test message did not arrive", "resent": "It is sent once more",
}  # fmt: skip


class Told(Struct, frozen=True, kw_only=True):
    """The query of a page that one comes back to after an action."""

    done: str | None = None
    n: int | None = None
    left: int | None = None


class Sure(Struct, frozen=True, kw_only=True):
    """A form that asks back: the dialog of the script, or without it our own page, sends it again with `sure`."""

    sure: bool = False


async def page(request: Request[Any, Any], template: str, here: str, shown: Mapping[str, Any], status: int = 200) -> Page:
    """`here` is the line of the navigation that is lit."""
    client = request.app.client
    frame = {
        "now": moment(client.now()), "zone": zone_of(request), "theme": theme_of(request), "here": here,
        "said": said(request.query), "live": None, "signed_in": signed_in(request),
        "store": store_of(client.url), "lesson": lesson(client.url, client.settings.schema), **await beside(request),
    }  # fmt: skip
    return Page(template, {**frame, **shown}, status)


async def beside(request: Request[Any, Any]) -> dict[str, Any]:
    """What the navigation tells: how much there is, and who leads. Who sees a part of the store, or may not read, is told
    nothing of all."""
    narrow = is_narrow(request.principal)
    if narrow or not request.principal.may("read"):
        return {"tallies": {}, "leader": None, "narrow": narrow}
    queues = (await site_of(request.http).pulse.recent()).queues
    counts = {label: sum(queue.counts.get(label, 0) for queue in queues) for label in LABELS}
    fleet = await request.admin.workers()
    tallies = {
        "jobs": sum(counts[label] for label in LABELS if label not in TERMINAL),
        "dead-letters": counts["dead"],
        "queues": len(queues),
        "workers": sum(worker.alive for worker in fleet.workers),
    }
    return {"tallies": tallies, "leader": fleet.leader, "narrow": False}


def signed_in(request: Request[Any, Any]) -> bool:
    return site_of(request.http).sessions.has(request.http.cookies.get(cookie_of(request.http), ""))


def zone_of(request: Request[Any, Any]) -> tzinfo:
    return zone_named(request.http.cookies.get(ZONE, "")) or UTC


def zone_named(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name and name != "UTC" else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def theme_of(request: Request[Any, Any]) -> str:
    found = request.http.cookies.get(THEME, "system")
    return found if found in THEMES else "system"


def store_of(url: str) -> str:
    scheme = url.split(":", 1)[0].split("+", 1)[0]
    return {"memory": "Memory", "sqlite": "SQLite", "postgresql": "PostgreSQL", "postgres": "PostgreSQL"}.get(
        scheme, "Store"
    )


def said(told: Any) -> str:
    if not isinstance(told, Told) or told.done not in DONE:
        return ""
    count = "" if told.n is None else f"{told.n:,} job{'' if told.n == 1 else 's'}"
    left = f". {told.left:,} could not be changed" if told.left else ""
    return DONE[told.done].replace("{n}", count) + left


def done(path: str, what: str, n: int | None = None, left: int | None = None) -> Redirect:
    assert what in DONE
    join = "&" if "?" in path else "?"
    return Redirect(path + query({"done": what, "n": n, "left": left}).replace("?", join, 1))


def here_of(request: Request[Any, Any]) -> str:
    """The path of this request as it was sent: a name in it may hold a slash, which is quoted there."""
    scope = request.http.scope
    return (scope.get("raw_path") or quote(scope["path"]).encode()).decode("ascii", "replace").partition("?")[0]


async def ask(
    request: Request[Any, Any], here: str, question: str, text: str, button: str, *, back: str, danger: bool = False
) -> Page:
    """The question that the script would ask in a dialog, as a page: the same form again, and a way back."""
    body = msgspec.to_builtins(request.body)
    pairs = [
        (name, one)
        for name, value in body.items()
        for one in (value if isinstance(value, list | tuple) else [value])
        if name != "sure" and one is not None and one is not False
    ]
    shown = {
        "question": question, "text": text, "button": button, "danger": danger, "back": back, "pairs": pairs,
        "action": here_of(request),
    }  # fmt: skip
    return await page(request, "ask.html", here, shown)
