"""What is enqueued is what the function gets, or the enqueue fails and names the argument."""

import datetime as dt
import functools
import math
import subprocess
import sys
import threading
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec_cases import (
    CYCLE,
    INDIA,
    JSON,
    LIMIT,
    NAN,
    UTC,
    Address,
    Cat,
    Colour,
    Dog,
    Engine,
    Home,
    Level,
    Node,
    Options,
    Point,
    Strict,
    User,
    any_name,
    arguments,
    by_name,
    by_place,
    nothing,
    plain,
    refused,
    starred,
    taking,
    through,
)
from windlass.codec import Results
from windlass.errors import InvalidInput, Undecodable

ROUND_TRIPS: list[tuple[Any, Any]] = [
    (Address, Address("Main", (1.5, -0.0))),
    (Home, Home("Main", None, 7)),
    (Cat | Dog, Dog(["sit"])),
    (list[Cat | Dog], [Cat(9), Dog([])]),
    (Node, Node(1, Node(2))),
    (User, User(id=1, tags=[2], born=dt.date(1815, 12, 10), userHandle="ada")),
    (list[User], [User(id=1), User(id=2)]),
    (dict[str, User | None], {"a": User(id=1), "b": None}),
    (Strict, Strict(at=dt.datetime(2020, 1, 1, tzinfo=UTC), more=[1])),  # type: ignore[call-arg]
    (Colour, Colour.RED),
    (dict[Colour, int], {Colour.BLUE: 1}),
    (Level, Level.LOW),
    (Decimal, Decimal("0.10")),
    (Decimal, Decimal("Infinity")),  # a Decimal is written as text, which holds it
    (UUID, UUID(int=7)),
    (dt.datetime, dt.datetime(2020, 1, 1, 12, 30, 1, 5, tzinfo=INDIA)),
    (dt.date, dt.date(2020, 2, 29)),
    (dt.time, dt.time(1, 2, 3, 4)),
    (dt.timedelta, dt.timedelta(days=-1, microseconds=1)),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], ()),
    (bytes, b"\x00\xff"),
    (Literal["a", 1], 1),
    (int | None, None),
    (int | str | list[int], [1]),
    (Options, {"depth": 3}),
    (Point, Point(1, 2)),
    (dict[int, list[set[UUID]]], {1: [{UUID(int=1)}]}),
    (dict[str, object], {"a": [1, None]}),
    (object, "x"),
    (typing.Annotated[int, msgspec.Meta(gt=0)], 5),
    (int, 2**64 + 1),
    (Any, {"a": [1, 2.5, None, True, "é\x00"]}),
]


@pytest.mark.parametrize(("kind", "value"), ROUND_TRIPS, ids=map(str, range(len(ROUND_TRIPS))))
def test_a_value_of_its_type_comes_back_as_it_was(kind: Any, value: Any) -> None:
    codec = taking(kind)
    args, kwargs = codec.decode(codec.encode((value,), {}, limit=LIMIT), "json")
    assert args == (value,)
    assert type(args[0]) is type(value)
    assert kwargs == {}


@pytest.mark.parametrize(("kind", "value"), ROUND_TRIPS, ids=map(str, range(len(ROUND_TRIPS))))
def test_a_result_of_its_type_comes_back_as_it_was(kind: Any, value: Any) -> None:
    def demo() -> Any: ...

    demo.__annotations__["return"] = kind
    results = Results(demo, task="demo")
    back = results.decode(results.encode(value, limit=LIMIT))
    assert (back, type(back)) == (value, type(value))


@given(JSON)
def test_every_json_value_passes_an_unannotated_parameter(value: Any) -> None:
    def demo(x): ...  # type: ignore[no-untyped-def]

    assert through(demo, value) == ((value,), {})


@given(st.floats())
def test_a_float_comes_back_to_the_bit_or_is_refused(number: float) -> None:
    codec = taking(float)
    if math.isfinite(number):
        ((back,), _) = codec.decode(codec.encode((number,), {}, limit=LIMIT), "json")
        assert back.hex() == number.hex()
    else:
        assert refused(codec, number).field == "x"


@given(st.text(alphabet=st.characters(), max_size=8))
def test_text_comes_back_or_is_refused_for_half_a_character(text: str) -> None:
    codec = taking(str)
    if any("\ud800" <= character <= "\udfff" for character in text):
        assert "surrogate" in str(refused(codec, text))
    else:
        assert codec.decode(codec.encode((text,), {}, limit=LIMIT), "json") == ((text,), {})


# --------------------------------------------------------------------------------------------------- shapes of signatures


def test_only_the_arguments_given_are_stored() -> None:
    assert arguments(plain).encode(("a@b",), {}, limit=LIMIT) == b'{"to":"a@b"}'
    assert arguments(nothing).encode((), {}, limit=LIMIT) == b"{}"
    assert arguments(starred).encode((1, 2, 3), {"z": 1.5}, limit=LIMIT) == b'{"a":1,"rest":[2,3],"kw":{"z":1.5}}'


def test_the_order_of_keywords_does_not_change_the_payload() -> None:
    codec = arguments(plain)
    one = codec.encode((), {"to": "a", "subject": "b"}, limit=LIMIT)
    assert one == codec.encode((), {"subject": "b", "to": "a"}, limit=LIMIT) == codec.encode(("a", "b"), {}, limit=LIMIT)


