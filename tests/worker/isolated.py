"""Tasks that run in child processes, which import this module; and how tests put them on a store."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from windlass import Context, Reject, Retry, Snooze, Windlass, current, fixed
from windlass.client import Client
from windlass.config import settings_from
from windlass.core.settle import Succeeded
from windlass.types import Job, Run
from windlass.worker import Worker
from windlass.worker.processes import frames

ONCE = Retry(max_attempts=1)
PATIENCE = 30.0
KEPT: list[bytes] = []
app = Windlass("memory://")


@app.task(run="process")
def add(a: int, b: int = 1) -> tuple[int, int]:
    return a + b, os.getpid()


@app.task(run="process")
async def add_async(a: int) -> tuple[int, int]:
    await asyncio.sleep(0)
    return a + 1, id(asyncio.get_running_loop())


@app.task(run="process", context=True, retry=ONCE)
def tells(ctx: Context, dies: bool) -> None:
    ctx.progress(0.25, "a quarter")
    ctx.log("read %d rows", 7)
    logging.getLogger("shop").warning("careful")
    ctx.artifact("out.csv")
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    assert current().run_id == ctx.run_id


@app.task(run="process", retry=Retry(max_attempts=2, backoff=fixed(0)))
def dies(how: str) -> None:
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(7)
        case "abort":
            os.abort()
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


@app.task(run="process", retry=ONCE)
def waits(gate: str) -> int:
    """Until the file is there."""
    Path(f"{gate}.begun").touch()
    deadline = time.monotonic() + PATIENCE
    while not Path(gate).exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    return os.getpid()


@app.task(run="process", timeout="300ms", retry=ONCE)
def loops(note: str) -> None:
    """With a process of its own beside it, whose number it tells."""
    beside = subprocess.Popen(["sleep", "60"])
    Path(note).write_text(f"{os.getpid()} {beside.pid}")
    while True:
        pass


@app.task(run="process", context=True, retry=ONCE)
def looks(ctx: Context, note: str) -> None:
    Path(note).touch()
    deadline = time.monotonic() + PATIENCE
    while not ctx.cancelled and time.monotonic() < deadline:
        time.sleep(0.005)
    Path(note).write_text("saw it")
    raise RuntimeError("stopped half-way")


@app.task(run="process", timeout="100ms", retry=ONCE)
async def sleeps(note: str) -> None:
    try:
        await asyncio.sleep(PATIENCE)
    except asyncio.CancelledError:
        Path(note).write_text("interrupted")
        raise


@app.task(run="process", retry=ONCE)
def allocates(size: int) -> int:
    return len(b"x" * size)


@app.task(run="process")
def keeps(size: int) -> int:
    KEPT.append(b"x" * size)
    return os.getpid()


@app.task(run="process", context=True)
def half(ctx: Context, gate: str) -> None:
    ctx.progress(0.5, "half way")
    waits.function(gate)


@app.task(run="process")
def burns(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@app.task(run="process", context=True, retry=ONCE)
def transacts(ctx: Context) -> None:
    with ctx.transaction():
        pass


@app.task(run="process", retry=ONCE)
def enqueues() -> str:
    return add.enqueue_sync(20).id


@app.task(run="process", retry=ONCE)
def raises(what: str) -> object:
    match what:
        case "value":
            raise ValueError("what it says")
        case "reject":
            raise Reject("never")
        case "snooze":
            raise Snooze("1h")
        case "exit":
            raise SystemExit(3)
        case _:
            return object()


@app.task(run="process", retry=ONCE)
def forks_and_both_return() -> str:
    """As a fork whose exec fails does: what is raised then climbs out of the handler in the copy, too."""
    if os.fork() == 0:
        time.sleep(0.1)
    return "forked"


@app.task(run="process", retry=ONCE, timeout="10s")
def waits_for_its_copy(how: str) -> int:
    if copy := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    match how:
        case "raises":
            raise ValueError("in a copy")
        case "exits":
            sys.exit(3)
    return 0


@app.task(run="process", retry=ONCE)
def fails_after_a_while() -> None:
    time.sleep(0.3)
    raise ValueError("mine")


def _logs_long_lines() -> None:
    for _ in range(20):
        logging.getLogger("shop").warning("y" * 400_000)


@app.task(run="process", retry=ONCE)
def logs_from_several_processes() -> None:
    logging.getLogger("shop").addHandler(logging.NullHandler())
    logging.getLogger("shop").propagate = False
    those = [multiprocessing.get_context("fork").Process(target=_logs_long_lines) for _ in range(3)]
    for one in those:
        one.start()
    for one in those:
        one.join()


STRANGE = os.fsdecode(b"caf\xe9.csv")  # the name of a file that is no UTF-8


@app.task(run="process", context=True, retry=ONCE)
def speaks_of_a_strange_file(ctx: Context, how: str) -> None:
    ctx.log("read %s", STRANGE)
    logging.getLogger("shop").warning(STRANGE)
    ctx.artifact(STRANGE)
    ctx.progress(1, STRANGE)
    match how:
        case "raises":
            raise ValueError(STRANGE)
        case "rejects":
            raise Reject(STRANGE)


@app.task(run="process", retry=ONCE)
def tells_where_it_is() -> list[str]:
    return [ascii(word) for word in (*sys.argv, *sys.path)]


prints_strange_words = app.command(
    "prints_strange_words",
    [sys.executable, "-c", "import os, sys; print(ascii([sys.argv[1], os.environ['STRANGE'], os.getcwd()]))", STRANGE],
    env={"STRANGE": STRANGE},
    cwd="{there}/" + STRANGE,
    retry=ONCE,
)
cannot_be_said = app.command("cannot_be_said", ["true", "\ud800"], retry=ONCE)


@app.task(run="process", retry=ONCE)
def ends_its_own_helper(has_an_ear: bool) -> int | None:
    if has_an_ear:
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(5))
    helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(PATIENCE,))
    helper.start()
    helper.terminate()
    helper.join(2)
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()), "nothing is held back"
    return helper.exitcode


@app.task(run="process", retry=ONCE)
def speaks_for_another_run() -> int:
    """As a copy of an earlier handler would that still had the line."""
    ended = frames.Ended("another", "Succeeded", msgspec.Raw(frames.encoded(Succeeded())), None, 0, 0, 0, 0, False)
    for fd in line_of_this_child():
        for said in (frames.Line("another", "INFO", "x"), frames.Artifact("another", "x"), frames.Ready(0), ended):
            os.write(fd, frames.packed(said))
    return os.getpid()


@app.task(run="process", timeout="100ms", retry=ONCE)
def ends_late(gate: str) -> None:
    """Out of time, and by itself."""
    Path(f"{gate}.begun").write_text(str(os.getppid()))
    deadline = time.monotonic() + PATIENCE
    while not Path(gate).exists() and time.monotonic() < deadline:
        time.sleep(0.005)


@app.task(run="process", retry=ONCE)
def runs_a_program(seconds: float) -> int:
    return subprocess.run(["sleep", str(seconds)], check=False).returncode


@app.task(run="process", context=True, retry=ONCE)
def leaves_a_thread(ctx: Context) -> int:
    def later() -> None:
        for number in range(20):
            time.sleep(0.02)
            ctx.log("of the job before, %d", number)
            ctx.artifact(f"before{number}.csv")
            ctx.progress(1, "before")

    threading.Thread(target=later, daemon=True).start()
    return os.getpid()


@app.task(run="process", context=True, retry=ONCE)
async def leaves_work_in_the_pool(ctx: Context) -> int:
    def later() -> None:
        for number in range(20):
            time.sleep(0.02)
            ctx.log("of the job before, %d", number)

    asyncio.get_running_loop().run_in_executor(None, later)
    return os.getpid()


@app.task(run="process", retry=ONCE)
def leaves_a_process() -> int:
    subprocess.Popen(["sleep", str(PATIENCE)])
    return os.getpid()


@app.task(run="process", retry=ONCE)
def naps(seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.01)
    return os.getpid()


@app.task(run="process", retry=ONCE)
def sets_a_timer(timer: int) -> int:
    signal.setitimer(timer, 0.3)
    return os.getpid()


@app.task(run="process", retry=ONCE)
def goes_elsewhere() -> int:
    os.chdir("/")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return os.getpid()


@app.task(run="process", retry=ONCE)
def is_told_to_end() -> tuple[str, int]:
    """As one whose whole service is stopped."""
    os.kill(os.getpid(), signal.SIGTERM)
    return os.getcwd(), os.getpid()


def line_of_this_child() -> Iterator[int]:
    """Its end of it, among the sockets that it has."""
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                yield fd
        except OSError:
            continue


@app.task(run="process", retry=ONCE)
def writes_on_the_line(garbage: str) -> None:
    """As a library does that writes to a descriptor which is not its own. Then it goes on."""
    for fd in line_of_this_child():
        os.write(fd, bytes.fromhex(garbage))
    time.sleep(2 * PATIENCE)


polite = app.command(
    "polite",
    ["sh", "-c", "trap 'exit 0' TERM; touch {gate}.begun; while :; do sleep 0.02; done"],
    retry=ONCE,
)


@app.task(context=True)
async def beside(ctx: Context) -> int:
    ctx.log("in the event loop")
    return os.getpid()


@app.task(context=True)
def threaded(ctx: Context) -> int:
    logging.getLogger("shop").error("in a thread")
    return os.getpid()


class Ground:
    """The app on a store of a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    async def run(self, job_id: str) -> Run:
        return (await self.runs(job_id))[-1]

    async def runs(self, job_id: str) -> list[Run]:
        return list(await app.client.driver.runs(job_id))

    async def fetch(self, job_id: str) -> Job:
        [job] = await app.client.driver.get([job_id])
        assert job is not None, "it was enqueued"
        return job

    async def drain(self, **options: Any) -> Worker:
        worker = app.worker(**{"children": 2, **options})
        async with asyncio.timeout(PATIENCE):
            await worker.run(drain=True)
        return worker

    async def until(self, condition: Callable[[], object | Awaitable[object]]) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = condition()
                if await answer if isinstance(answer, Awaitable) else answer:
                    return
                await asyncio.sleep(0.01)  # what happens in other processes has no signal

    async def until_state(self, job_id: str, *states: str) -> Job:
        async def reached() -> bool:
            return (await self.fetch(job_id)).state in states

        await self.until(reached)
        return await self.fetch(job_id)

    async def until_told(self, job_id: str) -> Job:
        """Of its progress."""

        async def told() -> bool:
            return (await self.fetch(job_id)).progress is not None

        await self.until(told)
        return await self.fetch(job_id)

    async def until_ended(self, job_id: str) -> None:
        """Its first run, whatever becomes of the job."""

        async def ended() -> bool:
            return any(run.status for run in await self.runs(job_id))

        await self.until(ended)

    @asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[Worker]:
        worker = app.worker(**{"children": 2, **options})
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            if not worker.stopping:
                worker.stop()
            async with asyncio.timeout(PATIENCE):
                await task

    def log_of(self, run: Run) -> str:
        assert run.log_path is not None, "it has logged"
        return (self.directory / "jobs.db-logs" / run.log_path).read_text()


def on_ground(directory: Path, play: Callable[[Ground], Awaitable[None]], *, url: str = "", **settings: Any) -> None:
    usual: dict[str, Any] = {"kill_after": "300ms", "grace": "5s", "poll": "20ms"}

    async def main() -> None:
        before = app.client
        app.client = Client(url or f"sqlite:///{directory}/jobs.db", settings_from(usual | settings))
        try:
            async with asyncio.timeout(2 * PATIENCE):
                await play(Ground(directory))
        finally:
            await app.close()
            app.client = before

    asyncio.run(main())


def is_gone(pid: int) -> bool:
    """Whoever is left to reap it: an ended process is one that nobody runs any more."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in ("Z", "X")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
