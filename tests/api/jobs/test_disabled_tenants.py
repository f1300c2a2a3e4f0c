"""A tenant that operators disable, enable and delete: what its people are told, what its jobs do, what goes and what stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from activity.models import AuditEvent, Event
from clusters.engines.fake import Script
from images.models import Image, ImageKind
from storage.models import Volume
from tenants.capacity.quota.tree import Ceiling
from tenants.models import Booking, Invitation, LedgerEntry, Membership, QueueLimit, Secret, Tenant, Token, User
from tenants.services import PoolLimit, set_limits, set_secret
from tests.builders.quay import Quay
from tests.factories.tenants import SYSTEM, make_member, make_service_account, make_tenant, make_token, now, top_queue

pytestmark = pytest.mark.database

Api = Callable[..., Any]
TENANT = "/api/v1/tenants/vision"
JOB = {"tenant": "vision", "spec": {"name": "train", "command": "true"}}
ENDLESS = Script(duration_seconds=1_000_000)


def ask(api: Api, quay: Quay, what: str, query: str = "", **body: Any) -> Any:
    return api(quay.cast.otto).post(f"{TENANT}/{what}{query}", body, format="json")


def disable(api: Api, quay: Quay, **body: Any) -> dict[str, Any]:
    answer = ask(api, quay, "disable", **body)
    assert answer.status_code == 200, answer.content
    told: dict[str, Any] = answer.json()
    return told


# --- Disabled ---------------------------------------------------------------------------------------------------------


def test_nobody_submits_to_a_disabled_tenant_and_everybody_is_told_why(api: Api, quay: Quay) -> None:
    assert api(quay.cast.bob).post("/api/v1/jobs", JOB, format="json").status_code == 201
    disable(api, quay, reason="The project has ended.")

    refused = api(quay.cast.bob).post("/api/v1/jobs", JOB, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "tenant_disabled")
    assert "The project has ended." in refused.json()["detail"]
    assert "operator" in refused.json()["hint"]
    listed = api(quay.cast.bob).get(TENANT).json()
    assert (listed["is_disabled"], listed["disabled_reason"]) == (True, "The project has ended.")
    assert api(quay.cast.bob).get("/api/v1/jobs?tenant=vision").json()["items"], "reading goes on"


def test_whatever_begins_something_is_refused_in_a_disabled_tenant(api: Api, quay: Quay) -> None:
    quay.submit("done", script=Script(duration_seconds=1))
    quay.settle()
    image = Image.objects.create(
        tenant=quay.cast.tenant, name="own", kind=ImageKind.PYTHON, state="failed", created_at=now(), requirements="numpy"
    )
    disable(api, quay)
    alice = api(quay.cast.alice)
    tries = {
        "a batch": ("/api/v1/jobs:batch", {"tenant": "vision", "spec": JOB["spec"], "items": [{}]}),
        "a rerun": ("/api/v1/jobs/done/rerun", {}),
        "another build": (f"/api/v1/images/{image.pk}/builds", {}),
        "a volume": ("/api/v1/volumes", {"name": "data", "tenant": "vision"}),
        "a tenant below": ("/api/v1/tenants", {"name": "below", "parent": "vision"}),
    }
    told = {what: alice.post(path, body, format="json") for what, (path, body) in tries.items()}

    assert {what: (answer.status_code, answer.json()["code"]) for what, answer in told.items()} == dict.fromkeys(
        tries, (409, "tenant_disabled")
    )


def test_jobs_of_a_disabled_tenant_wait_with_that_reason_and_start_when_it_is_enabled(api: Api, quay: Quay) -> None:
    runs = quay.submit("runs", script=ENDLESS)
    quay.turn(2)
    waits = quay.submit("waits", script=ENDLESS)
    disable(api, quay, reason="Unpaid.")
    quay.turn(3)

    assert (quay.state(waits), quay.reason(waits)) == ("queued", "tenant_disabled")
    assert quay.state(runs) == "running", "what runs goes on"
    shown = api(quay.cast.bob).get(f"/api/v1/jobs/{waits.id}").json()
    assert "Its tenant is disabled: Unpaid." in str(shown)
    explained = api(quay.cast.bob).get(f"/api/v1/jobs/{waits.id}/explain")
    assert explained.status_code == 200
    assert "tenant_disabled" in explained.content.decode()

    assert ask(api, quay, "enable").json()["is_disabled"] is False
    quay.turn(3)
    assert quay.state(waits) == "running"


def test_a_tenant_below_a_disabled_one_is_disabled_without_being_told_why(api: Api, quay: Quay) -> None:
    below = make_tenant("below", parent=quay.cast.tenant)
    make_member(below, quay.cast.carol.user)
    disable(api, quay, reason="A matter of the parent.")

    refused = api(quay.cast.carol).post("/api/v1/jobs", {**JOB, "tenant": below.slug}, format="json").json()

    assert refused["code"] == "tenant_disabled"
    assert "A matter of the parent" not in str(refused)
    shown = api(quay.cast.carol).get(f"/api/v1/tenants/{below.slug}").json()
    assert (shown["is_disabled"], shown["disabled_at"]) == (True, None)


def test_what_runs_stops_where_the_operator_says_so_and_what_waits_waits_on(api: Api, quay: Quay) -> None:
    runs = quay.submit("runs", script=ENDLESS, resources={"cpu": 8})
    quay.turn(2)
    waits = quay.submit("waits", script=ENDLESS, resources={"cpu": 8})
    told = ask(api, quay, "disable", "?dry_run=true", stop_jobs=True).json()
    assert (told["running"], told["waiting"], told["people"], told["stopped"]) == (1, 1, 3, 0)
    assert not Tenant.objects.get(name="vision").disabled_at, "a dry run changes nothing"

    assert disable(api, quay, stop_jobs=True)["stopped"] == 1
    for _ in range(60):
        quay.turn()
        quay.pass_time(1)
    assert (quay.state(runs), quay.state(waits)) == ("stopped", "queued")


def test_what_was_admitted_before_the_word_does_not_start_after_it(api: Api, quay: Quay) -> None:
    job = quay.submit("train")
    quay.schedule()
    assert quay.state(job) == "admitted"
    disable(api, quay, reason="Over.")
    quay.turn()
    assert quay.state(job) == "admitted"
    assert quay.attempts(job)[0].last_error == "tenant_disabled: Its tenant is disabled."
    ask(api, quay, "enable")
    quay.pass_time(60)
    quay.turn(2)
    assert quay.state(job) in ("running", "succeeded")


def test_whoever_disables_it_again_without_a_reason_leaves_the_one_that_its_people_read(api: Api, quay: Quay) -> None:
    disable(api, quay, reason="Budget is over.")
    assert disable(api, quay, stop_jobs=True)["tenant"]["disabled_reason"] == "Budget is over."
    assert disable(api, quay, reason="")["tenant"]["disabled_reason"] == ""


def test_every_call_leaves_a_row_in_the_audit_and_each_change_an_event(api: Api, quay: Quay) -> None:
    for _ in range(2):
        disable(api, quay, reason="Over.")
        ask(api, quay, "enable")
        ask(api, quay, "enable")

    assert AuditEvent.objects.filter(verb="tenant.disable").count() == 6
    kinds = list(Event.objects.filter(kind__startswith="tenant.").order_by("row").values_list("kind", flat=True))
    assert kinds[-4:] == ["tenant.disabled", "tenant.enabled"] * 2


def test_only_operators_disable_enable_and_delete(api: Api, quay: Quay) -> None:
    for what in ("disable", "enable", "delete"):
        assert api(quay.cast.alice).post(f"{TENANT}/{what}", {}, format="json").status_code == 403
        assert api(quay.cast.carol).post(f"{TENANT}/{what}", {}, format="json").status_code == 404


def test_a_list_of_tenants_costs_as_much_for_ten_as_for_two(api: Api, quay: Quay) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert api(quay.cast.otto).get("/api/v1/tenants").status_code == 200
        return len(queries)

    statements()
    disable(api, quay)
    few = statements()
    for number in range(8):
        make_tenant(f"more-{number}")
    assert statements() == few


# --- Deleted ----------------------------------------------------------------------------------------------------------


def test_a_tenant_is_deleted_only_disabled_without_live_jobs_and_by_its_name(api: Api, quay: Quay) -> None:
    job = quay.submit("runs", script=ENDLESS)
    quay.turn(2)
    below = make_tenant("below", parent=quay.cast.tenant)

    assert "not disabled" in ask(api, quay, "delete", confirm="vision").json()["detail"]
    disable(api, quay)
    assert "below" in ask(api, quay, "delete", confirm="vision").json()["detail"]
    Tenant.objects.filter(id=below.pk).update(disabled_at=now(), deleted_at=now())
    assert ask(api, quay, "delete", confirm="Vision").status_code == 422
    assert "1 job of vision" in ask(api, quay, "delete", confirm="vision").json()["detail"]
    quay.stop(job)
    quay.settle()
    assert ask(api, quay, "delete", confirm="vision").status_code == 200


def furnish(quay: Quay) -> User:
    """One of everything that a tenant may have."""
    tenant, at = quay.cast.tenant, now()
    account = make_service_account(tenant)
    make_token(account)
    set_secret(actor=quay.cast.alice.actor, tenant_id=tenant.pk, name="KEY", value="v", now=at)
    Volume.objects.create(tenant=tenant, name="data", created_at=at, number=7)
    Image.objects.create(tenant=tenant, name="own", kind=ImageKind.REGISTRY, state="ready", created_at=at)
    limit = PoolLimit(quay.pool.pk, Ceiling(), guarantee={"cpu_millis": 1000}, deserved={"cpu_millis": 2000})
    set_limits(actor=SYSTEM, queue=top_queue(tenant), limits=[limit], now=at)
    return account


def test_deleting_takes_what_is_its_peoples_and_leaves_the_record(api: Api, quay: Quay) -> None:
    account = furnish(quay)
    quay.submit("done", script=Script(duration_seconds=5))
    quay.settle()
    entries = LedgerEntry.objects.count()
    assert entries
    disable(api, quay)
    plan = ask(api, quay, "delete", "?dry_run=true").json()
    assert plan["goes"] == {
        "members": 3, "service_accounts": 1, "invitations": 0, "secrets": 1, "bookings": 0, "volumes": 1, "images": 1,
    }  # fmt: skip
    assert plan["stays"] == {"jobs": 1}
    assert Secret.objects.count() == 1, "a dry run changes nothing"

    done = ask(api, quay, "delete", f"?plan={plan['plan']}", confirm="vision")

    assert done.status_code == 200, done.content
    tenant = Tenant.objects.get(id=quay.cast.tenant.pk)
    assert tenant.name == f"vision ({tenant.slug})"
    assert not Secret.objects.exists()
    assert not Membership.objects.filter(tenant=tenant).exists()
    assert not Volume.objects.filter(tenant=tenant, is_deleted=False).exists()
    assert not Image.objects.filter(tenant=tenant, is_deleted=False).exists()
    assert not Token.objects.filter(user=account, revoked_at=None).exists()
    assert not QueueLimit.objects.filter(queue__tenant=tenant).exclude(guarantee=0, deserved=None).exists()
    assert not Invitation.objects.filter(tenant=tenant, revoked_at=None, accepted_at=None).exists()
    assert not Booking.objects.filter(tenant=tenant, state="held").exists()
    assert LedgerEntry.objects.count() == entries
    assert AuditEvent.objects.get(verb="tenant.delete").target_name == "vision"
    assert api(quay.cast.alice).get(TENANT).status_code == 404
    otto = api(quay.cast.otto)
    assert tenant.slug not in otto.get("/api/v1/tenants").content.decode()
    assert [row["slug"] for row in otto.get("/api/v1/tenants?deleted=true").json()["items"]] == [tenant.slug]
    assert tenant.slug not in otto.get("/api/v1/queues").content.decode()
    assert otto.get(f"/api/v1/jobs?tenant={tenant.slug}").json()["items"], "operators read what ran there"
    assert otto.post("/api/v1/tenants", {"name": "vision"}, format="json").status_code == 201, "the name is free again"
    assert otto.post(f"/api/v1/tenants/{tenant.slug}/enable", {}, format="json").status_code == 409


def test_a_manager_above_sees_no_deleted_tenant(api: Api, quay: Quay) -> None:
    below = make_tenant("below", parent=quay.cast.tenant)
    otto, alice = api(quay.cast.otto), api(quay.cast.alice)
    path = f"/api/v1/tenants/{below.slug}"
    assert otto.post(f"{path}/disable", {}, format="json").status_code == 200
    assert alice.get(path).status_code == 200
    assert otto.post(f"{path}/delete", {"confirm": "below"}, format="json").status_code == 200

    assert alice.get(path).status_code == 404
    assert below.slug not in alice.get("/api/v1/tenants").content.decode()
    assert below.slug not in alice.get("/api/v1/whoami").content.decode()
