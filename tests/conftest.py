"""What all tests share: PostgreSQL servers for those that ask, and what a run tells beyond passed and failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults import summary
from postgres.fixtures import empty_store, fresh_database, fresh_schema, postgres_driver, postgres_server, shelf
from postgres.programs import one_stage, stage
from stories import any_driver, sql_driver, url

__all__ = [
    "any_driver", "empty_store", "fresh_database", "fresh_schema", "one_stage", "postgres_driver", "postgres_server",
    "shelf", "sql_driver", "stage", "url",
]  # fmt: skip


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which fresh seeds the simulator tried, so that they can be tried again; which faults hit, and what they cost; which
    Pythons were not there to be tried; how long imports took."""
    told = [
        (name, value)
        for reports in terminalreporter.stats.values() for report in reports if getattr(report, "when", "") == "call"
        for name, value in getattr(report, "user_properties", ())
    ]  # fmt: skip
    for name, value in told:
        if name in ("simulator", "interpreters", "imports"):
            terminalreporter.write_line(f"{name}: {value}")
    faults = summary.table(value for name, value in told if name == summary.PROPERTY)
    if len(faults) > 3:
        terminalreporter.write_line("\n".join(faults))
        if "FAULTS_PAGE" in os.environ:
            summary.keep(Path(os.environ["FAULTS_PAGE"]), faults)
