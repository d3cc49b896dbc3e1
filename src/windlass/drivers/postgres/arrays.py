"""Columns of a batch. A statement takes a whole batch as one array per column; the kinds are told apart so that a
connection can write them as bytes, which is several times faster than text. To any other library they are plain lists."""

from __future__ import annotations

import struct
from typing import Final


class Texts(list[str | None]):
    oid: Final = 25


class Ints(list[int | None]):
    oid: Final = 20


class Bools(list[bool | None]):
    oid: Final = 16


class Floats(list[float | None]):
    oid: Final = 701


class Blobs(list[bytes | None]):
    oid: Final = 17


Array = Texts | Ints | Bools | Floats | Blobs
KINDS: Final = {Texts: 1009, Ints: 1016, Bools: 1000, Floats: 1022, Blobs: 1001}  # with the oid of each array type
_NULL: Final = b"\xff\xff\xff\xff"
_length: Final = struct.Struct(">i").pack


def packed(array: Array, encoding: str = "utf-8") -> bytes:
    """PostgreSQL's binary form of a one-dimensional array. `encoding` is the connection's."""
    head = struct.pack(">iiIii", 1, 1, array.oid, len(array), 1) if array else struct.pack(">iiI", 0, 0, array.oid)
    if isinstance(array, Texts):
        return head + _with_lengths([None if text is None else text.encode(encoding) for text in array])
    if isinstance(array, Blobs):
        return head + _with_lengths(array)
    code, width = {Ints: ("q", 8), Bools: ("?", 1), Floats: ("d", 8)}[type(array)]
    if None not in array:
        pairs: list[object] = [width] * (2 * len(array))
        pairs[1::2] = array
        return head + struct.pack(">" + f"i{code}" * len(array), *pairs)
    one = struct.Struct(f">i{code}").pack
    return head + b"".join([_NULL if value is None else one(width, value) for value in array])


def _with_lengths(values: list[bytes | None]) -> bytes:
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (_length(len(value)), value)
    return b"".join(parts)
