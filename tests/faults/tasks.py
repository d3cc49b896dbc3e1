"""What the workers under test run. Every handler tells of its start and its end in a log outside of the store.

A line is one O_APPEND write, which no other process can cut and which survives the writer's kill -9. Its time is the
store's own clock, the same in every process of the machine, so that lines and rows can be compared to the microsecond.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from windlass import Retry, Windlass, current, fixed
from windlass.context import Context

LOG = "FAULTS_LOG"
LIMIT = "key:few"  # at most three of its jobs at once
NEVER_TWICE = "ledger"

app = Windlass(retry=Retry(max_attempts=30, backoff=fixed("50ms")), max_lost=25)


def tell(what: str, subject: str = "-", run_id: str = "-") -> None:
    line = f"{what} {subject} {run_id} {os.getpid()} {app.client.now()}\n"
    fd = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def write(what: str) -> None:
    tell(what, current().job.id, current().run_id)


def first_time() -> bool:
    """Handlers that take long do so once, so that whoever recovers them is quick."""
    job = current().job
    return job.attempts + job.lost + job.skipped == 0


@app.task(queue="steady")
async def quick(number: int) -> int:
    write("start")
    await asyncio.sleep(0)
    write("done")
    return number


@app.task(queue="steady")
async def slow(seconds: float) -> None:
    write("start")
    try:
        await asyncio.sleep(seconds if first_time() else 0)
    except asyncio.CancelledError:
        write("stopped")
        raise
    write("done")


@app.task(queue="steady")
def blocking(gate: str) -> None:
    """The first time it blocks a thread until that file exists, and does not look whether it should stop."""
    write("start")
    if gate and first_time():
        deadline = time.monotonic() + 120
        while not Path(gate).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    write("done")


@app.task(queue="steady")
def gated(gate: str) -> None:
    """Every run of it waits for a file of its own: the gate's name and the number of the run."""
    write("start")
    deadline = time.monotonic() + 120
    while not Path(f"{gate}{current().job.executions}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    write("done")


@app.task(queue="steady")
async def flaky(number: int) -> int:
    write("start")
    if first_time():
        raise ConnectionError("not the first time")
    write("done")
    return number


@app.task(queue="ledger", retry_mode="new_job")
async def ledger(seconds: float) -> None:
    """A job id of this task never starts twice: a crash is a recorded failure, and a new job takes over."""
    write("start")
    await asyncio.sleep(seconds if first_time() else 0)
    write("done")


@app.task(queue="steady", limits=(LIMIT,))
async def limited(seconds: float) -> None:
    write("start")
    await asyncio.sleep(seconds)
    write("done")


@app.task(queue="steady", context=True)
async def written(ctx: Context, number: int) -> None:
    """Its effect, a follow-up job and its own success are one transaction."""
    write("start")
    async with ctx.transaction() as tx:
        tx.connection.execute("insert into effects (job_id, number) values (?, ?)", (ctx.job.id, number))
        await quick.enqueue(number)
        write("done")


@app.task(queue="steady")
async def fat(text: str) -> None:
    """Its arguments take room."""
    write("start")
    write("done")


@app.task(queue="steady")
async def hungry(size: int) -> int:
    write("start")
    return len(bytearray(size))


@app.task(queue="steady")
def hoarding(gate: str) -> None:
    """Takes every file descriptor that its process may have, until that file exists."""
    write("start")
    taken: list[int] = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        Path(f"{gate}.taken").symlink_to(str(len(taken)))  # a link needs none
    deadline = time.monotonic() + 120
    while not os.access(gate, os.F_OK) and time.monotonic() < deadline:
        time.sleep(0.01)
    for fd in taken:
        os.close(fd)
    write("done")


@app.task(queue="steady")
async def poison() -> None:
    """Takes its process with it, as a segmentation fault would."""
    write("start")
    os.kill(os.getpid(), signal.SIGSEGV)


@app.task(queue="steady")
async def lethal(how: str) -> None:
    """Takes its process with it, in one of the ways in which code can."""
    write("start")
    match how:
        case "exit":
            os._exit(3)
        case "abort":
            os.abort()
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop the loop":
            asyncio.get_running_loop().stop()
        case "cancel everything":
            for task in asyncio.all_tasks():
                task.cancel()
        case "exit in a thread":
            threading.Thread(target=os._exit, args=(4,)).start()
        case "call a null pointer":
            ctypes.CFUNCTYPE(None)(0)()
    await asyncio.sleep(60)


@app.task(queue="apart", run="process")
def apart(gate: str, held: bool = False) -> None:
    """Waits in a child for a file, with a program of its own beside it. `held`: in a call that lets no other thread of the
    child run, so that nothing in it can notice anything."""
    write("start")
    Path(f"{gate}.{current().job.executions}").write_text(f"{os.getpid()} {subprocess.Popen(['sleep', '120']).pid}")
    if not first_time():
        write("done")
    elif held:
        ctypes.PyDLL(None).sleep(120)
    else:
        deadline = time.monotonic() + 120
        while not Path(gate).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        write("done")


@app.task(queue="apart", run="process")
def kills_its_worker() -> None:
    """Not only its own process, as a machine that runs out of memory would."""
    write("start")
    fork_server = os.getppid()
    worker = int(Path(f"/proc/{fork_server}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(worker, signal.SIGKILL)
    time.sleep(60)


SLEEPS = "import os, sys, time; open(sys.argv[1], 'a').write(str(os.getpid()) + ' '); time.sleep(float(sys.argv[2]))"
program = app.command("program", [sys.executable, "-c", SLEEPS, "{note}", "{seconds}"], queue="apart")
