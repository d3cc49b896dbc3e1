"""The `windlass` command. What is typed becomes calls of `windlass.admin`; what comes back becomes text or JSON.

Nothing heavy is imported here: `windlass --version` and the shell's completion must answer at once.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from windlass import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and answer its exit code."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):  # closed by whoever started us (`>&-`): nobody listens, and that is no error
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - as long as the process
    if tokens == ["--version"]:
        sys.stdout.write(f"windlass {__version__}\n")
        return 0
    if tokens[:1] == ["__complete"]:
        from windlass.cli.completion import complete

        return complete(tokens[1:])
    gc.disable()  # importing makes nothing but garbage that stays: a fifth of the time of a short command
    from windlass.cli.entry import run

    gc.enable()
    return run(tokens)
