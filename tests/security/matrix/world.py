"""Two tenants with one object of each kind. Apps add their objects with `@maker`; names carry a canary of their tenant.

A maker puts what paths and bodies need into `side.values`, under the path parameter's name, or under the path's part before
it (`"queues"` for `/queues/{queue_id}`) where that is clearer. Makers run in the order of their registration, once per world.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.apps import apps
from django.db import transaction

from kernel.actor import TenantRole
from tests.security.matrix.principals import Principal, Who, make_principals


@dataclass
class Side:
    """One tenant and its objects. `owner` is the user to whom they belong."""

    name: str
    tenant: Any
    owner: Any = None
    values: dict[str, str] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)
    rows: frozenset[str] = frozenset()  # The ids of all rows of this tenant, those included that no path names.

    @property
    def canary(self) -> str:
        """A text in every name of this tenant's objects, and nowhere else."""
        return f"{self.name}-canary"

    def path(self, template: str) -> str:
        """A path with this side's objects in it; KeyError names the parameter that no maker knows."""
        parts = template.split("/")
        for index, part in enumerate(parts):
            for name in re.findall(r"\{(\w+)\}", part):
                before = parts[index - 1].partition(":")[0]
                keys = [f"{before}/{name}", before, name]
                value = next((self.values[key] for key in keys if key in self.values), None)
                if value is None:
                    raise KeyError(f"no maker gives {name!r} after {before!r} of {template}")
                part = part.replace("{" + name + "}", value)
            parts[index] = part
        return "/".join(parts)


@dataclass
class World:
    """Both sides and all callers."""

    own: Side
    foreign: Side
    third: Any  # A tenant in which none of the callers is.
    principals: dict[Who, Principal]

    def other(self, side: Side) -> Side:
        return self.foreign if side is self.own else self.own


Maker = Callable[[World, Side], None]
MAKERS: list[Maker] = []


def maker(function: Maker) -> Maker:
    """Register what makes one app's objects for a side."""
    MAKERS.append(function)
    return function


@transaction.atomic
def make_world() -> World:
    """Build everything, in a few dozen statements."""
    from tests.factories.tenants import make_member, make_tenant, make_user

    own, foreign = (Side(name, make_tenant(f"{name}-canary-tenant")) for name in ("own", "foreign"))
    principals = make_principals(own.tenant, foreign.tenant)
    own.owner = principals[Who.OWNER].user
    foreign.owner = make_user("foreign-canary-owner", email="foreign-canary@example.org")
    make_member(foreign.tenant, foreign.owner, TenantRole.MEMBER)
    world = World(own, foreign, make_tenant("third-tenant"), principals)
    for make in MAKERS:
        for side in (own, foreign):
            make(world, side)
    for side in (own, foreign):
        side.rows = rows_of(side.tenant)
    return world


def rows_of(tenant: Any) -> frozenset[str]:
    """The ids of everything that names a tenant as its own, whichever app keeps it."""
    with_tenant = [model for model in apps.get_models() if "tenant_id" in {each.attname for each in model._meta.concrete_fields}]
    keys = [model.objects.filter(tenant_id=tenant.pk).values_list("pk", flat=True) for model in with_tenant]
    return frozenset(str(key) for found in keys for key in found if isinstance(key, uuid.UUID))


def now() -> datetime:
    return datetime.now(UTC)


@maker
def tenants(world: World, side: Side) -> None:
    from tenants.services import make_device_code
    from tests.factories.tenants import make_queue, make_service_account, make_session, make_token, top_queue

    side.values["tenant"] = side.values["tenants"] = side.tenant.slug
    side.values["members"] = str(side.owner.pk)
    side.values["user_id"] = str(side.owner.pk)
    side.objects["queue"] = queue = make_queue(side.tenant, f"{side.canary}-queue")
    side.values["queues"] = str(queue.pk)
    side.objects["top_queue"] = top_queue(side.tenant)
    side.values["tokens"] = str(make_token(side.owner).token.pk)
    side.values["sessions"] = str(make_session(side.owner).token.pk)
    asked = f"{side.name} {uuid.uuid4().hex[:8]}"  # An address asks so often a minute, whichever world it is in.
    side.values["user_code"] = make_device_code(client="berth on laptop", address=asked, now=now()).row.user_code
    side.values["users"] = str(side.owner.pk)
    side.values["service-accounts"] = str(make_service_account(side.tenant, f"{side.canary}-ci").pk)
    side.values["secrets"] = "CANARY_SECRET"


