"""Users are told how their jobs end: the right ones, once, and by the way that they chose."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from email import message_from_bytes, policy
from typing import Any

import pytest

from activity.models import AuditEvent, Delivery, Event, Subscription
from activity.notifications import deliver, fan_out, rotate_secrets, subscriptions
from activity.notifications.sealing import unseal
from activity.notifications.send import LEASE, TRIES_MAX
from activity.notifications.subscriptions import NewSubscription
from kernel.actor import Actor
from kernel.config import Config
from kernel.crashpoints import arm
from kernel.errors import BerthError, Conflict, InvalidInput, PreconditionFailed, QuotaExceeded
from tenants.models import Membership
from tests.factories.activity import Jobs, Mailbox, Receiver, make_events, now
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

ALL = ["running", "succeeded", "failed", "stopped", "retried"]


@pytest.fixture(autouse=True)
def settled(db: None) -> None:
    """Nothing that setting the scene wrote is still to be fanned out."""
    fan_out(now())


@pytest.fixture(autouse=True)
def reachable(configure: Callable[..., Config], mailbox: Mailbox) -> None:
    configure(webhook_private_targets=True, mail_url=mailbox.url, mail_from="berth@example.org", public_url="https://berth.test")


def by_webhook(actor: Actor, url: str, **columns: Any) -> NewSubscription:
    values = {"kinds": ["succeeded", "failed"], "channel": "webhook", "target": url, "now": now(), **columns}
    return subscriptions.create_subscription(actor=actor, **values)


def by_mail(actor: Actor, **columns: Any) -> NewSubscription:
    values = {"kinds": ["succeeded", "failed"], "channel": "mail", "now": now(), **columns}
    return subscriptions.create_subscription(actor=actor, **values)


def end(cast: Cast, jobs: Jobs, kind: str = "job.failed", *, owner: Any = None, **columns: Any) -> Event:
    """One job of Bob's reaches an end."""
    state = kind.partition(".")[2]
    job = jobs.add((owner or cast.bob).user.pk, state=state, **columns)
    data = {"from": "running", "to": state, "reason": "exit_1"}
    (event,) = make_events(kind, tenant_id=cast.tenant.pk, job_id=job.job_id, data=data)
    return event


def test_a_failed_job_is_told_to_its_owner_by_mail(cast: Cast, jobs: Jobs, mailbox: Mailbox) -> None:
    by_mail(cast.bob.actor)
    end(cast, jobs, name="digits")
    assert (fan_out(now()), deliver(now())) == (1, 1)
    ((sender, recipients, raw),) = mailbox.mails
    mail = message_from_bytes(raw, policy=policy.default)
    assert "berth@example.org" in sender
    assert recipients == ["bob@example.org"]
    assert mail["Subject"] == "[Berth] digits failed"
    for expected in ["digits", "Exit code 1.", "Read the log.", "berth logs train"]:
        assert expected in mail.get_content()
    assert Delivery.objects.get().state == "sent"


