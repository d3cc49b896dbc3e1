"""What the function would not get back is refused, and the reason names the argument."""

import contextlib
import dataclasses
import datetime as dt
import socket
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec_cases import (
    CYCLE,
    INF,
    JSON,
    LIMIT,
    NAN,
    Address,
    Cat,
    Dog,
    Engine,
    Home,
    Login,
    Nameless,
    Point,
    Shouting,
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
    undecodable,
)
from windlass.errors import InvalidInput, Undecodable

# --------------------------------------------------------------------------------------------- refused at the declaration


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Engine, "a Engine cannot be made from JSON; use plain data"),
        (list[Engine], "Engine"),
        (Path, "use str"),
        (Iterable[int], r"use list\[...\]"),
        (Callable[[], None], "use the name"),
        (dt.datetime | str, "more than one str-like"),
        (list[int] | set[int], "more than one array-like"),
        (User | int, "custom type"),
        ("Missing", "'Missing' in its type is not known at run time; import"),
        ("list[", "use one type"),
    ],
)
def test_a_type_that_json_cannot_make_is_refused_at_once(kind: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        taking(kind)
    assert caught.value.field == "x"
    assert "demo" in str(caught.value)


def test_a_class_whose_fields_are_not_known_at_run_time_is_refused_by_the_parameter() -> None:
    @dataclasses.dataclass
    class Half:
        other: "NotImportedAtRunTime"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidInput, match="NotImportedAtRunTime") as caught:
        taking(Half)
    assert caught.value.field == "x"


def test_text_annotations_are_resolved() -> None:
    codec = taking("Cat | Dog | None")
    assert codec.decode(b'{"x":{"type":"Dog","tricks":[]}}', "json") == ((Dog([]),), {})


# ------------------------------------------------------------------------------------------------- refused at the enqueue


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "field", "says"),
    [
        (plain, (), {"to": "a", "subjet": "b"}, "subjet", "did you mean 'subject'"),
        (plain, (), {}, "to", "is missing; demo takes to, subject"),
        (plain, ("a", "b", "c"), {}, "arguments", "by place"),
        (plain, ("a",), {"to": "b"}, "to", "given twice"),
        (by_name, (), {}, "b", "is missing"),
        (by_name, (1, 2), {}, "b", "is missing"),
        (by_place, (), {"a": 1}, "a", "only by its place"),
        (by_place, (1,), {"e": 1}, "e", "is not an argument"),
        (any_name, (), {"a": 1}, "a", "is missing"),
        (nothing, (1,), {}, "arguments", "no arguments"),
        (starred, ("x",), {}, "a", "Expected `int`"),
        (starred, (1, 2, "x"), {}, "rest[1]", "Expected `int`"),
        (starred, (), {"z": "x"}, "kw[...]", "Expected `float`"),
    ],
)
def test_a_call_that_does_not_fit_names_the_argument(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], field: str, says: str
) -> None:
    error = refused(arguments(function), *args, **kwargs)
    assert error.field == field
    assert says in str(error)


DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]

MISFITS: list[tuple[Any, Any, str, str]] = [
    (str, 123, "x", "Expected `str`, got `int`"),
    (int, True, "x", "Expected `int`"),
    (Address, Address(1), "x.street", "Expected `str`"),  # type: ignore[arg-type]
    (list[dict[str, set[int]]], [{"a": {"b"}}], "x[0][...][0]", "Expected `int`"),
    (User, User.model_construct(id=1, tags=[1, "z"]), "x.tags[1]", "valid integer"),
    (list[User], [User.model_construct(id="z")], "x[0].id", "valid integer"),
    (Any, socket.socket, "x", "type"),
    (Any, {"a": [1, Engine()]}, "x['a'][1]", "Engine cannot be stored; give plain data"),
    (Any, [lambda: 1], "x[0]", "function cannot be stored"),
    (Any, {(1, 2): 3}, "x", "keys"),
    (Any, CYCLE, "x", "holds itself"),
    (Any, DEEP, "x", "nested too deeply"),
    (Any, ["a", "\ud800"], "x[1]", "surrogate"),
    (Any, {"\ud800": 1}, "x", "surrogate"),
    (Any, 10**5000, "x", "digits"),
    (str, UUID(int=1), "x", "a UUID that would come back as str; annotate it as UUID"),
    (str, b"abc", "x", "bytes"),
    (Any, dt.date(2020, 1, 1), "x", "a date that would come back as str"),
    (Any, {"a": Decimal(1)}, "x['a']", "Decimal"),
    (Any, {1, 2}, "x", "a set that would come back as list"),
    (Any, {1: 2}, "x", "come back changed"),
    (Any, Point(1), "x", "a Point that would come back as list"),
    (float, 2**53 + 1, "x", "int that would come back as float"),
    (Address, Home("Main", None, 7), "x", "a Home that would come back as Address"),
    (Login, Login(password=pydantic.SecretStr("s")), "x.password", "come back changed"),
    (dt.datetime, dt.datetime(1900, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=30))), "x", "come back changed"),
]


