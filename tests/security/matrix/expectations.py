"""What every operation must answer to whom: one line per operation, and an operation without a line fails.

`may` is the least that a caller must be. Reading the table: `Expect(Who.MANAGER, owner=True)` - managers of the object's tenant
and the member to whom the object belongs; operators too unless `operator` says otherwise; whoever else sees the tenant gets
403, and for everybody else the object does not exist (404).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.factories.kubeconfig import kubeconfig
from tests.security.matrix.principals import RANK, STRANGERS, Who
from tests.security.matrix.world import Side, World, job_document, put_file

Body = Callable[[World, Side], Any]
DONE = frozenset({200, 201, 202, 204, 206})


@dataclass(frozen=True)
class Expect:
    """One operation's line.

    `about`: "tenant" - an object of a tenant, in the path or named by the body or query; "installation" - the same for both
    tenants; "self" - the owner's own, and nobody else's; "account" - nothing but the caller; "list" - whatever the caller
    sees, never more; "session" - for browsers alone, no token opens it (`test_sessions_matrix.py`).
    `operator`: the status that operators get instead of success (None: they succeed).
    `before`: run before each cell, for what no transaction brings back.
    `hidden`: whoever may not do it in the tenant does not even see the object. `answers`: the only statuses there are, for
    whoever does not send a bad token. `bad_ids`: bodies that name objects of the other tenant; none may succeed.
    """

    may: Who | None = None
    about: str = "tenant"
    owner: bool = False
    operator: int | None = None
    body: Body | None = None
    query: Body | None = None
    content_type: str = "application/json"
    headers: dict[str, str] | None = None
    also: frozenset[int] = frozenset()
    before: Callable[[World, Side], None] | None = None
    hidden: bool = False
    answers: frozenset[int] | None = None
    bad_ids: tuple[Body, ...] = ()

    def statuses(self, who: Who, *, is_own: bool) -> frozenset[int]:
        """The statuses that are right for a caller and an object of the one or the other tenant."""
        success = DONE | self.also
        if self.about == "public":
            return success
        if self.about == "session":
            return frozenset({401})
        if who in STRANGERS and not (who is Who.ANONYMOUS and self.answers):
            return frozenset({401})
        if self.answers:
            return self.answers
        if self.about in {"account", "list"}:
            return success
        if who is Who.OPERATOR:
            return frozenset({self.operator}) if self.operator else success
        if self.about == "self":
            return success if is_own and who is Who.OWNER else frozenset({404})
        if self.about == "installation":
            return success if self.may is not Who.OPERATOR else frozenset({403})
        if is_own == (who is Who.OTHER):
            return frozenset({404})
        if self.owner and who is Who.OWNER:
            return success
        is_enough = self.may is not None and self.may is not Who.OPERATOR and RANK[who] >= RANK[self.may]
        return success if is_enough else frozenset({404 if self.hidden else 403})


def public(**options: Any) -> Expect:
    """For everybody, tokens or not. Kept to the exact list of PUBLIC below."""
    return Expect(about="public", **options)


def listing(**options: Any) -> Expect:
    """Whoever is signed in gets what they may see."""
    return Expect(about="list", **options)


def account(**options: Any) -> Expect:
    """Whoever is signed in, for themselves."""
    return Expect(about="account", **options)


def own(**options: Any) -> Expect:
    """Only whom it belongs to. For operators, too, it does not exist."""
    return Expect(about="self", operator=options.pop("operator", 404), **options)


def session(**options: Any) -> Expect:
    """Only for whoever came by a browser's session."""
    return Expect(about="session", **options)


def installation(may: Who = Who.VIEWER, **options: Any) -> Expect:
    """Something of the installation: whoever belongs to any tenant sees it, operators change it."""
    return Expect(may, about="installation", **options)


def viewer(**options: Any) -> Expect:
    return Expect(Who.VIEWER, **options)


def member(**options: Any) -> Expect:
    """Writing into a tenant is for its members: an operator, who looks after the installation, is refused."""
    return Expect(Who.MEMBER, operator=options.pop("operator", 403), **options)


def manager(**options: Any) -> Expect:
    return Expect(Who.MANAGER, **options)


