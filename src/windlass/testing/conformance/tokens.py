"""Tokens: known by the hash of their secret, bound to what they say, good until they expire or are revoked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from windlass.core.alterations import CreateToken, NoteUse, RevokeToken
from windlass.core.queries import AllTokens, TokenByDigest
from windlass.core.tokens import NOTED_EVERY
from windlass.errors import InvalidInput
from windlass.principal import SCOPES
from windlass.records import ApiToken
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise


class TokenPromises(Suite):
    @promise
    async def test_a_token_is_found_by_the_hash_of_its_secret(self, t: Trial) -> None:
        """With all that was said of it; another hash finds nobody."""
        bound = create(
            "bound", scopes=("read", "read:payload"), org_id="acme", queues=("a", "b"), expires_at=t.now + MINUTE
        )
        assert await t.alter(bound) == "applied"
        t.clock.advance(1)
        assert await t.alter(create("free", scopes=SCOPES)) == "applied"
        [found] = await t.driver.read(TokenByDigest(digest=digest("bound")))
        assert found == ApiToken(
            token_id=bound.token_id, name="bound", digest=digest("bound"), scopes=("read", "read:payload"), org_id="acme",
            queues=("a", "b"), expires_at=t.now - 1 + MINUTE, created_at=t.now - 1,
        )  # fmt: skip
        [found] = await t.driver.read(TokenByDigest(digest=digest("free")))
        assert (found.scopes, found.org_id, found.queues, found.expires_at) == (SCOPES, None, None, None)
        assert await t.driver.read(TokenByDigest(digest=digest("nobody"))) == []
        assert [token.token_id for token in await t.driver.read(AllTokens())] == ["bound", "free"]

    @promise
    async def test_a_revoked_token_stays_revoked(self, t: Trial) -> None:
        """Its row is kept, with the first instant; revoking it again changes nothing."""
        await t.alter(create("x"))
        t.clock.advance(5)
        assert await t.alter(RevokeToken("x")) == "applied"
        t.clock.advance(5)
        assert await t.alter(RevokeToken("x")) == "unchanged"
        [token] = await t.driver.read(AllTokens())
        assert token.revoked_at == t.now - 5
        assert await t.alter(RevokeToken("nobody")) == "not_found"

    @promise
    async def test_the_use_of_a_token_is_written_once_a_minute(self, t: Trial) -> None:
        """However often it is used; nothing else of its row changes."""
        await t.alter(create("x"))
        [before] = await t.driver.read(AllTokens())
        assert await t.alter(NoteUse("x")) == "applied"
        first = t.now
        t.clock.advance(NOTED_EVERY - 1)
        assert await t.alter(NoteUse("x")) == "unchanged"
        [token] = await t.driver.read(AllTokens())
        assert token == msgspec.structs.replace(before, last_used_at=first)
        t.clock.advance(1)
        assert await t.alter(NoteUse("x")) == "applied"
        [token] = await t.driver.read(AllTokens())
        assert token.last_used_at == t.now
        assert await t.alter(NoteUse("nobody")) == "not_found"
        await t.alter(create("y"))
        t.clock.advance(NOTED_EVERY)
        assert await t.alter(NoteUse("y")) == "applied"
        used = {token.token_id: token.last_used_at for token in await t.driver.read(AllTokens())}
        assert used == {"x": t.now - NOTED_EVERY, "y": t.now}

    @promise
    async def test_a_name_is_of_one_token_of_an_org_until_it_is_revoked(self, t: Trial) -> None:
        """So that the audit log is clear; ids and secrets are never used twice."""
        assert await t.alter(create("x", name="ci")) == "applied"
        assert await t.alter(create("y", name="ci")) == "duplicate"
        assert await t.alter(create("z", name="ci", org_id="acme")) == "applied"
        assert await t.alter(create("x", name="other")) == "duplicate"
        assert await t.alter(create("v", name="other", digest=digest("x"))) == "duplicate"
        await t.alter(RevokeToken("x"))
        assert await t.alter(create("y", name="ci")) == "applied"
        assert await t.alter(create("x", name="third")) == "duplicate"
        assert {(token.token_id, token.name) for token in await t.driver.read(AllTokens())} == {
            ("x", "ci"), ("y", "ci"), ("z", "ci"),
        }  # fmt: skip

    @promise
    async def test_a_token_that_makes_no_sense_is_refused(self, t: Trial) -> None:
        """An unknown scope, a secret instead of its hash, a queue without a name: an error, and nothing is stored."""
        for bad in (
            {"name": ""}, {"name": "a\nb"}, {"digest": b"short"}, {"digest": "x" * 32}, {"scopes": ()},
            {"scopes": ("root",)}, {"scopes": ["read"]}, {"scopes": ("read", "read")}, {"org_id": ""}, {"queues": ()},
            {"queues": ("",)}, {"queues": "mail"}, {"expires_at": 0}, {"expires_at": 1.5}, {"expires_at": 2**63},
        ):  # fmt: skip
            with pytest.raises(InvalidInput):
                await t.driver.alter([create("good"), create("bad", **bad)], now=t.now)
        with pytest.raises(InvalidInput):
            await t.alter(RevokeToken(""))
        assert await t.driver.read(AllTokens()) == []


def digest(secret: str) -> bytes:
    return secret.encode().ljust(32, b".")


def create(token_id: str, **said: Any) -> CreateToken:
    whole = {"name": token_id, "digest": digest(token_id), "scopes": ("read",), **said}
    return CreateToken(token_id=token_id, **whole)
