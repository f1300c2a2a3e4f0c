"""A member who was removed, or a user who was disabled: what waits of theirs does not start, and what runs goes on."""

from __future__ import annotations

import pytest

from activity.models import AuditEvent, Event
from clusters.engines.fake import Script
from jobs.lifecycle.reasons import explain
from jobs.models import Job, Template
from jobs.reconcile.driver import driver
from kernel.actor import TenantRole
from kernel.errors import Forbidden, InvalidInput
from storage.models import Volume
from tenants.identity.leaving import LISTED, left_by, tenants_lost
from tenants.models import Membership, User
from tenants.services import Settlement, disable_user, hand_over, remove_member, update_user
from tests.builders.quay import Quay
from tests.factories.tenants import Person, make_member, make_tenant, make_user, now

pytestmark = pytest.mark.database

ENDLESS = Script(duration_seconds=1_000_000)
WHOLE = {"cpu": 8}  # The only node has eight cores: one runs, all others wait.


def leave(quay: Quay, person: Person, settlement: Settlement | None = None, by: Person | None = None) -> None:
    membership = Membership.objects.get(tenant=quay.cast.tenant, user=person.user)
    remove_member(actor=(by or quay.cast.alice).actor, membership=membership, settlement=settlement or Settlement(), now=now())


def counts(quay: Quay) -> dict[str, int]:
    bob = quay.cast.bob.user.pk
    return {left.kind: left.count for left in left_by(bob, tenants_lost(quay.cast.tenant.pk, bob))}


def test_a_removed_members_waiting_job_does_not_start_and_what_runs_goes_on(quay: Quay) -> None:
    runs = quay.submit("runs", script=Script(duration_seconds=5), resources=WHOLE)
    quay.turn(2)
    waits = quay.submit("waits", script=ENDLESS, resources=WHOLE)
    other = quay.submit("other", by=quay.cast.alice, script=ENDLESS, resources={"cpu": 1})
    quay.turn(1)

    leave(quay, quay.cast.bob)
    quay.turn(2)
    assert quay.state(runs) == "running"
    quay.pass_time(10)
    quay.turn(3)

    assert quay.state(runs) == "succeeded"
    assert (quay.state(waits), quay.reason(waits)) == ("queued", "owner_left")
    assert quay.state(other) == "running", "the others take the room"
    told = explain("owner_left", quay.job(waits.id).reason_detail)
    assert told.text == "Its owner bob is no longer a member of its tenant."
    assert "members hand-over" in told.hint


def test_it_starts_when_its_owner_is_a_member_again(quay: Quay) -> None:
    waits = quay.submit("waits", script=ENDLESS)
    leave(quay, quay.cast.bob)
    quay.turn(2)
    assert quay.reason(waits) == "owner_left"

    make_member(quay.cast.tenant, quay.cast.bob.user)
    quay.turn(2)

    assert quay.state(waits) == "running"


def test_a_disabled_users_waiting_job_waits_until_the_user_is_enabled(quay: Quay) -> None:
    waits = quay.submit("waits", script=ENDLESS)
    disable_user(actor=quay.cast.otto.actor, user=User.objects.get(id=quay.cast.bob.user.pk), now=now())
    quay.turn(2)
    job = quay.job(waits.id)
    assert (job.state, explain(job.reason_code, job.reason_detail).text) == ("queued", "Its owner bob is disabled.")

    update_user(actor=quay.cast.otto.actor, user=User.objects.get(id=quay.cast.bob.user.pk), is_active=True, now=now())
    quay.turn(2)
    assert quay.state(waits) == "running"


def test_a_role_in_a_tenant_above_is_enough(quay: Quay) -> None:
    below = make_tenant("below", parent=quay.cast.tenant)
    make_member(below, quay.cast.bob.user)
    waits = quay.submit("waits", script=ENDLESS)
    Membership.objects.get(tenant=below, user=quay.cast.bob.user).delete()

    quay.turn(2)

    assert quay.state(waits) == "running"


