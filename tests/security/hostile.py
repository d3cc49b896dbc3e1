"""Strings that end a statement, a literal or a placeholder early, and the places where they can be said.

Places are found, not listed: from the types of the routes, the signatures of `Admin`, the options of the commands. What is
added tomorrow is tried tomorrow.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from msgspec import inspect

# Wherever such a text became part of a statement, the statement would not parse: the store would say so.
ALL_AT_ONCE = "x'\"`;--/*$$ $1 %s %(a)s :now ?1 {0} \\"
HOSTILE = (
    ALL_AT_ONCE,
    "'; DROP TABLE jobs; --",
    '") OR 1=1; DELETE FROM windlass.jobs WHERE ("1"="1',
    "' UNION SELECT secret FROM webhooks --",
    "$$; SELECT pg_sleep(9); $$",
    "%' OR '%'='",
)
Path = tuple[str | int, ...]

# What a request needs to get as far as the store; everything else is the least that its type allows.
USUAL: dict[str, Any] = {
    "type": "add",
    "payload": {"a": 1, "b": 2},
    "cron": "0 9 * * *",
    "timezone": "UTC",
    "tz": "UTC",
    "template": "t",
    "rate": "5/s",
    "url": "http://127.0.0.1:9/",
    "events": ["job.dead"],
    "scopes": ["read"],
    "queue": "default",
    "every": "15m",
    "codec": "json",
    "expires_in": "1m",
    "wait": 0,
    "keep": "1m",
    "within": "1m",
    "cron_expression": "0 9 * * *",
    "limit": 5,
    "action": "cancel",
    "token": "t" * 20,
    "lease_for": 30_000_000,
    "capacity": 1,
    "span": "1h",
    "now": 1_900_000_000_000_000,
    "by": "ada",
    "step": "day",
    "key": "key:api",
    "most": 3,
    "ids": ["nobody"],
    "job_id": "nobody",
}


def example(kind: inspect.Type, name: str = "", depth: int = 0) -> Any:
    """The least that is as described."""
    match kind:
        case inspect.Metadata():
            return example(kind.type, name, depth)
        case inspect.StructType():
            made = {
                field.encode_name: example(field.type, field.name, depth + 1)
                for field in kind.fields
                if field.required or (field.name in USUAL and depth < 3 and not isinstance(field.type, inspect.UnionType))
            }
            return made if kind.tag_field is None else {kind.tag_field: kind.tag, **made}
        case inspect.UnionType():
            return example(kind.types[0], name, depth)
        case inspect.LiteralType():
            return kind.values[0]
    usual = USUAL.get(name)
    match kind:
        case inspect.StrType():
            return usual if isinstance(usual, str) else "x"
        case inspect.BytesType():
            return base64.b64encode(b"d" * 32 if name == "digest" else b"{}").decode()
        case inspect.IntType() | inspect.FloatType():
            return usual if isinstance(usual, int) else 1
        case inspect.BoolType():
            return False
        case inspect.DateTimeType():
            return "2030-01-01T00:00:00Z"
        case inspect.TupleType():
            return [example(item, name, depth) for item in kind.item_types]
        case inspect.VarTupleType() | inspect.ListType() | inspect.CollectionType():
            return usual if isinstance(usual, list) else [example(kind.item_type, name, depth)]
        case inspect.DictType() | inspect.AnyType():
            return usual if isinstance(usual, dict) else {}
    return None


def places(kind: inspect.Type, name: str = "", seen: tuple[Any, ...] = ()) -> Iterator[tuple[Path, Any]]:
    """Every text inside of a type: the way to it, and an example in which to put something there."""
    match kind:
        case inspect.Metadata():
            yield from places(kind.type, name, seen)
        case inspect.StructType():
            if kind.cls in seen:
                return
            for field in kind.fields:
                for path, inner in places(field.type, field.name, (*seen, kind.cls)):
                    yield (field.encode_name, *path), {**example(kind, name), field.encode_name: inner}
        case inspect.UnionType():
            for one in kind.types:
                yield from places(one, name, seen)
        case inspect.VarTupleType() | inspect.ListType() | inspect.CollectionType():
            for path, inner in places(kind.item_type, name, seen):
                yield (0, *path), [inner]
        case inspect.TupleType():
            for place, one in enumerate(kind.item_types):
                for path, inner in places(one, name, seen):
                    whole = example(kind, name)
                    whole[place] = inner
                    yield (place, *path), whole
        case inspect.DictType():
            yield ("x",), {"x": "x"}
        case inspect.StrType():
            yield (), "x"


def put(whole: Any, path: Path, value: str) -> Any:
    """The same with a text at this place."""
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(whole, dict):
        return {**whole, head: put(whole[head], rest, value)}
    assert isinstance(head, int)
    return [*whole[:head], put(whole[head], rest, value), *whole[head + 1 :]]
