"""When a token is good, and when its use is written down."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from windlass.core.alterations import CreateToken
from windlass.core.tokens import NOTED_EVERY, created, is_good, needs_note, revoked, used

from .make import NOW

TOKEN = created(CreateToken(token_id="t", name="ci", digest=b"", scopes=()), NOW)


@pytest.mark.parametrize(("expires_at", "good"), [(None, True), (NOW + 1, True), (NOW, False), (NOW - 1, False)])
def test_a_token_is_good_until_it_expires_or_is_revoked(expires_at: int | None, good: bool) -> None:
    token = replace(TOKEN, expires_at=expires_at)
    assert is_good(token, NOW) is good
    assert not is_good(revoked(token, NOW), NOW)


def test_its_use_is_news_once_a_minute() -> None:
    assert needs_note(TOKEN, NOW)
    assert [needs_note(used(TOKEN, at), NOW) for at in (NOW - NOTED_EVERY, NOW - NOTED_EVERY + 1)] == [True, False]
