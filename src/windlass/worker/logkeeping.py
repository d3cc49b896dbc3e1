"""Removes logs whose jobs are gone. Retention is a duty of the leader, which may be on another machine, so each worker
looks through the logs on its own machine now and then, and removes those of jobs that the store does not know any more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from windlass.client import Client
from windlass.clock import SECOND, wall
from windlass.core.queries import StoreId
from windlass.errors import WindlassError
from windlass.runlogs import Owner, job_of, stem_of
from windlass.types import Micros

EVERY: Final[Micros] = 3_600 * SECOND
YOUNG: Final[Micros] = 3_600 * SECOND  # so long a log is left alone, whatever the store says
BITE: Final = 200
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
SHORTEST: Final[Micros] = SECOND // 20
log: Final = logging.getLogger("windlass.worker")


async def know_owner(client: Client) -> None:
    """Before a worker writes logs into a root that somebody has chosen. A server of an older version cannot tell."""
    logs = client.run_logs
    if logs.chosen and logs.owner is None:
        with suppress(WindlassError):
            logs.owner = next((Owner(found, client.where) for found in await client.driver.read(StoreId())), None)


class LogKeeping:
    """Each tick looks at some of the files. Where another store has its logs too nothing is removed, since nobody here
    knows its jobs. What is not named as a log of a run is left alone: it may be anybody's."""

    name: Final = "logs"
    patience: Final[Micros] = 60 * SECOND

    def __init__(self, client: Client, root: Path) -> None:
        self._client = client
        self._root = root
        self._pass: Iterator[Path] | None = None
        self._looking: asyncio.Future[list[Path]] | None = None
        self._complained = False
        settings = client.settings
        self._longest = max(settings.keep_succeeded, settings.keep_cancelled, settings.keep_dead) + EVERY

    async def tick(self) -> Micros:
        if others := await asyncio.to_thread(self._client.run_logs.others):
            self._complain(others)
            self._pass = None
            return EVERY
        if self._pass is None:
            self._pass = self._old_logs()
        files = await self._next_of(self._pass)
        if not files:
            self._pass = None
            return EVERY
        jobs = {file: job_of(file.name) for file in files}
        ids = list({job for job in jobs.values() if job is not None})
        there = {job.id for job in await self._client.driver.get(ids) if job is not None}
        gone = [file for file, job in jobs.items() if job is not None and job not in there]
        unnamed = [file for file, job in jobs.items() if job is None]
        await asyncio.to_thread(self._remove, gone, unnamed)
        return SHORTEST

    async def _next_of(self, some: Iterator[Path]) -> list[Path]:
        """A tick that takes too long is given up, and what it waits for goes on in its thread: the next one waits for the
        same."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().run_in_executor(None, lambda: list(islice(some, BITE)))
        try:
            return await asyncio.shield(self._looking)
        finally:
            if self._looking.done():
                self._looking = None

    def _complain(self, others: list[Path]) -> None:
        if not self._complained:
            log.warning(
                "no log below %s is removed, because another store has its logs there too and its jobs are not known here: "
                "give each store a log_root of its own; if that store is no more, delete %s",
                self._root, ", ".join(map(str, others)),
            )  # fmt: skip
        self._complained = True

    def _old_logs(self) -> Iterator[Path]:
        """Day by day, the oldest first."""
        before = wall() - YOUNG
        with suppress(OSError):  # there are none yet, or somebody clears the place
            for day in sorted(path for path in self._root.iterdir() if _DAY.fullmatch(path.name) and _is_own(path)):
                with suppress(OSError):
                    for file in sorted(day.iterdir()):
                        if stem_of(file.name) is not None and _changed_at(file) < before:
                            yield file
                with suppress(OSError):
                    day.rmdir()  # only when it is empty

    def _remove(self, gone: list[Path], unnamed: list[Path]) -> None:
        before = wall() - self._longest
        for file in (*gone, *(file for file in unnamed if _changed_at(file) < before)):
            with suppress(OSError):
                os.unlink(file)


def _is_own(directory: Path) -> bool:
    return directory.is_dir() and not directory.is_symlink()


def _changed_at(file: Path) -> Micros:
    try:
        return int(file.stat().st_mtime * SECOND)
    except OSError:
        return wall()
