"""People, tenants and queues for tests: valid rows with the least said, and the cast.

Alice owns, Bob belongs, Vera looks, Carol is outside (she manages a tenant of her own), Otto operates.
"""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kernel.actor import Actor, TenantRole, system_actor
from kernel.resources import Resources
from tenants.capacity.quota.tree import Ceiling
from tenants.identity.access import actor_for
from tenants.identity.permissions import Scope
from tenants.identity.services.tokens import IssuedToken, issue
from tenants.models import Membership, Queue, Tenant, TokenKind, User, UserKind
from tenants.services import PoolLimit, ReserveRequest, create_queue, create_tenant, set_limits

SYSTEM = system_actor("tests")
_numbers = itertools.count(1)


def now() -> datetime:
    return datetime.now(UTC)


def make_user(name: str = "", *, is_operator: bool = False, email: str = "", password: str | None = None, **columns: Any) -> User:
    user = User(name=name or f"user-{next(_numbers)}", email=email, is_operator=is_operator, created_at=now(), **columns)
    user.set_unusable_password() if password is None else user.set_password(password)
    user.save(force_insert=True)
    return user


def make_tenant(name: str = "", *, parent: Tenant | None = None) -> Tenant:
    """A tenant with its top queue, as the product makes it."""
    return create_tenant(
        actor=SYSTEM, name=name or f"tenant-{next(_numbers)}", parent_id=parent.pk if parent else None, now=now()
    )


def make_member(tenant: Tenant, user: User, role: TenantRole | str = TenantRole.MEMBER) -> Membership:
    return Membership.objects.create(tenant=tenant, user=user, role=TenantRole(role), created_at=now())


def make_service_account(tenant: Tenant, name: str = "ci", role: TenantRole | str = TenantRole.MEMBER) -> User:
    account = make_user(f"{name}@{tenant.slug}", kind=UserKind.SERVICE, tenant=tenant)
    make_member(tenant, account, role)
    return account


def make_token(user: User, *, scopes: tuple[str, ...] = (Scope.ALL,), lifetime: timedelta = timedelta(days=1)) -> IssuedToken:
    """A token; `.text` is what goes into the Authorization header."""
    return issue(user, name="test", scopes=scopes, lifetime=lifetime, now=now())


def make_session(user: User, *, lifetime: timedelta = timedelta(days=1)) -> IssuedToken:
    """A browser's session; `.text` is what goes into the cookie."""
    return issue(
        user, name="Firefox on Linux", scopes=(Scope.ALL,), lifetime=lifetime, now=now(), kind=TokenKind.SESSION,
        agent="Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", address="192.0.2.7",
    )  # fmt: skip


def actor_of(user: User, token: IssuedToken | None = None) -> Actor:
    """The user as an actor with the roles held now, through a session or the given token."""
    return actor_for(user, token.token if token else None)


def top_queue(tenant: Tenant) -> Queue:
    return Queue.objects.get(tenant=tenant, is_top=True)


def make_queue(tenant: Tenant, name: str = "", *, parent: Queue | None = None) -> Queue:
    return create_queue(
        actor=SYSTEM,
        tenant_id=tenant.pk,
        name=name or f"queue-{next(_numbers)}",
        parent_id=parent.pk if parent else None,
        now=now(),
    )


def limit(queue: Queue, pool_id: uuid.UUID, **ceilings: int | None) -> None:
    """Set the ceilings of one pool: `limit(queue, pool_id, gpu_millis=8000)`. Replaces the queue's other limits."""
    set_limits(actor=SYSTEM, queue=queue, limits=[PoolLimit(pool_id, Ceiling(**ceilings))], now=now())


def ask(
    queue: Queue, pool_id: uuid.UUID, amount: Resources, *, attempt_id: uuid.UUID | None = None, job_id: uuid.UUID | None = None
) -> ReserveRequest:
    """One attempt's request for capacity."""
    assert queue.tenant_id is not None
    return ReserveRequest(
        attempt_id=attempt_id or uuid.uuid4(),
        job_id=job_id or uuid.uuid4(),
        tenant_id=queue.tenant_id,
        queue_id=queue.pk,
        pool_id=pool_id,
        amount=amount,
    )


@dataclass(frozen=True)
class Person:
    """One of the cast with everything a test needs: `api(cast.alice)` sends the token."""

    user: User
    token: str
    actor: Actor = field(repr=False)


@dataclass(frozen=True)
class Cast:
    """Two tenants and who is what in them. `tenant` is Alice's and Bob's; `elsewhere` is Carol's."""

    tenant: Tenant
    elsewhere: Tenant
    alice: Person
    bob: Person
    vera: Person
    carol: Person
    otto: Person


def make_cast() -> Cast:
    tenant, elsewhere = make_tenant("vision"), make_tenant("elsewhere")

    def person(name: str, role: TenantRole | None, where: Tenant | None = None, *, is_operator: bool = False) -> Person:
        user = make_user(name, email=f"{name}@example.org", is_operator=is_operator)
        if role is not None and where is not None:
            make_member(where, user, role)
        issued = make_token(user)
        return Person(user, issued.text, actor_for(user, issued.token))

    return Cast(
        tenant=tenant,
        elsewhere=elsewhere,
        alice=person("alice", TenantRole.MANAGER, tenant),
        bob=person("bob", TenantRole.MEMBER, tenant),
        vera=person("vera", TenantRole.VIEWER, tenant),
        carol=person("carol", TenantRole.MANAGER, elsewhere),
        otto=person("otto", None, is_operator=True),
    )
