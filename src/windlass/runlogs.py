"""The logs of runs: one bounded file each, made when the first line is written.

A run's log lies below a log root, at a path that follows from the job, the number of the run and the day of its claim. The
row keeps that path relative to the root, so that a store and its logs can be moved, and whoever looks for the log of a run
that never came to its end finds it all the same.

A log is appended to until it is twice as long as it may be, then its middle is cut out: its beginning says what was begun,
its end what went wrong. Whatever is wrong with the disk, the job is not: lines that cannot be written are dropped.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from windlass.clock import moment
from windlass.config import Settings
from windlass.types import Micros
from windlass.urls import file_of, scheme_of

AUTO: Final = "auto"
NONE: Final = "none"
SUFFIX: Final = ".log"
SHORTER: Final = ".short"  # while its middle is cut out
WHERE: Final = frozenset({"host", "hostaddr", "port", "dbname", "service"})
OWNER: Final = ".windlass-store-"  # begins the names of the marks in a root that somebody has chosen
LONGEST_NAME: Final = 180  # of a job's id in a file's name; a longer one is told by its digest
DIGEST: Final = "="  # which no quoted id begins with
_NAME: Final = re.compile(
    rf"({DIGEST}[0-9a-f]{{64}}|[^{DIGEST}]{{1,{LONGEST_NAME}}})\.[0-9]+(?:{SUFFIX}|{SHORTER})", re.ASCII
)
_PARTS: Final = re.compile(r"(?:[^@/]*@)?([^/?]*)(/[^?]*)?(?:\?(.*))?", re.DOTALL)
CUT: Final = b"... %d bytes were cut out here: a log keeps its beginning and its end ...\n"
CUT_ROOM: Final = len(CUT % 10**18) + 1  # at most, with the end of the line before it
log: Final = logging.getLogger("windlass.runlogs")


def root_of(settings: Settings, url: str) -> Path | None:
    """The directory for the logs of this store. Default: beside a file, else below the working directory. A store in
    memory has none, because nobody could ask for them later."""
    if settings.log_root == NONE:
        return None
    if settings.log_root != AUTO:
        return Path(settings.log_root)
    scheme = scheme_of(url)
    if scheme == "memory":
        return None
    if scheme == "sqlite":
        path = file_of(url)
        return None if path is None else Path(path + "-logs")
    place = f"{_place(url)}?{settings.schema}"
    return Path("windlass-logs") / hashlib.sha256(place.encode()).hexdigest()[:8]


def _place(url: str) -> str:
    """Hosts with their ports, path, and what else says which server and database: not who asks, nor how. As libpq reads it:
    a user's name and password may hold anything but a slash or an @."""
    found = _PARTS.fullmatch(url.partition(":")[2].removeprefix("//"))
    assert found is not None, "every text has this form"
    hosts, path, query = found.groups(default="")
    told = sorted(one for one in query.split("&") if one.partition("=")[0] in WHERE)  # as written: so it always was
    return "&".join([f"{hosts.lower()}{path}", *told])


def log_path(job_id: str, attempt_no: int, claimed_at: Micros) -> str:
    """Relative to the root: `2030-01-01/JOB.1.log`."""
    name = quote(job_id, safe="")
    if len(name) > LONGEST_NAME:
        name = DIGEST + hashlib.sha256(job_id.encode()).hexdigest()
    return f"{moment(claimed_at):%Y-%m-%d}/{name}.{attempt_no}{SUFFIX}"


def stem_of(name: str) -> str | None:
    """Of a file that `log_path` has named, or that one is shortened in, what tells its job; None of any other."""
    found = _NAME.fullmatch(name)
    if found is None or not (found[1].startswith(DIGEST) or quote(unquote(found[1]), safe="") == found[1]):
        return None
    return found[1] if unquote(found[1]).isprintable() else None


def job_of(name: str) -> str | None:
    """The job that a file of this name belongs to; None when its name does not say."""
    stem = stem_of(name)
    return None if stem is None or stem.startswith(DIGEST) else unquote(stem)


def below(root: Path, path: str) -> Path | None:
    """The file of a stored path. A row that points elsewhere was not written by us, and is not followed."""
    found = Path(os.path.normpath(root / path))
    return found if found.is_relative_to(os.path.normpath(root)) else None


def log_line(at: Micros, level: str, text: str) -> bytes:
    return f"{moment(at):%Y-%m-%dT%H:%M:%S.%fZ} {level:<7} {text}\n".encode("utf-8", "backslashreplace")