PUBLIC = frozenset(
    {
        "GET /livez",
        "GET /readyz",
        "GET /api/v1/docs",
        "GET /api/v1/docs.js",
        "GET /api/v1/info",
        "GET /api/v1/openapi.json",
        "GET /api/v1/schemas/job-spec",
        "POST /api/v1/invitations:read",  # As the next: the holder is told what the code is for.
        "POST /api/v1/invitations:accept",  # The invitation's code is the credential.
        "POST /api/v1/session",  # The password is.
        "GET /api/v1/sign-in-methods",
        "POST /api/v1/device-codes",  # It gives nothing before somebody approved it.
        "POST /api/v1/device-codes:redeem",  # The code is the credential.
    }
)


def new_cluster(world: World, side: Side) -> dict[str, Any]:
    """Behind a port that nothing listens at."""
    return {"name": f"new-{side.tenant.slug}", "kind": "kubernetes", "credentials": kubeconfig("https://127.0.0.1:9")}


def tenant_query(world: World, side: Side) -> dict[str, str]:
    return {"tenant": side.tenant.slug}


def another_session(world: World, side: Side) -> None:
    """For the manager, who comes by a token, so that there is something to end."""
    from tests.factories.tenants import make_session

    make_session(world.principals[Who.MANAGER].user)


def upload(side: Side, *, volume: str = "") -> dict[str, Any]:
    target: dict[str, Any] = {"volume": volume, "path": "other.txt"} if volume else {"code": True}
    return {"tenant": side.tenant.slug, "target": target, "size_bytes": 3, "sha256": "0" * 64}


def quota_edit(side: Side, of: Side) -> dict[str, Any]:
    change = {"queue": of.values["queues"], "pool": side.values["pools"], "resource": "gpu_millis", "ceiling": 1000}
    return {"changes": [change], "tenant": side.tenant.slug}


def top_change(side: Side, of: Side) -> dict[str, Any]:
    """Of the tenant's own top queue, whose limits are given from above."""
    queue = str(of.objects["top_queue"].pk)
    return {"queue": queue, "pool": side.values["pools"], "resource": "gpu_millis", "ceiling": 1000}


def booking(world: World, side: Side) -> dict[str, Any]:
    start = datetime.now(UTC) + timedelta(days=7)
    window = {"starts_at": start.isoformat(), "ends_at": (start + timedelta(hours=6)).isoformat()}
    return {"tenant": side.tenant.slug, "pool": side.values["pools"], "gpu_millis": 1000, **window}


def maintenance(world: World, side: Side) -> dict[str, Any]:
    start = datetime.now(UTC) + timedelta(days=7)
    window = {"starts_at": start.isoformat(), "ends_at": (start + timedelta(hours=6)).isoformat()}
    return {"nodes": [side.values["nodes"]], "reason": "Fans.", **window}


def priority_request(world: World, side: Side) -> dict[str, Any]:
    end = datetime.now(UTC) + timedelta(days=1)
    return {"tenant": side.tenant.slug, "priority": "urgent", "ends_at": end.isoformat()}


def template(side: Side) -> dict[str, Any]:
    return {"tenant": side.tenant.slug, "name": "new", "title": "New", "spec": {"command": "true"}}


def new_image(side: Side) -> dict[str, Any]:
    return {"tenant": side.tenant.slug, "name": "new", "kind": "registry", "reference": "registry.example.org/a/b:1"}


# Keys of a job that name objects; each must be one of the job's own tenant.
FOREIGN_REFERENCES: tuple[Callable[[Side], dict[str, Any]], ...] = (
    lambda side: {"queue": side.values["queues"]},
    lambda side: {"queue": side.objects["queue"].name},
    lambda side: {"image": side.values["images"]},
    lambda side: {"mounts": [{"volume": side.values["volumes"], "path": "/data"}]},
    lambda side: {"mounts": [{"volume": side.objects["volume"].name, "path": "/data"}]},
    lambda side: {"mounts": [{"volume": f"{side.tenant.name}/{side.objects['volume'].name}", "path": "/data"}]},
    lambda side: {"after_ok": [side.values["jobs"]]},
    lambda side: {"after_any": [side.values["jobs"]]},
)


def foreign_changes(make: Callable[[Side, dict[str, Any]], Any]) -> tuple[Body, ...]:
    """One body per way in which a job can name an object of the other tenant."""

    def body(change: Callable[[Side], dict[str, Any]]) -> Body:
        return lambda world, side: make(side, change(world.other(side)))

    return tuple(body(change) for change in FOREIGN_REFERENCES)


def batch(side: Side, item: dict[str, Any]) -> dict[str, Any]:
    return {"tenant": side.tenant.slug, "spec": job_document(side), "items": [{"name": "a"}, item]}


