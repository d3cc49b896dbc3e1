"""Which addresses a request may go to: those that the whole internet may reach, and those that the operator lists.

An address is judged by what it stands for. IPv4 hides in IPv6 in several ways (mapped, compatible, 6to4, NAT64), and names
resolve to all of them, so the judgement is made on addresses, after resolving, and never on how something is spelt.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from windlass.config import pieces
from windlass.errors import InvalidInput

Address = IPv4Address | IPv6Address
_NAT64: Final = IPv6Network("64:ff9b::/96")
_UNICAST: Final = IPv6Network("2000::/3")  # all that is given out of IPv6
# Beyond what the library calls private, in versions of it that know less than others.
_NEVER: Final = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
    )
)  # fmt: skip


def meant(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, where it does."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_public(address: Address) -> bool:
    """Whether everybody may reach it: no network of one's own, no machine itself, nothing reserved."""
    address = meant(address)
    if any(address in network for network in _NEVER if network.version == address.version):
        return False
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not address.is_multicast


class Networks:
    """Networks that may be called although not everybody may reach them: `10.0.0.0/8,192.168.7.4`."""

    def __init__(self, text: str = "none") -> None:
        self._allowed: list[IPv4Network | IPv6Network] = []
        for part in pieces(text):
            try:
                self._allowed.append(ip_network(part))
            except ValueError:
                raise InvalidInput("webhook_networks", f"must be networks such as 10.0.0.0/8, got {part!r}") from None

    def lists(self, address: Address) -> bool:
        """Whether the operator named it, by what it stands for: a disguise leads neither in nor out."""
        address = meant(address)
        return any(address in network for network in self._allowed if network.version == address.version)

    def allow(self, addresses: Sequence[str]) -> bool:
        """Whether every one of them may be called: a name with one good and one bad address has a bad one."""
        return all(self.lists(address) or is_public(address) for address in map(_read, addresses))

    def list_all(self, addresses: Sequence[str]) -> bool:
        return all(map(self.lists, map(_read, addresses)))


def _read(text: str) -> Address:
    """Without the zone of a link-local address, which only says by which way it is reached."""
    return ip_address(text.partition("%")[0])
