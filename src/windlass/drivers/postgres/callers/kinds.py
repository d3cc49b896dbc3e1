"""What a caller's connection is to the store, whatever library it comes from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from windlass.drivers.statement import Row, Statement


class Hooked(Protocol):
    @property
    def hooks(self) -> bool:
        """Whether somebody calls us after the caller's commit. If not, waking needs a statement in the transaction."""
        ...

    def after_commit(self, tell: Callable[[], None]) -> None: ...


class Caller(Hooked, Protocol):
    def execute(self, statement: Statement) -> list[Row]: ...


class AsyncCaller(Hooked, Protocol):
    async def execute(self, statement: Statement) -> list[Row]: ...


class Unhooked:
    """A library that tells nobody of a commit."""

    hooks = False

    def after_commit(self, tell: Callable[[], None]) -> None:
        raise NotImplementedError


def is_of(value: object, module: str, *names: str) -> bool:
    """Whether a value is of one of the classes of a module, which is not imported for the question."""
    loaded: Any = sys.modules.get(module)
    return loaded is not None and isinstance(value, tuple(getattr(loaded, name) for name in names))


def named(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
