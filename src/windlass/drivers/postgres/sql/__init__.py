"""The named SQL blocks of this driver. In their text `windlass.` stands for the schema of the store."""

from windlass.drivers.statement import Blocks

SQL = Blocks("windlass.drivers.postgres.sql", mark="$")
