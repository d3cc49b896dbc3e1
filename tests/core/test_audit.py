"""The audit log: what is noted of a change can be stored, whatever words came with it."""

from __future__ import annotations

import json

import pytest

from windlass.core.acting import By
from windlass.core.alterations import Cancel, CancelGroup
from windlass.core.audit import lines

from .make import NOW


@pytest.mark.parametrize("change", [Cancel("a", "\ud800\x00"), CancelGroup("a", "\ud800\x00")])
def test_a_reason_is_noted_as_it_is_stored(change: Cancel | CancelGroup) -> None:
    [line] = lines(By(actor="ann"), [change], ["applied"], NOW)
    assert line.detail is not None
    assert json.loads(line.detail) == {"reason": r"\ud800\x00"}
