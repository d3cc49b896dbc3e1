"""When a hold is over, and what a renewal makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from windlass.core.alterations import Acquire
from windlass.core.holds import acquired, ended, is_valid, renewed

from .make import NOW

HOLD = acquired(Acquire("h", "q", "ann", 100), NOW)


def test_a_hold_is_valid_until_its_time_is_over_or_it_is_ended() -> None:
    assert [is_valid(HOLD, now) for now in (NOW, NOW + 99, NOW + 100)] == [True, True, False]
    assert not is_valid(ended(HOLD, "RELEASED", NOW), NOW)


@pytest.mark.parametrize(
    ("fields", "granted", "expires_at", "granted_at"),
    [
        ({}, False, NOW + 110, None), ({}, True, NOW + 110, NOW + 10), ({"granted_at": NOW}, True, NOW + 110, NOW),
        ({"granted_at": NOW}, False, NOW + 110, NOW), ({"expires_at": NOW + 500}, False, NOW + 500, None),
    ],
)  # fmt: skip
def test_a_renewal_never_shortens_and_the_first_grant_holds(
    fields: dict[str, Any], granted: bool, expires_at: int, granted_at: int | None
) -> None:
    after = renewed(replace(HOLD, **fields), 100, NOW + 10, granted=granted)
    assert (after.expires_at, after.granted_at) == (expires_at, granted_at)
