"""The named SQL blocks of this driver."""

from windlass.drivers.statement import Blocks

SQL = Blocks("windlass.drivers.sqlite.sql")
