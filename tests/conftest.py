"""What all tests share: PostgreSQL servers for those that ask, and what a run tells beyond passed and failed."""

from __future__ import annotations

import pytest

from postgres.fixtures import fresh_database, fresh_schema, postgres_server

__all__ = ["fresh_database", "fresh_schema", "postgres_server"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which fresh seeds the simulator tried, so that they can be tried again."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
                if name == "simulator":
                    terminalreporter.write_line(f"simulator: {value}")
