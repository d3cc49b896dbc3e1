"""Worker processes as a test holds them: started, killed, stopped, continued, and ended whatever happens.

Nothing here sleeps to give something time. A test waits until the store or the log says that a thing has happened, with
a deadline that only a broken program or a hopelessly busy machine reaches. Only processes that a fleet started are ever
signalled: its own by their handle, a supervisor's children by the pid they told, after a look at what that pid is.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from windlass.client import Client
from windlass.core.alterations import PutLimit

from . import tasks
from .history import History, Line, read_log
from .stores import SqliteStore, Store

T = TypeVar("T")
TESTS = Path(__file__).parents[1]
PATIENCE = 60.0


class Process:
    def __init__(self, name: str, popen: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
        self.name = name
        self.popen = popen
        self.output = output
        self.errors = errors

    @property
    def pid(self) -> int:
        return self.popen.pid

    def go(self) -> None:
        """Let a process that was started with `waits` begin."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(b"go\n")
        self.popen.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def wait(self, seconds: float = PATIENCE) -> int:
        return self.popen.wait(seconds)

    def stats(self) -> dict[str, int]:
        """What its worker counted, once it has ended by itself."""
        counted: dict[str, int] = json.loads(self.output.read_text().splitlines()[-1])
        return counted

    def is_stopped(self) -> bool:
        """All of it: the first thread may stand still while another is on its way to a lock."""
        threads = [int(thread.name) for thread in Path(f"/proc/{self.pid}/task").iterdir()]
        return all(state_of(thread) == "T" for thread in threads)


class Fleet:
    """Processes on one fresh store: a file, unless one is given. `settings` are those of `Windlass`, as text."""

    def __init__(self, directory: Path, on: Store | None = None, /, **settings: str) -> None:
        self.directory = directory
        self.store, self.log, self.accepted = directory / "jobs.db", directory / "handlers.log", directory / "accepted"
        self.on: Store = on or SqliteStore(self.store)
        self.url = self.on.url
        self.processes: list[Process] = []
        self._environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS), os.environ.get("PYTHONPATH", ""))),
            "WINDLASS_URL": self.url, "FAULTS_LOG": str(self.log),
            "FAULTS_ACCEPTED": str(self.accepted), **{f"WINDLASS_{name.upper()}": text for name, text in settings.items()},
        }  # fmt: skip

    def __enter__(self) -> Fleet:
        self.log.touch()
        self.accepted.touch()
        tasks.app.client = Client(self.url, tasks.app.client.settings)  # tests enqueue with the tasks' own calls
        asyncio.run(self._prepare(tasks.app.client))
        self.on.open()
        return self

    async def _prepare(self, client: Client) -> None:
        await client.driver.alter([PutLimit(tasks.LIMIT, 3)], now=client.now())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self.processes:
            if process.popen.poll() is None:
                process.popen.kill()
            process.popen.wait(PATIENCE)
            if process.popen.stdin is not None:
                process.popen.stdin.close()
        for pid in self.pids():  # a supervisor's children outlive its kill for as long as their grace
            if state_of(pid) not in ("", "Z") and b"faults.program" in Path(f"/proc/{pid}/cmdline").read_bytes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.on.close()
        asyncio.run(tasks.app.close())
        if error is not None:
            for process in self.processes:
                print(f"---- {process.name} (pid {process.pid}, exit {process.popen.poll()})")
                print(process.errors.read_text()[-6_000:])

    # ------------------------------------------------------------------------------------------------------- processes

    def start(
        self, *words: str, waits: bool = False, module: str = "faults.program", url: str | None = None,
        **environment: str,
    ) -> Process:  # fmt: skip
        """`python -m module` with these words. `waits`: it does nothing before `go`, so that a recovery is not
        measured together with the start of an interpreter. `url`: another way to the store."""
        number = len(self.processes)
        output, errors = self.directory / f"{number}.out", self.directory / f"{number}.err"
        surroundings = {**self._environment, **environment, **({"FAULTS_WAITS": "1"} if waits else {})}
        if url is not None:
            surroundings["WINDLASS_URL"] = url
        with output.open("wb") as out, errors.open("wb") as err:
            popen = subprocess.Popen(
                [sys.executable, "-m", module, *words], env=surroundings, stdout=out, stderr=err,
                stdin=subprocess.PIPE if waits else subprocess.DEVNULL, process_group=0,
            )  # fmt: skip
        process = Process(" ".join(words), popen, output, errors)
        self.processes.append(process)
        return process

    def kill(self, process: Process) -> int:
        """SIGKILL. Answers the store's time just before it."""
        at = self.now()
        process.popen.kill()
        assert process.wait() == -signal.SIGKILL, f"{process.name} had ended before it could be killed"
        return at

    def freeze(self, process: Process) -> int:
        """SIGSTOP, at a moment at which it holds no lock of the store's: nobody could take over from one that does.
        Answers the store's time just before it."""
        while True:
            at = self.now()
            process.signal(signal.SIGSTOP)
            self.until("it stands still", process.is_stopped)
            if self.on.nobody_is_in_the_way():
                return at
            process.signal(signal.SIGCONT)

    def finish(self) -> None:
        """One more worker, until every job has ended."""
        worker = self.start("run")
        self.until("it listens to signals", lambda: " serves " in worker.errors.read_text())
        self.until_ended()
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0

    def supervise(self, processes: int) -> Process:
        return self.start("supervise", str(processes), "-m", "faults.program", "child")

    def pids(self) -> list[int]:
        """Of every process that has come to life, in order."""
        return [line.pid for line in self.lines("born")]

    # ---------------------------------------------------------------------------------------------------------- evidence

    def now(self) -> int:
        return tasks.app.client.now()

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.on.rows(sql, *values)

    def count(self, where: str, *values: Any) -> int:
        return int(self.rows(f"select count(*) from jobs where {where}", *values)[0][0])

    def lines(self, what: str, pid: int | None = None) -> list[Line]:
        return [line for line in read_log(self.log) if line.what == what and pid in (None, line.pid)]

    def acknowledged(self) -> list[str]:
        return [line.split()[1] for line in self.accepted.read_text().split("\n")[:-1]]

    def history(self) -> History:
        return History.read(self.on, self.log)

    # ----------------------------------------------------------------------------------------------------------- waiting

    def until(self, what: str, look: Callable[[], T], seconds: float = PATIENCE) -> T:
        deadline = time.monotonic() + seconds
        while True:
            if found := look():
                return found
            if time.monotonic() > deadline:
                states = self.rows("select queue, type, state, count(*) from jobs group by 1, 2, 3")
                raise AssertionError(f"after {seconds:g} s still waiting until {what}; jobs: {states}")
            time.sleep(0.01)

    def until_born(self, *processes: Process) -> None:
        wanted = {process.pid for process in processes}
        self.until(f"{len(wanted)} processes are there", lambda: wanted <= set(self.pids()))

    def until_there(self, count: int) -> None:
        self.until(f"{count} processes have come to life", lambda: len(self.pids()) >= count)

    def until_ended(self, seconds: float = PATIENCE) -> None:
        self.until("every job has ended", lambda: self.count("state in ('queued', 'running')") == 0, seconds)

    def until_started(self, count: int, pid: int | None = None) -> list[Line]:
        def look() -> list[Line]:
            starts = self.lines("start", pid)
            return starts if len(starts) >= count else []

        return self.until(f"{count} handlers have begun", look)


def state_of(pid: int) -> str:
    """One letter of the kernel's: R, S, D, T (stopped), Z (ended, not yet reaped), or nothing when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
