"""What is imported when, and what comes along: a short command must not pay for a worker, nor a producer for a server.

Times are told and not judged: how busy the machine is, is not ours to say.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from installed.environments import ROOT

WATCH = """
import json, sys, time
before, began = set(sys.modules), time.perf_counter()
{program}
took = time.perf_counter() - began
json.dump({{"took": took, "modules": sorted(set(sys.modules) - before)}}, sys.stderr)
"""
EXTRAS = {
    "aiohttp", "asgiref", "asyncpg", "cryptography", "django", "httpx2", "hypothesis", "jinja2", "opentelemetry", "psycopg",
    "pytest", "sentry_sdk", "sqlalchemy", "starlette", "uvicorn",
}  # fmt: skip
TERMINAL = {"cyclopts", "rich", "docstring_parser", "pygments"}
Imported = Callable[[str], set[str]]


@pytest.fixture
def imported(record_property: Any, tmp_path: Path) -> Imported:
    def watch(program: str) -> set[str]:
        """Modules by their full names; those of others, which are not of Python itself, by the first part too."""
        words = [sys.executable, "-c", WATCH.format(program=program)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stderr.splitlines()[-1])
        record_property("imports", f"{program!r} took {seen['took'] * 1000:.0f} ms, {len(seen['modules'])} modules")
        return {*seen["modules"], *(name.partition(".")[0] for name in seen["modules"])}

    return watch


def ours(seen: set[str]) -> set[str]:
    """Of `windlass.web.app`, `web`."""
    return {name.split(".")[1] for name in seen if name.startswith("windlass.")}


def test_importing_the_package_imports_next_to_nothing(imported: Imported) -> None:
    seen = imported("import windlass")
    assert {name for name in seen if name.startswith("windlass")} == {"windlass"}
    assert seen & {"asyncio", "apsw", "msgspec", *EXTRAS, *TERMINAL} == set()


def test_a_program_with_tasks_imports_neither_extras_nor_the_terminal(imported: Imported) -> None:
    seen = imported("from windlass import Windlass; app = Windlass(); app.task(lambda: None, name='x')")
    assert seen & {"apsw", *EXTRAS, *TERMINAL} == set()
    assert ours(seen) & {"admin", "cli", "web", "testing", "demo", "bench", "django", "asgi"} == set()
    assert seen & {f"windlass.drivers.{name}" for name in ("sqlite", "postgres", "http", "memory")} == set()


def test_a_worker_imports_no_administration(imported: Imported) -> None:
    """Memory that each of them would hold for nothing."""
    assert ours(imported("import windlass.cli.worker")) & {"admin", "web", "testing"} == set()


def test_telling_the_version_imports_no_command(imported: Imported) -> None:
    seen = imported("import windlass.cli; windlass.cli.main(['--version'])")
    assert {name for name in seen if name.startswith("windlass")} == {"windlass", "windlass.cli"}
    assert seen & {"asyncio", "msgspec", *EXTRAS, *TERMINAL} == set()


def test_help_imports_neither_the_web_nor_drivers(imported: Imported) -> None:
    seen = imported("import windlass.cli; windlass.cli.main(['--help'])")
    assert ours(seen) & {"web", "drivers", "worker", "app", "client", "admin", "testing"} == set()
    assert seen & {"rich", "apsw", *EXTRAS} == set()


# --------------------------------------------------------------------------------------------------------- dependencies


def test_few_others_are_needed() -> None:
    """One more is a decision: change the list here, and say why in pyproject.toml."""
    locked = {one["name"]: one for one in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    direct = {one["name"] for one in locked["windlass"]["dependencies"]}
    assert direct == {"apsw", "cronsim", "cyclopts", "msgspec", "rich"}
    needed, new = set[str](), direct
    while new:
        needed |= new
        new = {one["name"] for name in new for one in locked[name].get("dependencies", ())} - needed
    assert needed - direct == {"attrs", "docstring-parser", "markdown-it-py", "mdurl", "pygments", "rich-rst"}
