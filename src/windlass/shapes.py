"""From a function's signature to the types that its payload and its result are decoded to.

What no payload could ever be decoded to is refused here, when the task is declared.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from inspect import Parameter
from typing import Any, Final, Never, NoReturn

import msgspec
from msgspec import UNSET
from msgspec.structs import astuple

from windlass.errors import InvalidInput
from windlass.redaction import is_secret

EITHER: Final = Parameter.POSITIONAL_OR_KEYWORD
PLACED: Final = (Parameter.POSITIONAL_ONLY, EITHER)
STARRED: Final[dict[Any, Callable[[Any], Any]]] = {  # and as what they are stored, under their name
    Parameter.VAR_POSITIONAL: lambda hint: types.GenericAlias(tuple, (hint, ...)),
    Parameter.VAR_KEYWORD: lambda hint: types.GenericAlias(dict, (str, hint)),
}
PLAIN_DATA: Final = "plain data (text, numbers, lists, dicts, a dataclass, a msgspec.Struct) or an id to look it up by"
INSTEAD: Final = {
    "Path": "str", "PurePath": "str", "Iterable": "list[...]", "Iterator": "list[...]", "Generator": "list[...]",
    "deque": "list[...]", "Callable": "the name of what to call", "complex": "tuple[float, float]",
    "Context": "context=True in the decorator, which passes the context first",
}  # fmt: skip


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_validate_json") and hasattr(kind, "model_dump_json")


def without_context(signature: inspect.Signature, task: str) -> inspect.Signature:
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in PLACED:
        raise InvalidInput("context", f"{task} has no first parameter to take it; write def {task}(ctx: Context, ...)")
    return signature.replace(parameters=parameters[1:])


def awaited(hint: Any) -> Any:
    if typing.get_origin(hint) in (Awaitable, Coroutine):
        hint = typing.get_args(hint)[-1]
    return None if hint in (Never, NoReturn) else hint


def needed(parameter: Parameter) -> bool:
    return parameter.default is Parameter.empty and parameter.kind not in STARRED


def shape_of(function: Callable[..., Any], parameters: Iterable[Parameter], task: str) -> type[msgspec.Struct]:
    """A struct that binds and validates as the function does: first what has a place, then what goes by name."""
    placed: list[Any] = []
    named: list[Any] = []
    for p in sorted(parameters, key=lambda p: p.kind in STARRED):
        hint = type_of(function, p.name, p.annotation, task, STARRED.get(p.kind, lambda hint: hint))
        (placed if p.kind in PLACED else named).append((p.name, hint) if needed(p) else (p.name, hint, UNSET))
    by_name = msgspec.defstruct("Arguments", named, kw_only=True, forbid_unknown_fields=True)
    return msgspec.defstruct("Arguments", placed, bases=(by_name,), forbid_unknown_fields=True)


def type_of(function: Callable[..., Any], name: str, annotation: Any, task: str, wrap: Callable[[Any], Any]) -> Any:
    """The type to decode to. What no payload could ever be decoded to is refused here, when the task is declared."""
    while isinstance(function, functools.partial):
        function = function.func
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    holder = types.SimpleNamespace(__annotations__={name: Any if annotation is Parameter.empty else annotation})
    try:
        hint = wrap(typing.get_type_hints(holder, scope, include_extras=True)[name])
        strange = foreign(msgspec.inspect.type_info(hint), set())
    except NameError as error:
        where = "import or define it in the module, outside of `if TYPE_CHECKING:` and of functions"
        raise InvalidInput(name, f"{task}: {error.name!r} in its type is not known at run time; {where}") from None
    except Exception as error:
        raise InvalidInput(name, f"{task}: {error}; use one type that JSON can tell apart") from None
    if strange is not None:
        word = getattr(strange, "__name__", str(strange))
        advice = INSTEAD.get(word, f"{PLAIN_DATA}; or a pydantic 2 model")
        raise InvalidInput(name, f"{task}: a {word} cannot be made from JSON; use {advice}")
    return hint


def foreign(info: Any, seen: set[int]) -> Any:
    """The first type inside that only its own code could build."""
    if id(info) in seen:  # a type may hold itself
        return None
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        return None if info.cls is object or is_model(info.cls) or is_secret(info.cls) else info.cls
    if isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field):
        info = astuple(info)
    if not isinstance(info, tuple):
        return None
    return next((found for part in info if (found := foreign(part, seen)) is not None), None)
