"""Jobs in a PostgreSQL database."""

from windlass.drivers.postgres.driver import PostgresDriver

__all__ = ["PostgresDriver"]
