"""Django: its connection wrapper, inside `transaction.atomic()`. It calls us after the commit of the outermost block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from windlass.drivers.postgres.callers import psycopg
from windlass.drivers.postgres.callers.kinds import Caller, is_of, named
from windlass.drivers.postgres.place import Place
from windlass.drivers.statement import Row, Statement
from windlass.errors import WrongConnection


def is_django(connection: object) -> TypeGuard[Any]:
    """Also the proxy that `django.db.connection` is."""
    return is_of(connection, "django.db.backends.base.base", "BaseDatabaseWrapper") or is_of(
        connection, "django.utils.connection", "ConnectionProxy"
    )


def caller(given: Any, place: Place) -> Caller:
    if given.vendor != "postgresql":
        raise WrongConnection(f"Django's connection {given.alias!r} is to {given.vendor}, this store is PostgreSQL")
    given.validate_thread_sharing()
    if given.get_autocommit():
        raise WrongConnection(
            f"Django's connection {given.alias!r} is in no transaction, so the job could not be part of one; write: "
            f"with transaction.atomic({'' if given.alias == 'default' else f'using={given.alias!r}'}):"
        )
    if given.needs_rollback:
        raise WrongConnection("the atomic block has failed; leave it first")
    given.ensure_connection()
    if not psycopg.is_blocking(given.connection):
        raise WrongConnection(f"Django uses {named(given.connection)} here; install psycopg 3, which it prefers")
    return DjangoCaller(given, psycopg.PsycopgCaller(given.connection, place))


class DjangoCaller:
    def __init__(self, wrapper: Any, below: Caller) -> None:
        self._wrapper, self._below = wrapper, below

    @property
    def hooks(self) -> bool:
        return bool(self._wrapper.in_atomic_block)  # after set_autocommit(False) it calls nobody

    def after_commit(self, tell: Callable[[], None]) -> None:
        self._wrapper.on_commit(tell)

    def execute(self, statement: Statement) -> list[Row]:
        return self._below.execute(statement)
