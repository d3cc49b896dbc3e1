"""The public types, as users' own checkers see them: mypy and pyright must agree on every line of both files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
Check = Callable[[Path], dict[int, str]]


def mypy(file: Path) -> dict[int, str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-pretty", "--cache-dir=.cache", file.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=file.parent)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(rf"^{file.name}:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert len(found) == done.stdout.count(": error: "), done.stdout  # none of them is somewhere else
    return {int(line): message for line, message in found}


def pyright(file: Path) -> dict[int, str]:
    (file.parent / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "include": [file.name]}))
    command = [str(BIN / "pyright"), "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=file.parent)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    return {
        item["range"]["start"]["line"] + 1: item["message"]
        for item in report["generalDiagnostics"]
        if item["severity"] == "error"
    }


def copied(name: str, to: Path) -> Path:
    """Away from this repository's own settings: what counts is what users see."""
    return Path(shutil.copy(HERE / name, to))


checkers = pytest.mark.parametrize("check", [mypy, pyright])


@checkers
def test_correct_programs_are_accepted(check: Check, tmp_path: Path) -> None:
    assert check(copied("accepted.py", tmp_path)) == {}


@checkers
def test_each_marked_mistake_is_refused_and_nothing_else(check: Check, tmp_path: Path) -> None:
    file = copied("refused.py", tmp_path)
    marked = {n for n, line in enumerate(file.read_text().splitlines(), 1) if line.endswith("# expect-error")}
    found = check(file)
    assert len(marked) >= 30
    assert {line: found[line] for line in found.keys() - marked} == {}, "refused without a mark"
    assert marked - found.keys() == set(), "marked, but accepted"
