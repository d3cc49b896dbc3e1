"""What is said between a worker, its fork server and its children: msgspec structs, each after a mark and its length.

Nothing here can name code to be run, and nothing of a user's is ever pickled. The mark is there because the code of a
handler can reach its child's end of the line: what it writes there by mistake is known for what it is by its first bytes,
and nobody waits for the rest of a frame that it only seems to begin.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.core import settle
from windlass.core.settle import Outcome
from windlass.types import Claimed

MARK: Final = b"wdl\xff"  # no text holds its last byte
HEAD: Final = len(MARK) + 4
LONGEST: Final = 1 << 28  # nobody says as much; whoever seems to is not speaking to us


# ------------------------------------------------------------------------------------------------ to the fork server


class Fork(Struct, frozen=True, tag=True):
    """Make a child. Its end of a socket comes along."""

    number: int
    memory: int


class Spawn(Struct, frozen=True, tag=True):
    """Start a program. Where its output goes comes along. Its words are bytes, as those of the operating system are: they
    need not be text of any encoding."""

    number: int
    memory: int
    command: tuple[bytes, ...]
    environment: dict[bytes, bytes]
    cwd: bytes | None


class Kill(Struct, frozen=True, tag=True):
    """Send a signal to the process group of one of them."""

    number: int
    signal: int


Order: TypeAlias = Fork | Spawn | Kill


# ------------------------------------------------------------------------------------------------------- and its answers


class Awake(Struct, frozen=True, tag=True):
    """It listens."""


class Started(Struct, frozen=True, tag=True):
    number: int
    pid: int


class Unstarted(Struct, frozen=True, tag=True):
    number: int
    why: str


class Signalled(Struct, frozen=True, tag=True):
    """A signal was sent, or came too late to be."""

    number: int


class Gone(Struct, frozen=True, tag=True):
    """It has ended: a code, or a negative number for the signal that killed it; None when nobody can tell."""

    number: int
    code: int | None
    cpu_us: int | None = None
    peak_rss: int | None = None


News: TypeAlias = Awake | Started | Unstarted | Signalled | Gone


# ------------------------------------------------------------------------------------------------------------ to a child


class Hello(Struct, frozen=True, tag=True):
    """Where the app is, where modules are looked for, how the program was started, and where its store is. As bytes, since
    each of them may hold the name of a file."""

    target: bytes
    path: tuple[bytes, ...]
    argv: tuple[bytes, ...]
    url: bytes


class Begin(Struct, frozen=True, tag=True):
    job: Claimed
    result_limit: int


class Stop(Struct, frozen=True, tag=True):
    """The handler should stop."""


Word: TypeAlias = Hello | Begin | Stop


# ----------------------------------------------------------------------------------------------------------- from a child


class Ready(Struct, frozen=True, tag=True):
    """The app is imported, at this cost so far."""

    cpu_so_far: int


class Broken(Struct, frozen=True, tag=True):
    """The app cannot be imported."""

    why: str


class OfRun(Struct, frozen=True):
    """What is said for one run names it: whoever speaks late, or is a copy of a handler, does not speak for the next."""

    run: str


class Begun(OfRun, frozen=True, tag=True):
    """From here on its death is the job's."""


class Progress(OfRun, frozen=True, tag=True):
    fraction: float | None
    note: str | None


class Line(OfRun, frozen=True, tag=True):
    level: str
    text: str


class Artifact(OfRun, frozen=True, tag=True):
    path: str


Kind = Literal["Succeeded", "Failed", "Rejected", "Snoozed", "Released", "WasCancelled"]


class Ended(OfRun, frozen=True, tag=True):
    kind: Kind
    outcome: msgspec.Raw
    traceback: str | None
    cpu_us: int
    peak_rss: int
    cpu_so_far: int  # of this child in all
    memory: int  # that it still uses
    spent: bool  # what this run has left behind goes on: no other one should be beside it

    def told(self) -> Outcome:
        outcome: Outcome = understood(msgspec.msgpack.Decoder(getattr(settle, self.kind)), self.outcome)
        return outcome


Report: TypeAlias = Ready | Broken | Begun | Progress | Line | Artifact | Ended

_encode: Final = msgspec.msgpack.Encoder().encode
encoded: Final = _encode
order: Final = msgspec.msgpack.Decoder(Order)
news: Final = msgspec.msgpack.Decoder(News)
word: Final = msgspec.msgpack.Decoder(Word)
report: Final = msgspec.msgpack.Decoder(Report)


class Garbled(Exception):
    """What came over a line was not said by whoever is at its other end."""


def packed(message: Struct) -> bytes:
    body = _encode(message)
    if len(body) > LONGEST:
        raise ValueError(f"{len(body):,} bytes are too much for one message between processes")
    return MARK + len(body).to_bytes(HEAD - len(MARK), "big") + body


def length_in(head: bytes) -> int:
    length = int.from_bytes(head[len(MARK) :], "big")
    if head[: len(MARK)] != MARK or length > LONGEST:
        raise Garbled(f"{head!r} begins no frame")
    return length


def understood(decoder: msgspec.msgpack.Decoder[Any], body: bytes | msgspec.Raw) -> Any:
    try:
        return decoder.decode(body)
    except Exception as error:  # of several kinds, by what is wrong with it
        raise Garbled(str(error)) from error


def raw(text: str) -> bytes:
    """As the operating system has it, where it can have such a thing at all."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def sayable(value: Any) -> Any:
    """Text, or a tuple of texts, as a message can hold it: the name of a file, and so whatever speaks of one, may hold what
    is no UTF-8. Anything else is left as it is."""
    if isinstance(value, tuple):
        return tuple(sayable(one) for one in value)
    return str.encode(value, "utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def portable(job: Claimed) -> Claimed:
    """Without the driver's handle, which means nothing elsewhere."""
    return replace(job, handle=None)


def receive(sock: socket.socket, decoder: msgspec.msgpack.Decoder[Any], head: bytes = b"") -> Any:
    """The next message, blocking. EOFError when the other side is gone."""
    return understood(decoder, exactly(sock, length_in(head or exactly(sock, HEAD))))


def exactly(sock: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        try:
            part = sock.recv(count - len(parts))
        except ConnectionError:
            part = b""
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
