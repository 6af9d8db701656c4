"""Which network addresses are public, and which no setting opens."""

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

# IPv4 networks with a special purpose (RFC 6890 and its registry), multicast and reserved ones.
# Written out, because the answers of `ipaddress` differ between releases of Python.
SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
            *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
            *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
# The only global unicast addresses of IPv6, and the networks in it with a special purpose: Teredo
# and other protocols, and two for documentation.
GLOBAL_V6 = IPv6Network("2000::/3")
SPECIAL_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
# Their last 32 bits are an IPv4 address that a gateway connects to.
NAT64 = IPv6Network("64:ff9b::/96")
# Unspecified, link-local, multicast and reserved addresses, and services of clouds that give
# credentials to the machine that asks: Alibaba, Azure, Oracle and AWS.
NEVER_V4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4"),
            *("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32"),
        ),
    )
)
NEVER_V6 = tuple(
    map(IPv6Network, ("::/128", "fe80::/10", "ff00::/8", "fd00:ec2::/32", "fd20:ce::254/128"))
)


def is_public(address: str) -> bool:
    """Return whether an address is global unicast.

    A mapped, NAT64 or 6to4 address is like the IPv4 address in it. All other addresses that contain
    one, such as Teredo and `::10.0.0.1`, are not public.
    """
    found = _parse(address)
    if isinstance(found, IPv6Address):
        return found in GLOBAL_V6 and not any(found in network for network in SPECIAL_V6)
    return not any(found in network for network in SPECIAL_V4) and not is_forbidden(address)


def is_forbidden(address: str) -> bool:
    """Return whether no setting may open an address, such as a metadata service."""
    found = _parse(address)
    if isinstance(found, IPv6Address):
        return any(found in network for network in NEVER_V6)
    return any(found in network for network in NEVER_V4)


def is_ip_address(host: str) -> bool:
    """Return whether a host is an address in its usual form."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def normalize_address(address: str) -> str:
    """Return an address in its shortest form, with an IPv4 address taken out of IPv6."""
    return str(_parse(address))


def is_local(address: str) -> bool:
    """Return whether an address belongs to this machine."""
    found = _parse(address)
    if found.is_loopback or found.is_unspecified:
        return True
    family = socket.AF_INET if isinstance(found, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(found), 0))
    except OSError:
        return False
    return True


def _parse(address: str) -> IPv4Address | IPv6Address:
    found = ip_address(address.partition("%")[0])
    if not isinstance(found, IPv6Address):
        return found
    if found in NAT64:
        return IPv4Address(int(found) & 0xFFFFFFFF)
    return found.ipv4_mapped or found.sixtofour or found
