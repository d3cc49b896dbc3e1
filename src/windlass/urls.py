"""URLs of stores, as people may see them: a password is for the server alone. And whether a host is this machine."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import Final
from urllib.parse import quote, unquote

HIDDEN: Final = "***"
IN_MEMORY: Final = ":memory:"  # as others write it; a file of that name is not what is meant
_USER: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*:/*[^:]*):.*@", re.DOTALL)
_TOKEN: Final = re.compile(r"^(https?:/*)[^/?#]*@", re.IGNORECASE)
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_NO_SCHEME: Final = re.compile(r"^([^:/@=\s]+):(?!//).*@", re.DOTALL)
_NO_HOST: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://[^:/@?,\[]+):(?!\d*(?:[,/?]|$))[^/?@]*", re.DOTALL)
_HOST: Final = r"(?:\[[^\]]*\]|[^:/?@,]*)(?::\d*)?"
_SOUND: Final = re.compile(  # up to its query
    rf"^[A-Za-z][A-Za-z0-9+.-]*://(?:[^:/?@]*(?::[^/?@]*)?@)?{_HOST}(?:,{_HOST})*(?:/[^@?]*)?(?=\?)", re.DOTALL
)
_PARAMETER: Final = re.compile(r"([?&])([^?&=]*)=([^&]*)", re.DOTALL)
_NAMED: Final = re.compile(
    r"((?:(?:ssl)?password|oauth_client_secret)\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:[^\s'\\]|\\.)*)",
    re.IGNORECASE | re.DOTALL,
)
_ASIDE: Final = re.compile(r"(\s(?:(?:ssl)?password|oauth_client_secret)\s*=)[^&]*", re.IGNORECASE)  # written into a URL
_SECRETS: Final = frozenset({"password", "sslpassword", "oauth_client_secret"})


def scheme_of(url: str) -> str:
    """Without taking the rest apart: what does not parse is for its driver to refuse, in words of its own."""
    return url.partition(":")[0].lower()


def is_loopback(host: str) -> bool:
    """Whether what is sent there never leaves this machine. A name other than localhost may be anybody's."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def redacted(url: str) -> str:
    """The URL without its password, wherever that stands. Of a URL that is wrongly written too much is hidden rather than
    too little: everything between the first colon and the last @. Of a served store, everything before the @ is a token."""
    url = _TOKEN.sub(rf"\g<1>{HIDDEN}@", url)
    if not _URL.match(url):
        return _without_user(_NAMED.sub(rf"\g<1>{HIDDEN}", url))
    sound = _SOUND.match(url)
    if sound is not None:  # so each @ of its query is the query's own
        return _without_user(sound[0]) + _ASIDE.sub(rf"\g<1>{HIDDEN}", _PARAMETER.sub(_parameter, url[sound.end() :]))
    if any(_is_secret(name) for _, name, _ in _PARAMETER.findall(url)):  # and nobody can tell where what begins
        return f"{url.partition(':')[0]}://{HIDDEN}"
    return _ASIDE.sub(rf"\g<1>{HIDDEN}", _without_user(url))


def _without_user(url: str) -> str:
    for pattern in (_USER, _NO_SCHEME):
        url = pattern.sub(rf"\g<1>:{HIDDEN}@", url)
    return _NO_HOST.sub(rf"\g<1>:{HIDDEN}", url)


def _parameter(found: re.Match[str]) -> str:
    before, name, _ = found.groups()
    return f"{before}{name}={HIDDEN}" if _is_secret(name) else found[0]


def _is_secret(name: str) -> bool:
    """It may be written in percents too."""
    return unquote(name).strip().lower() in _SECRETS


def file_of(url: str) -> str | None:
    """The path that `sqlite:///path` or `sqlite:////path` names; None for what is no such URL. A `?` or a `#` that is not
    written in percents may mean either a part of the name or what follows it, so it means nothing."""
    scheme, _, rest = url.partition(":")
    if scheme.lower() != "sqlite" or not rest.startswith("///") or {"?", "#"} & set(rest):
        return None
    try:
        path = unquote(rest[3:], errors="strict")
    except UnicodeDecodeError:
        return None
    return path if path and "\x00" not in path and path != IN_MEMORY else None


def url_of_file(path: str | os.PathLike[str]) -> str:
    """The other way round."""
    return f"sqlite:///{quote(os.fspath(path))}"
