"""Each extra alone, every Python there is, the sdist: minutes, so for `make test-all`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from frameworks.test_django import try_promises
from installed.environments import ROOT, SUPPORTED, Built, Installed, build, install, interpreter, run
from installed.trying import begin_a_project, develop, look_at_the_dashboard, serving

pytestmark = pytest.mark.full

# What an extra enables, as a program that works with it. Without it, it must say which one to install.
ENABLED = {
    "postgres": """
import asyncio, sys
from windlass import Windlass
app = Windlass(sys.argv[1])
@app.task
async def hello(name: str) -> str:
    return f"Hello, {name}!"
async def main():
    async with app:
        job = await hello.enqueue("Ada")
        assert (await app.tick()).succeeded == 1
        assert await job.result() == "Hello, Ada!"
asyncio.run(main())
""",
    "server": """
import asyncio
from windlass import Windlass
from windlass.asgi import lifespan
from windlass.web.app import web_app
web_app(Windlass("memory://"))
""",
    "otel": """
from windlass import Windlass
from windlass.telemetry.tracing import trace_jobs
app = Windlass("memory://")
trace_jobs(app)
app.task(lambda: None, name="nothing").enqueue_sync()
""",
    "sentry": """
from windlass import Windlass
from windlass.telemetry.sentry import report_dead_jobs
report_dead_jobs(Windlass("memory://"))
""",
    "django": """
from importlib.util import find_spec
if find_spec("django"):
    import django
    from django.conf import settings
    from django.core.management import call_command
    settings.configure(
        INSTALLED_APPS=["windlass.django"], DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "d.db"}}
    )
    django.setup()
    call_command("migrate", verbosity=0)
from windlass.django import app
job = app.task(lambda: None, name="nothing").enqueue_sync()
assert job.fetch_sync().state == "queued"
""",
    "crypto": """
import asyncio
from windlass import Windlass
from windlass.cli import main as typed
assert typed(["keys", "add", "keys.txt", "--name", "one"]) in (0, 3)
app = Windlass("memory://", key_file="keys.txt")
@app.task
async def hello(name: str) -> str:
    return f"Hello, {name}!"
async def main():
    async with app:
        job = await hello.enqueue("Ada")
        await app.tick()
        assert await job.result() == "Hello, Ada!"
asyncio.run(main())
""",
    "testing": """
from windlass.testing.conformance import DriverConformance
from windlass.testing.model import differential
""",
}
# These are imported by the program itself: what is to be seen is that it works with the versions that we name.
BROUGHT = {
    "sqlalchemy": """
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from windlass import Windlass
app = Windlass("sqlite:///jobs.db", sqlite="stdlib")
task = app.task(lambda: None, name="nothing")
task.enqueue_sync()
with Session(create_engine("sqlite:///jobs.db")) as session, session.begin():
    job = task.using(conn=session).enqueue_sync()
assert job.fetch_sync().state == "queued"
""",
}
EXTRAS = [None, *ENABLED, *BROUGHT]


def test_every_extra_is_tried() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {*ENABLED, *BROUGHT, "all"} == set(declared)


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: extra or "none")
def test_an_extra_enables_what_it_says_and_what_is_missing_is_named(
    extra: str | None, built: Built, tmp_path: Path, fresh_database: str
) -> None:
    installed = install(built.wheel, tmp_path / "made", extra=extra)
    if extra in BROUGHT:
        installed.runs(BROUGHT[extra], tmp_path)
    for other, program in ENABLED.items():
        if other == extra:
            installed.runs(program, tmp_path, fresh_database)
        else:
            assert f"pip install 'windlass[{other}]'" in failing(installed, program, tmp_path, fresh_database), other
    if extra != "server":
        for words in (("serve", "--store", "memory://"), ("jobs", "list", "--store", "http://127.0.0.1:1")):
            assert "pip install 'windlass[server]'" in installed.windlass(*words, cwd=tmp_path, fails=True)
    else:
        installed.windlass("migrate", cwd=tmp_path)
        with serving(installed, tmp_path, "serve") as address:
            look_at_the_dashboard(address)
            assert "no store" not in installed.windlass("jobs", "list", "--store", address, cwd=tmp_path)


def failing(installed: Installed, program: str, cwd: Path, *words: str) -> str:
    return run([installed.python, "-c", program, *words], cwd, installed.environment, fails=True)


def test_without_extras_a_project_works(built: Built, tmp_path: Path) -> None:
    installed = install(built.wheel, tmp_path / "made")
    told = json.loads(installed.windlass("init", "shop", "--json", cwd=tmp_path))
    assert [step for step in told["next"] if "dev" in step or "pytest" in step] == [], "only what works here is proposed"
    for step in told["next"][1:]:
        installed.typed(step, tmp_path / "shop")
    assert "nothing lost" in installed.windlass("demo", cwd=tmp_path)


# ---------------------------------------------------------------------------------------------------------- interpreters


@pytest.mark.parametrize("version", SUPPORTED)
def test_it_works_on_every_python_there_is(version: str, built: Built, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    installed = install(built.wheel, tmp_path / "made", extra="all", python=python)
    assert installed.runs("import sys; print('%d.%d' % sys.version_info[:2])", tmp_path).strip() == version
    (tmp_path / "shop").mkdir()
    begin_a_project(installed, tmp_path / "shop")
    develop(installed, tmp_path / "shop")
    assert "nothing lost" in installed.windlass("demo", cwd=tmp_path)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_is_promised_to_django_projects_holds_on_django_six(
    kind: str, built: Built, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    python = interpreter("3.12") or interpreter("3.13")
    if python is None:
        pytest.skip("there is no Python on this machine that Django 6 runs on")
    installed = install(built.wheel, tmp_path / "made", extra="all", python=python)
    assert try_promises(kind, tmp_path, request, str(installed.python)) >= "6."


def test_which_pythons_were_there_is_told(record_property: Any) -> None:
    found = {version: interpreter(version) for version in SUPPORTED}
    assert any(found.values())
    tried = ", ".join(version for version, python in found.items() if python)
    missing = ", ".join(version for version, python in found.items() if not python)
    record_property("interpreters", f"the wheel was tried on Python {tried}; not found here: {missing or 'none'}")


# ----------------------------------------------------------------------------------------------------------------- builds


def test_pip_installs_the_sdist(built: Built, tmp_path: Path) -> None:
    run([sys.executable, "-m", "venv", str(tmp_path / "env")], tmp_path)
    installed = Installed(tmp_path)
    run([installed.python, "-m", "pip", "install", "--quiet", str(built.sdist)], tmp_path, installed.environment)
    (tmp_path / "shop").mkdir()
    installed.windlass("init", cwd=tmp_path / "shop")
    installed.typed("windlass enqueue --app tasks hello name=Ada && windlass worker tasks --drain", tmp_path / "shop")


def test_the_same_source_gives_the_same_bytes(built: Built, tmp_path: Path) -> None:
    """Elsewhere, at another time, with other rights."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", ".gitignore"):
        shutil.copyfile(ROOT / name, copy / name)
    for path in copy.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    again = build(tmp_path / "dist", copy)
    assert digest(again.wheel) == digest(built.wheel)
    assert digest(again.sdist) == digest(built.sdist)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
