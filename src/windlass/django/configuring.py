"""What the settings of a Django project say: where the jobs are, and how they are run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from msgspec import Struct

from windlass.config import settings_from
from windlass.errors import InvalidInput
from windlass.urls import url_of_file

OWN: Final = frozenset({"DATABASE", "URL", "DASHBOARD"})
# What libpq knows of what a project may give to psycopg; the rest is Django's, or is about its own connections.
PASSED_ON: Final = (
    "sslmode", "sslrootcert", "sslcert", "sslkey", "service", "passfile", "target_session_attrs", "gssencmode", "options",
)  # fmt: skip


class Configured(Struct, frozen=True):
    """`url` is None when the jobs are kept in one of Django's databases."""

    database: str
    url: str | None
    dashboard: str | None
    settings: dict[str, Any]

    @property
    def in_django(self) -> bool:
        return self.url is None


def configured() -> Configured:
    said = getattr(settings, "WINDLASS", {})
    if not isinstance(said, Mapping):
        raise ImproperlyConfigured(f"WINDLASS must be a dictionary, got {said!r}")
    database = said.get("DATABASE", "default")
    if database not in settings.DATABASES:
        raise ImproperlyConfigured(f"WINDLASS: DATABASE names {database!r}, which is not among DATABASES")
    url, given = said.get("URL"), {name.lower(): value for name, value in said.items() if name not in OWN}
    shares_file = not url and engine_of(settings.DATABASES[database]) == "sqlite"
    if shares_file and given.setdefault("sqlite", "stdlib") != "stdlib":
        raise ImproperlyConfigured("WINDLASS: Django opens its file through sqlite3, so SQLITE must be 'stdlib'")
    try:
        settings_from(given)
    except InvalidInput as error:
        raise ImproperlyConfigured(f"WINDLASS: {error}") from None
    dashboard = said.get("DASHBOARD")
    return Configured(database, url or None, None if dashboard is None else str(dashboard).rstrip("/"), given)


def engine_of(database: Mapping[str, Any]) -> str | None:
    """Of the two that can hold jobs. Engines of others are often built on Django's own."""
    engine = str(database.get("ENGINE", ""))
    return "sqlite" if "sqlite" in engine else "postgresql" if "postg" in engine else None


def url_of(database: Mapping[str, Any], alias: str) -> str:
    """The store that one of Django's databases is. A file that is only in memory, as in tests, is not shared with us."""
    kind, name = engine_of(database), str(database.get("NAME") or "")
    if kind == "sqlite":
        if name == ":memory:" or "mode=memory" in name:
            return "memory://"
        return url_of_file(os.path.abspath(name))
    if kind is None:
        raise ImproperlyConfigured(
            f"WINDLASS: database {alias!r} is {database.get('ENGINE')!r}, and jobs are kept in PostgreSQL or SQLite; say "
            "where: WINDLASS = {'URL': 'sqlite:////var/lib/shop/jobs.db'}"
        )
    options = database.get("OPTIONS", {})
    asked = {option: str(options[option]) for option in PASSED_ON if options.get(option)}
    host, port = str(database.get("HOST") or ""), str(database.get("PORT") or "")
    if host.startswith("/"):  # a directory with the server's socket
        asked, host = {"host": host, **({"port": port} if port else {}), **asked}, ""
        port = ""
    user = quote(str(database.get("USER") or ""), safe="")
    password = quote(str(database.get("PASSWORD") or ""), safe="")
    who = f"{user}:{password}@" if password else f"{user}@" if user else ""
    where = f"{host}:{port}" if port else host
    return f"postgresql://{who}{where}/{quote(name, safe='')}" + (f"?{urlencode(asked, quote_via=quote)}" if asked else "")


def environment(conf: Configured, url: str) -> dict[str, str]:
    """The same for commands that open a store by its URL."""
    said = {"WINDLASS_URL": url}
    for name, value in conf.settings.items():
        if isinstance(value, timedelta):
            value = f"{value.total_seconds():g}s"
        if isinstance(value, str | int):
            said[f"WINDLASS_{name.upper()}"] = str(value)
    return said
