"""How often a caller may try: passwords and codes, in the portal, the console and at changes of a password, all counted
together, where `webapi.throttles` keeps its own counts.

Strangers are counted by name and network together: five tries a minute, then one in three minutes, then one in 24. All networks
together have a far larger count for a name. A proven owner, by a session or token or by a browser in which the same person
signed in before (`known_browsers`), is counted apart, so that no stranger keeps them out. A try that succeeds is given back.

Guessing stays bounded. One network has 20 tries an hour and 60 a day at one name, and 20 a minute at all names; strangers from
everywhere together have 200 an hour at one name, which is 4,800 a day. A name and an e-mail address are two names. What is kept
in memory starts full: there the first window has twice as many.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from webapi.addresses import network_of
from webapi.throttles import Charge, give_back, take_all

HOUR_SECONDS, DAY_SECONDS = 3_600, 86_400
TRIES_PER_MINUTE = 5  # Of one name from one place: a person mistypes twice, a program tries for years.
TRIES_PER_HOUR = 20
TRIES_PER_DAY = 60
NAME_TRIES_PER_HOUR = 200  # Ten networks at their most; a year of it finds no password that the rules let in.
ADDRESS_TRIES_PER_MINUTE = 20
OWN_TRIES_PER_MINUTE = 200  # Of this machine itself, or of all behind a proxy on it that does not say who they are.
OWN_ADDRESSES = ("127.0.0.1", "::1", "")
NAME_LENGTH = 254  # Of what is counted by: no e-mail address is longer.


@dataclass(frozen=True, slots=True)
class Tries:
    """What a try counts for, in this order: what one count refuses does not reach the next, so that a caller who goes on from
    one place uses nothing up for the others."""

    charges: tuple[Charge, ...]

    def count(self) -> int:
        """Count a try before the secret is looked at; 0 if it may go on, else the seconds to wait, rounded up."""
        for charge in self.charges:
            [wait] = take_all([charge])
            if wait:
                return int(wait) + 1
        return 0

    def give_back(self) -> None:
        """The try succeeded."""
        give_back(self.charges)


def of_stranger(name: str, address: str) -> Tries:
    """The tries of a caller who gives a name.

    Its capitals first: a database finds an address by them, so that `i` and a dotless i are tries at one account.
    """
    who, place = name.strip()[:NAME_LENGTH].upper().lower(), network_of(address)
    per_minute = OWN_TRIES_PER_MINUTE if place in OWN_ADDRESSES else ADDRESS_TRIES_PER_MINUTE
    whole = Charge(f"sign-in-name:{who}", NAME_TRIES_PER_HOUR, HOUR_SECONDS)
    return Tries((Charge(f"sign-in-address:{place}", per_minute), *_growing(f"{place}:{who}"), whole))


def of_owner(user_id: uuid.UUID, credential: object) -> Tries:
    """The tries of a caller proven to be this person, or to have a browser or credential of theirs: `credential` says which."""
    whole = Charge(f"sign-in-owner:{user_id}", NAME_TRIES_PER_HOUR, HOUR_SECONDS)
    return Tries((*_growing(f"{user_id}:{credential}"), whole))


def _growing(pair: str) -> tuple[Charge, ...]:
    return (
        Charge(f"sign-in-minute:{pair}", TRIES_PER_MINUTE),
        Charge(f"sign-in-hour:{pair}", TRIES_PER_HOUR, HOUR_SECONDS),
        Charge(f"sign-in-day:{pair}", TRIES_PER_DAY, DAY_SECONDS),
    )
