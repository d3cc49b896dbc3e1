"""What a run tells beyond passed and failed: which fresh seeds the simulator tried, so that they can be tried again."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
                if name == "simulator":
                    terminalreporter.write_line(f"simulator: {value}")
