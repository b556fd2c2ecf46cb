"""Which addresses a sandbox may reach."""

from __future__ import annotations

import pytest

from agentkit.sandbox.network.addresses import objection_to


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.251",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:0:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:2::1",
        "2001:10::1",
        "2002:7f00:1::1",
        "2002:808:808::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "2600::1%eth0",
        "fec0::1",
        "ff02::1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "localhost",
        "",
    ],
)
def test_address_that_is_not_public_is_refused(address: str) -> None:
    """Private, loopback, link-local, shared, multicast, reserved and metadata addresses, in every form (SPEC 12.9)."""
    assert objection_to(address) is not None


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "151.101.0.223",
        "172.15.255.255",
        "172.32.0.1",
        "203.0.113.7",
        "223.255.255.255",
        "::ffff:151.101.0.223",
        "64:ff9b::9765:df",
        "2606:4700:4700::1111",
        "2a04:4e42::223",
    ],
)
def test_public_address_is_reached(address: str) -> None:
    """Public addresses, also where a network gives those of IPv4 the form of IPv6, and those of egress gateways."""
    assert objection_to(address) is None
