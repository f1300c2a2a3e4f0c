"""The chain over audit rows: every way of tampering shows."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction

from activity.audit import seal, verify_audit_chain
from activity.models import AuditEvent, Cursor
from activity.retention import prune
from activity.services import record_audit
from kernel.actor import system_actor
from kernel.config import Config
from tests.factories.activity import now

pytestmark = pytest.mark.database


def write(count: int, *, days_ago: int = 0) -> None:
    with transaction.atomic():
        for number in range(count):
            record_audit(
                actor=system_actor("test"),
                verb="job.stop",
                tenant_id=uuid.uuid4(),
                target_kind="job",
                target_id=uuid.uuid4(),
                after={"number": number, "half": 0.5, "large": 1e300, "名": "价"},
                at=now() - timedelta(days=days_ago),
            )


@pytest.fixture(autouse=True)
def empty_chain(db: None) -> None:
    AuditEvent.objects.all().delete()
    Cursor.objects.all().delete()


def sealed(seq: int) -> AuditEvent:
    return AuditEvent.objects.get(seq=seq)


def test_an_untouched_chain_holds() -> None:
    write(7)
    assert seal() == 7
    report = verify_audit_chain()
    assert (report.holds, report.sealed, report.unsealed, report.head_seq) == (True, 7, 0, 7)
    assert report.head_hash == sealed(7).hash


def test_rows_sealed_at_different_times_form_one_chain() -> None:
    for _ in range(3):
        write(2)
        seal()
    assert verify_audit_chain().holds
    assert [row.previous_hash for row in AuditEvent.objects.order_by("seq")][1:] == [
        row.hash for row in AuditEvent.objects.order_by("seq")
    ][:-1]


def test_sealing_twice_seals_once() -> None:
    write(3)
    assert (seal(), seal()) == (3, 0)


def test_rows_that_are_not_sealed_are_reported_as_the_tail() -> None:
    write(2)
    seal()
    write(3)
    report = verify_audit_chain()
    assert (report.holds, report.unsealed) == (True, 3)
    assert report.oldest_unsealed_at is not None


EDITS: dict[str, Callable[[], object]] = {
    "an actor": lambda: AuditEvent.objects.filter(seq=3).update(actor_name="mallory"),
    "a time": lambda: AuditEvent.objects.filter(seq=3).update(at=now() - timedelta(hours=1)),
    "a detail": lambda: AuditEvent.objects.filter(seq=3).update(after={"number": 99}),
    "a count": lambda: AuditEvent.objects.filter(seq=3).update(count=2),
    "a removal": lambda: AuditEvent.objects.filter(seq=3).delete(),
    "the first removed": lambda: AuditEvent.objects.filter(seq=1).delete(),
    "the last removed": lambda: AuditEvent.objects.filter(seq=5).delete(),
    "all removed": lambda: AuditEvent.objects.all().delete(),
    "taken out of the chain": lambda: AuditEvent.objects.filter(seq=3).update(seq=None),
    "a forged hash": lambda: AuditEvent.objects.filter(seq=3).update(actor_name="mallory", hash="0" * 64),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_tampering_breaks_the_chain(edit: Callable[[], object]) -> None:
    write(5)
    seal()
    assert verify_audit_chain().holds
    edit()
    assert not verify_audit_chain().holds


def test_an_edit_is_named_by_its_row() -> None:
    write(5)
    seal()
    AuditEvent.objects.filter(seq=4).update(verb="job.read")
    assert [problem.seq for problem in verify_audit_chain().problems] == [4]


def test_a_rewritten_chain_does_not_contain_a_head_noted_before() -> None:
    write(3)
    seal()
    head = (3, sealed(3).hash)
    assert verify_audit_chain(expected_head=head).holds
    AuditEvent.objects.filter(seq=2).delete()
    Cursor.objects.all().delete()
    AuditEvent.objects.update(seq=None, hash="", previous_hash="")
    seal()
    assert verify_audit_chain().holds
    assert not verify_audit_chain(expected_head=head).holds


def test_retention_shortens_the_chain_from_its_beginning(configure: Callable[..., Config]) -> None:
    configure(audit_days=10)
    write(4, days_ago=20)
    seal()
    write(3)
    seal()
    prune(now())
    report = verify_audit_chain()
    assert (report.holds, report.sealed, report.head_seq) == (True, 3, 7)
    AuditEvent.objects.filter(seq=5).delete()
    assert not verify_audit_chain().holds


def test_the_command_prints_the_head_and_fails_on_tampering() -> None:
    write(2)
    seal()
    out = StringIO()
    call_command("verify_audit", stdout=out)
    assert f"Head: 2:{sealed(2).hash}" in out.getvalue()
    call_command("verify_audit", head=f"2:{sealed(2).hash}", stdout=StringIO())
    AuditEvent.objects.filter(seq=1).update(verb="x")
    with pytest.raises(CommandError, match="does not hold"):
        call_command("verify_audit", stdout=StringIO(), stderr=StringIO())
