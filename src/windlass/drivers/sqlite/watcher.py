"""Noticing that another process (or our own writer) has committed, without asking all the time.

Linux: inotify on the WAL file, 0.01 % of a core when idle. Elsewhere: an adaptive poll, 5 ms growing to 100 ms. Both only
raise a suspicion, which `pragma data_version` confirms. The thread sleeps while nobody waits.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import threading
from contextlib import suppress
from typing import Final

from windlass.drivers.sqlite.library import ERRORS, Connection

SHORTEST_POLL: Final = 0.005
LONGEST_POLL: Final = 0.1
FIRST_LOOK: Final = 0.0002  # after inotify: the earliest that a commit with fsync can be seen on a good disk
LAST_LOOK: Final = 1.0  # and never longer than this on a bad one
POLL_STEP: Final = 0.001  # poll(2) counts in these, and rounds up
_IN_MODIFY: Final = 0x2
_IN_NONBLOCK: Final = os.O_NONBLOCK
_IN_CLOEXEC: Final = os.O_CLOEXEC

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[bool]"]


def watch_file(path: str) -> int | None:
    """An inotify descriptor that becomes readable when the file is written, or None where there is no inotify."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd = int(libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC))
        if fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(path), _IN_MODIFY) >= 0:
            return fd
        if fd >= 0:
            os.close(fd)
    except (AttributeError, OSError):
        pass
    return None


class Watcher:
    def __init__(self, path: str, connection: Connection, *, use_inotify: bool = True) -> None:
        self._connection = connection
        self._seen = self._version()
        self._inotify = watch_file(path + "-wal") if use_inotify else None
        self._waiters: list[Waiter] = []
        self._lock = threading.Lock()
        self._closed = False
        self._moment = threading.Event()  # never set: to wait for less than poll can
        self._nudge_in, self._nudge_out = os.pipe()
        os.set_blocking(self._nudge_in, False)
        os.set_blocking(self._nudge_out, False)
        self._thread = threading.Thread(target=self._loop, name="windlass-watcher", daemon=True)
        try:
            self._thread.start()
        except BaseException:  # no more threads may be had, and whoever waits asks again and again
            self._close()
            raise

    @property
    def pushes(self) -> bool:
        return self._inotify is not None

    async def wait(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        waiter = (loop, future)
        with self._lock:
            self._waiters.append(waiter)
        self._nudge()
        try:
            return await asyncio.wait_for(future, timeout)
        except TimeoutError:
            return False
        finally:
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._nudge()
        self._thread.join()
        self._close()

    def _close(self) -> None:
        self._connection.close()
        for fd in (self._nudge_in, self._nudge_out, self._inotify):
            if fd is not None:
                os.close(fd)

    def _nudge(self) -> None:
        with suppress(BlockingIOError):  # then it was nudged often enough
            os.write(self._nudge_out, b"!")

    # ---------------------------------------------------------------------------------------- on the watcher's thread

    def _loop(self) -> None:
        """inotify tells of the write to the WAL, which comes a moment before the commit can be seen (the fsync lies
        between), so a suspicion is looked into again and again, ever more slowly, until it is confirmed or stale."""
        pause: float | None = None
        while not self._closed:
            if not self._waiters:
                self._sleep(None, [self._nudge_in])
                pause = SHORTEST_POLL
            elif self._inotify is None:
                self._sleep(pause, [self._nudge_in])
                pause = min((pause or SHORTEST_POLL) * 1.5, LONGEST_POLL)
            elif self._sleep(pause, [self._nudge_in, self._inotify]):
                pause = FIRST_LOOK
            elif pause is not None:
                pause = pause * 1.5 if pause < LAST_LOOK else None
            if self._waiters and self._changed():
                pause = SHORTEST_POLL
                self._tell()
        self._tell()

    def _sleep(self, timeout: float | None, fds: list[int]) -> bool:
        if timeout is not None and timeout < POLL_STEP:
            return self._moment.wait(timeout)
        poll = select.poll()  # not select(): a busy process has descriptors beyond its 1,024
        for fd in fds:
            poll.register(fd, select.POLLIN)
        readable = [fd for fd, _ in poll.poll(None if timeout is None else timeout * 1_000)]
        for fd in readable:
            with suppress(BlockingIOError):
                os.read(fd, 65_536)
        return bool(readable)

    def _version(self) -> int:
        return int(self._connection.execute("pragma data_version")[0][0])

    def _changed(self) -> bool:
        try:
            version = self._version()
        except ERRORS:  # whoever is woken meets the store's own error, with its own words
            return True
        changed, self._seen = version != self._seen, version
        return changed

    def _tell(self) -> None:
        with self._lock:
            waiters, self._waiters = self._waiters, []
        for loop, future in waiters:
            try:
                loop.call_soon_threadsafe(_answer, future)
            except RuntimeError:  # that loop is gone
                continue


def _answer(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(True)
