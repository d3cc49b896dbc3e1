"""`make audit` says what it knows, and never that all is well when nobody could tell."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))
import audit

PINNED = "one==1.0 \\\n    --hash=sha256:00\ntwo==2.0 \\\n    --hash=sha256:00\n"
UNREACHABLE = "Traceback\nrequests.exceptions.ConnectionError: name resolution failed\n"


@pytest.mark.parametrize(
    ("code", "said", "answer", "printed"),
    [
        (0, "No known vulnerabilities found\n", 0, "audited: 2 packages"),
        (1, "Found 1 known vulnerability in 1 package\none 1.0 PYSEC-1\n", 1, "PYSEC-1"),
        (1, UNREACHABLE, 75, "not audited: pip-audit or its data cannot be had"),
        (1, "ERROR:pip_audit: one: Dependency not found on PyPI and could not be audited\n", 75, "not audited"),
        (0, "", 75, "not audited"),
        (127, "", 75, "not audited"),
    ],
)
def test_the_verdict_is_what_was_found_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, said: str, answer: int, printed: str
) -> None:
    pinned, asked = tmp_path / "pinned.txt", list[Sequence[str]]()

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        pinned.write_text(PINNED)
        return subprocess.CompletedProcess(
            command, 0 if "export" in command else code, "", "" if "export" in command else said
        )

    assert audit.audited(run, pinned) == answer
    assert printed in capsys.readouterr().out
    assert "--strict" in asked[1]
    assert "--frozen" in asked[0], "the lock file as it is"


def test_a_lock_file_that_cannot_be_read_is_not_audited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = subprocess.CompletedProcess([], 2, "", "no lock file")
    assert audit.audited(lambda _: broken, tmp_path / "x") == 75
    assert "not audited: uv.lock cannot be read (no lock file)" in capsys.readouterr().out


def test_a_tool_that_is_not_there_is_not_audited() -> None:
    assert audit.run(["/nowhere/uv"]).returncode == 75
