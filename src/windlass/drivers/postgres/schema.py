"""The schema: is it there, is it what this version knows, and may what is missing be applied?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psycopg

from windlass.drivers.migrations import Migration, Status, known, missing
from windlass.drivers.postgres.faults import ACCEPTS_NO_WRITES, Overdue, Taken, translate
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.migrating import applied_steps, apply, make, script
from windlass.drivers.postgres.place import Migrate, Place
from windlass.drivers.postgres.sharing import check_own_session
from windlass.drivers.postgres.timed import Timed
from windlass.drivers.statement import Statement
from windlass.errors import SchemaMissing, SchemaTooOld, StoreReadOnly, StoreUnavailable

OLDEST: Final = 150_000


def own_steps() -> list[Migration]:
    return known("windlass.drivers.postgres.migrations")


def look(link: Link, place: Place, mode: Migrate, steps: Sequence[Migration] | None = None) -> list[Migration]:
    """Which steps are to be applied now. Raises when the schema is not usable and may not be made so."""
    steps = own_steps() if steps is None else list(steps)
    _check_server(link, place)
    applied = applied_steps(link)
    left = missing(steps, applied, str(place))
    if not left:
        return []
    if not applied and mode == "never":
        raise SchemaMissing(str(place), "there is no Windlass schema here")
    if applied and mode != "auto":
        raise SchemaTooOld(str(place), max(applied), len(steps))
    [(standby,)] = link.execute(Statement("select pg_is_in_recovery()", ()))
    if standby:
        raise StoreReadOnly(str(place), ACCEPTS_NO_WRITES)
    return left


def _check_server(link: Link, place: Place) -> None:
    version = link.open().info.server_version
    if version < OLDEST:
        raise StoreUnavailable(
            f"{place}: PostgreSQL {version // 10_000} is too old; {OLDEST // 10_000} or newer is needed, see: "
            "select version()"
        )
    check_own_session(link, place)


def migrate(place: Place, steps: Sequence[Migration] | None = None, *, mode: Migrate = "auto") -> list[str]:
    """Apply what is missing, on a connection of its own; answers what was. A step may take as long as it takes, while the
    server is there."""
    steps = own_steps() if steps is None else list(steps)
    link = Timed(place)
    try:
        left = look(link, place, mode, steps)
        if left == steps:
            if make(link, place, left):
                return [step.label for step in left]
            left = look(link, place, mode, steps)
        return [step.label for step in left if apply(link, place, step)]
    except (psycopg.Error, Taken, Overdue) as error:
        raise translate(error, place) from error
    finally:
        link.give_up()


def status(place: Place, steps: Sequence[Migration] | None = None) -> Status:
    """Changes nothing."""
    steps = own_steps() if steps is None else list(steps)
    link = Timed(place)
    try:
        _check_server(link, place)
        applied = applied_steps(link)
    except (psycopg.Error, Taken, Overdue) as error:
        raise translate(error, place) from error
    finally:
        link.give_up()
    left = missing(steps, applied, str(place))
    return Status(str(place), tuple((step, step not in left) for step in steps), script(place, left, empty=left == steps))
