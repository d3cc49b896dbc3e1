"""The `windlass` command. What is typed becomes calls of `windlass.admin`; what comes back becomes text or JSON.

Nothing heavy is imported here: `windlass --version` and the shell's completion must answer at once.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

from windlass import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and answer its exit code."""
    try:
        code = _run(argv)
    except KeyboardInterrupt:  # also while modules are imported
        code = 130
    except BrokenPipeError:  # whoever read us has seen enough
        code = 0
    return _said(code)


def _run(argv: Sequence[str] | None) -> int:
    tokens = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):  # closed by whoever started us (`>&-`): nobody listens, and that is no error
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - as long as the process
    if isinstance(sys.stdout, TextIOWrapper):  # a letter that a terminal has not is no reason to say nothing
        sys.stdout.reconfigure(errors="backslashreplace")
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


def _said(code: int) -> int:
    """What is still in a buffer goes out now: at the end of the process nobody could say that it does not."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            _silence(stream)
        except OSError as error:  # a full disk
            _silence(stream)
            code = code or 1
            with suppress(OSError):
                sys.stderr.write(f"error: the answer could not be written: {error.strerror}\n")
    return code


def _silence(stream: TextIO) -> None:
    """What its buffer holds has somewhere to go."""
    with suppress(OSError, ValueError):  # one that is no file of the system
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
