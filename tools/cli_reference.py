"""Write docs/reference/cli.md from the commands' own help, so that the page cannot say anything else.

python tools/cli_reference.py            write the page
python tools/cli_reference.py --check    fail when the page is not what would be written
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout

from cyclopts import App
from generated import ROOT, write_or_check

from windlass.cli.commands import OVERVIEW, commands
from windlass.cli.entry import run
from windlass.cli.output import EXIT_CODES

PAGE = ROOT / "docs" / "reference" / "cli.md"
HIDDEN = ("overview",)
EVERYWHERE = "\nEverywhere:\n"


def names(app: App) -> Iterator[tuple[str, ...]]:
    """Every command that does something, those of a group after one another."""
    for name, command in sorted(app.resolved_commands().items()):
        if name.startswith("-") or name in HIDDEN:
            continue
        below = list(names(command))
        yield from [(name, *rest) for rest in below] if below else [(name,)]


def told(command: tuple[str, ...]) -> str:
    """What `windlass COMMAND --help` prints, without what is the same for all."""
    out = io.StringIO()
    os.environ["COLUMNS"] = "124"  # whatever the terminal has
    with redirect_stdout(out):
        run([*command, "--help"])
    text = out.getvalue().replace(EXIT_CODES, "").rstrip()
    before, _, after = text.partition(EVERYWHERE)
    examples = "\n\n" + after.partition("\n\n")[2].strip() if after else ""
    return before.rstrip().replace("\n\n\n", "\n\n") + examples


def page() -> str:
    parts = [
        "# The command line\n",
        "This page is generated from the commands' own help: `make docs` writes it, `make lint` fails when it is out of",
        "date. Begin with [your first job](../start/first-job.md).\n",
        f"```text\n{OVERVIEW}{EXIT_CODES}\n```\n",
    ]
    parts += [f"## windlass {' '.join(command)}\n\n```text\n{told(command)}\n```\n" for command in names(commands())]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), sys.argv[1:]))
