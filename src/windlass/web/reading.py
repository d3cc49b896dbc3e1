"""What a request says, within bounds and as its route describes it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

from windlass.web.bounds import Bounds
from windlass.web.problems import Trouble
from windlass.words import did_you_mean

T = TypeVar("T")
FORM: Final = "application/x-www-form-urlencoded"
# Up to the next bracket, or to the end: strings, or what is left of one that nobody ends, are passed over. It matches
# wherever it begins: a search that fails and begins anew a byte later takes time by the square of the length.
_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?)*+([\[\]{}]|\Z)', re.S)
PATIENCE: Final = 60.0  # seconds that a body has to arrive: one that comes a byte at a time keeps its place for ever
DIGITS: Final = 18  # of a Content-Length, and no body has so many bytes
Pairs = Sequence[tuple[str, str]]


async def raw_body(http: HttpRequest, most: int) -> bytes:
    """Not a byte more than the bound is kept."""
    said = http.headers.get("content-length", "0")
    if not said.isascii() or not said.isdigit() or len(said) > DIGITS:
        raise Trouble(400, "malformed-request", "Content-Length is no number of bytes")
    found, size = bytearray(), int(said)
    if size <= most:
        size = 0
        try:
            async with asyncio.timeout(PATIENCE):
                async for piece in http.stream():
                    size += len(piece)
                    if size > most:
                        break
                    found += piece
        except ClientDisconnect:
            raise Trouble(400, "malformed-request", "the request ended early") from None
        except TimeoutError:
            raise Trouble(408, "too-slow", f"a request has {PATIENCE:g} s to arrive") from None
    if size > most:
        raise Trouble(413, "too-large", f"a request may hold {most:,} bytes")
    return bytes(found)


def media_type(http: HttpRequest) -> str:
    return http.headers.get("content-type", "").partition(";")[0].strip().lower()


def form_pairs(raw: bytes, most: int) -> Pairs:
    try:
        return parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=most)
    except ValueError:
        raise Trouble(413, "too-large", f"a form may hold {most:,} fields") from None


def read_json(raw: bytes, kind: type[T], bounds: Bounds, given: str, objects: int) -> T:
    """An empty body stands for one that says nothing, where that is enough."""
    if raw and given != "application/json":
        raise Trouble(415, "wrong-content-type", "send JSON, with Content-Type: application/json")
    depth, many = shape_of(raw, bounds.depth, objects)
    if depth > bounds.depth:
        raise Trouble(400, "too-deep", f"JSON may be nested {bounds.depth} levels deep")
    if many > objects:
        raise Trouble(413, "too-large", f"a request may hold {objects:,} objects and lists of JSON")
    try:
        value = msgspec.json.decode(raw or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Trouble(400, "malformed-json", "the body is not JSON") from None
    try:
        return msgspec.convert(whole_numbers(value, kind), kind)
    except msgspec.ValidationError as error:
        raise Trouble(400, "not-as-described", f"the body is not as described: {error}", field=field_in(error)) from None


def shape_of(raw: bytes, depth: int, objects: int) -> tuple[int, int]:
    """How deep JSON is nested and how many objects and lists it holds, before anything is made of it. It is not looked at
    any further than it takes to know that one is more than is let through, or that it is no JSON."""
    deepest = level = many = 0
    if raw.count(b"{") + raw.count(b"[") <= min(depth, objects):
        return 0, 0
    for found in _BRACKET.finditer(raw):
        if found[1] in (b"{", b"["):
            level, many = level + 1, many + 1
            deepest = max(deepest, level)
        else:
            level -= 1
        if level < 0 or deepest > depth or many > objects:
            break
    return deepest, many


def whole_numbers(value: Any, kind: Any) -> Any:
    """JSON knows no whole numbers: 7.0 is the 7 that a field of a Struct asks for. What is described as anything stays."""
    if isinstance(value, list):
        item = next((args[0] for one in _choices(kind) if get_origin(one) is tuple and (args := get_args(one))), None)
        return value if item is None else [whole_numbers(one, item) for one in value]
    if isinstance(value, dict):
        structs = [one for one in _choices(kind) if isinstance(one, type) and issubclass(one, Struct)]
        struct = next((one for one in structs if _is_named(one, value)), structs[0] if structs else None)
        if struct is None:
            return value
        kinds = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
        return {name: whole_numbers(one, kinds.get(name)) for name, one in value.items()}
    if isinstance(value, float) and value.is_integer() and int in _choices(kind) and float not in _choices(kind):
        return int(value)
    return value


def _is_named(struct: type[Struct], value: dict[str, Any]) -> bool:
    """Whether the value says that it is one of these, where it could be one of several."""
    config = struct.__struct_config__
    return config.tag_field is not None and value.get(config.tag_field) == config.tag


def _choices(kind: Any) -> tuple[Any, ...]:
    """What a value of this annotation may be."""
    if hasattr(kind, "__metadata__"):
        return _choices(kind.__origin__)
    args = get_args(kind) if get_origin(kind) is not tuple else ()
    return tuple(one for arg in args for one in _choices(arg)) if args else (kind,)


def read_query(http: HttpRequest, kind: Any, bounds: Bounds) -> Any:
    if len(http.url.query) > bounds.query:
        raise Trouble(414, "too-long", f"a query string may hold {bounds.query:,} bytes")
    pairs = http.query_params.multi_items()
    for name, value in pairs:
        if len(value) > bounds.text:
            raise Trouble(422, "invalid-input", f"{name} is longer than {bounds.text:,} characters", field=name[:80])
        if "\x00" in value:
            raise Trouble(422, "invalid-input", f"{name} holds a NUL", field=name[:80])
    return read_pairs(pairs, kind, "query")


def read_pairs(pairs: Pairs, kind: Any, where: str) -> Any:
    """A query string or a form. A name that comes twice is a list where the Struct has one, else refused."""
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    said: dict[str, Any] = {}
    for name, value in pairs:
        if name not in known:
            hint = did_you_mean(name, known)
            raise Trouble(400, "not-as-described", f"the {where} knows no {name[:80]!r}{hint}", field=name[:80])
        if any(get_origin(one) is tuple for one in _choices(known[name])):
            said.setdefault(name, []).append(value)
        elif value.lower() == "null" and str not in _choices(known[name]):  # it would be read as "not said"
            raise Trouble(400, "not-as-described", f"{name} cannot be null: leave it out", field=name)
        elif datetime in _choices(known[name]) and value[4:5] != "-":  # a number would be read as seconds
            raise Trouble(400, "not-as-described", f"{name} is no instant such as 2030-01-01T09:00:00Z", field=name)
        elif name in said:
            raise Trouble(400, "not-as-described", f"the {where} says {name!r} twice", field=name)
        else:
            said[name] = value
    try:
        return msgspec.convert(said, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Trouble(400, "not-as-described", f"the {where} is not as described: {error}", field=field_in(error)) from None


def field_in(error: msgspec.ValidationError) -> str | None:
    """The field that msgspec's message names: ``at `$.limit` ``, or ``field `limit` ``."""
    found = re.search(r"at `\$\.?([^`]+)`|field `([^`]+)`", str(error))
    return None if found is None else found[1] or found[2]
