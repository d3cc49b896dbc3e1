"""Resources: objects that handlers share, such as a connection pool. They are open while a worker runs.

A handler asks for one by its type. One asyncio task opens all of them in the order of their declaration, and closes them
in the opposite order, so that a resource may hold a task group or a cancel scope."""

from __future__ import annotations

import asyncio
import inspect
import logging
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

from msgspec import Struct

from windlass.errors import InvalidInput, NoSuchResource, ResourceUnavailable

T = TypeVar("T")
F = TypeVar("F", bound=Callable[[], object])
CLOSES_WITHIN: Final = 10.0  # seconds that each has, when its worker ends
GIVES: Final = (
    Iterator, Generator, AsyncIterator, AsyncGenerator, AbstractContextManager, AbstractAsyncContextManager,
)  # fmt: skip
HOW: Final = "write `async def pool() -> AsyncIterator[Pool]:` with one yield, or a plain def with Iterator[Pool]"
log: Final = logging.getLogger("windlass.worker")


class Resource(Struct, frozen=True):
    """A declared resource: its type, and how to open it."""

    kind: type
    name: str
    make: Callable[[], Any]
    is_async: bool

    async def enter(self, manager: Any) -> Any:
        return await manager.__aenter__() if self.is_async else manager.__enter__()

    async def leave(self, manager: Any) -> None:
        if self.is_async:
            await manager.__aexit__(None, None, None)
        else:
            manager.__exit__(None, None, None)


class Kit:
    """The resources of one worker, or of one child process of it, while they are open."""

    def __init__(self, open_ones: Mapping[type, Any]) -> None:
        self._open = open_ones

    def get(self, kind: type[T]) -> T:
        try:
            found: T = self._open[typing.get_origin(kind) or kind]
        except (KeyError, TypeError):
            known = ", ".join(sorted(each.__qualname__ for each in self._open))
            there = f"there are: {known}" if known else "there are none here"
            raise NoSuchResource(getattr(kind, "__qualname__", repr(kind)), there) from None
        return found


NOTHING: Final = Kit({})


class Resources:
    """The resources that an app declares."""

    def __init__(self) -> None:
        self._by_kind: dict[type, Resource] = {}

    def add(self, function: F) -> F:
        made = described(function)
        if made.kind in self._by_kind:
            raise InvalidInput(
                "resource", f"{self._by_kind[made.kind].name} gives a {made.kind.__qualname__} already; give each a class "
                "of its own, since ctx.resource(...) asks by it"
            )  # fmt: skip
        self._by_kind[made.kind] = made
        return function

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Kit]:
        """Open all resources for as long as the block lasts. If one cannot be opened, those before it are closed again."""
        values: dict[type, Any] = {}
        managers: list[tuple[Resource, Any]] = []
        try:
            for resource in self._by_kind.values():
                try:
                    manager = resource.make()
                    values[resource.kind] = await resource.enter(manager)
                except Exception as error:
                    raise ResourceUnavailable(resource.name, f"{type(error).__name__}: {error}") from error
                managers.append((resource, manager))
            yield Kit(values)
        finally:
            await _close(managers)


async def _close(managers: list[tuple[Resource, Any]]) -> None:
    """Close all resources, the last one first. A cancellation meanwhile ends only the closing of the present one."""
    interrupted: BaseException | None = None
    while managers:
        try:
            await _closed(*managers.pop())
        except BaseException as error:
            interrupted = interrupted or error
    if interrupted is not None:
        raise interrupted


async def _closed(resource: Resource, manager: Any) -> None:
    """Close one resource. An error is logged; it must keep neither the other resources open nor a worker from ending."""
    try:
        async with asyncio.timeout(CLOSES_WITHIN):
            await resource.leave(manager)
    except Exception:
        log.exception("the resource %s was not closed", resource.name)


def described(function: Callable[[], object]) -> Resource:
    """The resource that a function declares by its kind and its return type."""
    name = getattr(function, "__qualname__", repr(function))
    if inspect.iscoroutinefunction(function) or inspect.isclass(function):
        raise InvalidInput("resource", f"{name} opens nothing and closes nothing; {HOW}")
    if inspect.signature(function).parameters:
        raise InvalidInput("resource", f"{name} takes parameters, and there is nobody to give them")
    kind, origin = _kind(function, name)
    if inspect.isasyncgenfunction(function):
        return Resource(kind, name, asynccontextmanager(typing.cast("Any", function)), True)
    if inspect.isgeneratorfunction(function):
        return Resource(kind, name, contextmanager(typing.cast("Any", function)), False)
    return Resource(kind, name, function, _is_async(function, origin))


def _is_async(function: Callable[[], object], origin: Any) -> bool:
    """Whether the resource is async. A decorator of contextlib keeps the annotation of the function that it wraps."""
    wrapped = inspect.unwrap(function)
    return inspect.isasyncgenfunction(wrapped) or origin is AbstractAsyncContextManager


def _kind(function: Callable[[], object], name: str) -> tuple[type, Any]:
    try:
        hint = typing.get_type_hints(function).get("return")
    except NameError as error:
        raise InvalidInput(
            "resource", f"{name}: {error.name!r} in its type is not known at run time; import or define it in the module, "
            "outside of `if TYPE_CHECKING:` and of functions"
        ) from None  # fmt: skip
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    given = args[0] if origin in GIVES and args else None
    kind = typing.get_origin(given) or given
    if not isinstance(kind, type) or kind is type(None):
        raise InvalidInput("resource", f"{name} does not say what it gives; {HOW}")
    return kind, origin
