"""A throw-away environment with Huey in it, so that Windlass never depends on what it is compared with.

The standard library only: it runs before there is anything else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

PACKAGE: Final = "huey"
INSTALL_S: Final = 120.0
VERSIONS: Final = """
import sqlite3
from importlib.metadata import version
print(f"Huey {version('huey')}, its SQLite {sqlite3.sqlite_version}")
"""


class PeerMissing(SystemExit):
    """Ends a benchmark before it has measured anything, with words."""

    def __init__(self, environment: Path, why: str) -> None:
        super().__init__(
            f"Huey cannot be had in {environment}: {why}\nName an environment that has it (--peer-env DIR, made by "
            f"`uv venv DIR && uv pip install --python DIR/bin/python {PACKAGE}`), or leave --peers out."
        )


def interpreter(environment: Path) -> Path:
    return environment / "bin" / "python"


def versions(environment: Path) -> str | None:
    """None: there is no such environment, or no Huey in it."""
    if not interpreter(environment).exists():
        return None
    asked = subprocess.run([interpreter(environment), "-c", VERSIONS], capture_output=True, text=True, check=False)
    return asked.stdout.strip() if asked.returncode == 0 else None


def prepare(environment: Path) -> str:
    """Make the environment unless it is there; answers the versions in it."""
    found = versions(environment)
    if found is None:
        install(environment)
        found = versions(environment)
    if found is None:
        raise PeerMissing(environment, "it was installed and cannot be imported")
    return found


def install(environment: Path) -> None:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(__file__).parents[1] / ".uv" / "bin"))
    if uv is None:
        raise PeerMissing(environment, "there is no uv to install it with; `make` puts one into .uv/bin")
    steps: list[list[str]] = [["pip", "install", "--python", str(interpreter(environment)), PACKAGE]]
    if not interpreter(environment).exists():
        steps.insert(0, ["venv", "--python", sys.executable, str(environment)])
    for step in steps:
        try:
            done = subprocess.run(
                [uv, *step], capture_output=True, text=True, timeout=INSTALL_S, check=False,
                env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise PeerMissing(environment, f"uv {step[0]} took longer than {INSTALL_S:g} s") from None
        if done.returncode:
            raise PeerMissing(environment, f"uv {step[0]} says: {done.stderr.strip()}")