@pytest.mark.parametrize(("kind", "value", "field", "says"), MISFITS, ids=[f"{m[2]}-{m[3]}" for m in MISFITS])
def test_what_the_function_would_not_get_back_is_refused_by_its_path(kind: Any, value: Any, field: str, says: str) -> None:
    error = refused(taking(kind), value)
    assert error.field == field
    assert says in str(error)
    assert str(error).startswith(f"{field}: ")


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize(
    ("kind", "wrap", "field"),
    [
        (float, lambda f: f, "x"),
        (float | None, lambda f: f, "x"),
        (Any, lambda f: f, "x"),
        (Any, lambda f: [1, {"a": (f,)}], "x[1]['a'][0]"),
        (dict[str, float | None], lambda f: {"a": f}, "x['a']"),
        (dict[float, int], lambda f: {f: 1}, "x"),
        (Any, lambda f: {f: 1}, "x"),
        (set[float | None], lambda f: {f}, "x[0]"),
        (frozenset[float], lambda f: frozenset({f}), "x[0]"),
        (tuple[float | None, ...], lambda f: (1.0, f), "x[1]"),
        (Address, lambda f: Address("a", (1.0, f)), "x.geo[1]"),
        (Cat | Dog, lambda f: Cat(1, f), "x.mass"),
        (User, lambda f: User(id=1, score=f), "x.score"),
        (list[User], lambda f: [User(id=1, score=f)], "x[0].score"),
        (Strict, lambda f: Strict(at=dt.datetime(2020, 1, 1), more=f), "x.more"),  # type: ignore[call-arg]  # noqa: DTZ001
    ],
)
def test_a_float_that_json_cannot_hold_is_refused_wherever_it_hides(bad: float, kind: Any, wrap: Any, field: str) -> None:
    error = refused(taking(kind), wrap(bad))
    assert error.field == field
    assert "NaN or an infinity" in str(error)


def test_a_field_that_equality_ignores_is_still_searched_for_nan() -> None:
    @dataclasses.dataclass
    class Quiet:
        score: float | None = dataclasses.field(compare=False)

    assert refused(taking(Quiet), Quiet(NAN)).field == "x.score"


def test_a_decimal_nan_is_refused() -> None:
    assert "NaN" in str(refused(taking(Decimal), Decimal("NaN")))


@given(JSON.map(lambda value: [value, NAN, value]) | JSON.map(lambda value: {"a": value, "b": [INF]}))
def test_no_neighbour_hides_a_nan(value: Any) -> None:
    assert refused(taking(Any), value).field in ("x[1]", "x['b'][0]")


