"""Who asks, and what they may do: scopes, the tokens that stand for them, and how a token is written.

A token is `wl_`, 256 random bits and a checksum, all letters and digits, so that a scanner for leaked secrets finds one
by its looks, and a mistyped one is refused without asking the store. The store knows its SHA-256 only.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from typing import Final, Literal, get_args

from msgspec import Struct

Scope = Literal["enqueue", "read", "read:payload", "work", "operate", "admin"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
_IMPLIED: Final[dict[str, frozenset[str]]] = {"admin": frozenset(SCOPES), "operate": frozenset({"operate", "read"})}

PREFIX: Final = "wl_"
BITS: Final = 256
_DIGITS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_BODY: Final = 43  # so many digits of base 62 hold 256 bits
_CHECK: Final = 6  # and so many 32
LOOKS: Final = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_BODY + _CHECK}}}")  # what a scanner looks for


class Principal(Struct, frozen=True, kw_only=True):
    """Somebody who was let in. `org_id` and `queues` bound what they see and change; None = not bounded."""

    actor: str  # as the audit log names them
    scopes: frozenset[str]
    org_id: str | None = None
    queues: tuple[str, ...] | None = None

    @property
    def who(self) -> tuple[str | None, str]:
        """Whom to take for the same caller. The name alone does not tell: each org may have a token of that name."""
        return self.org_id, self.actor

    def may(self, scope: Scope) -> bool:
        return scope in implied(self.scopes)


def implied(scopes: frozenset[str]) -> frozenset[str]:
    """`admin` may do everything, whoever operates may look; nothing else follows from anything."""
    return scopes.union(*(_IMPLIED.get(scope, frozenset()) for scope in scopes))


def new_token() -> str:
    """The only time that it can be seen."""
    body = _written(secrets.randbits(BITS), _BODY)
    return f"{PREFIX}{body}{_checksum(body)}"


def looks_right(token: str) -> bool:
    """Whether it could have been made by `new_token`: no more than spelling."""
    body, check = token[len(PREFIX) : -_CHECK], token[-_CHECK:]
    return LOOKS.fullmatch(token) is not None and secrets.compare_digest(check, _checksum(body))


def digest_of(token: str) -> bytes:
    """What is stored of a token. It has 256 bits of its own, so nothing slower than SHA-256 is needed."""
    return hashlib.sha256(token.encode()).digest()


def _checksum(body: str) -> str:
    return _written(zlib.crc32(body.encode()), _CHECK)


def _written(number: int, width: int) -> str:
    digits: list[str] = []
    for _ in range(width):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
