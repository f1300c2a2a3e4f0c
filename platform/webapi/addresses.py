"""Where a request came from, and whose tries are counted together."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from kernel.config import current

ADDRESS_LENGTH = 45  # IPv6 with an IPv4 address in it; a zone behind it, of any length, is no address of anybody's.
NETWORK_BITS = 64  # RFC 6177, section 2: whoever has an IPv6 address has at least 2**64 of them.

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def client_address(meta: Mapping[str, Any]) -> str:
    """Where somebody is who signs in: behind a proxy of ours, which a public address over https needs, as the proxy tells it.

    Whoever the proxy lets write that header evades the count by address; the count by name stays.
    """
    peer = str(meta.get("REMOTE_ADDR", ""))
    told = str(meta.get("HTTP_X_FORWARDED_FOR", "")).rpartition(",")[2].strip()
    if not told or not current().public_url.startswith("https:") or not _is_private(peer):
        return peer
    return told if len(told) <= ADDRESS_LENGTH and _as_address(told) is not None else peer


def network_of(address: str) -> str:
    """What an address is counted as: IPv4 as itself, also where it is written as IPv6; of IPv6 the network that one
    subscriber has. What is no address counts as it is written."""
    found = _as_address(address)
    if found is None:
        return address
    if isinstance(found, ipaddress.IPv6Address) and not found.is_loopback:
        return str(ipaddress.ip_network((int(found), NETWORK_BITS), strict=False))
    return str(found)


def _is_private(text: str) -> bool:
    address = _as_address(text)
    return address is None or address.is_private  # None: a Unix socket's other end.


def _as_address(text: str) -> Address | None:
    """IPv4 also where a socket for both kinds shows it as IPv6; without the zone, which only means something here."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found
