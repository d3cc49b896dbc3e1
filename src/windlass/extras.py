"""Extras: optional libraries, which are looked for where they are needed, so that the error can say what to install."""

from __future__ import annotations

from importlib.util import find_spec

from windlass.errors import WindlassError


class MissingExtra(WindlassError, ImportError):
    """What was asked for needs a library that comes with an extra, and it is not installed."""

    def __init__(self, extra: str, module: str) -> None:
        self.extra = extra
        super().__init__(f"{module} is not installed; get it with: pip install 'windlass[{extra}]'", name=module)


def needs(extra: str, *modules: str) -> None:
    """Raise `MissingExtra`, unless all of these can be imported. Nothing is imported by asking."""
    for module in modules:
        if find_spec(module) is None:
            raise MissingExtra(extra, module)
