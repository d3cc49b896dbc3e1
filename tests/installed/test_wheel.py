"""The wheel with all extras, in an empty environment: what a user does in the first minutes works from it."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

from installed.environments import ROOT, Built, Installed
from installed.trying import begin_a_project, develop
from windlass import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCE = ROOT / "src" / "windlass"
SHIPPED = {".py", ".sql", ".html", ".css", ".js", ".svg", ".typed"}


def in_the_tree() -> set[str]:
    found = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"windlass/{path.relative_to(SOURCE).as_posix()}" for path in found}


def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    assert built.wheel.name == f"windlass-{__version__}-py3-none-any.whl", "pure Python, for every system"
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        times = {entry.date_time for entry in wheel.infolist()}
    assert names == in_the_tree()
    assert {PurePosixPath(name).suffix for name in names} == SHIPPED
    assert "windlass/py.typed" in names
    assert len(times) == 1, "when it was built is nowhere in it"


def test_the_sdist_holds_what_is_built_and_read(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    beside = {name for name in names if not name.startswith("src/windlass/")}
    assert {name.removeprefix("src/") for name in names - beside} == in_the_tree()
    assert beside == {
        "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "pyproject.toml", "PKG-INFO", ".gitignore",
    }  # fmt: skip


def test_the_wheel_says_what_it_is(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        about = f"windlass-{__version__}.dist-info"
        said = HeaderParser().parsestr(wheel.read(f"{about}/METADATA").decode())
        assert wheel.read(f"{about}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        entries = wheel.read(f"{about}/entry_points.txt").decode()
    assert said["Version"] == PROJECT["version"] == __version__
    assert (said["License-Expression"], said["Requires-Python"]) == ("Apache-2.0", ">=3.11")
    assert said.get_payload() == (ROOT / "README.md").read_text()
    assert "windlass = windlass.cli:main" in entries
    assert {"Typing :: Typed", *(f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13))} <= set(
        said.get_all("Classifier", [])
    )
    assert set(said.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])


def test_the_command_answers(everything: Installed, tmp_path: Path) -> None:
    assert everything.windlass("--version", cwd=tmp_path) == f"windlass {__version__}\n"
    assert everything.typed("python -m windlass --version", tmp_path) == f"windlass {__version__}\n"
    assert everything.windlass("__complete", "ini", cwd=tmp_path).startswith("init\t")
    where = everything.runs("import windlass; print(windlass.__file__)", tmp_path)
    assert where.startswith(str(everything.place)), "not the one of this repository"


def test_what_init_writes_works(everything: Installed, tmp_path: Path) -> None:
    begin_a_project(everything, tmp_path)
    develop(everything, tmp_path)


def test_the_demo_ends_by_itself_and_agrees_with_its_log(everything: Installed, tmp_path: Path) -> None:
    said = everything.windlass("demo", cwd=tmp_path)
    assert said.count("kill -9") == 2
    assert "nothing lost, nothing repeated after success" in said
    assert "windlass dlq list" in said
