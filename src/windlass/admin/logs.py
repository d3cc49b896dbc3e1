"""What a run has logged. The file is on the machine where its worker runs, below the log root of this store."""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from windlass.admin.showing import scrub_of
from windlass.admin.views import LogView
from windlass.client import Client
from windlass.core.history import earlier_runs, unkept_run
from windlass.errors import InvalidInput
from windlass.redaction import Scrubber
from windlass.runlogs import below, log_path
from windlass.types import TERMINAL, Job, Run

LOOK: Final = 0.2
PIECE: Final = 1 << 20
FEW: Final = 20  # runs that are named one by one


async def read(client: Client, chain: Sequence[tuple[Job, Sequence[Run]]], job_id: str, number: int | None) -> LogView:
    """The log of one run: the `number`th of this job, else the last of its chain that has one."""
    told = [(job, _all_of(job, runs)) for job, runs in chain]
    if number is not None:
        [(asked, runs)] = [(job, runs) for job, runs in told if job.id == job_id]
        wanted = [run for run in runs if run.attempt_no == number] or await _older(client, asked, number)
        if not wanted:
            raise InvalidInput("run", f"this job has no run {number}; it has {_numbers(asked, runs) or 'none yet'}")
    else:
        wanted = [run for _, runs in told for run in runs][::-1]
    scrub = scrub_of(chain[0][0])  # all links have the same payload
    if not wanted:
        return LogView(job_id=job_id, run=None, worker_id=None, path=None, text=None)
    for run in wanted:
        if (file := _file(client, run)) is not None and (text := await asyncio.to_thread(_text, file, scrub)) is not None:
            return _view(run, text)
    return _view(wanted[0], None)


async def follow(client: Client, job_id: str) -> AsyncIterator[str]:
    """What is logged from its last run on, piece by piece, until the job has ended."""
    reader: _Reader | None = None
    current = ""
    while True:
        job = await client.head(job_id)
        runs = _all_of(job, await client.driver.runs(job.id, limit=1))
        if runs and runs[-1].run_id != current:
            current = runs[-1].run_id
            file = _file(client, runs[-1])
            if reader is not None and (rest := reader.rest()):
                yield rest
            reader = None if file is None else _Reader(file)
        if reader is not None:
            while piece := await asyncio.to_thread(reader.more):
                yield await asyncio.to_thread(scrub_of(job), piece)
        if job.state in TERMINAL:
            if reader is not None and (rest := reader.rest()):
                yield rest
            return
        await asyncio.sleep(LOOK)


async def _older(client: Client, job: Job, number: int) -> list[Run]:
    """A run that is not among the newest."""
    if not 1 <= number <= job.executions:
        return []
    return [run for run in await client.driver.runs(job.id, before=number + 1, limit=1) if run.attempt_no == number]


def _numbers(job: Job, runs: Sequence[Run]) -> str:
    if earlier_runs(job, runs) or len(runs) > FEW:
        return f"1 to {job.executions:,}"
    return ", ".join(str(run.attempt_no) for run in runs)


def _all_of(job: Job, runs: Sequence[Run]) -> list[Run]:
    """With the one that has left a log, and no row."""
    unkept = unkept_run(job, runs)
    return [*runs] if unkept is None else [*runs, unkept]


def _file(client: Client, run: Run) -> Path | None:
    """Also of a run that nobody ended: where its log would be."""
    root = client.run_logs.root
    return None if root is None else below(root, run.log_path or log_path(run.job_id, run.attempt_no, run.claimed_at))


def _view(run: Run, text: str | None) -> LogView:
    return LogView(job_id=run.job_id, run=run.attempt_no, worker_id=run.worker_id, path=run.log_path, text=text)


def _text(file: Path, scrub: Scrubber) -> str | None:
    """A log may be long, so that it is looked through where it is read: apart from the event loop."""
    try:
        return scrub(file.read_bytes().decode("utf-8", "backslashreplace"))
    except OSError:
        return None


class _Reader:
    """A file that grows, and that may be replaced by a shorter one: then it goes on at the end of that. A letter may be
    written in two pieces, so its first half waits for the other one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._letters = getincrementaldecoder("utf-8")("backslashreplace")
        self._place = 0
        self._identity: int | None = None

    def more(self) -> str:
        try:
            with self._file.open("rb") as opened:
                inode = self._file.stat().st_ino
                if self._identity not in (None, inode):
                    self._place = self._file.stat().st_size
                    self._letters.reset()
                self._identity = inode
                opened.seek(self._place)
                piece = opened.read(PIECE)
        except OSError:
            return ""
        self._place += len(piece)
        return self._letters.decode(piece)

    def rest(self) -> str:
        """The half of a letter that nobody has finished."""
        return self._letters.decode(b"", final=True)
