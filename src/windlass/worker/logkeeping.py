"""Removes logs whose jobs are gone. Retention is a duty of the leader, which may be on another machine, so each worker
looks through the logs on its own machine now and then, and removes those of jobs that the store does not know any more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from windlass.client import Client
from windlass.clock import SECOND, wall
from windlass.core.queries import StoreId
from windlass.errors import StoreError, WindlassError
from windlass.runlogs import Owner, job_of, stem_of
from windlass.types import Micros

EVERY: Final[Micros] = 3_600 * SECOND
YOUNG: Final[Micros] = 3_600 * SECOND  # so long a log is left alone, whatever the store says
BITE: Final = 200
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
SHORTEST: Final[Micros] = SECOND // 20
MARKING: Final[Micros] = SECOND  # so long the start of a worker waits for a disk at most
SHARED: Final = (
    "another store has its logs there too and its jobs are not known here: give each store a log_root of its own; if that "
    "store is no more, delete %s"
)
log: Final = logging.getLogger("windlass.worker")


async def know_owner(client: Client) -> None:
    """Before a worker writes logs into a root that somebody has chosen. Where this fails, the keeping of logs asks again; a
    server of an older version cannot tell."""
    with suppress(WindlassError):
        await _ask_for_owner(client)
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(MARKING / SECOND):
            if client.run_logs.mark is not None:
                await asyncio.to_thread(client.run_logs.place_mark)


async def _ask_for_owner(client: Client) -> None:
    logs = client.run_logs
    if logs.chosen and not logs.owner_known:
        found = await client.driver.read(StoreId())
        logs.owner = Owner(found[0], client.where) if found else None
        logs.owner_known = True


class Look(NamedTuple):
    """What is in the root: marks of other stores, or else the next files."""

    others: list[Path]
    files: list[Path]


class LogKeeping:
    """Each tick looks at some of the files. Where another store has its logs too, or may have, nothing is removed, since
    nobody here knows its jobs. What is not named as a log of a run is left alone: it may be anybody's."""

    name: Final = "logs"
    patience: Final[Micros] = 60 * SECOND

    def __init__(self, client: Client, root: Path) -> None:
        self._client = client
        self._root = root
        self._pass: Iterator[Path] | None = None
        self._busy: asyncio.Future[Look | None] | None = None
        self._begun = wall()
        self._said: set[str] = set()
        settings = client.settings
        self._longest = max(settings.keep_succeeded, settings.keep_cancelled, settings.keep_dead) + EVERY

    async def tick(self) -> Micros:
        try:
            await _ask_for_owner(self._client)
        except StoreError:
            raise  # it is asked again soon
        except WindlassError as error:  # it cannot tell: whose logs these are is not known
            self._complain("the store does not say which one it is (%s): bring its server up to date", error)
            return EVERY
        look = await self._one_at_a_time(self._look)
        if look is None:
            return SHORTEST  # this was what an earlier tick had begun to remove
        if look.others:
            self._complain(SHARED, ", ".join(map(str, look.others)))
        if not look.files:
            self._pass = None
            return EVERY
        jobs = {file: job_of(file.name) for file in look.files}
        ids = list({job for job in jobs.values() if job is not None})
        there = {job.id for job in await self._client.driver.get(ids) if job is not None}
        gone = [file for file, job in jobs.items() if job is not None and job not in there]
        unnamed = [file for file, job in jobs.items() if job is None]
        await self._one_at_a_time(lambda: self._remove(gone, unnamed))
        return SHORTEST

    async def _one_at_a_time(self, work: Callable[[], Look | None]) -> Look | None:
        """A tick that takes too long is given up, and what it waits for goes on in its thread: the next one waits for the
        same. Each would hold one more thread otherwise, until there is none left for handlers."""
        if self._busy is None:
            self._busy = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            return await asyncio.shield(self._busy)
        finally:
            if self._busy.done():
                self._busy = None

    def _look(self) -> Look:
        logs = self._client.run_logs
        if logs.chosen:
            try:
                logs.place_mark()
                others = logs.others()
            except OSError as error:  # whose logs are there cannot be told
                self._complain("its mark, which says whose logs these are, cannot be kept there (%s)", error)
                return Look([], [])
            if others or self._is_new_here():
                self._pass = None
                return Look(others, [])
        if self._pass is None:
            self._pass = self._old_logs()
        return Look([], list(islice(self._pass, BITE)))

    def _is_new_here(self) -> bool:
        """Another store whose logs are here may not have left its mark yet: its workers may be of an earlier version, which
        left none, and be replaced in these minutes."""
        mark = self._client.run_logs.mark
        return (self._begun if mark is None else _changed_at(mark)) > wall() - EVERY

    def _complain(self, why: str, *told: object) -> None:
        """Each reason once: nothing changes until somebody does something about it."""
        if why not in self._said:
            self._said.add(why)
            log.warning(f"no log below %s is removed, because {why}", self._root, *told)

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
