"""What users get: the wheel and the sdist as they are built, and empty environments to install them into."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SUPPORTED: Final = ("3.11", "3.12", "3.13")
OF_OURS: Final = ("WINDLASS_", "PYTEST_", "PYTHON", "VIRTUAL_ENV", "COV_", "UV_PROJECT", "DJANGO_")


def uv() -> str:
    ours = ROOT / ".uv" / "bin" / "uv"
    found = str(ours) if ours.exists() else shutil.which("uv")
    assert found is not None, "uv is needed; make .venv/.ready puts it into .uv"
    return found


def elsewhere(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment that knows nothing of this repository."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith(OF_OURS)}, **(more or {})}


def run(words: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, *, fails: bool = False) -> str:
    """What it said, on both; it must end well, or must not."""
    done = subprocess.run(words, cwd=cwd, env=env or elsewhere(), capture_output=True, text=True, timeout=240)
    said = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"{' '.join(words)} ended with {done.returncode}\n{said}"
    return said


@dataclass(frozen=True)
class Built:
    wheel: Path
    sdist: Path


def build(into: Path, source: Path = ROOT) -> Built:
    """The sdist, and the wheel from it, as they would be published."""
    words = [uv(), "build", "--quiet", "--python", sys.executable, "--out-dir", str(into)]
    _from_cache(words, source)
    return Built(*into.glob("*.whl"), *into.glob("*.tar.gz"))


@dataclass(frozen=True)
class Installed:
    """An environment with nothing in it but what was asked for, and a directory beside it to work in."""

    place: Path

    @property
    def python(self) -> str:
        return str(self.place / "env" / "bin" / "python")

    @property
    def command(self) -> str:
        return str(self.place / "env" / "bin" / "windlass")

    @property
    def environment(self) -> dict[str, str]:
        return elsewhere({"PATH": f"{self.place / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}"})

    def windlass(self, *words: str, cwd: Path, fails: bool = False) -> str:
        return run([self.command, *words], cwd, self.environment, fails=fails)

    def typed(self, line: str, cwd: Path) -> str:
        return run(["/bin/sh", "-c", line], cwd, self.environment)

    def runs(self, program: str, cwd: Path, *words: str) -> str:
        return run([self.python, "-c", program, *words], cwd, self.environment)


def install(package: Path, into: Path, *, extra: str | None = None, python: str = sys.executable) -> Installed:
    """With the versions of the lock file, so that tomorrow's release of something else is not our failure."""
    into.mkdir(parents=True, exist_ok=True)
    made = Installed(into)
    run([uv(), "venv", "--quiet", "--offline", "--no-project", "--python", python, str(into / "env")], into)
    asked = f"windlass{f'[{extra}]' if extra else ''} @ {package.as_uri()}"
    (into / "locked.txt").write_text(locked())
    _from_cache([uv(), "pip", "install", "--quiet", "--python", made.python, "-c", "locked.txt", asked], into)
    return made


@cache
def locked() -> str:
    words = [
        uv(),
        "export",
        "--quiet",
        "--offline",
        "--frozen",
        "--all-extras",
        "--no-dev",
        "--no-emit-project",
        "--no-hashes",
    ]
    return run(words, ROOT)


def _from_cache(words: Sequence[str], cwd: Path) -> None:
    """What was fetched once is not asked for again."""
    done = subprocess.run([*words, "--offline"], cwd=cwd, env=elsewhere(), capture_output=True, text=True, timeout=240)
    if done.returncode:
        run(words, cwd)


def interpreter(version: str) -> str | None:
    """A Python of this version on this machine: as uv finds it, else one of pyenv's that is not switched on."""
    words = [uv(), "python", "find", "--offline", "--no-project", "--no-python-downloads", version]
    done = subprocess.run(words, env=elsewhere(), cwd="/", capture_output=True, text=True, timeout=60)
    if done.returncode == 0:
        return done.stdout.strip()
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return next((str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python"))), None)
