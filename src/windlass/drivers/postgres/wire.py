"""The network connection below a session, held so that another thread can cut it.

It is taken once, when the session begins, and is ours until we let go of it: the number that the library has for it may
stand for somebody else's file by the time that a deadline passes.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress


class Wire:
    def __init__(self, fileno: int) -> None:
        self._lock = threading.Lock()
        self._fd = os.dup(fileno)
        self.was_cut = False

    def cut(self) -> None:
        """From any thread: whatever is under way on it fails now. Nothing happens to one that was let go of."""
        with self._lock:
            if self._fd >= 0:
                self.was_cut = True
                with suppress(OSError), socket.socket(fileno=os.dup(self._fd)) as held:
                    held.shutdown(socket.SHUT_RDWR)

    def let_go(self) -> None:
        with self._lock:
            fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
