"""Remembered tracebacks are those of the standard library, to the last underline."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from windlass.worker import frames
from windlass.worker.frames import DEEPEST, MOST, format_error


def plain() -> None:
    raise ValueError("no")


def in_an_expression(values: dict[str, int]) -> int:
    return 1 + values["a"] + values["missing"]


def deeper(times: int) -> None:
    if times == 0:
        plain()
    deeper(times - 1)


def misspelt() -> None:
    existing = 1
    print(existng)  # type: ignore[name-defined]  # noqa: F821
    print(existing)


def chained() -> None:
    try:
        plain()
    except ValueError as error:
        raise RuntimeError("and so") from error


def in_passing() -> None:
    try:
        plain()
    except ValueError:
        raise RuntimeError("on the way")  # noqa: B904


def without_its_context() -> None:
    try:
        plain()
    except ValueError:
        raise RuntimeError("alone") from None


def with_notes() -> None:
    error = ValueError("no")
    error.add_note("look there")
    raise error


def grouped() -> None:
    raise ExceptionGroup("both", [ValueError("a"), KeyError("b")])


def of_no_file() -> None:
    exec(compile("def f():\n    raise ValueError('made of a text')\nf()", "<made>", "exec"), {})  # noqa: S102


def of_syntax() -> None:
    compile("1 +", "<made>", "exec")


def of_no_words() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    raise Mute


def again() -> None:
    try:
        plain()
    except ValueError as error:
        raise error


CASES: list[Callable[[], Any]] = [
    plain, lambda: in_an_expression({"a": 1}), lambda: deeper(1), lambda: deeper(3), lambda: deeper(4), lambda: deeper(20),
    lambda: deeper(DEEPEST + 20), misspelt, chained, in_passing, without_its_context, with_notes, grouped, of_no_file,
    of_syntax, of_no_words, again,
]  # fmt: skip


def raised_by(case: Callable[[], Any]) -> BaseException:
    try:
        case()
    except BaseException as error:
        return error
    raise AssertionError("it raises")


@pytest.mark.parametrize("case", CASES)
def test_a_remembered_traceback_is_the_one_that_would_have_been_made(case: Callable[[], Any]) -> None:
    for _ in range(3):
        error = raised_by(case)
        assert format_error(error) == "".join(traceback.format_exception(error, limit=-DEEPEST))


def test_the_same_code_in_two_files_is_told_apart() -> None:
    for name in ("acme/tasks.py", "globex/tasks.py"):
        scope: dict[str, Any] = {}
        exec(compile("def work():\n    raise ValueError('no')", name, "exec"), scope)  # noqa: S102
        assert f'File "{name}", line 2, in work' in format_error(raised_by(scope["work"]))


def test_an_error_that_was_never_raised_has_no_frames() -> None:
    assert format_error(ValueError("no")) == "ValueError: no\n"


def test_no_more_places_are_remembered_than_allowed() -> None:
    for n in range(MOST + 10):
        scope: dict[str, Any] = {}
        exec(f"def f():\n    raise ValueError({n})", scope)  # noqa: S102
        format_error(raised_by(scope["f"]))
    assert len(frames._places) <= MOST
