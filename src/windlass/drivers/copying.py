"""One end of a copy of a store, for every kind of store. The calls block, because a copy does one thing after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from windlass.apart import apart
from windlass.clock import Clock
from windlass.copy_errors import CopyRefused
from windlass.core.copying import IN, OUT, TABLES, Mark, Row, Table
from windlass.drivers import HTTP, POSTGRES, open_driver, unknown
from windlass.drivers.ops import copying
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.statement import Op, T
from windlass.types import Micros
from windlass.urls import redacted, scheme_of, url_of_file


class Holds(Protocol):
    """What a copy needs of a driver."""

    @property
    def clock(self) -> Clock: ...
    def transact_sync(self, make: Callable[[], Op[T]]) -> T: ...
    def read_sync(self, make: Callable[[], Op[T]]) -> T: ...
    async def close(self) -> None: ...


class End:
    def __init__(self, where: str, driver: Holds, hand: copying.Hand, dialect: Dialect) -> None:
        self.where: Final = where  # for people, and for those who are sent there: without a password
        self._driver = driver
        self._hand = hand
        self._dialect = dialect

    def now(self) -> Micros:
        return self._driver.clock.now()

    def close(self) -> None:
        apart(self._driver.close)

    # --------------------------------------------------------------------------------------------------------- looking

    def store_id(self) -> str:
        return self._read(lambda: copying.store_id(self._hand))

    def source_mark(self) -> Mark | None:
        return self._read(lambda: copying.mark_of(self._hand, OUT))

    def target_mark(self) -> Mark | None:
        return self._read(lambda: copying.mark_of(self._hand, IN))

    def count(self, table: Table) -> int:
        return self._read(lambda: copying.count(self._hand, table))

    def counts(self) -> dict[str, int]:
        return {table.name: self.count(table) for table in TABLES}

    def filled(self) -> list[str]:
        return self._read(lambda: copying.filled(self._hand))

    def leased(self) -> tuple[int, Micros]:
        return self._read(lambda: copying.leased(self._hand, self.now()))

    def page(self, table: Table, after: Row | None, limit: int) -> list[Row]:
        return self._read(lambda: copying.page(self._hand, table, after, limit))

    def last_key(self, table: Table) -> Row | None:
        return self._read(lambda: copying.last_key(self._hand, table))

    def last_numbers(self) -> dict[str, int]:
        return self._read(lambda: copying.last_numbers(self._hand))

    def _read(self, make: Callable[[], Op[T]]) -> T:
        return self._driver.read_sync(make)

    # ------------------------------------------------------------------------------------------------------ as the source

    def drain(self, mark: Mark) -> bool:
        return self._write(lambda: copying.drain(self._hand, mark))

    def move(self, was: Mark, mark: Mark, *, abandon: bool) -> bool:
        return self._write(lambda: copying.move(self._hand, was, mark, self.now(), abandon=abandon))

    def say(self, was: Mark, mark: Mark) -> bool:
        """Another owner, or a later time, or handed over: what is refused stays the same."""
        return self._write(lambda: copying.turn(self._hand, OUT, was, mark, "as it is"))

    def reopen(self, was: Mark) -> bool:
        return self._write(lambda: copying.reopen(self._hand, was))

    # ------------------------------------------------------------------------------------------------------ as the target

    def receive(self, was: Mark | None, mark: Mark) -> list[str]:
        return self._write(lambda: copying.receive(self._hand, was, mark))

    def put(self, table: Table, rows: Sequence[Row], copy_id: str) -> None:
        self._write(lambda: copying.put(self._hand, table, rows, copy_id))

    def go_on_after(self, numbers: dict[str, int], copy_id: str) -> None:
        self._write(lambda: copying.go_on_after(self._hand, numbers, copy_id))

    def clear(self, was: Mark) -> bool:
        return self._write(lambda: copying.clear(self._hand, was))

    def open(self, was: Mark, mark: Mark) -> bool:
        return self._write(lambda: copying.open_(self._hand, self._dialect, was, mark, self.now()))

    def _write(self, make: Callable[[], Op[T]]) -> T:
        return self._driver.transact_sync(make)


def open_end(url: str, **options: Any) -> End:
    """`options` are the driver's own, as for `open_driver`."""
    scheme = scheme_of(url)
    if scheme == "memory":
        raise CopyRefused("memory:// cannot be copied: what it holds is this process's own, and ends with it")
    if scheme in HTTP:
        raise CopyRefused(f"{redacted(url)}: a store that is served cannot be copied; name the store itself, on its server")
    if scheme not in ("sqlite", *POSTGRES):
        raise unknown(url)
    driver = open_driver(url, **options)
    if scheme == "sqlite":
        from windlass.drivers.sqlite import SqliteDriver, dialect
        from windlass.drivers.sqlite.copying import HAND as SQLITE

        assert isinstance(driver, SqliteDriver)
        return End(url_of_file(driver.path), driver, SQLITE, dialect.DIALECT)
    from windlass.drivers.postgres import PostgresDriver
    from windlass.drivers.postgres.copying import HAND
    from windlass.drivers.postgres.dialect import DIALECT

    assert isinstance(driver, PostgresDriver)
    place = driver.place
    return End(place.url if place.schema == "windlass" else str(place), driver, HAND, DIALECT)