EXPECTATIONS: dict[str, Expect] = {
    # The server itself.
    "GET /livez": public(),
    "GET /readyz": public(also=frozenset({503})),
    "GET /metrics": installation(Who.OPERATOR),
    "GET /api/v1/docs": public(),
    "GET /api/v1/docs.js": public(),
    "GET /api/v1/info": public(),
    "GET /api/v1/openapi.json": public(),
    # What happened.
    "GET /api/v1/events": viewer(query=tenant_query),
    "GET /api/v1/events/stream": viewer(query=tenant_query),
    "POST /api/v1/tickets": account(),
    "GET /api/v1/audit": listing(),
    "GET /api/v1/notification-channels": account(),
    "GET /api/v1/subscriptions": listing(),
    "POST /api/v1/subscriptions": viewer(
        body=lambda world, side: {
            "tenant": str(side.tenant.pk),
            "kinds": ["failed"],
            "channel": "mail",
        },
        bad_ids=(lambda world, side: {"tenant": world.other(side).tenant.slug, "kinds": ["failed"], "channel": "mail"},),
    ),
    "GET /api/v1/subscriptions/{subscription}": own(),
    "PATCH /api/v1/subscriptions/{subscription}": own(body=lambda world, side: {"is_active": False}),
    "DELETE /api/v1/subscriptions/{subscription}": own(),
    "POST /api/v1/subscriptions/{subscription}/test": own(),
    "GET /api/v1/deliveries": listing(),
    "POST /api/v1/deliveries/{delivery}/retry": own(),
    # The installation.
    "GET /api/v1/selftests": listing(),
    # Clusters.
    "GET /api/v1/clusters": listing(),
    "POST /api/v1/clusters": installation(Who.OPERATOR, body=new_cluster),
    "POST /api/v1/clusters:check": installation(Who.OPERATOR, body=new_cluster),
    "GET /api/v1/clusters/{cluster_id}": installation(),
    "PATCH /api/v1/clusters/{cluster_id}": installation(Who.OPERATOR, body=lambda world, side: {"is_enabled": False}),
    "DELETE /api/v1/clusters/{cluster_id}": installation(Who.OPERATOR, also=frozenset({409})),  # Attempts live there.
    "POST /api/v1/clusters/{cluster_id}/check": installation(Who.OPERATOR, body=lambda world, side: {}),
    "GET /api/v1/pools": listing(),
    "GET /api/v1/pools/{pool_id}": installation(),
    "PATCH /api/v1/pools/{pool_id}": installation(Who.OPERATOR, body=lambda world, side: {"policy": "pack"}),
    "GET /api/v1/pools/{pool_id}/metrics": installation(query=lambda world, side: {"metric": "gpu_idle"}),
    "GET /api/v1/nodes": listing(),
    "GET /api/v1/nodes/{node_id}": installation(),
    "PATCH /api/v1/nodes/{node_id}": installation(
        Who.OPERATOR, body=lambda world, side: {"cordoned": True, "cordon_reason": "Fan."}
    ),
    "POST /api/v1/nodes/{node_id}/drain": installation(Who.OPERATOR, body=lambda world, side: {"reason": "Fan."}),
    "GET /api/v1/nodes/{node_id}/metrics": installation(query=lambda world, side: {"metric": "cpu_millis"}),
    "GET /api/v1/maintenance": listing(),
    "POST /api/v1/maintenance": installation(Who.OPERATOR, body=maintenance),
    "DELETE /api/v1/maintenance/{window_id}": installation(Who.OPERATOR),
    "GET /api/v1/occupancy": listing(),
    "GET /api/v1/nodes/{node_id}/occupancy": installation(),
    "GET /api/v1/nodes/{node_id}/affected": installation(),
    "GET /api/v1/quarantine": listing(),
    "POST /api/v1/quarantine/{attempt}/adopt": Expect(hidden=True),
    "POST /api/v1/quarantine/{attempt}/stop": Expect(hidden=True),
    # The portal.
    "GET /api/v1/features": viewer(query=tenant_query),
    "PUT /api/v1/features/{name}": installation(Who.OPERATOR, body=lambda world, side: {"enabled": True}),
    "GET /api/v1/announcements": viewer(query=tenant_query),
    "POST /api/v1/announcements": manager(
        body=lambda world, side: {"text": "New", "tenant": side.tenant.slug},
        bad_ids=(
            lambda world, side: {"text": "New", "tenant": world.other(side).tenant.slug},
            lambda world, side: {"text": "New"},
        ),
    ),
    "PATCH /api/v1/announcements/{announcement_id}": manager(body=lambda world, side: {"level": "warning"}),
    "DELETE /api/v1/announcements/{announcement_id}": manager(),
    "POST /api/v1/announcements/{announcement_id}/dismiss": viewer(),
    "GET /api/v1/preferences": account(),
    "PATCH /api/v1/preferences": account(
        body=lambda world, side: {"theme": "dark"},
        bad_ids=(lambda world, side: {"default_tenant": world.other(side).tenant.slug},),
    ),
    "GET /api/v1/saved-filters": listing(),
    "POST /api/v1/saved-filters": account(body=lambda world, side: {"page": "jobs", "name": "new", "query": "state=running"}),
    "DELETE /api/v1/saved-filters/{filter_id}": own(),
    # People and tenants.
    "GET /api/v1/whoami": account(),
    "POST /api/v1/session": Expect(
        answers=frozenset({401, 429}),  # Too many tries come from one address here.
        body=lambda world, side: {"name": f"nobody-{uuid.uuid4()}", "password": "a long password"},
    ),
    "GET /api/v1/session": session(),
    "DELETE /api/v1/session": session(),
    "GET /api/v1/sign-in-methods": public(),
    "POST /api/v1/identities:connect": session(),
    "POST /api/v1/identities:connect-directory": session(
        body=lambda world, side: {"name": "alice", "password": "a long password"}
    ),
    "GET /api/v1/totp": account(),
    "POST /api/v1/totp": account(body=lambda world, side: {"password": "wrong"}, also=frozenset({409, 429})),
    "DELETE /api/v1/totp": account(body=lambda world, side: {"password": "wrong", "code": "123456"}, also=frozenset({409, 429})),
    "POST /api/v1/totp:confirm": account(body=lambda world, side: {"code": "123456"}, also=frozenset({409, 429})),
    "DELETE /api/v1/users/{user_id}/totp": Expect(Who.OPERATOR),
    "POST /api/v1/device-codes": public(body=lambda world, side: {"client": "berth on laptop"}, also=frozenset({429})),
    "POST /api/v1/device-codes:redeem": Expect(answers=frozenset({400}), body=lambda world, side: {"device_code": "unknown"}),
    "GET /api/v1/device-codes/{user_code}": session(),
    "POST /api/v1/device-codes/{user_code}/approve": session(),
    "POST /api/v1/device-codes/{user_code}/deny": session(),
    "GET /api/v1/sessions": listing(),
    "POST /api/v1/sessions:end-others": account(before=another_session),
    "DELETE /api/v1/sessions/{session_id}": own(),
    "POST /api/v1/password": account(  # Nobody in the matrix has one.
        body=lambda world, side: {"current": "a wrong password", "new": "another long password"}, also=frozenset({409})
    ),
    "GET /api/v1/users": listing(),
    "POST /api/v1/users": installation(Who.OPERATOR, body=lambda world, side: {"name": f"{side.canary}-new"}),
    "POST /api/v1/users:import": installation(
        Who.OPERATOR, content_type="text/csv", body=lambda world, side: b"name,email,tenant,role\nnew,new@example.org,,\n"
    ),
    "GET /api/v1/users/{user_id}": viewer(),
    "PATCH /api/v1/users/{user_id}": Expect(Who.OPERATOR, owner=True, body=lambda world, side: {"email": "new@example.org"}),
    "GET /api/v1/users/{user_id}/left": Expect(Who.OPERATOR),
    "GET /api/v1/tokens": listing(),
    "POST /api/v1/tokens": account(
        body=lambda world, side: {"name": "new"},
        bad_ids=(
            lambda world, side: {"name": "new", "service_account": world.other(side).values["service-accounts"]},
            lambda world, side: {"name": "new", "service_account": str(world.other(side).owner.pk)},
            lambda world, side: {"name": "new", "service_account": str(world.principals[Who.OPERATOR].user.pk)},
        ),
    ),
    "DELETE /api/v1/tokens/{token_id}": own(operator=None),
    "GET /api/v1/invitations": listing(),
    "POST /api/v1/invitations": manager(
        body=lambda world, side: {"email": "guest@example.org", "tenant": side.tenant.slug, "role": "viewer"},
        bad_ids=(lambda world, side: {"email": "guest@example.org", "tenant": world.other(side).tenant.slug},),
    ),
    "DELETE /api/v1/invitations/{invitation_id}": manager(hidden=True),
    "POST /api/v1/invitations:read": Expect(answers=frozenset({404, 422}), body=lambda world, side: {"token": "unknown"}),
    "POST /api/v1/invitations:accept": Expect(
        answers=frozenset({404, 422}), body=lambda world, side: {"token": "unknown", "name": "new", "password": "a long password"}
    ),
    "GET /api/v1/tenants": listing(),
    "POST /api/v1/tenants": manager(
        body=lambda world, side: {"name": "new", "parent": side.tenant.slug},
        bad_ids=(lambda world, side: {"name": "new", "parent": world.other(side).tenant.slug},),
    ),
    "GET /api/v1/tenants/{tenant}": viewer(),
    "PATCH /api/v1/tenants/{tenant}": manager(body=lambda world, side: {"description": "new"}),
    "POST /api/v1/tenants/{tenant}/disable": Expect(Who.OPERATOR, body=lambda world, side: {"reason": "Over."}),
    "POST /api/v1/tenants/{tenant}/enable": Expect(Who.OPERATOR),
    "POST /api/v1/tenants/{tenant}/delete": Expect(  # It is not disabled, and has jobs.
        Who.OPERATOR, body=lambda world, side: {"confirm": side.tenant.name}, also=frozenset({409})
    ),
    "GET /api/v1/tenants/{tenant}/members": viewer(),
    "POST /api/v1/tenants/{tenant}/members": manager(
        body=lambda world, side: {"user": side.values["service-accounts"], "role": "viewer"},
        also=frozenset({409}),  # The account is a member already; who may not add members is refused before that.
        bad_ids=(
            lambda world, side: {"user": str(world.other(side).owner.pk), "role": "viewer"},
            lambda world, side: {"user": world.other(side).owner.name, "role": "viewer"},
        ),
    ),
    "PATCH /api/v1/tenants/{tenant}/members/{user_id}": manager(body=lambda world, side: {"role": "viewer"}),
    "DELETE /api/v1/tenants/{tenant}/members/{user_id}": manager(owner=True),
    "GET /api/v1/tenants/{tenant}/members/{member}/left": manager(owner=True),
    "POST /api/v1/tenants/{tenant}/members/{member}/hand-over": manager(
        body=lambda world, side: {"to": side.values["service-accounts"]},
        bad_ids=(lambda world, side: {"to": world.other(side).owner.name},),
    ),
    "GET /api/v1/tenants/{tenant}/secrets": member(),
    "PUT /api/v1/tenants/{tenant}/secrets/{name}": manager(operator=403, body=lambda world, side: {"value": "new"}),
    "DELETE /api/v1/tenants/{tenant}/secrets/{name}": manager(operator=403),
    "GET /api/v1/tenants/{tenant}/registries": member(),
    "PUT /api/v1/tenants/{tenant}/registries/{host}": manager(
        operator=403, body=lambda world, side: {"username": "robot", "password": "new"}
    ),
    "DELETE /api/v1/tenants/{tenant}/registries/{host}": manager(operator=403),
    "POST /api/v1/tenants/{tenant}/registries/{host}/check": member(body=lambda world, side: {"image": None}),
    "GET /api/v1/tenants/{tenant}/service-accounts": viewer(),
    "POST /api/v1/tenants/{tenant}/service-accounts": manager(operator=403, body=lambda world, side: {"name": "new"}),
    "DELETE /api/v1/tenants/{tenant}/service-accounts/{user_id}": manager(operator=403),
    # Capacity.
    "GET /api/v1/queues": viewer(query=tenant_query),
    "POST /api/v1/queues": manager(
        body=lambda world, side: {"name": "new", "tenant": side.tenant.slug},
        bad_ids=(
            lambda world, side: {"name": "new", "tenant": world.other(side).tenant.slug},
            lambda world, side: {"name": "new", "tenant": side.tenant.slug, "parent": world.other(side).values["queues"]},
        ),
    ),
    "GET /api/v1/queues/{queue_id}": viewer(),
    "GET /api/v1/queues/{queue_id}/board": viewer(),
    "PATCH /api/v1/queues/{queue_id}": manager(body=lambda world, side: {"name": "new"}),
    "DELETE /api/v1/queues/{queue_id}": manager(also=frozenset({409})),  # It has jobs and a booking.
    "PUT /api/v1/queues/{queue_id}/limits": manager(
        body=lambda world, side: [{"pool": side.values["pools"], "cpu_millis": None, "memory_bytes": None, "gpu_millis": 1000}]
    ),
    "GET /api/v1/bookings": viewer(query=tenant_query),
    "POST /api/v1/bookings": manager(
        body=booking,
        bad_ids=(
            lambda world, side: {**booking(world, side), "tenant": world.other(side).tenant.slug},
            lambda world, side: {**booking(world, side), "queue": world.other(side).values["queues"]},
        ),
    ),
    "GET /api/v1/bookings/{booking_id}": viewer(),
    "DELETE /api/v1/bookings/{booking_id}": manager(owner=True),
    "GET /api/v1/queues/{queue_id}/rules": viewer(),
    "PUT /api/v1/queues/{queue_id}/rules": manager(body=lambda world, side: {"max_runtime_seconds": 3600}),
    "GET /api/v1/quota/edits": viewer(query=tenant_query),
    "POST /api/v1/quota/edits": manager(
        body=lambda world, side: quota_edit(side, side),
        bad_ids=(
            lambda world, side: quota_edit(side, world.other(side)),
            lambda world, side: {**quota_edit(side, world.other(side)), "dry_run": True},
            lambda world, side: {**quota_edit(side, side), "tenant": world.other(side).tenant.slug},
        ),
    ),
    "GET /api/v1/quota/edits/{edit_id}": viewer(),
    "DELETE /api/v1/quota/edits/{edit_id}": manager(),
    "GET /api/v1/quota/requests": viewer(query=tenant_query),
    "POST /api/v1/quota/requests": manager(
        operator=403,
        body=lambda world, side: {"changes": [top_change(side, side)], "tenant": side.tenant.slug},
        bad_ids=(
            lambda world, side: {"changes": [top_change(side, world.other(side))], "tenant": side.tenant.slug},
            lambda world, side: {"changes": [top_change(side, side)], "tenant": world.other(side).tenant.slug},
        ),
    ),
    "GET /api/v1/quota/requests/{request_id}": viewer(),
    "DELETE /api/v1/quota/requests/{request_id}": manager(),
    "POST /api/v1/quota/requests/{request_id}/approve": manager(body=lambda world, side: {}),
    "POST /api/v1/quota/requests/{request_id}/deny": manager(body=lambda world, side: {}),
    "GET /api/v1/tenants/{tenant}/caps": viewer(),
    "PUT /api/v1/tenants/{tenant}/caps": manager(
        body=lambda world, side: [{"user": None, "jobs": 5}],
        bad_ids=(lambda world, side: [{"user": str(world.other(side).owner.pk), "jobs": 5}],),
    ),
    "GET /api/v1/tenants/{tenant}/priority-grants": viewer(),
    "PUT /api/v1/tenants/{tenant}/priority-grants": manager(body=lambda world, side: {"member": "low"}),
    "GET /api/v1/usage": viewer(query=tenant_query),
    "GET /api/v1/usage:held": viewer(query=tenant_query),
    "GET /api/v1/usage:export": Expect(Who.MEMBER, query=tenant_query),
    "GET /api/v1/breakeven": manager(query=tenant_query),
    "GET /api/v1/prices": listing(),
    "GET /api/v1/prices:estimate": listing(query=lambda world, side: {"gpu_millis": "1000"}),
    "POST /api/v1/prices": installation(
        Who.OPERATOR, body=lambda world, side: {"pool": side.values["pools"], "gpu_hour_micros": 1_000_000}
    ),
    "DELETE /api/v1/prices/{price_id}": installation(Who.OPERATOR),
    "GET /api/v1/budgets": viewer(query=tenant_query),
    "GET /api/v1/queues/{queue_id}/budget": viewer(),
    "PUT /api/v1/queues/{queue_id}/budget": manager(body=lambda world, side: {"kind": "money", "amount": 1_000_000}),
    "DELETE /api/v1/queues/{queue_id}/budget": manager(),
    "GET /api/v1/tenants/{tenant}/statements": manager(),
    "GET /api/v1/tenants/{tenant}/statements/{month}": manager(),
    "GET /api/v1/shares": viewer(query=tenant_query),
    "GET /api/v1/tenants/{tenant}/shares": viewer(),
    "GET /api/v1/tenants/{tenant}/shares/{week}": viewer(),
    "GET /api/v1/signing-keys": account(),
    # Data.
    "GET /api/v1/volumes": viewer(query=tenant_query),
    "POST /api/v1/volumes": member(
        body=lambda world, side: {"name": "new", "tenant": side.tenant.slug},
        bad_ids=(lambda world, side: {"name": "new", "tenant": world.other(side).tenant.slug},),
    ),
    "GET /api/v1/volumes/{volume_id}": viewer(),
    "PATCH /api/v1/volumes/{volume_id}": manager(owner=True, operator=403, body=lambda world, side: {"description": "new"}),
    "DELETE /api/v1/volumes/{volume_id}": manager(owner=True, operator=403),
    "POST /api/v1/volumes/{volume_id}/grants": manager(operator=403, body=lambda world, side: {"tenant": world.third.slug}),
    "DELETE /api/v1/volumes/{volume_id}/grants/{grant_id}": manager(operator=403),
    "GET /api/v1/volumes/{volume_id}/files": viewer(operator=403),
    "GET /api/v1/volumes/{volume_id}/content": viewer(operator=403, query=lambda world, side: {"path": "file.txt"}),
    "DELETE /api/v1/volumes/{volume_id}/content": member(query=lambda world, side: {"path": "file.txt"}, before=put_file),
    "POST /api/v1/uploads": member(
        body=lambda world, side: upload(side, volume=side.values["volumes"]),
        bad_ids=(
            lambda world, side: upload(side, volume=world.other(side).values["volumes"]),
            lambda world, side: {**upload(side, volume=side.values["volumes"]), "tenant": world.other(side).tenant.slug},
            lambda world, side: {**upload(side), "tenant": world.other(side).tenant.slug},
        ),
    ),
    "GET /api/v1/uploads/{upload_id}": manager(owner=True, operator=404, hidden=True),
    "PATCH /api/v1/uploads/{upload_id}": manager(
        owner=True,
        operator=404,
        hidden=True,
        content_type="application/offset+octet-stream",
        headers={"Upload-Offset": "0"},
        body=lambda world, side: b"a",
    ),
    "DELETE /api/v1/uploads/{upload_id}": manager(owner=True, operator=404, hidden=True),
    # Software.
    "GET /api/v1/images": viewer(query=tenant_query),
    "POST /api/v1/images": member(
        body=lambda world, side: new_image(side),
        bad_ids=(
            lambda world, side: new_image(world.other(side)),
            lambda world, side: {**new_image(side), "tenant": None, "shared": True},
        ),
    ),
    "GET /api/v1/images/{image_id}": viewer(),
    "DELETE /api/v1/images/{image_id}": manager(owner=True, operator=403),
    "GET /api/v1/images/{image_id}/builds": viewer(),
    "POST /api/v1/images/{image_id}/builds": manager(owner=True, operator=403),
    # Jobs.
    "GET /api/v1/jobs": viewer(query=tenant_query),
    "POST /api/v1/jobs": member(
        body=lambda world, side: {"tenant": side.tenant.slug, "spec": job_document(side)},
        bad_ids=(
            lambda world, side: {"tenant": world.other(side).tenant.slug, "spec": job_document(side)},
            *foreign_changes(lambda side, change: {"tenant": side.tenant.slug, "spec": {**job_document(side), **change}}),
        ),
    ),
    "GET /api/v1/jobs:counts": viewer(query=tenant_query),
    "POST /api/v1/jobs:batch": member(
        body=lambda world, side: batch(side, {"name": "b"}),
        bad_ids=foreign_changes(batch),
    ),
    "POST /api/v1/jobs:convert": listing(body=lambda world, side: {"text": "#!/bin/sh\n#SBATCH --time=5\nhostname\n"}),
    "GET /api/v1/jobs/{job}": viewer(),
    "PATCH /api/v1/jobs/{job}": manager(
        owner=True,
        body=lambda world, side: {"priority": 1},
        bad_ids=(lambda world, side: {"queue": world.other(side).values["queues"]},),
    ),
    "POST /api/v1/jobs/{job}/stop": manager(owner=True, body=lambda world, side: {}),
    "POST /api/v1/jobs/{job}/move": manager(
        owner=True,
        body=lambda world, side: {"to": "first"},
        bad_ids=(
            lambda world, side: {"before": world.other(side).values["jobs"]},
            lambda world, side: {"after": world.other(side).values["jobs"]},
        ),
    ),
    "GET /api/v1/priority-requests": viewer(query=tenant_query),
    "POST /api/v1/priority-requests": member(
        body=priority_request,
        bad_ids=(
            lambda world, side: {"job": world.other(side).values["jobs"], "priority": "urgent"},
            lambda world, side: {**priority_request(world, side), "tenant": world.other(side).tenant.slug},
            lambda world, side: {**priority_request(world, side), "user": str(world.other(side).owner.pk)},
        ),
    ),
    "GET /api/v1/priority-requests/{request_id}": viewer(),
    "DELETE /api/v1/priority-requests/{request_id}": manager(owner=True),
    "POST /api/v1/priority-requests/{request_id}/approve": manager(body=lambda world, side: {}),
    "POST /api/v1/priority-requests/{request_id}/deny": manager(body=lambda world, side: {}),
    "POST /api/v1/jobs/{job}/rerun": member(
        body=lambda world, side: {},
        bad_ids=foreign_changes(lambda side, change: {"changes": change}),
    ),
    "POST /api/v1/jobs/{job}/clone": member(
        body=lambda world, side: {},
        bad_ids=foreign_changes(lambda side, change: {"changes": change}),
    ),
    "PUT /api/v1/jobs/{job}/tags/{tag}": manager(owner=True),
    "DELETE /api/v1/jobs/{job}/tags/{tag}": manager(owner=True),
    "GET /api/v1/jobs/{job}/spec": viewer(),
    "GET /api/v1/jobs/{job}/events": viewer(),
    "GET /api/v1/jobs/{job}/cost": manager(owner=True),
    "GET /api/v1/jobs/{job}/checkpoint": viewer(),
    "GET /api/v1/jobs/{job}/checkpoint/files": viewer(operator=403),
    "GET /api/v1/jobs/{job}/checkpoint/content": viewer(operator=403, query=lambda world, side: {"path": "step"}),
    "GET /api/v1/jobs/{job}/checkpoint/archive": viewer(operator=403),
    "GET /api/v1/jobs/{job}/timeline": viewer(),
    "GET /api/v1/jobs/{job}/explain": viewer(),
    "GET /api/v1/jobs/{job}/decisions": viewer(),
    "POST /api/v1/what-if": listing(
        body=lambda world, side: {"changes": [{"end": {"job": side.values["jobs"]}}]},
        also=frozenset({422}),  # For whom the job does not exist.
        bad_ids=(
            lambda world, side: {"changes": [{"end": {"job": world.other(side).values["jobs"]}}]},
            lambda world, side: {"changes": [{"release": {"job": world.other(side).values["jobs"]}}]},
            lambda world, side: {"changes": [{"quota": quota_edit(side, world.other(side))["changes"][0]}]},
            lambda world, side: {
                "tenant": world.other(side).tenant.slug,
                "changes": [{"submit": {"spec": {"name": "idea", "command": "true"}}}],
            },
        ),
    ),
    "GET /api/v1/jobs/{job}/attempts": viewer(),
    "GET /api/v1/jobs/{job}/attempts/{number}": viewer(),
    "GET /api/v1/jobs/{job}/tasks": viewer(),
    "GET /api/v1/jobs/{job}/metrics": viewer(),
    "GET /api/v1/jobs/{job}/logs": viewer(),
    "GET /api/v1/jobs/{job}/logs/stream": viewer(),
    "GET /api/v1/jobs/{job}/attempts/{number}/tasks/{role}/{index}/logs/{stream}": viewer(),
    "GET /api/v1/jobs/{job}/artifacts": viewer(operator=403),
    "GET /api/v1/jobs/{job}/artifacts:archive": viewer(operator=403),
    "GET /api/v1/jobs/{job}/artifacts/{path}": viewer(operator=403),
    "GET /api/v1/templates": viewer(query=tenant_query),
    "POST /api/v1/templates": member(
        body=lambda world, side: template(side),
        bad_ids=(
            lambda world, side: template(world.other(side)),
            lambda world, side: {**template(side), "tenant": None, "public": True},
        ),
    ),
    "GET /api/v1/templates/{template_id}": viewer(),
    "PATCH /api/v1/templates/{template_id}": manager(owner=True, body=lambda world, side: {"title": "Newer"}),
    "DELETE /api/v1/templates/{template_id}": manager(owner=True),
    "POST /api/v1/templates/{template_id}/render": viewer(
        body=lambda world, side: {"parameters": {}},
        bad_ids=(lambda world, side: {"parameters": {}, "tenant": world.other(side).tenant.slug},),
    ),
    "POST /api/v1/templates/{template_id}/test": manager(
        owner=True,
        operator=403,
        body=lambda world, side: {},
        bad_ids=(lambda world, side: {"tenant": world.other(side).tenant.slug},),
    ),
    "POST /api/v1/templates/{template_id}/publish": Expect(Who.OPERATOR),
    "GET /api/v1/schemas/job-spec": Expect(answers=frozenset({200})),
}
