"""Ask whether any package of uv.lock has a known vulnerability, with `pip-audit --strict`.

Answers 0 when none has, 1 when one has, and 75 with the word *not audited* when nobody could tell: the tool or its data
could not be had. Silence of a database that was not reached is no verdict. `make` turns either failure into its own 2.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
UV: Final = str(ROOT / ".uv" / "bin" / "uv")
PIP_AUDIT: Final = (UV, *"tool run pip-audit --strict --disable-pip --require-hashes --progress-spinner off".split())
FINE, VULNERABLE, NOT_AUDITED = 0, 1, 75
PATIENCE: Final = 300.0  # seconds
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        pinned = Path(place, "requirements.txt")
        return audited(run, pinned)


def audited(run: Run, pinned: Path) -> int:
    export = run([UV, "export", "-q", "--frozen", "--all-extras", "--all-groups", "--no-emit-project", "-o", str(pinned)])
    if export.returncode:
        return not_audited("uv.lock cannot be read", export.stderr)
    asked = run([*PIP_AUDIT, "-r", str(pinned)])
    said = asked.stdout + asked.stderr
    if asked.returncode == 0 and "No known vulnerabilities found" in said:
        packages = sum("==" in line for line in pinned.read_text().splitlines())
        print(f"audited: {packages} packages of uv.lock, no known vulnerability")
        return FINE
    if asked.returncode == 1 and "known vulnerabilit" in said:
        print(said.strip())
        return VULNERABLE
    return not_audited("pip-audit or its data cannot be had", said)


def not_audited(why: str, said: str) -> int:
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
    print(f"not audited: {why} ({last[:200]})")
    return NOT_AUDITED


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, NOT_AUDITED, "", str(error))


if __name__ == "__main__":
    sys.exit(main())