@maker
def secrets(world: World, side: Side) -> None:
    from tenants.models import Secret

    Secret.objects.create(tenant=side.tenant, name="CANARY_SECRET", ciphertext="sealed", created_at=now(), updated_at=now())


@maker
def registries(world: World, side: Side) -> None:
    from images.models import RegistryAccount
    from images.services import accounts

    host = f"{side.canary}.registry.invalid"
    ciphertext = accounts._seal(side.tenant.pk, host, "sealed")
    RegistryAccount.objects.create(
        tenant=side.tenant, host=host, username="robot", ciphertext=ciphertext, created_at=now(), updated_at=now()
    )
    side.values["registries"] = host


@maker
def invitations(world: World, side: Side) -> None:
    from tenants.models import Invitation

    invitation = Invitation.objects.create(
        tenant=side.tenant,
        email=f"{side.canary}-guest@example.org",
        role="viewer",
        digest=uuid.uuid4().hex,
        created_at=now(),
        expires_at=now().replace(year=now().year + 1),
    )
    side.values["invitations"] = str(invitation.pk)


@maker
def installation(world: World, side: Side) -> None:
    """Clusters, pools and nodes belong to nobody: both sides see the same."""
    from clusters.models import Cluster, MaintenanceWindow, Node, Pool

    if side is world.foreign:
        for name in ("clusters", "pools", "nodes", "maintenance"):
            side.values[name] = world.own.values[name]
        side.objects["pool"] = world.own.objects["pool"]
        return
    cluster = Cluster.objects.create(name="matrix-cluster", kind="local", created_at=now(), condition_since_at=now())
    pool = Pool.objects.create(cluster=cluster, name="matrix-pool", created_at=now())
    node = Node.objects.create(
        cluster=cluster,
        pool=pool,
        name="matrix-node",
        cpu_millis=1000,
        memory_bytes=1024**3,
        gpu_millis=8000,
        ready=True,
        ready_since_at=now(),
        last_seen_at=now(),
        created_at=now(),
    )
    window = MaintenanceWindow.objects.create(
        pool=pool,
        starts_at=now().replace(year=now().year + 1),
        ends_at=now().replace(year=now().year + 2),
        created_at=now(),
        created_by="somebody",
    )
    side.objects["pool"] = pool
    side.values.update(maintenance=str(window.pk))
    side.values.update(clusters=str(cluster.pk), pools=str(pool.pk), nodes=str(node.pk))


@maker
def capacity(world: World, side: Side) -> None:
    """An edit of the tenant's own queue that waits for its time, a booking of the owner's, and a cap."""
    from tenants.models import Booking, QuotaEdit, QuotaRequest, UserCap

    change = {"queue": side.values["queues"], "pool": side.values["pools"], "resource": "gpu_millis", "ceiling": 2000}
    edit = QuotaEdit.objects.create(
        tenant=side.tenant,
        changes=[change],
        comment=f"{side.canary}-edit",
        effective_from=now().replace(year=now().year + 1),
        created_at=now(),
        created_by=side.owner,
    )
    side.values["edits"] = str(edit.pk)
    asked = QuotaRequest.objects.create(
        tenant=side.tenant,
        changes=[change],
        reason=f"{side.canary}-request",
        created_at=now(),
        created_by=side.owner,
        expires_at=now().replace(year=now().year + 1),
    )
    side.values["quota/requests"] = side.values["requests"] = str(asked.pk)
    UserCap.objects.create(tenant=side.tenant, user=side.owner, gpu_millis=1000)
    booking = Booking.objects.create(
        tenant=side.tenant,
        queue=side.objects["queue"],
        pool_id=side.objects["pool"].pk,
        gpu_millis=1000,
        starts_at=now(),
        ends_at=now().replace(year=now().year + 1),
        comment=f"{side.canary}-booking",
        created_at=now(),
        created_by=side.owner,
    )
    side.values["bookings"] = str(booking.pk)


