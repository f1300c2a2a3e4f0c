"""How often somebody may try: passwords and codes, for the portal, the console and whoever changes a password, all counted
together. A count is kept where `webapi.throttles` keeps its own, and forgotten within two minutes: whoever keeps
trying a name keeps its owner out for so long, and no longer."""

from __future__ import annotations

from webapi.addresses import network_of
from webapi.throttles import Charge, take_all

TRIES_PER_MINUTE = 5  # Of one name: a person mistypes twice, a program tries for years.
ADDRESS_TRIES_PER_MINUTE = 20
OWN_TRIES_PER_MINUTE = 200  # Of this machine itself, or of all behind a proxy on it that does not say who they are.
OWN_ADDRESSES = ("127.0.0.1", "::1", "")
NAME_LENGTH = 254  # Of what is counted by: no e-mail address is longer.


def count_try(name: str, address: str) -> int:
    """Count a try before the secret is looked at; 0 if it may go on, else the seconds to wait, rounded up."""
    place = network_of(address)
    charges = [
        Charge(f"sign-in-name:{name[:NAME_LENGTH].lower()}", TRIES_PER_MINUTE),
        Charge(f"sign-in-address:{place}", OWN_TRIES_PER_MINUTE if place in OWN_ADDRESSES else ADDRESS_TRIES_PER_MINUTE),
    ]
    waits = take_all(charges)
    return int(max(waits)) + 1 if any(waits) else 0
