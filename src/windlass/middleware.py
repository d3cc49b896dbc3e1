"""Middleware: code around every execution of a handler, as a generator that yields once.

The code before the `yield` runs before the handler, the code after it when the handler has ended. The `yield` returns
what the handler returned, or raises what it raised. An exception of the generator ends the execution as one of the
handler would. A generator cannot turn a failure into a success: if it swallows an exception, that is raised again behind
it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from functools import wraps
from typing import Any, Final, TypeVar

from windlass.context import Context, current
from windlass.errors import InvalidInput

M = TypeVar("M", bound=Callable[[Context], object])
Handler = Callable[..., Any]
HOW: Final = "write `def around(ctx: Context) -> Iterator[None]:` with one yield, or the same with async def"


class Middleware:
    """The middleware of an app, the outermost first."""

    def __init__(self) -> None:
        self.layers: list[Callable[[Context], Any]] = []
        self._optional: list[Callable[[Context], Any]] = []

    def add(self, function: M, *, optional: bool = False) -> M:
        """Declare one. `optional` is for an async one that need not wrap plain functions, because another one does."""
        name = getattr(function, "__qualname__", repr(function))
        if not (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
            raise InvalidInput("middleware", f"{name} is no generator; {HOW}")
        if len(inspect.signature(function).parameters) != 1:
            raise InvalidInput("middleware", f"{name} takes one argument, the context of the job; {HOW}")
        self.layers.append(function)
        if optional:
            self._optional.append(function)
        return function

    def around(self, function: Handler, *, is_async: bool) -> Handler:
        """The handler, wrapped in all middleware that was declared so far."""
        for layer in reversed(self.layers):
            if inspect.isgeneratorfunction(layer):
                function = _async_in_plain(layer, function) if is_async else _plain_in_plain(layer, function)
            elif is_async:
                function = _async_in_async(layer, function)
        return function

    def check(self, tasks: Iterable[tuple[str, bool]]) -> None:
        """Raise `InvalidInput` if async middleware would be left out around a plain function, which has no event loop."""
        for layer in self.layers:
            plain = [name for name, is_async in tasks if not is_async]
            if plain and inspect.isasyncgenfunction(layer) and layer not in self._optional:
                raise InvalidInput(
                    "middleware", f"{layer.__qualname__} is async and cannot be around plain functions such as the task "
                    f"{plain[0]}; write it with def, which goes around both"
                )  # fmt: skip


def misused(layer: Callable[[Context], Any], why: str) -> InvalidInput:
    return InvalidInput("middleware", f"{layer.__qualname__} must yield exactly once: {why}")


def _plain_in_plain(layer: Callable[[Context], Any], inner: Handler) -> Handler:
    @wraps(inner)
    def handler(*args: Any, **kwargs: Any) -> Any:
        steps = _begun(layer)
        try:
            value = inner(*args, **kwargs)
        except BaseException as error:
            _raised(layer, steps, error)
            raise
        _returned(layer, steps, value)
        return value

    return handler


def _async_in_plain(layer: Callable[[Context], Any], inner: Handler) -> Handler:
    @wraps(inner)
    async def handler(*args: Any, **kwargs: Any) -> Any:
        steps = _begun(layer)
        try:
            value = await inner(*args, **kwargs)
        except BaseException as error:
            _raised(layer, steps, error)
            raise
        _returned(layer, steps, value)
        return value

    return handler


def _begun(layer: Callable[[Context], Any]) -> Generator[None, Any, Any]:
    steps: Generator[None, Any, Any] = layer(current())
    try:
        next(steps)
    except StopIteration:
        raise misused(layer, "it ended without a yield, so the handler was not called") from None
    return steps


def _raised(layer: Callable[[Context], Any], steps: Generator[None, Any, Any], error: BaseException) -> None:
    """Pass the handler's exception to the generator. Returns if that exception is to be raised again."""
    try:
        steps.throw(error)
    except StopIteration:
        return
    except BaseException as raised:
        if _is_same(raised, error):
            return
        raise
    steps.close()
    raise misused(layer, "it yielded a second time") from error


def _returned(layer: Callable[[Context], Any], steps: Generator[None, Any, Any], value: Any) -> None:
    try:
        steps.send(value)
    except StopIteration:
        return
    steps.close()
    raise misused(layer, "it yielded a second time")


def _is_same(raised: BaseException, error: BaseException) -> bool:
    """Whether the exception is still the handler's. Python turns a StopIteration that leaves a generator into a
    RuntimeError."""
    return raised is error or (
        isinstance(raised, RuntimeError)
        and isinstance(error, StopIteration | StopAsyncIteration)
        and raised.__cause__ is error
    )


def _async_in_async(layer: Callable[[Context], Any], inner: Handler) -> Handler:
    @wraps(inner)
    async def handler(*args: Any, **kwargs: Any) -> Any:
        steps: AsyncGenerator[None, Any] = layer(current())
        try:
            await anext(steps)
        except StopAsyncIteration:
            raise misused(layer, "it ended without a yield, so the handler was not called") from None
        try:
            value = await inner(*args, **kwargs)
        except GeneratorExit:  # the event loop is gone, and nothing can be awaited any more
            raise
        except BaseException as error:
            await _raised_async(layer, steps, error)
            raise
        try:
            await steps.asend(value)
        except StopAsyncIteration:
            return value
        await steps.aclose()
        raise misused(layer, "it yielded a second time")

    return handler


async def _raised_async(layer: Callable[[Context], Any], steps: AsyncGenerator[None, Any], error: BaseException) -> None:
    try:
        await steps.athrow(error)
    except StopAsyncIteration:
        return
    except BaseException as raised:
        if _is_same(raised, error):
            return
        raise
    await steps.aclose()
    raise misused(layer, "it yielded a second time") from error
