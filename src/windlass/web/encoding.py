"""Views to JSON and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from windlass.web.problems import Trouble

T = TypeVar("T")


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


def decoded_json(raw: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise Trouble(422, "invalid-input", f"the body is not as described: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Trouble(400, "malformed-json", "the body is not JSON") from None


def decoded_pairs(pairs: Sequence[tuple[str, str]], kind: type[T], where: str) -> T:
    """A query string or a form. A name that comes twice is a list where the Struct has one, else refused."""
    said: dict[str, Any] = {}
    many = {field.encode_name for field in msgspec.structs.fields(kind) if _is_many(field.type)}  # type: ignore[arg-type]
    for name, value in pairs:
        if name in many:
            said.setdefault(name, []).append(value)
        elif name in said:
            raise Trouble(422, "invalid-input", f"the {where} says {name!r} twice", field=name)
        else:
            said[name] = value
    try:
        return msgspec.convert(said, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Trouble(422, "invalid-input", f"the {where} is not as described: {error}") from None


def _is_many(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) in (tuple, list, frozenset)
