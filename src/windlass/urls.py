"""URLs of stores, as people may see them: a password is for the server alone. And whether a host is this machine."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

HIDDEN: Final = "***"
_USER: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*:/*[^:]*):.*@", re.DOTALL)
_TOKEN: Final = re.compile(r"^(https?:/*)[^/?#]*@", re.IGNORECASE)
_NAMED: Final = re.compile(r"((?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]*)", re.IGNORECASE)


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
    """The same without its password, wherever that is written. Of a URL that is wrongly written it rather hides too much:
    everything between the first colon and the last @. Of a served store all that stands before the @ is a token."""
    url = _TOKEN.sub(rf"\g<1>{HIDDEN}@", url)
    return _NAMED.sub(rf"\g<1>{HIDDEN}", _USER.sub(rf"\g<1>:{HIDDEN}@", url))
