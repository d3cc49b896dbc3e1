"""The arguments of a task's function, and what it returns, as bytes and back.

A job may wait for a week and be run by another machine, so what is stored is plain JSON, read back by the function's
own annotations. One promise carries this module: **what was enqueued is what the function gets, or the call that
enqueued it fails and names the argument.** Therefore every payload is decoded once before it is stored, by the very
decoder that the worker will use, and compared with what was given. That catches what JSON would change in silence: NaN
that becomes null, bytes that become text, a subclass whose fields get lost, a secret that its model masks.

The other way round, a payload that the present signature does not accept is `Undecodable`: a job of older code becomes
a dead letter with a reason, instead of a run with wrong arguments.

Pydantic models are known by their methods, never by an import: whoever uses one has imported pydantic already.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from inspect import Parameter
from math import isfinite
from typing import Any, Final, get_type_hints

import msgspec
from msgspec import UNSET
from msgspec.structs import astuple

from windlass.errors import InvalidInput, Undecodable
from windlass.redaction import Secret, is_secret, secret_names, unsealed
from windlass.sealing import SEALED, readable
from windlass.shapes import (
    EITHER,
    PLACED,
    PLAIN_DATA,
    STARRED,
    awaited,
    is_model,
    needed,
    shape_of,
    type_of,
    without_context,
)
from windlass.words import did_you_mean

_SCALARS: Final = frozenset({str, int, bool, bytes, type(None), type(UNSET)})


class Arguments:
    """The arguments of one task's function. Holds nothing that changes, so any thread may use it."""

    def __init__(self, function: Callable[..., Any], *, skip_context: bool, task: str) -> None:
        whole = inspect.signature(function)
        self._task = task
        self._signature = without_context(whole, task) if skip_context else whole
        parameters = self._signature.parameters.values()
        by_place = [p for p in parameters if p.kind in PLACED]
        self._shape = shape_of(function, parameters, task)
        self._wire = _Wire(self._shape, "")
        self.secrets = secret_names(self._shape)
        self.texts = frozenset(n for n, h in get_type_hints(self._shape).items() if h in (str, str | None))
        self.names = self._shape.__struct_fields__  # by place, by name, and at the end the starred ones
        self._defaults = tuple(p.default for p in by_place)
        self._named = tuple(p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY)
        self._by_keyword = frozenset(p.name for p in by_place if p.kind is EITHER).union(self._named)
        # A worker gives the context by its place, so no keyword of that name may come along in **kwargs.
        self._taken = self._by_keyword.union(
            p.name for p in [*whole.parameters.values()][:skip_context] if p.kind is EITHER
        )
        self._starred = {p.kind: p.name for p in parameters if p.kind in STARRED}
        self._required = tuple(p.name for p in parameters if needed(p))
        self._place_only = any(p.kind is Parameter.POSITIONAL_ONLY for p in parameters)
        self._all_placed = len(by_place) == len(parameters) == len(self._required)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, limit: int) -> bytes:
        """The given arguments as one JSON object. Defaults belong to the function and are not stored."""
        try:
            if self._starred or (kwargs and self._place_only):
                for name in (self._taken - self._by_keyword).intersection(kwargs):
                    raise InvalidInput(name, "is the context, which the worker gives; use another name")
                given = self._shape(**self._signature.bind(*args, **kwargs).arguments)
            else:  # the shape's own constructor binds just as the function does, and faster
                given = self._shape(*args, **kwargs)
        except TypeError as error:
            raise self._misfit(args, kwargs, str(error)) from None
        return self._wire.pack(given, limit)

    def decode(self, payload: bytes, codec: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the function with. Raises `Undecodable`."""
        if codec != "json":
            payload = _nothing(payload, codec)
        if payload == b"{}" and not self._required:
            return (), {}
        values = astuple(self._wire.unpack(payload))
        return (values, {}) if self._all_placed else self._call(values)

    def _call(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        many, others = self._unstarred(values) if self._starred else ((), {})
        last = count = len(self._defaults)
        while last and not many and values[last - 1] is UNSET:
            last -= 1
        placed = values[:last]
        if UNSET in placed:  # an earlier one was left out: its default keeps the others in their places
            placed = tuple([default if v is UNSET else v for v, default in zip(placed, self._defaults, strict=False)])
        if count == len(values):
            return placed, {}
        named = {name: v for name, v in zip(self._named, values[count:], strict=False) if v is not UNSET}
        return (placed + many, named | others) if self._starred else (placed, named)

    def _unstarred(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        stored = dict(zip(self.names, values, strict=True))
        many = stored.get(self._starred.get(Parameter.VAR_POSITIONAL, ""), UNSET)
        others = stored.get(self._starred.get(Parameter.VAR_KEYWORD, ""), UNSET)
        for name in self._taken.intersection(() if others is UNSET else others):
            raise Undecodable(f"{name}: was stored when {self._task} had no parameter of this name, so its type is unknown")
        return () if many is UNSET else many, {} if others is UNSET else others

    def _misfit(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], why: str) -> InvalidInput:
        """Why a call does not fit the signature, named after the argument."""
        takes = f"{self._task} takes {', '.join(self.names) or 'no arguments'}"
        for name in () if Parameter.VAR_KEYWORD in self._starred else kwargs:
            if name not in self.names:
                return InvalidInput(str(name), f"is not an argument{did_you_mean(str(name), self.names)}; {takes}")
            if name not in self._by_keyword:
                return InvalidInput(name, f"cannot be given by its name, only by its place; {takes}")
        placed = self.names[: min(len(args), len(self._defaults))]
        for name in self._by_keyword.intersection(placed, kwargs):
            return InvalidInput(name, "is given twice, by its place and by its name")
        for name in self._required:
            if name not in placed and not (name in kwargs and name in self._by_keyword):
                return InvalidInput(name, f"is missing; {takes}")
        return InvalidInput("arguments", f"{why}; {takes}, {len(self._defaults)} of them by place")


class Results:
    """What one task's function returns. None is stored as NULL."""

    def __init__(self, function: Callable[..., Any], *, task: str) -> None:
        hint = type_of(function, "return", inspect.signature(function).return_annotation, task, awaited)
        self._wire = _Wire(hint, "result")
        self.secrets = secret_names(hint)

    def encode(self, value: Any, *, limit: int) -> bytes | None:
        return None if value is None else self._wire.pack(value, limit)

    def decode(self, stored: bytes | None) -> Any:
        return None if stored is None else self._wire.unpack(readable(stored, "result"))


class _Wire:
    """One type as JSON and back, with the promise kept. `root` is what errors call the whole; "" names its fields."""

    def __init__(self, kind: Any, root: str) -> None:
        self._root = root
        self._decode = msgspec.json.Decoder(kind, dec_hook=_dec_hook).decode

    def pack(self, value: Any, limit: int) -> bytes:
        try:
            stored = _encode(value)
            if len(stored) > limit:
                raise self._oversize(value, len(stored), limit)
            # A float that JSON cannot hold is written as null, or as one of these keys: all others skip the walk.
            if b"null" in stored or b'nan"' in stored or b'inf"' in stored:
                _check_floats(value, self._root)
            back = self._decode(stored)
            if back != value:
                _check_same(value, back, self._root)
        except (InvalidInput, MemoryError):
            raise
        except Exception as error:
            raise self._refusal(value, error) from error
        return stored

    def unpack(self, stored: bytes) -> Any:
        try:
            return self._decode(stored)
        except MemoryError:
            raise
        except Exception as error:  # a __post_init__ may raise anything, and a stored value must not stop a worker
            field, problem = self._located(error)
            raise Undecodable(f"{field}: {problem}") from error

    def _oversize(self, value: Any, total: int, limit: int) -> InvalidInput:
        advice = f"the limit is {limit:,}; store a reference instead"
        if self._root:
            return InvalidInput(self._root, f"is {total:,} bytes, {advice}")
        sizes = [(len(_encode(part)), step.lstrip(".")) for step, part in _parts(value) or () if part is not UNSET]
        size, largest = max(sizes, default=(total, "arguments"))
        return InvalidInput(largest, f"is {size:,} bytes of {total:,} in all, the largest argument; {advice}")

    def _refusal(self, value: Any, error: Exception) -> InvalidInput:
        if isinstance(error, msgspec.ValidationError):
            return InvalidInput(*self._located(error))
        path, trouble = _culprit(value, self._root, error)
        problem = str(trouble) or type(trouble).__name__
        if isinstance(trouble, UnicodeEncodeError):
            problem = "holds half a character (a lone surrogate), which no text can hold"
        elif isinstance(trouble, RecursionError):
            problem = "holds itself, or is nested too deeply; give its parts, or a reference to it"
        return InvalidInput(path.lstrip(".") or "arguments", problem)

    def _located(self, error: Exception) -> tuple[str, str]:
        """The field that an error of decoding speaks of, and what is wrong with it."""
        text = str(error) or type(error).__name__
        found = _AT.match(text)
        path, problem = (found["path"], found["what"]) if found else ("", text)
        details = getattr(error.__cause__, "errors", None)
        if callable(details) and (first := next(iter(details()), None)):  # a pydantic model says where inside it
            path += "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
            problem = first["msg"]
        field = f"{self._root}{path}".lstrip(".")
        if field:
            return field, problem
        if named := _FIELD.match(problem):
            return named[2], "is not an argument of this task" if named[1] == "contains unknown" else "is missing"
        if isinstance(error, msgspec.ValidationError):
            return "payload", f"must be one JSON object of arguments ({problem})"
        return "payload", f"cannot be read ({type(error).__name__}: {problem})"


_AT: Final = re.compile(r"(?P<what>.*) - at (?:`key` in )?`\$(?P<path>.*)`$", re.DOTALL)
_FIELD: Final = re.compile(r"Object (contains unknown|missing required) field `(.*)`$", re.DOTALL)


# ---------------------------------------------------------------------------------------------- what msgspec leaves open


def _enc_hook(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if is_model(type(value)):
        return msgspec.Raw(value.model_dump_json(by_alias=True, round_trip=True, warnings=False).encode())
    for kind in (str, int, float):  # a subclass, which reads back as the plain value that it equals
        if isinstance(value, kind):
            return kind(value)
    word = type(value).__name__
    if value is None or isinstance(value, tuple | frozenset):  # which msgspec writes itself, but not as a key
        raise NotImplementedError(f"a {word} cannot be a key of a dict in JSON; use text or numbers as keys")
    raise NotImplementedError(f"a {word} cannot be stored; give {PLAIN_DATA}")


def _dec_hook(kind: Any, value: Any) -> Any:
    if is_secret(kind):
        return unsealed(kind, value, _dec_hook)
    # Strict models take a date from JSON, but not from text inside Python: hence JSON again.
    return value if kind is object else kind.model_validate_json(msgspec.json.encode(value))


_encode: Final = msgspec.json.Encoder(enc_hook=_enc_hook).encode


def _nothing(payload: bytes, codec: str) -> bytes:
    if codec == SEALED:
        readable(payload, "payload")
    if codec != "none":
        raise Undecodable(f"codec: {codec!r} is not known to this version; it reads 'json' and 'none'")
    if payload:
        raise Undecodable(f"payload: holds {len(payload):,} bytes, and the codec 'none' says that there are no arguments")
    return b"{}"


# ------------------------------------------------------------------------------------------------------- inside a value


def _parts(value: Any) -> Iterable[tuple[str, Any]] | None:
    """What a value holds, each with the step of the path to it; None for what holds nothing."""
    kind = type(value)
    if kind in _SCALARS:
        return None
    if isinstance(value, dict):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    names: Iterable[str] = getattr(kind, "__struct_fields__", ()) or getattr(kind, "__dataclass_fields__", ())
    if not names and is_model(kind):
        names = [*kind.model_fields, *(value.model_extra or ())]
    elif not names:
        names = getattr(kind, "_fields", ()) or [field.name for field in getattr(kind, "__attrs_attrs__", ())]
    if not names and isinstance(value, list | tuple | set | frozenset):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    return [(f".{name}", getattr(value, name, None)) for name in names] or None


def _check_floats(value: Any, path: str) -> None:
    if type(value) in _SCALARS:
        return
    floats = (value,) if isinstance(value, float) else value if isinstance(value, dict) else ()
    if any(isinstance(number, float) and not isfinite(number) for number in floats):
        raise InvalidInput(path.lstrip("."), "holds NaN or an infinity, which JSON cannot hold; use None or text")
    for step, part in _parts(value) or ():
        _check_floats(part, path + step)


def _check_same(value: Any, back: Any, path: str) -> None:
    found = _difference(value, back, path)
    if found is None:
        return
    path, was, now = found
    before, after = type(was).__name__, type(now).__name__
    if was != was:
        problem = "holds NaN, which equals nothing, not even what comes back; use None or text"
    elif before == after:
        problem = f"a {before} that would come back changed, because its JSON does not hold all of it; give plain data"
    else:
        problem = f"a {before} that would come back as {after}; annotate it as {before}, or convert it before"
    raise InvalidInput(path.lstrip("."), problem)


def _difference(given: Any, back: Any, path: str) -> tuple[str, Any, Any] | None:
    """Where two values differ, beyond what `==` says: it knows nothing of classes without `__eq__`, calls no time in a
    repeated hour equal to one of another zone, and a tuple may come back as a list where the type says no more."""
    if given is back or given == back:
        return None
    if isinstance(given, datetime) and isinstance(back, datetime):
        same = given.replace(tzinfo=None) == back.replace(tzinfo=None) and given.utcoffset() == back.utcoffset()
        return None if same else (path, given, back)
    alike = type(given) is type(back) or (type(given) is tuple and type(back) is list)
    if not (alike or any(isinstance(given, kind) and isinstance(back, kind) for kind in (dict, list))):
        return path, given, back
    ours, theirs = _parts(given), _parts(back)
    if ours is None or theirs is None:
        return path, given, back
    mine, other = dict(ours), dict(theirs)
    if mine.keys() != other.keys():
        return path, given, back
    return next((f for step in mine if (f := _difference(mine[step], other[step], path + step)) is not None), None)


def _culprit(value: Any, path: str, error: Exception) -> tuple[str, Exception]:
    """The innermost part that cannot be stored. What holds itself is named as a whole: there is no innermost part."""
    for step, part in _parts(value) or ():
        try:
            msgspec.json.decode(b"{}" if part is UNSET else _encode(part))
        except RecursionError as inner:
            return path + step, inner
        except Exception as inner:
            return _culprit(part, path + step, inner)
    return path, error