def sees(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What each parameter is bound to, defaults included."""
    import inspect

    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (plain, ("a",), {}), (plain, ("a", "b"), {}), (plain, (), {"subject": "b", "to": "a"}), (by_name, (), {"b": 2}),
        (by_name, (5,), {"b": 2, "c": 9}), (by_place, (1,), {}), (by_place, (1, 5), {"d": 6}), (by_place, (1, 2, 3, 4), {}),
        (starred, (), {}), (starred, (1, 2, 3), {"key": "x", "z": 1.0}), (starred, (), {"kw": 1.0, "rest": 2.0}),
        (any_name, (1,), {"a": 2, "kw": 3, "self": 4}), (nothing, (), {}), (plain, (), {"to": "a"}),
    ],
)  # fmt: skip
def test_every_kind_of_parameter_gets_what_was_given(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    back = through(function, *args, **kwargs)
    assert sees(function, *back) == sees(function, args, kwargs)


def test_a_default_keeps_the_later_arguments_in_their_places() -> None:
    assert arguments(by_place).decode(b'{"a":1,"c":9}', "json") == ((1, 2, 9), {})
    assert arguments(starred).decode(b'{"rest":[7]}', "json") == ((0, 7), {})


def test_the_context_is_no_argument() -> None:
    def demo(ctx: "NotImportedAtRunTime", x: int) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    codec = arguments(demo, skip_context=True)
    assert codec.encode((1,), {}, limit=LIMIT) == b'{"x":1}'
    assert refused(codec, 1, ctx=2).field == "ctx"


@pytest.mark.parametrize("function", [nothing, lambda *args: None, lambda **kw: None, lambda *, ctx: None])
def test_a_context_needs_a_first_parameter(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="no first parameter") as caught:
        arguments(function, skip_context=True)
    assert caught.value.field == "context"


def test_the_names_in_annotations_are_those_of_the_module_that_wrote_them() -> None:
    def demo(x: "Elsewhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    foreign = types.FunctionType(demo.__code__, {"Elsewhere": int})
    foreign.__annotations__ = demo.__annotations__

    @functools.wraps(foreign)
    def wrapped(*args: Any) -> None: ...

    for function in (foreign, wrapped, functools.partial(foreign)):
        assert "Expected `int`" in str(refused(arguments(function), "1"))


def test_decorated_and_partial_functions_keep_their_own_types() -> None:
    @functools.wraps(plain)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    assert refused(arguments(wrapped), 1).field == "to"
    assert refused(arguments(functools.partial(plain, subject="x")), 1).field == "to"


# --------------------------------------------------------------------------------------------------------------- results


async def awaited() -> int: ...  # type: ignore[empty-body]
def awaitable() -> Awaitable[int]: ...  # type: ignore[empty-body]
def coroutine() -> Coroutine[Any, Any, int]: ...  # type: ignore[empty-body]


@pytest.mark.parametrize("function", [awaited, awaitable, coroutine])
def test_a_result_is_what_awaiting_gives(function: Callable[..., Any]) -> None:
    results = Results(function, task="demo")
    assert results.encode(5, limit=LIMIT) == b"5"
    assert results.decode(b"5") == 5
    with pytest.raises(InvalidInput, match="Expected `int`") as caught:
        results.encode("5", limit=LIMIT)
    assert caught.value.field == "result"


def test_no_result_is_null() -> None:
    for function in (awaited, nothing):
        results = Results(function, task="demo")
        assert results.encode(None, limit=LIMIT) is None
        assert results.decode(None) is None


def test_a_result_without_annotation_may_be_any_json() -> None:
    results = Results(lambda: None, task="demo")
    assert results.decode(results.encode([1, {"a": None}], limit=LIMIT)) == [1, {"a": None}]


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([1, NAN], "result[1]"),
        ({"a": Engine()}, "result['a']"),
        ("x" * 200, "result"),
        (CYCLE, "result[0]"),
        (b"x", "result"),
    ],
)
def test_a_result_that_cannot_be_stored_is_refused_by_its_path(value: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Results(lambda: None, task="demo").encode(value, limit=100)
    assert caught.value.field == field


def test_a_stored_result_of_other_code_is_undecodable() -> None:
    with pytest.raises(Undecodable, match="result: Expected `int`"):
        Results(awaited, task="demo").decode(b'"x"')


def test_a_return_type_that_json_cannot_make_is_refused_at_once() -> None:
    def demo() -> Engine: ...  # type: ignore[empty-body]

    with pytest.raises(InvalidInput, match="Engine") as caught:
        Results(demo, task="demo")
    assert caught.value.field == "return"


def test_a_function_that_never_returns_has_no_result() -> None:
    def demo() -> typing.NoReturn:
        raise SystemExit

    assert Results(demo, task="demo").encode(None, limit=LIMIT) is None


# ---------------------------------------------------------------------------------------------------------------- around


def test_threads_share_one_codec() -> None:
    codec = arguments(starred)
    wrong: list[Any] = []

    def work(number: int) -> None:
        for step in range(300):
            args, kwargs = (number, step), {"key": str(step), "z": float(number)}
            if codec.decode(codec.encode(args, kwargs, limit=LIMIT), "json") != (args, kwargs):
                wrong.append((number, step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_nothing_here_needs_pydantic() -> None:
    script = (
        "import sys; sys.modules['pydantic'] = None\n"
        "from windlass.codec import Arguments\n"
        "def demo(x: list[int]): ...\n"
        "codec = Arguments(demo, skip_context=False, task='demo')\n"
        "print(codec.decode(codec.encode(([1],), {}, limit=100), 'json'))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(([1],), {})"
