"""The Django app: tasks are found, connections made safe, checks registered."""

from __future__ import annotations

import sqlite3
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.signals import connection_created
from django.utils.module_loading import autodiscover_modules

from windlass.django.configuring import configured
from windlass.django.program import open_store
from windlass.drivers.sqlite.checkpoint import is_affected


class WindlassConfig(AppConfig):
    name = "windlass.django"
    label = "windlass"
    verbose_name = "Windlass"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        checks.register(_check)
        connection_created.connect(_share_file, dispatch_uid="windlass")
        autodiscover_modules("tasks")


def _check(**_: Any) -> list[checks.CheckMessage]:
    try:
        conf = configured()
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), id="windlass.E001")]
    from django.conf import settings

    database = settings.DATABASES[conf.database]
    mode = str(database.get("OPTIONS", {}).get("transaction_mode", "")).upper()
    if conf.in_django and "sqlite" in str(database.get("ENGINE")) and mode not in ("IMMEDIATE", "EXCLUSIVE"):
        return [
            checks.Warning(
                "jobs are kept in the same SQLite file, and a transaction that begins by reading cannot wait for its turn "
                "to write: it fails at once when somebody else has written meanwhile",
                hint=f"DATABASES[{conf.database!r}]['OPTIONS'] = {{'transaction_mode': 'IMMEDIATE', 'timeout': 20}}",
                id="windlass.W001",
            )
        ]
    return []


def _share_file(connection: Any, **_: Any) -> None:
    """Before the first transaction on a file that is our store as well. A store that is not open yet cannot be opened while
    that transaction holds the write lock. And a SQLite that may corrupt a file when two connections write and checkpoint at
    once leaves checkpoints to ours, which does them alone, guarded."""
    conf = configured()
    if connection.vendor != "sqlite" or connection.alias != conf.database or not conf.in_django:
        return
    with connection.cursor() as cursor:
        if is_affected(sqlite3.sqlite_version):
            cursor.execute("pragma wal_autocheckpoint = 0")
        cursor.execute("select count(*) from sqlite_master where name in ('jobs', 'runs', 'meta')")
        is_there = cursor.fetchone()[0] == 3
    if is_there:
        open_store()
