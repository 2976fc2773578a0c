"""Addresses of clients as text, one text for each address: ACLs, limits and quotas name clients by it.

A socket that takes IPv4 and IPv6 shows an IPv4 client as `::ffff:10.0.0.1`, and IPv6 has many texts for one address:
Java's `0:0:0:0:0:0:0:1` is `::1` elsewhere. An entry that denies must apply whichever text it was written with.
"""

from __future__ import annotations


def canonical_address(text: str) -> str:
    """The one text of an IP address: IPv4 where it is one, otherwise IPv6 in its short form. Other texts stay."""
    if ":" not in text:
        return text
    # Only now: most clients have IPv4 addresses.
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(text)
    except ValueError:
        return text
    return str(address.ipv4_mapped or address)