def test_values_that_equality_misjudges_are_accepted() -> None:
    """A class without `__eq__`, a time in the hour that is repeated in autumn, a tuple for a sequence, a kind of text."""
    repeated = dt.datetime(2023, 10, 29, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    for kind, value in (
        (Nameless, Nameless([1])), (list[dt.datetime], [repeated]), (Sequence[int], (1, 2)), (Any, {"a": ()}),
        (str, Shouting("hey")), (Any, [Shouting("hey")]), (float, 1),
    ):  # fmt: skip
        codec = taking(kind)
        codec.decode(codec.encode((value,), {}, limit=LIMIT), "json")


def test_too_much_is_refused_by_the_largest_argument() -> None:
    codec = arguments(plain)
    error = refused(codec, "a" * 20, "b" * 50, limit=60)
    assert error.field == "subject"
    assert str(error) == (
        "subject: is 52 bytes of 92 in all, the largest argument; the limit is 60; store a reference instead"
    )
    assert len(codec.encode(("a" * 20, "b" * 50), {}, limit=92)) == 92
    assert refused(codec, "a" * 20, "b" * 50, limit=91).field == "subject"


# ------------------------------------------------------------------------------------------------- refused at the worker


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b'{"to":"a","cc":"b"}', "cc: is not an argument of this task"),
        (b'{"subject":"a"}', "to: is missing"),
        (b"{}", "to: is missing"),
        (b'{"to":1}', "to: Expected `str`, got `int`"),
        (b'{"to":null}', "to: Expected `str`, got `null`"),
        (b'["a"]', "payload: must be one JSON object of arguments"),
        (b"null", "payload: must be one JSON object"),
        (b"", "payload: cannot be read"),
        (b'{"to":"a"', "payload: cannot be read"),
        (b'\xff\x00{"', "payload: cannot be read"),
        (b'{"to":"\xff"}', "payload: cannot be read"),
    ],
)
def test_a_payload_of_other_code_is_refused_with_a_reason(payload: bytes, says: str) -> None:
    assert undecodable(arguments(plain), payload).startswith(says)


@given(st.binary(max_size=40))
def test_no_bytes_stop_a_worker(payload: bytes) -> None:
    with contextlib.suppress(Undecodable):
        arguments(plain).decode(payload, "json")


def test_a_nested_misfit_is_named_by_its_path() -> None:
    assert undecodable(taking(User), b'{"x":{"id":1,"tags":[1,"z"]}}').startswith("x.tags[1]: ")
    assert undecodable(taking(list[Address]), b'{"x":[{"street":1}]}').startswith("x[0].street: ")
    assert undecodable(taking(dict[int, int]), b'{"x":{"a":1}}').startswith("x: Expected `int`")


def test_a_reason_never_tells_the_value_of_a_secret() -> None:
    assert "hunter2" not in undecodable(taking(User), b'{"x":{"id":"hunter2"}}')
    assert "hunter2" not in str(refused(taking(bytes), UUID(int=1)))


def test_a_keyword_that_became_a_parameter_is_not_passed_unchecked() -> None:
    assert undecodable(arguments(starred), b'{"kw":{"key":1.5}}').startswith("key: ")


def test_a_keyword_never_takes_the_place_of_the_context() -> None:
    def demo(ctx: Any, **kw: int) -> None: ...
    def free(ctx: Any, /, **kw: int) -> None: ...

    codec = arguments(demo, skip_context=True)
    assert refused(codec, ctx=1).field == "ctx"
    assert undecodable(codec, b'{"kw":{"ctx":1}}').startswith("ctx: ")
    assert arguments(free, skip_context=True).encode((), {"ctx": 1}, limit=LIMIT) == b'{"kw":{"ctx":1}}'


def test_whatever_a_class_raises_is_a_reason() -> None:
    @dataclasses.dataclass
    class Picky:
        n: int

        def __post_init__(self) -> None:
            if self.n < 0:
                raise KeyError("negative")

    assert "negative" in undecodable(taking(Picky), b'{"x":{"n":-1}}')


def test_endless_nesting_is_a_reason() -> None:
    assert "RecursionError" in undecodable(taking(Any), b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def test_the_codec_none_means_no_arguments() -> None:
    assert arguments(nothing).decode(b"", "none") == ((), {})
    assert arguments(starred).decode(b"", "none") == ((), {})
    assert undecodable(arguments(plain), b"", "none") == "to: is missing"
    assert undecodable(arguments(nothing), b"{}", "none").startswith("payload: ")


def test_a_codec_of_another_version_is_refused_by_its_name() -> None:
    assert "'zstd'" in undecodable(arguments(nothing), b"{}", "zstd")


def test_no_two_calls_share_what_they_get() -> None:
    codec = arguments(nothing)
    codec.decode(b"{}", "json")[1]["left"] = 1
    assert codec.decode(b"{}", "json") == ((), {})
