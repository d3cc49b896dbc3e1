"""Where one message of the PostgreSQL protocol ends and the next begins: what a proxy must know to cut between two."""

from __future__ import annotations

import struct
from collections.abc import Iterator

CANCEL, TLS, GSS = 80877102, 80877103, 80877104  # what a first packet may ask for instead of a session


class ClientFrames:
    """Cuts the bytes from a client into messages, and knows the statement that each of them carries or runs."""

    def __init__(self) -> None:
        self._buffer = b""
        self._in_session = False
        self._statements: dict[bytes, bytes] = {}  # prepared ones by name; the unnamed one is b""
        self.offers = 0  # of encryption: the server answers each with a single byte

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        head = 1 if self._in_session else 0  # the first packets of a connection have no type
        while len(self._buffer) >= head + 4:
            length = head + struct.unpack_from("!i", self._buffer, head)[0]
            if len(self._buffer) < length:
                return
            message, self._buffer = self._buffer[:length], self._buffer[length:]
            if not self._in_session:
                self._begin(message)
            yield message
            head = 1 if self._in_session else 0

    def statement(self, message: bytes) -> bytes | None:
        """The text that this message makes the server run, or None. Preparing is not running."""
        kind, body = message[:1], message[5:]
        if kind == b"Q":
            return body.rstrip(b"\0")
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._statements[name] = text
        if kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            return self._statements.get(name)
        return None

    def _begin(self, packet: bytes) -> None:
        code = struct.unpack_from("!i", packet, 4)[0]
        if code in (TLS, GSS):
            self.offers += 1
        else:
            self._in_session = code != CANCEL


def asks_for_an_answer(message: bytes) -> bool:
    """After such a message the server reports that it is ready for the next."""
    return message[:1] in (b"Q", b"S", b"F")


class ServerFrames:
    """Counts how often the server has reported that it is ready: once after the greeting, then once per request."""

    def __init__(self, client: ClientFrames) -> None:
        self._client = client
        self._refused = 0
        self._buffer = b""
        self.ready = 0

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while self._refused < self._client.offers and self._buffer:
            assert self._buffer[:1] == b"N", "the proxy cannot look into an encrypted session"
            self._buffer = self._buffer[1:]
            self._refused += 1
        while len(self._buffer) >= 5:
            length = 1 + struct.unpack_from("!i", self._buffer, 1)[0]
            if len(self._buffer) < length:
                return
            self.ready += self._buffer[:1] == b"Z"
            self._buffer = self._buffer[length:]
