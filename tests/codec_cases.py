"""What the tests of the codec store: a class of every kind, a signature of every shape."""

import dataclasses
import datetime as dt
import enum
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import strategies as st

from windlass.codec import Arguments
from windlass.errors import InvalidInput, Undecodable, WindlassError

LIMIT = 1 << 20
UTC = dt.UTC


def arguments(function: Callable[..., Any], *, skip_context: bool = False) -> Arguments:
    return Arguments(function, skip_context=skip_context, task="demo")


def taking(kind: Any) -> Arguments:
    """A task with one parameter `x` of this type."""

    def demo(x: Any) -> None: ...

    demo.__annotations__["x"] = kind
    return arguments(demo)


def through(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    codec = arguments(function)
    return codec.decode(codec.encode(args, kwargs, limit=LIMIT), "json")


def refused(codec: Arguments, *args: Any, limit: int = LIMIT, **kwargs: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        codec.encode(args, kwargs, limit=limit)
    return caught.value


def undecodable(codec: Arguments, payload: bytes, name: str = "json") -> str:
    with pytest.raises(Undecodable) as caught:
        codec.decode(payload, name)
    assert isinstance(caught.value, WindlassError)
    assert not isinstance(caught.value, InvalidInput)
    assert str(caught.value) == caught.value.reason
    return caught.value.reason


NAN, INF = float("nan"), float("inf")
CYCLE: list[Any] = []
CYCLE.append(CYCLE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


# ------------------------------------------------------------------------------------------------------- things to store


@dataclasses.dataclass
class Address:
    street: str
    geo: tuple[float, float] | None = None


@dataclasses.dataclass
class Home(Address):
    door: int = 0


@dataclasses.dataclass(eq=False)
class Nameless:
    items: list[int]


class Cat(msgspec.Struct, tag=True):
    lives: int
    mass: float = 1.0


class Dog(msgspec.Struct, tag=True):
    tricks: list[str]


class Node(msgspec.Struct):
    value: int
    next: "Node | None" = None


class User(pydantic.BaseModel):
    id: int
    tags: list[int] = []
    born: dt.date | None = None
    score: float | None = None
    handle: str = pydantic.Field(default="", alias="userHandle")


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="allow")
    at: dt.datetime


class Login(pydantic.BaseModel):
    password: pydantic.SecretStr


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    dry: bool
    depth: int


class Shouting(str):
    """Text of a class of its own, as frameworks like to make."""


INDIA = dt.timezone(dt.timedelta(hours=5, minutes=30))


class Engine: ...


# ---------------------------------------------------------------------------------------------------------- signatures


def plain(to: str, subject: str = "Hello") -> None: ...
def by_name(a: int = 1, *, b: int, c: int = 3) -> None: ...
def by_place(a: int, b: int = 2, c: int = 3, /, d: int = 4) -> None: ...
def starred(a: int = 0, *rest: int, key: str = "k", **kw: float) -> None: ...
def any_name(a: int, /, **kw: int) -> None: ...
def nothing() -> None: ...
