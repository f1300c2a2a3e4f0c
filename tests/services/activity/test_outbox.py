"""Events and audit rows as other apps write them."""

from __future__ import annotations

import uuid

import pytest
from django.db import transaction

from activity.models import AuditEvent, Event
from activity.sequencer import last_seq, sequence
from activity.services import NewEvent, record_audit, record_events
from kernel.actor import Actor
from tests.factories.activity import make_events, now

pytestmark = pytest.mark.database

ACTOR = Actor(user_id=uuid.uuid4(), name="alice", token_id=uuid.uuid4(), request_id="r-1")


def audit(**columns: object) -> AuditEvent:
    values = {"verb": "job.submit", "tenant_id": None, "target_kind": "job", "target_id": uuid.uuid4(), **columns}
    with transaction.atomic():
        record_audit(actor=ACTOR, at=now(), **values)  # type: ignore[arg-type]
    return AuditEvent.objects.latest("id")


def test_events_are_numbered_one_after_the_other() -> None:
    (first,) = make_events("job.submitted")
    before = first.seq or 0
    make_events(*["job.queued"] * 5)
    make_events("job.running", "job.succeeded")
    assert list(Event.objects.filter(seq__gt=before).order_by("seq").values_list("seq", flat=True)) == list(
        range(before + 1, before + 8)
    )
    assert last_seq() == before + 7


def test_events_of_one_batch_keep_their_order() -> None:
    made = make_events("job.queued", "job.admitted", "job.starting", "job.running")
    assert [event.kind for event in made] == ["job.queued", "job.admitted", "job.starting", "job.running"]
    assert [event.seq for event in made] == sorted(event.seq or 0 for event in made)


def test_numbering_again_changes_nothing() -> None:
    (event,) = make_events("job.queued")
    assert sequence(now()) == 0
    event.refresh_from_db()
    assert event.seq == last_seq()


def test_many_events_take_one_insert_per_thousand(django_assert_max_num_queries: object) -> None:
    events = [NewEvent("job.queued", None, "job", uuid.uuid4(), now()) for _ in range(2_500)]
    with transaction.atomic(), django_assert_max_num_queries(4):  # type: ignore[operator]
        record_events(events)  # Three inserts, and on SQLite the update that numbers them.
    assert Event.objects.count() >= 2_500


@pytest.mark.django_db(transaction=True)
def test_an_event_outside_a_transaction_is_refused() -> None:
    with pytest.raises(AssertionError, match="transaction"):
        record_events([NewEvent("job.queued", None, "job", uuid.uuid4(), now())])


def test_text_that_a_database_refuses_is_made_storable() -> None:
    (event,) = make_events("job.failed", data={"reason": "a\x00b \ud800", "rate": float("nan"), "ids": {uuid.UUID(int=1)}})
    event.refresh_from_db()
    assert event.data == {"reason": "a\ufffdb ?", "rate": None, "ids": [str(uuid.UUID(int=1))]}


def test_an_audit_row_tells_who_did_what_through_which_credential() -> None:
    row = audit(target_name="digits", after={"state": "QUEUED"}, count=12)
    assert (row.actor_id, row.actor_name, row.token_id, row.request_id) == (ACTOR.user_id, "alice", ACTOR.token_id, "r-1")
    assert (row.verb, row.target_name, row.after, row.count) == ("job.submit", "digits", {"state": "QUEUED"}, 12)


@pytest.mark.parametrize("name", ["password", "secret", "Token", "authorization"])
def test_an_audit_row_never_holds_a_secret(name: str) -> None:
    row = audit(after={"outer": {name: "canary-7f3a"}}, before={name: None})
    assert "canary" not in str(row.after)
    assert row.before == {name: None}


def test_an_audit_row_is_bounded_whatever_a_user_typed() -> None:
    row = audit(target_name="x" * 100_000, after={"text": "y" * 100_000})
    assert len(row.target_name) <= 4_000
    assert len(row.after["text"]) <= 4_000
