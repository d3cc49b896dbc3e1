"""`windlass init`, `demo` and `version`: the first minutes."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final

from windlass import __version__
from windlass.cli.output import OK, REFUSED
from windlass.cli.session import Common

TASKS: Final = '''\
"""Tasks of this program. Start a worker with: windlass worker tasks"""

import time

from windlass import Context, Retry, Windlass

app = Windlass()  # jobs are kept in ./windlass.db; set WINDLASS_URL to keep them elsewhere


@app.task
async def hello(name: str) -> str:
    return f"Hello, {name}!"


@app.task(context=True, retry=Retry(max_retries=3), timeout="1m")
def count(ctx: Context, to: int = 5) -> int:
    """A plain function runs in a thread. Try: windlass watch JOB"""
    for n in range(to):
        time.sleep(1)
        ctx.progress((n + 1) / to, f"{n + 1} of {to}")
    return to
'''


def init(directory: Path = Path(), /, *, common: Common = Common()) -> int:
    """Write a small tasks.py that works, and say what to type next. Never overwrites.

    Args:
        directory: where to put it; made when it is not there
    """
    path = directory / "tasks.py"
    if path.exists():
        return common.out.fail(f"{path} is there already and was left alone", "windlass worker tasks", REFUSED)
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(TASKS, "utf-8")
    steps = [] if directory == Path() else [f"cd {directory}"]
    steps += ["windlass enqueue --app tasks hello name=Ada", "windlass enqueue --app tasks count to=3"]
    steps += ["windlass worker tasks --drain", "windlass jobs list"]
    if common.json:
        common.out.emit(written=str(path.resolve()), next=steps)
        return OK
    common.out.line(f"wrote {path}")
    common.out.line("what to type next:")
    for step in steps:
        common.out.line("  ", (step, "bold"))
    return OK


def demo() -> int:
    """See it at work: a thousand jobs, a worker killed in the middle, and a check that nothing was lost."""
    from windlass.demo import main

    return main()


def version(*, common: Common = Common()) -> None:
    """The versions of Windlass and Python."""
    if common.json:
        common.out.emit(version=__version__, python=platform.python_version())
    else:
        common.out.line(f"windlass {__version__} on Python {platform.python_version()}")
