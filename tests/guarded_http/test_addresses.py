"""Which addresses are public, and which no setting opens."""

import pytest

from memrelay.guarded_http.addresses import is_forbidden, is_local, is_public


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b::808:808", True),
        ("::ffff:8.8.8.8", True),
        ("2002:808:808::1", True),
        ("2a00:1450:4001::8a", True),
        ("192.0.0.8", False),
        ("192.0.0.9", False),
        ("172.31.255.255", False),
        ("172.32.0.1", True),
        ("192.168.0.1", False),
        ("192.88.99.1", False),
        ("198.19.0.1", False),
        ("203.0.113.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::7f00:1", False),
        ("::10.0.0.1", False),
        ("::ffff:192.0.0.8", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b:1::7f00:1", False),
        ("64:ff9b:1::808:808", False),
        ("2002:a00:1::", False),
        ("2001::5ef5:79fd:80ff:fffe", False),
        ("2001:2::1", False),
        ("2001:20::1", False),
        ("2001:db8::1", False),
        ("3fff::1", False),
        ("100::1", False),
        ("4000::1", False),
        ("5f00::1", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("ff0e::1", False),
    ],
)
def test_public_addresses_are_distinguished_from_private_ones(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "::",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "fe80::1%lo",
        "fd00:ec2::254",
        "fd20:ce::254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "224.0.0.1",
        "255.255.255.255",
        "ff02::1",
    ],
)
def test_link_local_metadata_and_reserved_addresses_are_forbidden(address: str) -> None:
    assert is_forbidden(address)
    assert not is_public(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "fd00::1", "8.8.8.8", "::1"])
def test_other_addresses_are_not_forbidden(address: str) -> None:
    assert not is_forbidden(address)


def test_the_addresses_of_this_machine_are_known() -> None:
    assert is_local("127.0.0.1")
    assert is_local("::ffff:127.0.0.1")
    assert not is_local("8.8.8.8")