@maker
def ledger(world: World, side: Side) -> None:
    """An hour of the owner's in the ledger, a price that is still to come, a budget, and the month they stand in."""
    from datetime import timedelta

    from tenants.models import Budget, Price
    from tenants.services import LedgerLine, append_ledger

    pool_id = side.objects["pool"].pk
    line = LedgerLine(
        attempt_id=uuid.uuid4(), number=1, job_id=uuid.uuid4(), tenant_id=side.tenant.pk, queue_id=side.objects["queue"].pk,
        user_id=side.owner.pk, pool_id=pool_id, cluster_id=uuid.UUID(side.values["clusters"]), cpu_millis=1000, memory_bytes=0,
        gpu_millis=1000, started_at=now() - timedelta(hours=1), ended_at=now(), outcome="succeeded",
    )  # fmt: skip
    append_ledger([line], now=now())
    Budget.objects.create(queue=side.objects["queue"], kind="money", amount=1_000_000, warn_at=[80, 100], created_at=now())
    if side is world.own:
        price = Price.objects.create(
            pool_id=pool_id, resource="gpu_millis", micros_per_hour=2_500_000, currency="EUR",
            effective_at=now() + timedelta(days=1), created_at=now(),
        )  # fmt: skip
        side.values["prices"] = str(price.pk)
    else:
        side.values["prices"] = world.own.values["prices"]
    side.values["month"] = f"{now():%Y-%m}"
    side.values["week"] = f"{now():%G-W%V}"


@maker
def activity(world: World, side: Side) -> None:
    from activity.models import Delivery, Subscription
    from activity.notifications.kinds import DeliveryState
    from activity.sequencer import sequence
    from activity.services import NewEvent, record_audit, record_events
    from kernel.actor import system_actor

    subscription = Subscription.objects.create(
        user_id=side.owner.pk,
        tenant_id=side.tenant.pk,
        kinds=["failed"],
        channel="webhook",
        target=f"https://{side.canary}.example.org/hook",
        created_at=now(),
    )
    delivery = Delivery.objects.create(
        subscription=subscription,
        user_id=side.owner.pk,
        tenant_id=side.tenant.pk,
        kind="test",
        payload={"job": f"{side.canary}-job"},
        state=str(DeliveryState.FAILED),
        created_at=now(),
    )
    side.values.update(subscriptions=str(subscription.pk), deliveries=str(delivery.pk))
    record_events([NewEvent("job.running", side.tenant.pk, "job", uuid.uuid4(), now(), data={"name": f"{side.canary}-event"})])
    record_audit(
        actor=system_actor("matrix"),
        verb="tenant.edit",
        tenant_id=side.tenant.pk,
        target_kind="tenant",
        target_id=side.tenant.pk,
        target_name=f"{side.canary}-audit",
        at=now(),
    )
    sequence(now())


@maker
def storage(world: World, side: Side) -> None:
    from storage.services.volumes import grant_volume
    from tenants.identity.access import actor_for
    from tests.factories.storage import an_upload, make_volume
    from tests.factories.tenants import SYSTEM

    volume = make_volume(side.tenant, f"{side.canary}-data")
    type(volume).objects.filter(pk=volume.pk).update(created_by=side.owner)
    side.objects["volume"] = volume
    put_file(world, side)
    grant = grant_volume(actor=SYSTEM, volume=volume, tenant_id=world.third.pk, read_only=True, now=now())
    upload = an_upload(side.tenant, b"abc", actor=actor_for(side.owner, None), volume=volume, path="new.txt")
    side.values.update(volumes=str(volume.pk), grants=str(grant.pk), uploads=str(upload.pk))


def put_file(world: World, side: Side) -> None:
    """The volume's file; again before each cell that may delete it, for no transaction brings a file back."""
    from tests.factories.storage import a_file_in

    a_file_in(side.objects["volume"], "file.txt", side.canary.encode())


@maker
def images(world: World, side: Side) -> None:
    from images.lifecycle import ImageState
    from images.models import Image, ImageKind

    image = Image.objects.create(
        tenant=side.tenant,
        name=f"{side.canary}-image",
        kind=ImageKind.PYTHON,
        requirements="numpy==2.3.0\n",
        digest="sha256:" + "0" * 64,
        state=ImageState.FAILED,
        error="There is no such version.",
        created_by=side.owner,
        created_at=now(),
    )
    side.values["images"] = str(image.pk)


