"""Write docs/drivers/contract.md from the protocol's docstrings and the conformance suite: a promise, then its test.

python tools/contract.py            write the page
python tools/contract.py --check    fail when the page is not what would be written
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from generated import ROOT, write_or_check

from windlass.drivers import protocol
from windlass.testing.conformance import DriverConformance, DurabilityPromises, SqlPromises, TransactionPromises
from windlass.testing.conformance.hand_made import HandMadePromises

PAGE = ROOT / "docs" / "drivers" / "contract.md"
SUITES = [*DriverConformance.__bases__, TransactionPromises, DurabilityPromises, HandMadePromises, SqlPromises]


def methods() -> Iterator[tuple[str, str]]:
    for name, member in vars(protocol.Driver).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            yield name, inspect.getdoc(member) or ""


def promises(suite: type) -> Iterator[tuple[str, str, int]]:
    """(test, promise, line) in the order of the file."""
    path = Path(inspect.getfile(suite))
    lines = path.read_text().splitlines()
    for name, member in vars(suite).items():
        if name.startswith("test_"):
            line = next(n for n, text in enumerate(lines, 1) if f"def {name}(" in text)
            yield name, " ".join((member.__doc__ or "").split()), line


def chapter(suite: type) -> Iterator[str]:
    module = sys.modules[suite.__module__]
    path = Path(inspect.getfile(suite)).relative_to(ROOT)
    title, _, rest = (module.__doc__ or "").strip().partition("\n")
    yield f"### {title.rstrip('.')}\n"
    if rest.strip():
        yield " ".join(rest.split()) + "\n"
    yield "| promise | test |\n|---|---|"
    for name, words, line in promises(suite):
        yield f"| {words.replace('|', chr(92) + '|')} | [`{name}`](../../{path}#L{line}) |"
    yield ""


def page() -> str:
    parts = [
        "# The driver contract\n",
        "This page is generated from `drivers/protocol.py` and the conformance suite: `make docs` writes it, `make check`",
        "fails when it is out of date. To write a driver, read [write-your-own.md](write-your-own.md).\n",
        (inspect.getdoc(protocol) or "") + "\n",
        "## States\n",
        "![The states of a job and what moves it](../assets/states.svg)\n",
        "What each means: [states](../reference/states.md).\n",
        "## Methods\n",
    ]
    for name, words in methods():
        parts.append(f"### `{name}`\n\n{words}\n")
    count = sum(1 for suite in SUITES for _ in promises(suite))
    parts.append(f"## Promises\n\n{count} promises, each with the test that would break.\n")
    for suite in SUITES:
        parts.extend(chapter(suite))
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), sys.argv[1:]))
