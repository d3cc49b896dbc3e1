"""`windlass init`: a small project that works, with a schedule, tests and three commands to type."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from windlass.cli.output import OK, REFUSED
from windlass.cli.session import Common

TASKS: Final = '''\
"""Jobs of this program. Run and see them with: windlass dev tasks"""

import logging
import time

from windlass import Context, Retry, Windlass

app = Windlass()  # jobs are kept in ./windlass.db, unless WINDLASS_URL says where
log = logging.getLogger(__name__)


@app.task
async def hello(name: str) -> str:
    """Whatever it raises, it is tried again later. See it fail: hello name=''"""
    if not name:
        raise ValueError("nobody to greet")
    return f"Hello, {name}!"


@app.task(context=True, retry=Retry(max_retries=3), timeout="1m")
def count(ctx: Context, to: int = 5) -> int:
    """A plain function runs in a thread. Follow it with: windlass watch JOB"""
    for n in range(to):
        time.sleep(1)
        ctx.progress((n + 1) / to, f"{n + 1} of {to}")
    return to


@app.cron(every="1m")  # or @app.cron("0 9 * * MON-FRI", tz="Europe/Berlin")
async def tidy() -> None:
    """Workers see to it that it runs each minute, once for all of them."""
    log.info("nothing to tidy yet")
'''

TESTS: Final = '''\
"""The jobs on a store of their own, run by the real worker. Type: python -m pytest"""

from collections.abc import Iterator

import pytest
from windlass.testing import Testing, testing

from tasks import app, hello, tidy


@pytest.fixture
def jobs() -> Iterator[Testing]:
    with testing(app) as block:
        yield block


def test_a_guest_is_greeted(jobs: Testing) -> None:
    job = hello.enqueue_sync("Ada")
    jobs.assert_enqueued(hello, "Ada")
    jobs.drain_sync()
    assert job.result_sync() == "Hello, Ada!"


def test_what_fails_is_tried_again_and_then_set_aside(jobs: Testing) -> None:
    hello.enqueue_sync("")
    stats = jobs.drain_sync(retries=True)  # waits of seconds and minutes pass at once
    assert (stats.retried, stats.dead) == (5, 1)


def test_tidying_up_works(jobs: Testing) -> None:
    tidy.enqueue_sync()
    assert jobs.drain_sync().succeeded == 1
'''

README: Final = """\
# {name}

The jobs are in `tasks.py`, their tests in `test_tasks.py`.

    pip install 'windlass[server,testing]'

    windlass dev tasks                              # run them, show them at http://127.0.0.1:8420, again whenever you save
    windlass enqueue --app tasks hello name=Ada     # in another terminal: a job
    python -m pytest                                # the tests

Jobs live in `windlass.db`, made on first use. In production, `WINDLASS_URL=postgresql://user@host/database` and
`windlass worker tasks`. `windlass --help` shows the rest.
"""

IGNORED: Final = """\
windlass.db*
windlass-logs/
__pycache__/
.pytest_cache/
.venv/
"""

PROGRAM: Final = {"tasks.py": TASKS, "test_tasks.py": TESTS}
BESIDE: Final = {"README.md": README, ".gitignore": IGNORED}  # a directory may well have them already


def init(directory: Path = Path(), /, *, name: str | None = None, common: Common = Common()) -> int:
    """Begin a project: tasks.py with a task and a schedule, test_tasks.py, a README. Never overwrites.

    Args:
        directory: where to put it, made when it is not there; else here
        name: what the README calls it, else as the directory
    """
    try:
        for file in PROGRAM:
            if (directory / file).exists():
                return _refused(common, f"{directory / file} is there already and was left alone; nothing was written")
        kept = [file for file in BESIDE if (directory / file).exists()]
        written = [file for file in (*PROGRAM, *BESIDE) if file not in kept]
        _write(directory, _texts(written, _name(directory, name)))
    except UnicodeEncodeError as error:
        told = f"{error.object!r} is no text in UTF-8, so that no file can name it; nothing was written"
        return _refused(common, told, "ANOTHER_DIRECTORY --name NAME")
    except OSError as error:
        return _refused(common, _no_place(directory, error))
    steps = _steps(directory)
    if common.json:
        common.out.emit(written=[str((directory / file).resolve()) for file in written], kept=kept, next=steps)
        return OK
    common.out.line(f"wrote {', '.join(str(directory / file) for file in written)}")
    for file in kept:
        common.out.line(f"left {directory / file} as it was")
    common.out.line("what to type next:")
    for step in steps:
        common.out.line("  ", (step, "bold"))
    return OK


def _name(directory: Path, name: str | None) -> str:
    """Of bytes that are no text (an argument or a directory may be) nothing can be written, so this is asked first."""
    called = " ".join((name or directory.resolve().name or "jobs").split())
    for text in (str(directory), called):
        text.encode()
    return called


def _texts(files: Sequence[str], name: str) -> dict[str, bytes]:
    return {file: (PROGRAM[file] if file in PROGRAM else BESIDE[file].replace("{name}", name)).encode() for file in files}


def _write(directory: Path, texts: Mapping[str, bytes]) -> None:
    """All of them or none: half a project would be in the way of the next try."""
    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    begun: list[Path] = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            with (directory / file).open("xb") as made:
                begun.append(directory / file)
                made.write(text)
    except BaseException:
        for path in begun:
            path.unlink(missing_ok=True)
        for place in missing:
            with suppress(OSError):  # somebody else has put something there meanwhile, or it was never made
                place.rmdir()
        raise


def _refused(common: Common, message: str, way_out: str = "ANOTHER_DIRECTORY") -> int:
    return common.out.fail(message, f"windlass init {way_out}", REFUSED)


def _no_place(directory: Path, error: OSError) -> str:
    """A file on the way is the usual cause, and the system does not say which part of the path it is."""
    for place in (directory, *directory.parents):
        if os.path.isfile(place):  # which answers also for a name that is too long
            return f"{place} is a file, so that no project can be put into {directory}; nothing was written"
    return f"{error.filename or directory} cannot be made: {error.strerror or error}; nothing was written"


def _steps(directory: Path) -> list[str]:
    """Only what works with what is installed."""
    steps = [] if directory == Path() else [f"cd {shlex.quote(str(directory))}"]
    steps += ["windlass enqueue --app tasks hello name=Ada", "windlass worker tasks --drain", "windlass jobs list"]
    if find_spec("pytest") is not None:
        steps.append("python -m pytest")
    if find_spec("uvicorn") is not None:
        steps.append("windlass dev tasks")
    return steps
