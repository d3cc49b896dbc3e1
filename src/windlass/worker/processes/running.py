"""One program, as the worker sees it: started without a shell, its output written to the log of the run, its files
collected.
"""

from __future__ import annotations

import asyncio
import glob
import os
import signal
from contextlib import suppress
from typing import Final

from windlass.client import Client
from windlass.core.changes import Report
from windlass.core.settle import Failed, Succeeded
from windlass.errors import ChildUnstartable, InvalidInput
from windlass.programs import Program
from windlass.worker.finish import Finisher
from windlass.worker.holdings import Held
from windlass.worker.processes.calling import DIED, Ending, signal_name
from windlass.worker.processes.frames import Gone
from windlass.worker.processes.nursery import Nursery, Offspring, surroundings
from windlass.worker.processes.stopping import Stopper

PIECE: Final = 65_536
LAST_WORDS: Final = 1_000  # bytes of output that a failure quotes
FINISHES: Final = 0.5  # seconds in which output may still come when the program has ended


class Output:
    """The output of a program on its way to the log. Its end is remembered, because that usually says what went wrong."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self.last = b""

    async def read(self, fd: int) -> None:
        loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        begun = b""  # of what may become a secret with what comes next
        try:
            while piece := await _piece(loop, fd):
                piece = self._held.scrub.output(begun + piece)
                end = len(piece) - self._held.scrub.unfinished(piece)
                begun = piece[end:]
                self._keep(piece[:end])
        finally:
            self._keep(begun)
            os.close(fd)

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._held.write_output(piece)
            self.last = (self.last + piece)[-LAST_WORDS:]

    def words(self) -> str:
        return self.last.decode("utf-8", "replace").strip()


async def _piece(loop: asyncio.AbstractEventLoop, fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, PIECE)
        except BlockingIOError:
            readable: asyncio.Future[None] = loop.create_future()
            loop.add_reader(fd, _set, readable)
            try:
                await readable
            finally:
                loop.remove_reader(fd)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def run_program(client: Client, nursery: Nursery, finisher: Finisher, held: Held) -> Ending:
    """From its start to the end of its output. The caller has noted that it begins."""
    assert held.task.program is not None, "a command has a program"
    _, fields = finisher.arguments(held)
    program = held.task.program.filled(fields)
    output = Output(held)
    try:
        offspring, reading = await _started(client, nursery, program, held, output)
    except ChildUnstartable as error:
        return Ending(Failed(f"ProcessDied: {program.command[0]} cannot be run: {error}", DIED), Report())
    stopper = Stopper(held, offspring, client.settings, lambda: None)
    held.cancel = stopper
    if held.why is not None:  # while it was started
        stopper()
    try:
        gone = await offspring.gone
        with suppress(TimeoutError):  # what it has left behind may hold its output open for ever
            async with asyncio.timeout(FINISHES):
                await asyncio.shield(reading)
    finally:
        held.cancel = None
        stopper.stand_down()
        offspring.signal(signal.SIGKILL)  # when we are cancelled, nobody will wait for it
        reading.cancel()
    await _collect(held, program)
    return _ending(gone, output, stopped=stopper.called)


async def _started(
    client: Client, nursery: Nursery, program: Program, held: Held, output: Output
) -> tuple[Offspring, asyncio.Task[None]]:
    read, write = os.pipe()
    try:
        about = {"WINDLASS_JOB_ID": held.job.id, "WINDLASS_RUN_ID": held.job.run_id, "WINDLASS_FENCE": held.job.token}
        environment = surroundings({**about, **program.environment})
        offspring = await nursery.spawn(program.command, environment, program.cwd, write, client.settings.child_memory)
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    return offspring, asyncio.get_running_loop().create_task(output.read(read), name="windlass-output")


async def _collect(held: Held, program: Program) -> None:
    """The declared files that are there, also after a failure."""
    if program.artifacts:
        for path in await asyncio.to_thread(_found, program.artifacts, program.cwd):
            try:
                held.context().artifact(path)
            except InvalidInput as error:
                held.write_log("WARNING", f"not all artifacts are kept: {error}")
                return


def _found(patterns: tuple[str, ...], cwd: str | None) -> list[str]:
    found: list[str] = []
    for pattern in patterns:
        if os.path.lexists(os.path.join(cwd or "", pattern)):  # a name may hold what would be a pattern
            found.append(pattern)
        else:
            found += sorted(glob.glob(pattern, root_dir=cwd, recursive=True))
    return list(dict.fromkeys(found))


def _ending(gone: Gone, output: Output, *, stopped: bool) -> Ending:
    """Exit code 0 is how a well-behaved program ends when it is told to stop half-way, so after that it means nothing."""
    measured = Report(exit_code=gone.code, cpu_us=gone.cpu_us, peak_rss=gone.peak_rss)
    if gone.code == 0 and not stopped:
        return Ending(Succeeded(), measured)
    cause = "it is gone" if gone.code is None else _cause(gone.code)
    words = output.words()
    return Ending(Failed(f"ProcessDied: {cause}" + (f": {words}" if words else ""), DIED), measured)


def _cause(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal_name(-code)}"
