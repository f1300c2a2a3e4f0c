"""Where a request came from, and whose tries are counted together."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping
from typing import Any

from kernel.config import Network, current, networks_of

NETWORK_BITS = 64  # RFC 6177, section 2: a host with an IPv6 address has at least 2**64 of them.

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def client_address(meta: Mapping[str, Any]) -> str:
    """Where a request came from: the nearest address that is no proxy named in `BERTH_TRUSTED_PROXIES`.

    A header that any client can write counts as far as proxies of ours wrote it, which is from its end: each adds its peer.
    """
    peer = str(meta.get("REMOTE_ADDR", ""))
    networks = _networks(current().trusted_proxies)
    address = _as_address(peer)
    if address is None:
        return peer
    for told in reversed(str(meta.get("HTTP_X_FORWARDED_FOR", "")).split(",")):
        before = _as_address(told.strip()) if any(address in network for network in networks) else None
        if before is None:
            break
        address = before
    return str(address)


def is_proxy(peer: str) -> bool:
    """Whether a connection comes from a proxy named in `BERTH_TRUSTED_PROXIES`."""
    address = _as_address(peer)
    return address is not None and any(address in network for network in _networks(current().trusted_proxies))


def network_of(address: str) -> str:
    """What an address is counted as: IPv4 as itself, also where it is written as IPv6; of IPv6 the network that one
    subscriber has. What is no address counts as it is written."""
    found = _as_address(address)
    if found is None:
        return address
    if isinstance(found, ipaddress.IPv6Address) and not found.is_loopback:
        return str(ipaddress.ip_network((int(found), NETWORK_BITS), strict=False))
    return str(found)


@functools.lru_cache(maxsize=8)
def _networks(text: str) -> tuple[Network, ...]:
    return networks_of(text)


def _as_address(text: str) -> Address | None:
    """IPv4 also where a socket for both kinds shows it as IPv6; without the zone, which only means something here."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found