def test_who_leaves_between_the_decision_and_its_application_starts_nothing(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass has judged the job; the membership goes before it is applied."""
    waits = quay.submit("waits", script=ENDLESS)
    applied = driver.apply_decisions

    def left_meanwhile(*rest: object, **named: object) -> object:
        Membership.objects.filter(tenant=quay.cast.tenant, user=quay.cast.bob.user).delete()
        return applied(*rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(driver, "apply_decisions", left_meanwhile)
    quay.turn(2)

    assert quay.state(waits) == "queued"


# --- What is left, and who gets it ------------------------------------------------------------------------------------


def furnish(quay: Quay) -> tuple[Job, Job, Job]:
    """What runs of Bob's, what waits, and an array that waits; a volume and a template."""
    runs = quay.submit("runs", script=ENDLESS, resources=WHOLE)
    quay.turn(2)
    waits = quay.submit("waits", script=ENDLESS, resources=WHOLE)
    array = quay.submit("array", script=ENDLESS, resources=WHOLE, array={"size": 3})
    tenant, bob = quay.cast.tenant, quay.cast.bob.user
    Volume.objects.create(tenant=tenant, name="data", created_at=now(), number=7, created_by=bob)
    Template.objects.create(tenant=tenant, owner=bob, name="train", title="Train", spec={}, created_at=now(), updated_at=now())
    return runs, waits, array


def test_what_is_left_is_counted_by_kind_and_named_up_to_a_bound(quay: Quay) -> None:
    furnish(quay)
    assert counts(quay) == {
        "bookings": 0, "tokens": 1, "images": 0, "volumes": 1, "running": 1, "waiting": 4, "templates": 1,
    }  # fmt: skip
    for number in range(LISTED):
        quay.submit(f"more-{number}", resources=WHOLE)
    waiting = next(left for left in left_by(quay.cast.bob.user.pk, None) if left.kind == "waiting")
    assert (waiting.count, len(waiting.first)) == (LISTED + 4, LISTED)
    assert waiting.first[0].name == "waits"
    assert not next(left for left in left_by(quay.cast.bob.user.pk, None) if left.kind == "tokens").first


def test_only_tenants_in_which_no_role_is_left_count(quay: Quay) -> None:
    below = make_tenant("below", parent=quay.cast.tenant)
    bob = quay.cast.bob.user.pk
    assert tenants_lost(quay.cast.tenant.pk, bob) == {quay.cast.tenant.pk, below.pk}
    make_member(below, quay.cast.bob.user)
    assert tenants_lost(quay.cast.tenant.pk, bob) == {quay.cast.tenant.pk}
    assert tenants_lost(below.pk, bob) == set(), "the role above is left"
    User.objects.filter(id=bob).update(is_active=False)
    assert tenants_lost(below.pk, bob) == {below.pk}, "a disabled user has none"


def test_all_that_is_left_is_handed_over_and_starts(quay: Quay) -> None:
    runs, waits, array = furnish(quay)
    alice = quay.cast.alice.user

    leave(quay, quay.cast.bob, Settlement(hand_to=alice))

    assert set(Job.objects.values_list("user__name", flat=True)) == {"alice"}
    assert set(Job.objects.filter(parent=array.pk).values_list("user__name", flat=True)) == {"alice"}
    assert Volume.objects.get(name="data").created_by == alice
    assert Template.objects.get(name="train").owner == alice
    row = AuditEvent.objects.filter(verb="member.edit").latest("id")
    assert row.after == {
        "handed_to": "alice", "handed_over": {"volumes": 1, "running": 1, "waiting": 4, "templates": 1},
    }  # fmt: skip
    assert Event.objects.filter(kind="job.edited", data__reason="handed_over", job_id=waits.id).count() == 1
    quay.turn(2)
    assert quay.state(runs) == "running"
    quay.stop(runs, by=quay.cast.alice)
    for _ in range(40):
        quay.turn()
        quay.pass_time(1)
    assert quay.state(waits) == "running"


def test_with_stop_jobs_what_runs_and_what_waits_stops(quay: Quay) -> None:
    runs, waits, array = furnish(quay)

    leave(quay, quay.cast.bob, Settlement(stops_jobs=True))

    assert quay.state(waits) == "stopped"
    for _ in range(60):
        quay.turn()
        quay.pass_time(1)
    assert {quay.state(job) for job in (runs, waits, array)} == {"stopped"}
    assert AuditEvent.objects.filter(verb="member.edit").latest("id").after == {"stopped": {"running": 1, "waiting": 4}}


def test_a_manager_hands_over_later_what_was_left(quay: Quay) -> None:
    waits = quay.submit("waits", script=ENDLESS)
    leave(quay, quay.cast.bob)
    quay.turn(2)
    assert quay.reason(waits) == "owner_left"

    done = hand_over(
        actor=quay.cast.alice.actor, tenant=quay.cast.tenant, user=quay.cast.bob.user, to=quay.cast.alice.user, now=now()
    )
    quay.turn(2)

    assert done == {"waiting": 1}
    assert (quay.state(waits), quay.job(waits.id).user.name) == ("running", "alice")


def test_only_an_active_member_who_may_submit_there_gets_anything(quay: Quay) -> None:
    quay.submit("waits", script=ENDLESS)
    gone = make_user("gone", is_active=False)
    make_member(quay.cast.tenant, gone)

    def refusal(to: User) -> str:
        with pytest.raises(InvalidInput) as refused:
            leave(quay, quay.cast.bob, Settlement(hand_to=to))
        assert Membership.objects.filter(user=quay.cast.bob.user).exists(), "nothing was changed"
        return f"{refused.value.fields[0].code} {refused.value.detail}"

    assert refusal(quay.cast.vera.user) == "no_member vera is no member of vision, where bob leaves things."
    assert refusal(quay.cast.carol.user).startswith("no_member carol")
    assert refusal(quay.cast.bob.user).startswith("not_possible bob already")
    assert refusal(gone).startswith("not_possible gone is disabled")
    with pytest.raises(InvalidInput):
        Settlement(stops_jobs=True, hand_to=quay.cast.alice.user)


def test_a_member_who_leaves_may_stop_their_jobs_and_hands_none_over(quay: Quay) -> None:
    waits = quay.submit("waits", script=ENDLESS)
    with pytest.raises(Forbidden):
        leave(quay, quay.cast.bob, Settlement(hand_to=quay.cast.alice.user), by=quay.cast.bob)
    leave(quay, quay.cast.bob, Settlement(stops_jobs=True), by=quay.cast.bob)
    assert quay.state(waits) == "stopped"


def test_a_user_of_several_tenants_is_disabled_and_all_is_settled(quay: Quay) -> None:
    runs, waits, _ = furnish(quay)
    other = make_tenant("other")
    make_member(other, quay.cast.bob.user)
    Volume.objects.create(tenant=other, name="far", created_at=now(), number=8, created_by=quay.cast.bob.user)

    def disable(settlement: Settlement) -> None:
        user = User.objects.get(id=quay.cast.bob.user.pk)
        update_user(actor=quay.cast.otto.actor, user=user, is_active=False, settlement=settlement, now=now())

    with pytest.raises(InvalidInput) as refused:
        disable(Settlement(hand_to=quay.cast.alice.user))
    assert "alice is no member of other" in str(refused.value.detail)
    make_member(other, quay.cast.alice.user, TenantRole.MEMBER)
    disable(Settlement(hand_to=quay.cast.alice.user))

    assert {quay.job(job.id).user.name for job in (runs, waits)} == {"alice"}
    assert Volume.objects.get(name="far").created_by == quay.cast.alice.user
