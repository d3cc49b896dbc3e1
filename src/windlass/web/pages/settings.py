"""`/settings`: how a reader sees things, and what this store is."""

from __future__ import annotations

from windlass import __version__
from windlass.errors import InvalidInput, WindlassError, shown
from windlass.web.answers import Page, Redirect
from windlass.web.pages.schedules import ZONES
from windlass.web.pages.shell import THEME, THEMES, ZONE, Told, done, page, zone_named
from windlass.web.request import Request
from windlass.words import did_you_mean


class Appearance(Told, frozen=True, kw_only=True):
    """What is not said stays as it is."""

    theme: str | None = None
    zone: str | None = None


async def show(request: Request[Told, None]) -> Page:
    settings = request.app.client.settings
    try:
        checks = (await request.admin.doctor(rows=False)).checks if request.principal.may("operate") else ()
    except WindlassError:
        checks = ()
    shown = {"zones": ("UTC", *ZONES), "themes": THEMES, "checks": checks, "version": __version__, "settings": settings}
    return await page(request, "settings.html", "settings", shown)


async def appearance(request: Request[None, Appearance]) -> Redirect:
    said = request.body
    cookies: dict[str, str | None] = {}
    if said.theme in THEMES:
        cookies[THEME] = None if said.theme == "system" else said.theme
    if said.zone is not None:
        zone, known = said.zone.strip(), ("UTC", *ZONES)
        found = zone_named(zone)
        if found is None and zone not in ("", "UTC"):
            told = f"{shown(zone)} is no time zone{did_you_mean(zone, known)}; write it as in 'Europe/Berlin'"
            raise InvalidInput("zone", told)
        cookies[ZONE] = None if found is None else zone
    return Redirect(done("/settings", "saved").path, cookies)
