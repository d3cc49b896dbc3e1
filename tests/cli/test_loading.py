"""APP as people type it, and what they are told when it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Cli
from windlass.clock import SECOND
from windlass.errors import InvalidInput
from windlass.loading import load_app


@pytest.mark.parametrize("target", ["tasks", "tasks:app", "tasks.py", "./tasks.py", "tasks.py:app"])
def test_every_way_of_naming_an_app_leads_to_it(cli: Cli, target: str) -> None:
    assert "hello" in load_app(target).tasks


def test_the_only_app_of_a_module_is_found_under_any_name(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "only.py").write_text("from windlass import Windlass\njobs = Windlass(lease='41s')\n")
    assert load_app("only").client.settings.lease == 41 * SECOND


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("taks", "did you mean 'tasks'"), ("tasks:ap", "did you mean 'app'"), ("tasks:hello", "not a Windlass app"),
        ("tasks:hello", "did you mean tasks:app"), ("task.py", "did you mean 'tasks.py'"),
        ("two", "name one of two:a, two:b"),
        ("none", "app = Windlass()"), ("not a module", "tasks:app"), ("", "tasks:app"), ("no-name.py", "rename it"),
    ],
)  # fmt: skip
def test_an_app_that_is_not_there_is_explained(cli: Cli, tmp_path: Path, target: str, told: str) -> None:
    (tmp_path / "two.py").write_text("from windlass import Windlass\na, b = Windlass(), Windlass()\n")
    (tmp_path / "none.py").write_text("")
    (tmp_path / "no-name.py").write_text("")
    with pytest.raises(InvalidInput, match="app: ") as refused:
        load_app(target)
    assert told in str(refused.value)


def test_a_module_that_breaks_is_not_called_missing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\nraise RuntimeError('at import')\n")
    done = cli("worker", "broken")
    assert done.code == 1
    assert "RuntimeError: at import (broken.py:2)" in done.err
    (tmp_path / "needs.py").write_text("import not_installed_at_all\n")
    assert "imports 'not_installed_at_all'" in cli("worker", "needs").err


def test_what_breaks_an_import_is_looked_for_in_the_persons_own_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "unfinished.py").write_text("x = 1\ndef send(:\n")
    said = cli("worker", "unfinished").err
    assert "(unfinished.py, line 2)" in said
    assert "importlib" not in said
    (tmp_path / "badcron.py").write_text(
        "from windlass import Windlass\napp = Windlass()\n@app.cron('0 25 * * *')\nasync def f() -> None: ...\n"
    )
    said = cli("worker", "badcron").err
    assert "(badcron.py:3)" in said
    assert "cron.py:" not in said.replace("badcron.py:", "")


def test_an_app_without_tasks_cannot_work(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("from windlass import Windlass\napp = Windlass()\n")
    done = cli("worker", "empty")
    assert done.code == 2
    assert "@app.task" in done.err