def test_a_webhook_gets_a_signed_message(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    made = by_webhook(cast.bob.actor, receiver.url)
    event = end(cast, jobs, "job.succeeded", name="数字")
    fan_out(now())
    deliver(now())
    (request,) = receiver.requests
    parts = dict(part.split("=", 1) for part in request.headers["Berth-Signature"].split(","))
    expected = hmac.new(made.secret.encode(), f"{parts['t']}.".encode() + request.body, hashlib.sha256).hexdigest()
    assert parts["v1"] == expected
    body = json.loads(request.body)
    assert (body["kind"], body["seq"], body["job"]["name"]) == ("succeeded", event.seq, "数字")
    assert body["delivery"] == request.headers["Berth-Delivery"] == str(Delivery.objects.get().id)


def test_a_repeated_fan_out_says_nothing_twice(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    from activity.models import Cursor

    by_webhook(cast.bob.actor, receiver.url)
    end(cast, jobs)
    assert fan_out(now()) == 1
    assert fan_out(now()) == 0
    Cursor.objects.filter(name="notifications").delete()  # As after a restore: everything is read again.
    assert fan_out(now()) == 0
    while deliver(now()):
        pass
    assert len(receiver.requests) == 1


def test_a_crash_before_the_commit_of_a_fan_out_loses_nothing(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    end(cast, jobs)

    def die() -> None:
        raise SystemExit

    arm("activity.fan_out.before_commit", die)
    with pytest.raises(SystemExit):
        fan_out(now())
    assert Delivery.objects.count() == 0
    assert fan_out(now()) == 1


def test_a_crash_after_sending_repeats_the_message_with_the_same_id(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    end(cast, jobs)
    fan_out(now())

    def die() -> None:
        raise SystemExit

    arm("activity.deliver.after_send", die)
    with pytest.raises(SystemExit):
        deliver(now())
    assert deliver(now()) == 0  # The lease of whoever died still holds.
    assert deliver(now() + LEASE) == 1
    first, second = receiver.requests
    assert first.headers["Berth-Delivery"] == second.headers["Berth-Delivery"]


def test_a_late_result_does_not_overwrite_what_a_newer_lease_noted(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    end(cast, jobs)
    fan_out(now())
    arm("activity.deliver.after_send", lambda: Delivery.objects.update(lease_token=uuid.uuid4(), last_error="newer"))
    deliver(now())
    assert Delivery.objects.get().last_error == "newer"


def test_only_the_chosen_kinds_are_told(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url, kinds=["stopped"])
    end(cast, jobs, "job.failed")
    end(cast, jobs, "job.succeeded")
    end(cast, jobs, "job.stopped")
    assert fan_out(now()) == 1
    assert Delivery.objects.get().kind == "stopped"


def test_a_retry_is_told_as_such_and_a_submission_is_not(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url, kinds=ALL)
    job = jobs.add(cast.bob.user.pk)
    for data in ({}, {"from": "running", "to": "queued", "reason": "platform"}):
        make_events("job.queued", tenant_id=cast.tenant.pk, job_id=job.job_id, data=data)
    assert fan_out(now()) == 1
    assert Delivery.objects.get().kind == "retried"


def test_somebody_elses_job_is_told_only_to_whoever_asked_for_all(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.alice.actor, receiver.url, jobs="mine")
    wanted = by_webhook(cast.alice.actor, receiver.url, jobs="all", tenant_id=cast.tenant.pk)
    end(cast, jobs)
    fan_out(now())
    assert Delivery.objects.get().subscription_id == wanted.subscription.id


@pytest.mark.parametrize("tenant", ["own", "all"])
def test_jobs_of_a_foreign_tenant_are_never_told(cast: Cast, jobs: Jobs, receiver: Receiver, tenant: str) -> None:
    by_webhook(cast.carol.actor, receiver.url, jobs="all", tenant_id=None if tenant == "all" else cast.tenant.pk)
    end(cast, jobs)
    assert fan_out(now()) == 0


def test_children_of_an_array_are_not_told_one_by_one(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    end(cast, jobs, is_array_child=True)
    assert fan_out(now()) == 0


def test_whoever_left_the_tenant_before_sending_hears_nothing(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    end(cast, jobs)
    fan_out(now())
    Membership.objects.filter(user=cast.bob.user).delete()
    deliver(now())
    delivery = Delivery.objects.get()
    assert (delivery.state, receiver.requests) == ("failed", [])
    assert "no longer belongs" in delivery.last_error


def test_a_disabled_user_hears_nothing(cast: Cast, jobs: Jobs, mailbox: Mailbox) -> None:
    by_mail(cast.bob.actor)
    end(cast, jobs)
    fan_out(now())
    cast.bob.user.is_active = False
    cast.bob.user.save()
    deliver(now())
    assert (Delivery.objects.get().state, mailbox.mails) == ("failed", [])


def test_a_receiver_that_is_down_is_tried_again_later_and_later(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    end(cast, jobs)
    receiver.answer = lambda: (503, {})
    moment = now()
    fan_out(moment)
    waits = []
    for _ in range(TRIES_MAX):
        assert deliver(moment) == 1
        delivery = Delivery.objects.get()
        if delivery.retry_at:
            assert deliver(moment) == 0
            waits.append((delivery.retry_at - moment).total_seconds())
            moment = delivery.retry_at
    assert (delivery.state, delivery.tries, delivery.last_status) == ("failed", TRIES_MAX, 503)
    assert waits == sorted(waits)
    assert waits[0] == 15
    assert max(waits) <= 3_600
    assert deliver(moment + timedelta(days=1)) == 0


def test_a_receiver_that_recovers_gets_the_message_once(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    end(cast, jobs)
    fan_out(now())
    receiver.answer = lambda: (500, {})
    deliver(now())
    receiver.answer = lambda: (200, {})
    deliver(now() + timedelta(minutes=1))
    assert deliver(now() + timedelta(days=1)) == 0
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.tries, delivery.last_error) == ("sent", 2, "")
    assert delivery.delivered_at is not None


def test_a_refusal_is_final_and_says_why(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    end(cast, jobs)
    fan_out(now())
    receiver.answer = lambda: (302, {"Location": "http://169.254.169.254/"})
    deliver(now())
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.tries, delivery.last_status) == ("failed", 1, 302)
    assert "redirect" in delivery.last_error


def test_a_failed_delivery_is_sent_again_on_request_and_a_sent_one_is_not(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    end(cast, jobs)
    fan_out(now())
    receiver.answer = lambda: (404, {})
    deliver(now())
    receiver.answer = lambda: (200, {})
    delivery = subscriptions.retry_delivery(actor=cast.bob.actor, delivery=Delivery.objects.get(), now=now())
    assert delivery.state == "pending"
    deliver(now())
    with pytest.raises(Conflict):
        subscriptions.retry_delivery(actor=cast.bob.actor, delivery=Delivery.objects.get(), now=now())
    assert len(receiver.requests) == 2


@pytest.mark.parametrize(("answer", "state"), [("550 no such user", "failed"), ("451 try later", "pending")])
def test_a_mail_servers_answer_decides(cast: Cast, jobs: Jobs, mailbox: Mailbox, answer: str, state: str) -> None:
    by_mail(cast.bob.actor)
    end(cast, jobs)
    fan_out(now())
    mailbox.refuse["RCPT"] = answer
    deliver(now())
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.last_status) == (state, int(answer[:3]))
    assert answer[4:] in delivery.last_error


def test_without_a_mail_server_the_delivery_log_says_so(cast: Cast, jobs: Jobs, configure: Callable[..., Config]) -> None:
    configure(mail_url="")
    by_mail(cast.bob.actor)
    end(cast, jobs)
    fan_out(now())
    deliver(now())
    delivery = Delivery.objects.get()
    assert delivery.state == "failed"
    assert "BERTH_MAIL_URL" in delivery.last_error


def test_a_slow_receiver_gets_a_share_of_a_batch_only(cast: Cast, jobs: Jobs, receiver: Receiver) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    for _ in range(6):
        end(cast, jobs)
    fan_out(now())
    assert [deliver(now()), deliver(now()), deliver(now())] == [4, 2, 0]


def test_however_much_waits_for_one_receiver_another_one_has_its_turn_in_the_next_batch(
    cast: Cast, jobs: Jobs, receiver: Receiver
) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    for _ in range(300):  # More than any batch looks at.
        end(cast, jobs)
    fan_out(now())
    by_webhook(cast.alice.actor, f"{receiver.url}/alice")
    end(cast, jobs, owner=cast.alice)
    fan_out(now())
    assert Delivery.objects.filter(state="pending").count() == 301
    deliver(now())
    assert list(Delivery.objects.filter(user_id=cast.alice.user.pk).values_list("state", flat=True)) == ["sent"]


def test_fan_out_takes_the_same_number_of_queries_for_many(
    cast: Cast, jobs: Jobs, receiver: Receiver, django_assert_max_num_queries: Any
) -> None:
    by_webhook(cast.bob.actor, receiver.url)
    for _ in range(60):
        end(cast, jobs)
    with django_assert_max_num_queries(19):
        assert fan_out(now()) == 60


def test_where_nobody_listens_nothing_is_read_and_nothing_is_told_later(
    cast: Cast, jobs: Jobs, receiver: Receiver, django_assert_max_num_queries: Any
) -> None:
    for _ in range(3):
        end(cast, jobs)
    with django_assert_max_num_queries(9):
        assert fan_out(now()) == 0
    by_webhook(cast.bob.actor, receiver.url)
    assert fan_out(now()) == 0
    end(cast, jobs)
    assert fan_out(now()) == 1


def test_a_test_message_takes_the_same_way(cast: Cast, receiver: Receiver) -> None:
    made = by_webhook(cast.bob.actor, receiver.url)
    subscriptions.send_test(actor=cast.bob.actor, subscription=made.subscription, now=now())
    deliver(now())
    assert json.loads(receiver.requests[0].body)["event"] == "test"


def test_a_private_target_is_refused_where_the_operator_did_not_allow_it(
    cast: Cast, jobs: Jobs, receiver: Receiver, configure: Callable[..., Config]
) -> None:
    made = by_webhook(cast.bob.actor, receiver.url)
    configure(webhook_private_targets=False)
    with pytest.raises(InvalidInput) as refusal:
        by_webhook(cast.bob.actor, receiver.url)
    assert refusal.value.fields[0].path == "/target"
    end(cast, jobs)
    fan_out(now())
    deliver(now())
    assert (Delivery.objects.get(subscription=made.subscription).state, receiver.requests) == ("failed", [])


def test_mail_goes_to_the_own_address_only(cast: Cast) -> None:
    with pytest.raises(InvalidInput):
        by_mail(cast.bob.actor, target="victim@example.com")


def test_a_users_subscriptions_are_bounded(cast: Cast) -> None:
    for _ in range(subscriptions.SUBSCRIPTIONS_PER_USER_MAX):
        by_mail(cast.bob.actor)
    with pytest.raises(QuotaExceeded):
        by_mail(cast.bob.actor)


def test_secrets_and_paths_of_webhooks_stay_out_of_the_audit_and_the_rows(cast: Cast, receiver: Receiver) -> None:
    made = by_webhook(cast.bob.actor, receiver.url + "/canary-path", tenant_id=cast.tenant.pk)
    subscriptions.update_subscription(actor=cast.bob.actor, subscription=made.subscription, is_active=False, now=now())
    rows = [str(row) for row in AuditEvent.objects.values()] + [str(row) for row in Subscription.objects.values("secret_sealed")]
    assert not any("canary" in row or made.secret in row for row in rows)


def test_an_edit_of_an_older_version_is_refused(cast: Cast) -> None:
    made = by_mail(cast.bob.actor)
    change = {"actor": cast.bob.actor, "subscription": made.subscription, "expected_version": 1, "now": now()}
    subscriptions.update_subscription(kinds=["failed"], **change)
    with pytest.raises(PreconditionFailed):
        subscriptions.update_subscription(kinds=["succeeded"], **change)


def test_every_change_of_a_subscription_is_audited(cast: Cast, receiver: Receiver) -> None:
    before = AuditEvent.objects.count()
    made = by_webhook(cast.bob.actor, receiver.url)
    subscriptions.update_subscription(actor=cast.bob.actor, subscription=made.subscription, kinds=["failed"], now=now())
    subscriptions.send_test(actor=cast.bob.actor, subscription=made.subscription, now=now())
    subscriptions.delete_subscription(actor=cast.bob.actor, subscription=made.subscription, now=now())
    verbs = AuditEvent.objects.order_by("id").values_list("verb", flat=True)[before:]
    assert list(verbs) == ["subscription.create", "subscription.edit", "subscription.test", "subscription.delete"]


def test_a_refused_change_leaves_no_trace(cast: Cast) -> None:
    before = AuditEvent.objects.count()
    with pytest.raises(BerthError):
        by_mail(cast.bob.actor, target="x@example.org")
    assert (AuditEvent.objects.count(), Subscription.objects.count()) == (before, 0)


def test_the_installation_key_is_rotated_without_losing_a_webhook(
    cast: Cast, jobs: Jobs, receiver: Receiver, settings: Any
) -> None:
    made = by_webhook(cast.bob.actor, receiver.url)
    old = settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 20 + "ew key of the installation", [old]
    assert rotate_secrets() == 1
    settings.SECRET_KEY_FALLBACKS = []
    made.subscription.refresh_from_db()
    assert unseal(made.subscription.secret_sealed) == made.secret
