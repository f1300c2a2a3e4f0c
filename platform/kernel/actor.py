"""Who acts. A frozen value made once per request, passed to every service; it holds no database object."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from enum import StrEnum


class TenantRole(StrEnum):
    """What a member may do in a tenant and all tenants below it."""

    VIEWER = "viewer"
    MEMBER = "member"
    MANAGER = "manager"


@dataclass(frozen=True, slots=True)
class Actor:
    """A user with the roles that it holds now, through one credential.

    `roles` maps every tenant that the actor can see, inherited ones included, to the strongest role held there.
    `scopes` None means unrestricted (a session); else only verbs of these scopes are allowed.
    """

    user_id: uuid.UUID | None
    name: str
    is_operator: bool = False
    roles: dict[uuid.UUID, TenantRole] = field(default_factory=dict)
    scopes: frozenset[str] | None = None
    token_id: uuid.UUID | None = None
    request_id: str = ""

    @property
    def is_authenticated(self) -> bool:
        return self.user_id is not None


ANONYMOUS = Actor(user_id=None, name="anonymous")


def system_actor(component: str) -> Actor:
    """The platform itself, acting through one of its components; audit rows show `system:<component>`."""
    return Actor(user_id=None, name=f"system:{component}", is_operator=True)
