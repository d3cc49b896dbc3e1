"""Payloads and results that only those can read who have a key: AES-256-GCM, sealed to the job that they belong to.

What is sealed begins with a byte that no JSON begins with, and names its key; so rows of before, and of several keys, stand
side by side. The organisation and the id of the job, and whether it is a payload or a result, go into the key of each
message and are authenticated with it: what was moved to another row, or changed, does not open.

A key ring is a file, one key in a line, the newest last: `2026-11 <32 bytes in base64>`. The last one seals,
all of them open. One with the word `next` behind it opens only: for as long as some program may not have it yet.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal, TypeGuard

from windlass.errors import InvalidInput, Undecodable

SEALED: Final = "aes256gcm"  # the codec of a sealed payload
ENCRYPTED: Final = "encrypted"  # what people are shown of it
NEXT: Final = "next"  # behind a key that encrypts nothing yet
Part = Literal["payload", "result"]

_MARK: Final = b"\x00WL1"
_NONCE: Final = 12
_KEY: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NO_LIBRARY: Final = "needs the library cryptography; get it with: pip install 'windlass[crypto]'"


class KeyRing:
    """Names and keys, the newest last. Shows no key, in no message."""

    def __init__(self, keys: dict[str, bytes], waiting: Collection[str] = ()) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise InvalidInput("key_file", _NO_LIBRARY) from None
        sealing = [name for name in keys if name not in waiting]
        if not sealing:
            raise InvalidInput("key_file", "holds no key that encrypts; add one with: windlass keys add FILE")
        self._keys = keys
        self._cipher, self._refused = AESGCM, InvalidTag
        self.names: Final = (*keys,)
        self._seals_by: Final = sealing[-1]
        self._for_names = _derived(next(iter(keys.values())), b"names")

    def __repr__(self) -> str:
        return f"<keys {', '.join(self._keys)}>"

    def seal(self, plain: bytes, part: Part, org_id: str | None, job_id: str) -> bytes:
        about, name, nonce = _about(part, org_id, job_id), self._seals_by.encode(), os.urandom(_NONCE)
        locked = self._cipher(_derived(self._keys[self._seals_by], about)).encrypt(nonce, plain, about)
        return b"".join((_MARK, bytes([len(name)]), name, nonce, locked))

    def open(self, stored: bytes, part: Part, org_id: str | None, job_id: str) -> bytes:
        """Raises `Undecodable`: without its key, and when a bit of it, its job or its organisation is not what it was."""
        name, nonce, locked = _split(stored)
        if name not in self._keys:
            raise Undecodable(f"{part}: {_locked_by(name)}, and this program has only {', '.join(self._keys)}")
        about = _about(part, org_id, job_id)
        try:
            return self._cipher(_derived(self._keys[name], about)).decrypt(nonce, locked, about)
        except self._refused:
            raise Undecodable(
                f"{part}: does not open with its key {name!r}: it was changed, or belongs to another job"
            ) from None

    def hidden(self, key: str) -> str:
        """The same text for the same text, to whoever has the oldest key; nothing can be guessed without it."""
        return f"sealed:{hmac.new(self._for_names, key.encode(), hashlib.sha256).hexdigest()}"


def is_sealed(stored: bytes | None) -> TypeGuard[bytes]:
    return stored is not None and stored.startswith(_MARK)


def readable(stored: bytes, part: Part) -> bytes:
    """The bytes as they are; raises if they are encrypted, because whoever opens rows could not open this one."""
    if is_sealed(stored):
        raise Undecodable(f"{part}: {_locked_by(_split(stored)[0])}, and cannot be opened here: see the setting key_file")
    return stored


def ring_of(path: str) -> KeyRing | None:
    """The key ring that the setting names."""
    return None if path == "none" else KeyRing(*keys_in(path))


def keys_in(path: str) -> tuple[dict[str, bytes], set[str]]:
    """All keys of a file by their names, in its order, and the names of those that encrypt nothing yet."""
    try:
        if os.stat(path).st_mode & stat.S_IRWXO:
            raise InvalidInput("key_file", f"{path} can be read by everybody; say: chmod 600 {path}")
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("key_file", f"{path} cannot be read: {getattr(error, 'strerror', None) or 'no text'}") from None
    keys: dict[str, bytes] = {}
    waiting: set[str] = set()
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) == 3 and words[2] == NEXT:
            waiting.add(words[0])
            words = words[:2]
        if len(words) != 2 or not _NAME.fullmatch(words[0]) or words[0] in keys:
            raise InvalidInput("key_file", f"line {number} of {path} must be a name of its own and a key")
        keys[words[0]] = _key_in(words[1], f"line {number} of {path}")
    return keys, waiting


def new_line(name: str, *, waiting: bool = False) -> str:
    """A new key, as a line of a key ring. `waiting`: it encrypts nothing yet."""
    if not _NAME.fullmatch(name):
        raise InvalidInput("name", f"must be letters, digits, '.', '_' and '-', at most 64, got {name!r}")
    return f"{name} {base64.b64encode(os.urandom(_KEY)).decode()}{f' {NEXT}' if waiting else ''}\n"


def _key_in(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY:
        raise InvalidInput("key_file", f"{where} must end with {_KEY} bytes in base64")
    return key


def _about(part: Part, org_id: str | None, job_id: str) -> bytes:
    """Each piece with its length: no two jobs have the same."""
    pieces = [b"windlass", part.encode(), b"" if org_id is None else b"=" + org_id.encode(), job_id.encode()]
    return b"".join(len(piece).to_bytes(4, "big") + piece for piece in pieces)


def _derived(key: bytes, about: bytes) -> bytes:
    """A key for each message, so that nonces drawn by lot never meet under one key, however many jobs there are."""
    return hmac.new(key, about, hashlib.sha256).digest()


def _split(stored: bytes) -> tuple[str, bytes, bytes]:
    start = len(_MARK) + 1
    size = stored[start - 1] if len(stored) >= start else 0
    name, rest = stored[start : start + size], stored[start + size :]
    if not size or len(rest) < _NONCE:
        raise Undecodable("payload: was cut: it is too short for what is encrypted")
    return name.decode("utf-8", "replace"), rest[:_NONCE], rest[_NONCE:]


def _locked_by(name: str) -> str:
    return f"is encrypted with the key {name!r}"
