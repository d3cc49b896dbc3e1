"""The example project, and what is inside_django.py, in processes of their own: Django has one set of settings in each.

What is promised is also tried with Django 6, by installed/test_matrix.py: that needs another Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from windlass.drivers.sqlite.driver import SqliteDriver
from windlass.errors import StoreUnavailable

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "django_shop"


def database(kind: str, directory: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    if kind == "sqlite":
        return {"SHOP_SQLITE": str(directory / "shop.sqlite3")}
    parts = urlsplit(str(request.getfixturevalue("fresh_database")))
    place = {"HOST": parts.hostname, "PORT": str(parts.port), "NAME": parts.path[1:], "USER": parts.username}
    return {f"SHOP_POSTGRES_{name}": str(value or "") for name, value in place.items()}


def run(arguments: list[str], said: dict[str, str], cwd: Path = SHOP, python: str = sys.executable) -> str:
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("WINDLASS_", "DJANGO_", "PYTEST_"))}
    path = os.pathsep.join([str(SHOP), os.environ.get("PYTHONPATH", str(ROOT / "src")), str(ROOT / "tests")])
    done = subprocess.run(
        [python, *arguments], cwd=cwd, capture_output=True, text=True, timeout=240,
        env={**usual, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **said},
    )  # fmt: skip
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def try_promises(kind: str, tmp_path: Path, request: pytest.FixtureRequest, python: str = sys.executable) -> str:
    """What Django it was."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path)]
    inside = str(Path(__file__).parent / "inside_django.py")
    said = {"DJANGO_SETTINGS_MODULE": "shop.settings", **database(kind, tmp_path, request)}
    words = ["-W", "error::DeprecationWarning:windlass", "-m", "pytest", *options, inside]
    assert " passed" in run(words, said, tmp_path, python)
    return run(["-c", "import django; print(django.__version__)"], said, tmp_path, python)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_is_promised_to_django_projects(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    assert try_promises(kind, tmp_path, request).startswith("5.")


def test_the_example_project_works_as_it_says(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    said = database("sqlite", tmp_path, request)
    assert "OK" in run(["manage.py", "test"], said)
    order = (
        "from django.core.management import call_command; from django.test import Client; call_command('migrate')\n"
        "Client().get('/orders/tea/'); Client().get('/orders/unicorn/')"
    )
    with pytest.raises(AssertionError, match=r"(?s)windlass\.0001_windlass\.\.\. OK.*there are none"):
        run(["manage.py", "shell", "-c", order], said)
    look = "from shop.asgi import application; from windlass.django import app; from windlass.admin import Admin\n"
    look += "import asyncio; print(asyncio.run(Admin(app.client).acting_as('x').jobs()).jobs[0].type)"
    assert "send_receipt" in run(["manage.py", "shell", "-c", look], said), "who acts for somebody finds the store"
    assert "succeeded 2" in run(["manage.py", "windlass", "worker", "--drain", "--settings", "shop.settings"], said)


def test_the_doctor_refuses_a_file_of_django_under_another_library(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    said = {**database("sqlite", tmp_path, request), "DJANGO_SETTINGS_MODULE": "shop.settings"}
    path = said["SHOP_SQLITE"]
    SqliteDriver(path, sqlite="stdlib")._opened.close()
    with pytest.raises(AssertionError, match=r"problem  store: .* is Django's database 'default'.*sqlite=\"stdlib\""):
        run(
            ["-m", "windlass", "doctor", "--store", f"sqlite:///{path}"],
            {**said, "DJANGO_SETTINGS_MODULE": "shop.settings"},
        )


def test_a_file_that_django_has_is_not_opened_through_apsw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.conf import LazySettings

    path = tmp_path / "shop.sqlite3"
    settings = LazySettings()
    settings.configure(DATABASES={"own": {"ENGINE": "django.db.backends.sqlite3", "NAME": path}})
    monkeypatch.setattr("django.conf.settings", settings)
    with pytest.raises(StoreUnavailable, match=r"is Django's database 'own'"):
        SqliteDriver(path)
    SqliteDriver(tmp_path / "jobs.db")._opened.close()