@maker
def jobs(world: World, side: Side) -> None:
    """A queued job of the owner that has one ended attempt behind it, with a log and an artifact."""
    from clusters.engines.interface import LogChunk, LogChunks, Stream, TaskName
    from clusters.models import Quarantined
    from jobs.lifecycle.states import AttemptState, TaskState
    from jobs.models import Attempt, Job, PriorityRequest, Task
    from jobs.services.submit import prepare, submit
    from kernel.ids import new_id
    from storage.logs import AttemptKey, StreamChunks, StreamKey, append_chunks, open_logs
    from storage.models import Artifact
    from tenants.identity.access import actor_for
    from tests.factories.storage import a_checkpoint_of

    actor = actor_for(side.owner, None)
    document = {**job_document(side), "checkpoint": {"path": "ckpt"}}
    submission = prepare(actor=actor, tenant=side.tenant.slug, document=document)
    job = Job.objects.get(pk=submit([submission], actor=actor, now=now())[0])
    attempt = Attempt.objects.create(
        job=job,
        tenant_id=side.tenant.pk,
        number=1,
        state=AttemptState.ENDED,
        outcome="failed",
        cluster_id=side.values["clusters"],
        pool_id=side.values["pools"],
        cluster_name="matrix-cluster",
        pool_name="matrix-pool",
        created_at=now(),
        ended_at=now(),
        forgotten=True,
    )
    Task.objects.create(
        attempt=attempt, job_id=job.pk, tenant_id=side.tenant.pk, role="worker", index=0, state=TaskState.FAILED, started_at=now()
    )
    Job.objects.filter(pk=job.pk).update(attempt=attempt, attempt_count=1, tags=["matrix"])
    request = PriorityRequest.objects.create(
        tenant=side.tenant,
        job=job,
        user=side.owner,
        priority=900,
        reason=f"{side.canary}-why",
        created_at=now(),
        created_by=side.owner,
        expires_at=now().replace(year=now().year + 1),
    )
    side.values["priority-requests"] = str(request.pk)
    worker, key = TaskName("worker", 0), AttemptKey(side.tenant.pk, job.pk, attempt.pk)
    open_logs([(key, [worker])], now=now())
    chunks = LogChunks((LogChunk(0, f"{side.canary} said\n".encode()),), 1, True)
    append_chunks([StreamChunks(StreamKey(key, worker, Stream.OUT), chunks)], now=now())
    with tempfile.NamedTemporaryFile(dir=os.environ["BERTH_DATA_DIR"], delete=False) as file:
        file.write(side.canary.encode())
    a_checkpoint_of(job, {"step": side.canary.encode()})
    Artifact.objects.create(
        tenant=side.tenant,
        job_id=job.pk,
        attempt_id=attempt.pk,
        path="model.bin",
        size_bytes=len(side.canary),
        mode=0o644,
        sha256=hashlib.sha256(side.canary.encode()).hexdigest(),
        location=file.name,
        created_at=now(),
    )
    lost = Quarantined.objects.create(
        attempt_id=new_id(),
        cluster_id=side.values["clusters"],
        job_id=job.pk,
        number=2,
        name=f"{side.canary}-lost",
        tasks=[
            {
                "role": "worker",
                "index": 0,
                "node": "matrix-node",
                "state": "running",
                "cpu_millis": 0,
                "memory_bytes": 0,
                "gpu_millis": 0,
            }
        ],
        first_seen_at=now(),
        last_seen_at=now(),
    )
    side.values.update(
        quarantine=str(lost.pk),
        jobs=str(job.pk),
        attempts="1",
        tasks="worker",
        index="0",
        stream="stdout",
        tags="matrix",
        artifacts="model.bin",
    )


@maker
def portal(world: World, side: Side) -> None:
    from tenants.models import Announcement, SavedFilter

    made = Announcement.objects.create(
        tenant=side.tenant, text=f"{side.canary} words", starts_at=now(), created_at=now(), created_by=side.owner
    )
    kept = SavedFilter.objects.create(
        user=side.owner, page="jobs", name=f"{side.canary}-filter", query="mine=true", created_at=now()
    )
    side.values.update({"features": "templates", "announcements": str(made.pk), "saved-filters": str(kept.pk)})


@maker
def templates(world: World, side: Side) -> None:
    from jobs.models import Template

    made = Template.objects.create(
        tenant=side.tenant,
        owner=side.owner,
        name=f"{side.canary}-template",
        title=f"{side.canary} title",
        spec={"name": f"{side.canary}-made", "command": "true", "resources": {"cpu": 1, "memory": "64Mi"}},
        found_by=f"{side.canary}-template",
        created_at=now(),
        updated_at=now(),
    )
    side.values["templates"] = str(made.pk)


def job_document(side: Side, **more: Any) -> dict[str, Any]:
    """The smallest job, with a name of its tenant."""
    return {"name": f"{side.canary}-job", "command": "true", "resources": {"cpu": 1, "memory": "64Mi"}, **more}
