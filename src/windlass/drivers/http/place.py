"""The URL of a served store, taken apart: its address, and the token, which is never shown."""

from __future__ import annotations

import logging
import re
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from windlass.errors import InvalidInput, UnknownStore
from windlass.urls import is_loopback, redacted

KNOWN: Final = "https://TOKEN@host/ (or the token in WINDLASS_TOKEN), http://127.0.0.1:8080/"
_SENDABLE: Final = re.compile(r"[!-~]*")
log: Final = logging.getLogger("windlass.http")


class Place(Struct, frozen=True, kw_only=True):
    where: str  # for people: without the token
    base: str  # scheme, host, port and path, without a slash at its end
    token: str | None

    def __str__(self) -> str:
        return self.where

    def __repr__(self) -> str:
        return f"Place({self.where})"

    @classmethod
    def of(cls, url: str, token: str | None = None) -> Place:
        """The token is what stands before the @ (after a colon, where there is one), else the one that was given. Of what
        comes from a file, the end of its line is no part."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise UnknownStore(url, KNOWN) from None
        if not host or parts.query or parts.fragment:
            raise UnknownStore(url, KNOWN)
        said = parts.password or parts.username
        shown = f"[{host}]" if ":" in host else host
        base = f"{parts.scheme.lower()}://{shown}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
        secret = (unquote(said) if said else token or "").strip()
        if not _SENDABLE.fullmatch(secret):  # what refuses it later would show it
            raise InvalidInput("token", "holds a character that no token has: a blank, the end of a line, or no ASCII")
        found = cls(where=redacted(url), base=base, token=secret or None)
        if parts.scheme.lower() == "http" and found.token is not None and not is_loopback(host):
            log.warning("%s: the token and all jobs travel unencrypted; use https://", found.where)
        return found
