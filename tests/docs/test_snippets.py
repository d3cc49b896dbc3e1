"""README and docs are true: every snippet and every command runs as it stands.

A page is a session in an empty directory. A Python block that begins with `# name.py` is saved under that name, and is
run like any other. In a console block every line that begins with `$` is typed, in order, and must end well. A page that
says `<!-- store: postgresql -->` has `WINDLASS_URL` name an empty database; one with `<!-- tried by … -->` has a test of
its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.S | re.M)
SESSIONS = {
    page: found for page in PAGES if (found := BLOCK.findall(page.read_text())) and "<!-- tried by" not in page.read_text()
}


@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_snippet_runs_as_it_stands(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    needs_server = "<!-- store: postgresql -->" in page.read_text()
    store = {"WINDLASS_URL": str(request.getfixturevalue("fresh_database"))} if needs_server else {}
    for number, (kind, text) in enumerate(SESSIONS[page], 1):
        if kind == "python":
            named = re.match(r"# (\w+\.py)\n", text)
            path = tmp_path / (named[1] if named else f"snippet_{number}.py")
            path.write_text(text)
            run([sys.executable, str(path)], tmp_path, store)
        else:
            for command in re.findall(r"^\$ (.*)$", text, re.M):
                run(["/bin/sh", "-c", command], tmp_path, store)


def run(command: list[str], directory: Path, store: dict[str, str]) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    done = subprocess.run(
        command, cwd=directory, env={**environment, **store, "PATH": path}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_there_are_snippets_to_run() -> None:
    assert ROOT / "README.md" in SESSIONS
