"""Columns of a batch. A statement takes a whole batch as one array per column; the kinds are told apart so that a
connection can write them as bytes, which is several times faster than text. To any other library they are plain lists;
`Instants` are for our own connections alone."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final


class Texts(list[str | None]):
    oid: Final = 25


class Ints(list[int | None]):
    oid: Final = 20


class Bools(list[bool | None]):
    oid: Final = 16


class Floats(list[float | None]):
    oid: Final = 701


class Instants(list[int | None]):
    """Microseconds since 1970, as the server has them: since 2000."""

    oid: Final = 1184


class Blobs(list[bytes | None]):
    oid: Final = 17


Array = Texts | Ints | Bools | Floats | Instants | Blobs
KINDS: Final = {  # with the oid of each array type
    Texts: 1009, Ints: 1016, Bools: 1000, Floats: 1022, Instants: 1185, Blobs: 1001,
}  # fmt: skip
_SINCE: Final = 946_684_800_000_000  # 2000-01-01
_NULL: Final = b"\xff\xff\xff\xff"
_length: Final = struct.Struct(">i").pack


def packed(array: Array, encoding: str = "utf-8") -> bytes:
    """PostgreSQL's binary form of a one-dimensional array. `encoding` is the connection's."""
    head = struct.pack(">iiIii", 1, 1, array.oid, len(array), 1) if array else struct.pack(">iiI", 0, 0, array.oid)
    if isinstance(array, Texts):
        return head + _with_lengths([None if text is None else text.encode(encoding) for text in array])
    if isinstance(array, Blobs):
        return head + _with_lengths(array)
    if isinstance(array, Instants):
        return head + _numbers([None if at is None else at - _SINCE for at in array], "q", 8)
    return head + _numbers(array, *{Ints: ("q", 8), Bools: ("?", 1), Floats: ("d", 8)}[type(array)])


def _numbers(values: Sequence[float | None], code: str, width: int) -> bytes:
    if None not in values:
        pairs: list[object] = [width] * (2 * len(values))
        pairs[1::2] = values
        return struct.pack(">" + f"i{code}" * len(values), *pairs)
    one = struct.Struct(f">i{code}").pack
    return b"".join([_NULL if value is None else one(width, value) for value in values])


def _with_lengths(values: list[bytes | None]) -> bytes:
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (_length(len(value)), value)
    return b"".join(parts)
