"""A handler that forks: its copy is no second worker, however it comes out of the handler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

CODES = {"exits": 7, "raises": 1, "returns": 0}


@pytest.mark.parametrize("ends", CODES)
@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_copy_that_a_handler_forks_ends_with_the_handler(tmp_path: Path, store: str, kind: str, ends: str) -> None:
    """It went on as a second worker of the same name, on the same event loop, and took the first one's ears away; or it
    waited for ever in the place of a thread."""
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    told = tmp_path / "told"
    with told.open("wb") as output:
        program = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forking.py")), url, kind, ends], stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        code = program.wait(60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)  # also what it has left behind
        program.wait()
    lines = told.read_text().splitlines()
    assert (code, [line for line in lines if line.startswith("result")]) == (0, [f"result {CODES[ends]} 1"] * 2), lines
