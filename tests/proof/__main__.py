"""`make proof`"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import get_args

import windlass

from . import killed, simulated, tried
from .evidence import PARTS, Evidence
from .promises import PAGE, sworn_on
from .report import as_json, as_markdown
from .verdict import failures

# Of the whole time: each storm's, and what is kept for the simulator. The tests come first and may have all the rest, then
# the storms; the simulator, which can always use more, has what is left of it.
STORM, CAMPAIGN = 0.1, 0.15
CALMING = 15.0  # seconds that a storm needs to begin and to end, about


def main(argv: Sequence[str]) -> int:
    options = parser().parse_args(argv)
    began = time.monotonic()
    evidence = Evidence(
        windlass.__version__, f"{datetime.now(UTC):%Y-%m-%d}", machine(), options.seconds, 0.0, options.first,
        page=options.page.name, left_out=[part for part in PARTS if part not in options.parts],
    )  # fmt: skip

    def attempt(what: str, part: Callable[[], None]) -> None:
        """One part that breaks down keeps no other from telling what it saw."""
        print(f"proof: {what}", flush=True)
        try:
            part()
        except Exception as error:
            evidence.broken.append(f"{what}: {type(error).__name__}: {error}")

    def tests() -> None:
        evidence.promises, wrong = tried.run(sworn_on(options.page), options.seconds * share_of_tests(options.parts))
        evidence.broken += wrong

    def processes(store: killed.StoreName) -> None:
        evidence.killed.append(killed.run(store, max(options.seconds * STORM - CALMING, 1.0), options.first))

    def campaign() -> None:
        left = options.seconds - (time.monotonic() - began)
        evidence.simulated = simulated.run(options.first, max(left, 1.0))

    if "tests" in options.parts:
        attempt("the tests of each promise", tests)
    for store in get_args(killed.StoreName):
        if store in options.parts:
            attempt(f"real processes on {store}", partial(processes, store))
    if "simulator" in options.parts:
        attempt("simulated fleets", campaign)
    evidence.took = time.monotonic() - began
    return told(evidence, options.out)


def share_of_tests(parts: Collection[str]) -> float:
    return 1 - sum(CAMPAIGN if part == "simulator" else STORM for part in parts if part != "tests")


def told(evidence: Evidence, out: Path) -> int:
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.md").write_text(as_markdown(evidence))
    (out / "report.json").write_text(as_json(evidence))
    found = failures(evidence)
    for failure in found:
        print(f"proof: {failure}")
    held = "nothing that was tried failed" if evidence.left_out else "every promise held"
    print(f"proof: {'NOT PROVED' if found else held}; see {out / 'report.md'}")
    return 1 if found else 0


def machine() -> str:
    return f"Python {platform.python_version()} on {os.cpu_count()} cores, {platform.system()}"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="make proof", description=__doc__)
    made.add_argument(
        "--seconds", type=float, default=900, help="in all, about; what is not done by then is told, and fails"
    )
    made.add_argument("--first", type=int, default=int(f"{datetime.now(UTC):%Y%m%d}") * 10_000, help="seed")
    made.add_argument("--out", type=Path, default=Path("proof"), help="directory of report.md and report.json")
    made.add_argument("--page", type=Path, default=PAGE, help="that names the tests")
    made.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
