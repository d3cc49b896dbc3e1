"""The file itself: where it may lie, who may read it, and whether it is still the one we opened."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

from windlass.errors import StoreReadOnly, StoreReplaced, StoreUnavailable

# SQLite's locks do not work, or not reliably, across these.
NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.glusterfs",
     "fuse.s3fs", "fuse.gcsfuse", "ncpfs", "beegfs", "gpfs"}
)  # fmt: skip


_creating: Final = threading.Lock()


def prepare(path: str) -> None:
    """Make sure the path can hold a store; create the file readable by its owner only.

    A file that exists is looked at, never opened: closing a descriptor of it would drop every lock that SQLite holds on it
    in this process, and the next process to leave would then delete a WAL that is still written to."""
    parent = Path(path).parent
    if not parent.is_dir():
        raise StoreUnavailable(f"{path}: the directory {parent} does not exist; create it with: mkdir -p {parent}")
    if Path(path).is_dir():
        raise StoreUnavailable(f"{path}: is a directory; name a file in it, such as {Path(path) / 'windlass.db'}")
    kind = filesystem_of(str(parent), mounts())
    if kind in NETWORK:
        raise StoreUnavailable(
            f"{path}: lies on a network file system ({kind}), where SQLite's locks cannot be trusted; "
            "use a local disk, or PostgreSQL for several machines"
        )
    with _creating:  # so that no other thread has it open when the descriptor that created it is closed
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            if not os.access(path, os.R_OK | os.W_OK):
                raise StoreReadOnly(path) from None
        except PermissionError:
            raise StoreReadOnly(path) from None
        except OSError as error:
            raise StoreUnavailable(f"{path}: cannot be opened ({error.strerror})") from None


def mounts() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text()
    except OSError:  # not Linux: nothing to look at
        return ""


def filesystem_of(directory: str, mountinfo: str) -> str:
    """The type of the file system that holds a directory, or "" when it cannot be told."""
    best, kind = "", ""
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        point = fields.split()[4].replace("\\040", " ")
        inside = directory == point or directory.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, rest.split()[0]
    return kind


class Identity:
    """Device and inode of the file that was opened. SQLite would go on writing to a deleted file without a word."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = self._look()

    def _look(self) -> tuple[int, int]:
        try:
            status = os.stat(self._path)
        except OSError:
            raise StoreReplaced(self._path) from None
        return status.st_dev, status.st_ino

    def check(self) -> None:
        if self._look() != self._identity:
            raise StoreReplaced(self._path)

    @property
    def key(self) -> tuple[int, int]:
        return self._identity


class OpenFiles:
    """Which library each file is open through in this process: two on one file drop each other's locks (library.py).

    An entry stays until the driver is closed, also when the driver itself was dropped: its threads still hold the file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[int, int], tuple[str, int]] = {}

    def enter(self, identity: Identity, path: str, library: str) -> None:
        with self._lock:
            other, count = self._open.get(identity.key, (library, 0))
            if other != library:
                raise StoreUnavailable(f"{path}: is open in this process through {other!r}; use sqlite={other!r} here too")
            self._open[identity.key] = (library, count + 1)

    def leave(self, identity: Identity) -> None:
        with self._lock:
            library, count = self._open[identity.key]
            if count > 1:
                self._open[identity.key] = (library, count - 1)
            else:
                del self._open[identity.key]
