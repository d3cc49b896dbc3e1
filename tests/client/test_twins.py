"""Whoever has no event loop has everything too: each async method has a blocking twin that takes the same."""

from __future__ import annotations

import inspect

import pytest

from windlass.groups import GroupHandle
from windlass.handles import JobHandle
from windlass.limits import Limits
from windlass.schedules import Schedules, Templates

FACES = [Templates, Schedules, Limits, GroupHandle, JobHandle]


def asynchronous(face: type) -> list[str]:
    return [name for name, value in vars(face).items() if inspect.iscoroutinefunction(value) and not name.startswith("_")]


@pytest.mark.parametrize(("face", "name"), [(face, name) for face in FACES for name in asynchronous(face)])
def test_every_async_method_has_a_blocking_twin_that_takes_the_same(face: type, name: str) -> None:
    twin = getattr(face, f"{name}_sync", None)
    assert twin is not None, f"{face.__name__}.{name}_sync is missing"
    assert inspect.signature(twin) == inspect.signature(getattr(face, name))
