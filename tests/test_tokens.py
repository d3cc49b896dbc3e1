"""Tokens from the outside: made once, told once, refused for every reason alike."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Never

import pytest

from windlass.admin import Admin
from windlass.client import Client
from windlass.clock import SECOND, ManualClock
from windlass.config import Settings
from windlass.core.queries import AllTokens
from windlass.drivers.memory import MemoryDriver
from windlass.errors import InUse, InvalidInput, StoreFull, UnknownToken
from windlass.principal import LOOKS, SCOPES, Principal, digest_of, looks_right, new_token

DAY = 86_400 * SECOND


class Door:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.driver = MemoryDriver()
        self.admin = Admin(Client("memory://", Settings(), driver=self.driver, clock=self.clock))


def at_a_door(promise: Callable[[Door], Awaitable[None]]) -> Callable[[], None]:
    def test() -> None:
        asyncio.run(promise(Door()))  # type: ignore[arg-type]

    test.__name__ = promise.__name__
    return test


def test_a_token_looks_like_one_and_no_two_are_alike() -> None:
    made = {new_token() for _ in range(200)}
    assert len(made) == 200
    for token in made:
        assert re.fullmatch(r"wl_[0-9A-Za-z]{49}", token)
        assert LOOKS.search(f"export TOKEN={token};")
        assert looks_right(token)


@pytest.mark.parametrize("place", [3, 20, 45, 46, 51])
def test_a_mistyped_token_is_known_by_its_looks(place: int) -> None:
    token = new_token()
    other = "b" if token[place] == "a" else "a"
    assert not looks_right(token[:place] + other + token[place + 1 :])


@pytest.mark.parametrize("written", ["", "wl_", "wl_é", "xl_{}", "Bearer {}", "{}0", "{}\n", "{}{}"])
def test_what_is_no_token_does_not_look_like_one(written: str) -> None:
    assert not looks_right(written.replace("{}", new_token()))


def test_scopes_imply_what_they_say_and_no_more() -> None:
    may = {
        scope: {other for other in SCOPES if Principal(actor="a", scopes=frozenset({scope})).may(other)} for scope in SCOPES
    }
    assert may == {
        "enqueue": {"enqueue"}, "read": {"read"}, "read:payload": {"read:payload"}, "work": {"work"},
        "operate": {"operate", "read"}, "admin": set(SCOPES),
    }  # fmt: skip


@at_a_door
async def test_who_comes_with_a_token_is_known(door: Door) -> None:
    _, secret = await door.admin.create_token("ci", ("enqueue", "read"), "acme", ("mail",))
    found = await door.admin.authenticate(secret)
    assert found == Principal(
        actor="token:ci", scopes=frozenset({"enqueue", "read"}), org_id="acme", queues=("mail",)
    )  # fmt: skip


@at_a_door
async def test_the_secret_is_stored_nowhere(door: Door) -> None:
    view, secret = await door.admin.create_token("ci", ("read",))
    [row] = await door.driver.read(AllTokens())
    assert row.digest == digest_of(secret) == hashlib.sha256(secret.encode()).digest()
    assert secret[3:] not in f"{row} {view} {await door.admin.tokens()}"


@at_a_door
async def test_a_token_that_is_not_good_lets_nobody_in(door: Door) -> None:
    _, expiring = await door.admin.create_token("short", ("read",), expires_in="1d")
    _, revoked = await door.admin.create_token("gone", ("admin",))
    await door.admin.revoke_token("gone")
    assert await door.admin.authenticate(revoked) is None
    assert await door.admin.authenticate(new_token()) is None
    assert await door.admin.authenticate("") is None
    door.clock.advance(DAY - 1)
    assert await door.admin.authenticate(expiring) is not None
    door.clock.advance(1)
    assert await door.admin.authenticate(expiring) is None
    assert [token.state for token in (await door.admin.tokens()).tokens] == ["expired", "revoked"]


@at_a_door
async def test_the_last_use_is_written_once_a_minute(door: Door) -> None:
    _, secret = await door.admin.create_token("ci", ("read",))
    first = door.clock.now()
    for _ in range(3):
        await door.admin.authenticate(secret)
        door.clock.advance(29 * SECOND)
    [row] = await door.driver.read(AllTokens())
    assert row.last_used_at == first
    await door.admin.authenticate(secret)
    [row] = await door.driver.read(AllTokens())
    assert row.last_used_at == door.clock.now()


@at_a_door
async def test_a_token_is_revoked_by_its_name_or_its_id(door: Door) -> None:
    one, _ = await door.admin.create_token("ci", ("read",))
    assert (await door.admin.revoke_token("ci")).id == one.id
    two, _ = await door.admin.create_token("ci", ("read",))
    assert (await door.admin.revoke_token(two.id)).state == "revoked"
    await door.admin.create_token("deploy", ("read",))
    with pytest.raises(UnknownToken, match="did you mean 'deploy'"):
        await door.admin.revoke_token("deplox")
    await door.admin.create_token("deploy", ("read",), "acme")
    with pytest.raises(InvalidInput, match="by its id"):
        await door.admin.revoke_token("deploy")


@at_a_door
async def test_bad_tokens_are_refused_and_say_why(door: Door) -> None:
    await door.admin.create_token("ci", ("read",))
    with pytest.raises(InUse, match="'ci'"):
        await door.admin.create_token("ci", ("read",))
    for said, field in (
        ({"scopes": "read"}, "scopes"), ({"scopes": ()}, "scopes"), ({"scopes": ("write",)}, "scopes"),
        ({"queues": "mail"}, "queues"), ({"expires_in": 0}, "expires_in"), ({"expires_in": "soon"}, "expires_in"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput) as raised:
            await door.admin.create_token("x", **{"scopes": ("read",), **said})  # type: ignore[arg-type]
        assert raised.value.field == field
    assert len((await door.admin.tokens()).tokens) == 1


@at_a_door
async def test_a_store_that_cannot_write_lets_people_in_all_the_same(door: Door) -> None:
    _, secret = await door.admin.create_token("ci", ("read",))

    async def full(*_: object, **__: object) -> Never:
        raise StoreFull("jobs.db")

    door.driver.alter = full  # type: ignore[method-assign]
    assert await door.admin.authenticate(secret) is not None
