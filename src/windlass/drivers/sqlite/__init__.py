"""Jobs in a SQLite file."""

from windlass.drivers.sqlite.driver import SqliteDriver

__all__ = ["SqliteDriver"]
