"""The bugs that mutants.py plants in what is imported when, in extras and in `windlass init`."""

from __future__ import annotations

from mutants_of_web import Planted

SCAFFOLD = "cli/scaffold.py"
PACKAGING: list[Planted] = [
    ("init: a program that is there is written over", SCAFFOLD, "if (directory / file).exists():\n                return",
     "if False:\n                return", ("begin",)),
    ("init: a README that is there is in the way", SCAFFOLD, "if file not in kept", "if True", ("begin",)),
    ("extras: what is missing is found out too late", "extras.py", "if find_spec(module) is None:", "if False:",
     ("missing",)),
    ("extras: the wrong one is named", "telemetry/tracing.py", 'MissingExtra("otel"', 'MissingExtra("trace"', ("missing",)),
    ("imports: the package brings more along", "__init__.py", "\n_HOME_OF = {",
     "\nimport windlass.types\n_HOME_OF = {", ("imports",)),
    ("imports: every command brings a terminal along", "cli/commands.py", "from cyclopts import App\n",
     "import rich.console\nfrom cyclopts import App\n", ("imports",)),
]  # fmt: skip