class Owner(NamedTuple):
    """A store, as the mark in its log root names it."""

    store_id: str
    where: str  # for people

    @property
    def mark(self) -> str:
        return f"{OWNER}{self.store_id}"


class RunLogs:
    """All logs of one store on this machine. In a root that somebody has chosen a mark of each store says whose logs are
    there: what one store does not know may be another's."""

    def __init__(self, root: Path | None, limit: int, *, chosen: bool = False) -> None:
        self.root: Final = None if root is None else root.absolute()  # wherever a handler may go
        self.chosen: Final = chosen and root is not None
        self.owner: Owner | None = None  # also where the store has no name, since nobody else can open it
        self.owner_known = False
        self._limit = limit
        self._lock = threading.Lock()
        self._complained = False

    def open(self, job_id: str, attempt_no: int, claimed_at: Micros) -> RunLog | None:
        """None: there is no place for it."""
        if self.root is None:
            return None
        path = log_path(job_id, attempt_no, claimed_at)
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._mark()
            return RunLog(self.root / path, path, self._limit)
        except OSError as error:
            with self._lock:
                if not self._complained:
                    log.warning("no log can be kept below %s: %s", self.root, error)
                self._complained = True
            return None

    @property
    def mark(self) -> Path | None:
        """What says whose logs are in a root that somebody has chosen, once it is known."""
        return None if self.root is None or not self.chosen or self.owner is None else self.root / self.owner.mark

    def place_mark(self) -> None:
        """Before there is a log: what an earlier version has left there without a mark is somebody's, too."""
        if self.root is not None and self.mark is not None:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._mark()

    def _mark(self) -> None:
        if self.mark is not None and self.owner is not None and not self.mark.exists():
            self.mark.write_text(f"Here are logs of runs of {self.owner.where}\n", "utf-8")

    def others(self) -> list[Path]:
        """The marks of other stores in this root. To be asked once the owner is known."""
        if self.root is None or not self.chosen or not self.owner_known:
            return []
        own = None if self.mark is None else self.mark.name
        return sorted(path for path in self.root.glob(f"{OWNER}*") if path.name != own)


class RunLog:
    """The log of one run. Threads may share it; what is written after its close is dropped."""

    def __init__(self, file: Path, path: str, limit: int) -> None:
        self.path: Final = path
        self._file = file
        self._limit = limit
        self._head: int | None = None  # bytes before the place where something was cut out
        self._note = 0  # bytes of what says so
        self._cut = 0  # bytes that were cut out so far
        self._lock = threading.Lock()
        file.parent.mkdir(mode=0o700, exist_ok=True)
        self._fd: int | None = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._fd).st_size

    def write(self, text: bytes) -> None:
        with self._lock:
            if self._fd is None:
                return
            try:
                for start in range(0, len(text), self._limit):
                    self._size += os.write(self._fd, text[start : start + self._limit])
                    if self._size > 2 * self._limit:
                        self._shorten()
            except OSError as error:
                log.warning("%s: no more can be written: %s", self._file, error)
                self._close()

    def close(self) -> None:
        with self._lock:
            if self._fd is not None and self._size > self._limit:
                try:
                    self._shorten()
                except OSError as error:
                    log.warning("%s: cannot be shortened: %s", self._file, error)
            self._close()

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None

    def _shorten(self) -> None:
        """Keep the first and the last half of what may be kept beside the note that says so. Whoever follows the file sees
        another one in its place."""
        assert self._fd is not None, "an open log is shortened"
        half = (self._limit - CUT_ROOM) // 2
        head = os.pread(self._fd, half if self._head is None else self._head, 0)
        if self._head is None and b"\n" in head:
            head = head[: head.rfind(b"\n") + 1]
        tail = os.pread(self._fd, half + 1, self._size - half - 1)  # one more: it tells whether a line begins there
        tail = tail[tail.find(b"\n") + 1 :] if b"\n" in tail[:-1] else tail[1:]
        self._cut += self._size - len(head) - self._note - len(tail)
        note = (b"" if head.endswith(b"\n") else b"\n") + CUT % self._cut
        self._head, self._note = len(head), len(note)
        shorter = self._file.with_suffix(SHORTER)
        fd = os.open(shorter, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._size = os.write(fd, head + note + tail)
            os.replace(shorter, self._file)
        except OSError:
            os.close(fd)
            raise
        os.close(self._fd)
        self._fd = fd
