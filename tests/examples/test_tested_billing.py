"""The example of a project that is tested with the plugin is green, and its tests can fail."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from windlass import loading
from windlass.drivers import sqlite
from windlass.testing import app

pytest_plugins = ["pytester"]
KEPT = (loading, sqlite, app)  # imported here, they are not imported anew by the project
HERE = Path(__file__).parents[2] / "examples" / "tested_billing"
ASIDE = [f"-pno:{name}" for name in "randomly cacheprovider schemathesis timeout xdist anyio asyncio".split()]


def outcomes(pytester: pytest.Pytester, *options: str, old: str = "", new: str = "") -> dict[str, int]:
    for name in ("billing.py", "test_billing.py", "pytest.ini"):
        shutil.copy(HERE / name, pytester.path)
    program = pytester.path / "billing.py"
    assert old in program.read_text()
    program.write_text(program.read_text().replace(old, new))
    pytester.syspathinsert()
    return pytester.runpytest_inprocess("-q", "-W", "error", *ASIDE, *options).parseoutcomes()


def test_the_example_is_green(pytester: pytest.Pytester) -> None:
    assert set(outcomes(pytester)) == {"passed"}


def test_a_receipt_without_a_key_is_found(pytester: pytest.Pytester) -> None:
    keyed = 'receipt.using(idempotency_key=f"receipt-{invoice}")'
    made = outcomes(pytester, "-k", "twice_charges or dies_one or too_long", old=keyed, new="receipt")
    assert made == {"failed": 4, "passed": 3, "deselected": 7}, "run twice, two of the points, and the lost lease"
