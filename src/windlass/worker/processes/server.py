"""The fork server: the parent of all children and programs of one worker.

It has one thread and no event loop, so that it can be forked at any moment, and it does not import the app, so that nothing
which a module starts on import is copied half-way. Each child and each program leads a session of its own: a signal to its
group reaches whatever it has started, and nobody else. When one has ended, what is left of its group is killed; when the
worker is gone, which its end of the control socket tells however it died, everything is.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

from windlass.worker.processes.copies import deaf, let_copies_hear
from windlass.worker.processes.frames import (
    HEAD,
    Awake,
    Fork,
    Garbled,
    Gone,
    Kill,
    News,
    Order,
    Signalled,
    Spawn,
    Started,
    Unstarted,
    exactly,
    order,
    packed,
    receive,
    sayable,
)
from windlass.worker.processes.measures import bound_memory, usage_of

Live = Callable[[socket.socket], None]  # what a child does with its life
QUIET: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class Server:
    def __init__(self, control: socket.socket, live: Live) -> None:
        self._control = control
        self._live = live
        self._pids: dict[int, int] = {}  # number -> pid
        self._wakes, self._woken = os.pipe()
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        for fd in (self._wakes, self._woken):
            os.set_blocking(fd, False)
        for number in QUIET:
            signal.signal(number, deaf)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        try:
            self._tell(Awake())
            while True:
                ready = {key.fileobj for key, _ in self._selector.select()}
                if self._wakes in ready:
                    with suppress(BlockingIOError):
                        os.read(self._wakes, 4_096)
                self._bury()
                if self._control in ready:
                    self._obey()
        except (EOFError, ConnectionError, Garbled):
            self._end()

    # ---------------------------------------------------------------------------------------------------------- orders

    def _obey(self) -> None:
        given, fd = self._next_order()
        match given:
            case Kill():
                if given.number in self._pids:
                    kill_group(self._pids[given.number], given.signal)
                self._tell(Signalled(given.number))
            case Fork() | Spawn():
                assert fd is not None, "its end of the line comes along"
                try:
                    pid = self._fork(given, fd) if isinstance(given, Fork) else self._spawn(given, fd)
                except (OSError, ValueError) as error:
                    self._tell(Unstarted(given.number, sayable(str(error))))
                else:
                    self._pids[given.number] = pid
                    self._tell(Started(given.number, pid))
                finally:
                    os.close(fd)

    def _next_order(self) -> tuple[Order, int | None]:
        """What came along arrives with the first byte."""
        head, fds, _, _ = socket.recv_fds(self._control, HEAD, 1)
        if not head:
            raise EOFError
        if len(head) < HEAD:
            head += exactly(self._control, HEAD - len(head))
        given: Order = receive(self._control, order, head)
        return given, fds[0] if fds else None

    def _fork(self, given: Fork, fd: int) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._become_child(given, fd)
        return pid

    def _become_child(self, given: Fork, fd: int) -> NoReturn:
        code = 1
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            let_copies_hear()
            self._selector.close()
            self._control.close()
            os.close(self._wakes)
            os.close(self._woken)
            bound_memory(given.memory)
            self._live(socket.socket(fileno=fd))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _spawn(self, given: Spawn, fd: int) -> int:
        command = [os.fsdecode(word) for word in given.command]  # as text, so that errors quote it as such
        cwd = None if given.cwd is None else os.fsdecode(given.cwd)
        started = subprocess.Popen(  # noqa: S603 - the program and its arguments are a list, and no shell reads them
            command, env=given.environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=fd, stderr=fd,
            start_new_session=True, preexec_fn=(lambda: bound_memory(given.memory)) if given.memory else None,
        )  # fmt: skip
        started.returncode = 0  # its end is waited for here, not by whoever collects this object
        return started.pid

    # ------------------------------------------------------------------------------------------------------------- ends

    def _bury(self) -> None:
        for number, pid in list(self._pids.items()):
            done, status, usage = os.wait4(pid, os.WNOHANG)
            if done:
                del self._pids[number]
                kill_group(pid, signal.SIGKILL, alone=False)
                self._tell(Gone(number, os.waitstatus_to_exitcode(status), *usage_of(usage)))

    def _end(self) -> None:
        for pid in self._pids.values():
            kill_group(pid, signal.SIGKILL)
        for pid in self._pids.values():
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def _tell(self, said: News) -> None:
        self._control.sendall(packed(said))


def kill_group(pid: int, number: int, *, alone: bool = True) -> None:
    """All of its session's group; the process itself when it does not lead one yet."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # macOS forbids what Linux does not find
        if alone:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
