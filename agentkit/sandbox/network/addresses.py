"""Which addresses a sandbox's proxy may connect to: those of the public internet (SPEC 12.9).

What isn't is listed: Python's ``is_global`` changes between versions, and refuses ranges that egress gateways use.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address

# Source: the IANA special-purpose address registries (RFC 6890 and those it names), and what clouds document.
_REFUSED: Final = tuple(
    (ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by carriers (CGNAT)"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's metadata"),
        ("169.254.0.0/16", "link-local, with a cloud's metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved, with a cloud's metadata"),
        ("192.88.99.0/24", "a relay to IPv6"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("2001::/32", "a tunnel (Teredo)"),
        ("2001:2::/48", "for benchmarks"),
        ("2001:10::/28", "no address of a host (ORCHID)"),
        ("2001:20::/28", "no address of a host (ORCHID)"),
        ("2002::/16", "a tunnel (6to4)"),
    )
)
#: All unicast addresses given out so far; loopback, link-local, unique local and multicast ones lie outside.
_GIVEN_OUT: Final = IPv6Network("2000::/3")
#: RFC 6052: the last 32 bits are an address of IPv4. Networks without IPv4 reach public hosts by it.
_NAT64: Final = IPv6Network("64:ff9b::/96")


def objection_to(address: str) -> str | None:
    """Return what an address is that no sandbox may reach, or None for a public one.

    >>> objection_to("192.168.1.10")
    'private'
    >>> objection_to("::ffff:127.0.0.1")
    'loopback'
    >>> objection_to("151.101.0.223") is None
    True
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return "no address"
    return _objection(parsed)


def _objection(address: Address) -> str | None:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return _objection(address.ipv4_mapped)
        if address in _NAT64:
            return _objection(IPv4Address(int(address) & 0xFFFF_FFFF))
        if address.scope_id is not None or address not in _GIVEN_OUT:
            return "not public"
    for network, what in _REFUSED:
        if address.version == network.version and address in network:
            return what
    return None
