"""`python -m windlass.cli.children FD`: the fork server of a worker, started by it and by nobody else.

It is here because a child is told its app by name, as the command line is."""

from __future__ import annotations

import socket
import sys

from windlass.loading import load_app
from windlass.worker.processes.child import live
from windlass.worker.processes.server import Server


def main(fd: str) -> None:
    Server(socket.socket(fileno=int(fd)), lambda sock: live(sock, load_app)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
