"""Which addresses are public."""

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


def is_public(address: str) -> bool:
    """Return whether an address is global unicast.

    A mapped, NAT64 or 6to4 address is like the IPv4 address in it. All other addresses that contain
    one, such as Teredo and `::10.0.0.1`, are not public.
    """
    found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        found = _unwrapped(found)
    if isinstance(found, IPv6Address):
        return found in GLOBAL_V6 and not any(found in network for network in SPECIAL_V6)
    return not any(found in network for network in SPECIAL_V4)


def _unwrapped(address: IPv6Address) -> IPv4Address | IPv6Address:
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
