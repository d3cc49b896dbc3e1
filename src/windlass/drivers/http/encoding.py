"""Values to JSON and back. What an exception, a file name or a far instant may hold, and JSON cannot, is made fit."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from windlass.core.changes import LARGEST_NUMBER
from windlass.errors import StoreError

T = TypeVar("T")
_decoders: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return msgspec.json.encode(_fit(msgspec.to_builtins(value)))


def decoded(raw: bytes, kind: type[T]) -> T:
    try:
        found: T = _decoder(kind).decode(raw)
    except ValueError as error:  # of msgspec, or of what is no UTF-8
        raise StoreError(f"the server's answer is not of our protocol: {error}") from None
    return found


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    known = _decoders.get(kind)
    if known is None:
        known = _decoders[kind] = msgspec.json.Decoder(kind)
    return known


def _fit(value: Any) -> Any:
    match value:
        case dict():
            return {_fit(key): _fit(one) for key, one in value.items()}
        case list() | tuple():
            return [_fit(one) for one in value]
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case int() if abs(value) > LARGEST_NUMBER:
            return LARGEST_NUMBER if value > 0 else -LARGEST_NUMBER
        case _:
            return value
