"""`make test` runs few failures once more, alone; what repeats, or is many, stays a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLAKY = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("n", range({count}))
def test_one(n):
    seen = Path(f"seen-{{n}}")
    if {always} or not seen.exists():
        seen.touch()
        raise AssertionError
"""


@pytest.mark.parametrize(
    ("count", "always", "answer", "said"),
    [(3, False, 0, "A RACE"), (1, True, 1, "1 failed"), (4, False, 1, "too many")],
)
def test_a_failure_that_does_not_repeat_is_named_and_one_that_does_stays(
    tmp_path: Path, count: int, always: bool, answer: int, said: str
) -> None:
    (tmp_path / "test_flaky.py").write_text(FLAKY.format(count=count, always=always))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert run("-m", "pytest", "-q").returncode == 1
    assert run(str(ROOT / "tools" / "again.py"), "137").returncode == 137, "who was killed has not run them all"
    again = run(str(ROOT / "tools" / "again.py"), "1")
    assert (again.returncode, said in again.stdout) == (answer, True), again.stdout
    assert "test_flaky.py::test_one[0]" in again.stdout or answer
