"""`windlass holds …`: take a queue for direct execution, see who has it, give it back."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import signal
import socket
from typing import Annotated

from cyclopts import App, Parameter

from windlass.admin.views import Holds, HoldView
from windlass.cli.output import FAILED, OK, Part
from windlass.cli.session import Common, Flag, epilogue, opened
from windlass.errors import InvalidInput
from windlass.wording import relative

app = App(name="holds", help="Take a queue for direct execution, see who has it, give it back.")
STYLE = {"ACTIVE": "bold yellow", "RELEASED": "green", "EXPIRED": "red"}
PATIENCE = 5.0  # seconds between asking a command to end and killing it

By = Annotated[str | None, Parameter(help="who holds it, for others to read; else you and this host")]
Term = Annotated[str, Parameter(help="its time, such as 30s or 5m")]
Wait = Annotated[str | None, Parameter(help="how long to wait until it is free and idle; else for ever, 0s: not at all")]


@app.command(name="list", help_epilogue=epilogue("windlass holds list", "windlass holds list --all --json"))
async def list_holds(*, all: Flag = False, common: Common = Common()) -> None:  # noqa: A002
    """Queues that are held, by whom and until when.

    Args:
        all: also holds that have ended within the last days
    """
    async with opened(common) as admin:
        found = await admin.holds(ended=all)
    if common.json:
        common.out.emit(found)
    elif not found.holds:
        common.out.note("no queue is held")
    else:
        common.out.table(("ID", "QUEUE", "STATE", "BY", "SINCE", "UNTIL"), [_row(hold, found) for hold in found.holds])


def _row(hold: HoldView, found: Holds) -> tuple[Part, ...]:
    state = hold.status.lower()
    if hold.status == "ACTIVE":
        state = "stale" if hold.stale else "granted" if hold.granted_at is not None else "waiting for its jobs"
    end = hold.expires_at if hold.ended_at is None else hold.ended_at
    return (
        hold.id, hold.queue, (state, STYLE[hold.status]), hold.by, relative(hold.reserved_at, found.at),
        relative(end, found.at),
    )  # fmt: skip


@app.command(help_epilogue=epilogue("windlass holds acquire gpu --by ada --expires-in 10m --wait 30s"))
async def acquire(
    queue: str, /, *, by: By = None, expires_in: Term = "5m", wait: Wait = None, common: Common = Common()
) -> None:
    """Take a queue, wait until its jobs have ended, and keep it: nothing of it starts until you release it.

    Nobody renews it: it ends by itself when its time is over. To hold a queue for a command, use `holds run`.
    """
    async with opened(common) as admin:
        hold = await admin.acquire(queue, by or _me(), expires_in=expires_in, wait=wait)
    if common.json:
        common.out.emit(hold)
    else:
        common.out.line(hold.id)
        common.out.note(f"{queue} is yours until {hold.expires_at:%H:%M:%S} UTC; give it back: {_release(common, hold.id)}")


@app.command(help_epilogue=epilogue("windlass holds release 0192f0c1-2345-7890-8abc-def012345678"))
async def release(hold_id: str, /, *, by: By = None, common: Common = Common()) -> None:
    """End a hold, whosoever it is; the audit log says by whom. Its holder hears of it at the next renewal."""
    async with opened(common) as admin:
        hold = await admin.release(hold_id, by or _me())
    if common.json:
        common.out.emit(hold)
    else:
        common.out.line(f"{hold.queue} is free" if hold.status == "RELEASED" else f"the hold on {hold.queue} had expired")


@app.command(help_epilogue=epilogue("windlass holds run gpu --wait 10m -- python train.py --epochs 3"))
async def run(
    queue: str,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    by: By = None,
    expires_in: Term = "5m",
    wait: Wait = None,
    common: Common = Common(),
) -> int:
    """Run a command while you hold a queue. The hold is renewed as long as the command runs; should it be lost, the
    command is ended. The exit code is that of the command.

    Args:
        queue: the queue
        command: the command and its arguments, after --
    """
    if not command:
        raise InvalidInput("command", "name a command after --")
    stopped: list[int] = []
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    def stop(sign: int) -> None:
        """Else the command would go on beside whoever holds the queue next."""
        stopped.append(sign)
        task.cancel()

    for sign in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(sign, stop, sign)
    try:
        async with opened(common) as admin, admin.hold(queue, by or _me(), expires_in=expires_in, wait=wait):
            return await _run(command)
    except asyncio.CancelledError:
        if not stopped:
            raise
        return 128 + stopped[0]
    return FAILED


async def _run(command: tuple[str, ...]) -> int:
    try:
        child = await asyncio.create_subprocess_exec(*command, start_new_session=True)
    except OSError as error:
        raise InvalidInput("command", f"cannot be run: {error}") from None
    try:
        code = await child.wait()
    except BaseException:
        await _end(child)
        raise
    return code if code >= OK else 128 - code


async def _end(child: asyncio.subprocess.Process) -> None:
    """The command and all that it started, which may be deaf when itself is not."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(child.wait()), PATIENCE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    await child.wait()


def _release(common: Common, hold_id: str) -> str:
    return common.again(f"holds release {hold_id}")


def _me() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without a name for this user
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
