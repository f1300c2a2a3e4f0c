"""Bodies that this app reads, and rows as it shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from activity.feed import event_body
from activity.models import AuditEvent, Delivery, Event, Subscription
from activity.notifications.kinds import DeliveryState, NoticeKind, Via
from activity.notifications.targets import URL_LENGTH_MAX
from kernel.config import current
from webapi.fields import UtcTimeField, utc_text
from webapi.serializers import StrictSerializer

KINDS = [str(kind) for kind in NoticeKind]
KINDS_DEFAULT = [str(NoticeKind.SUCCEEDED), str(NoticeKind.FAILED)]
WHOSE = ["mine", "all"]


class SubscriptionIn(StrictSerializer):
    """A new subscription. `tenant` null: every tenant that you can see; `jobs`: your own, or everybody's."""

    channel = serializers.ChoiceField([str(via) for via in Via])
    target = serializers.CharField(max_length=URL_LENGTH_MAX, allow_blank=True, default="")
    kinds = serializers.ListField(
        child=serializers.ChoiceField(KINDS), allow_empty=False, max_length=len(KINDS), default=KINDS_DEFAULT
    )
    tenant = serializers.CharField(max_length=255, allow_null=True, default=None)
    jobs = serializers.ChoiceField(WHOSE, default="mine")


class SubscriptionChange(StrictSerializer):
    """What can be changed of a subscription."""

    target = serializers.CharField(max_length=URL_LENGTH_MAX, allow_blank=True, required=False)
    kinds = serializers.ListField(child=serializers.ChoiceField(KINDS), allow_empty=False, max_length=len(KINDS), required=False)
    jobs = serializers.ChoiceField(WHOSE, required=False)
    is_active = serializers.BooleanField(required=False)


class SubjectOut(serializers.Serializer[Any]):
    """What an event is about."""

    kind = serializers.CharField()
    id = serializers.UUIDField()


class EventOut(serializers.Serializer[Any]):
    """One numbered event."""

    seq = serializers.IntegerField()
    kind = serializers.CharField()
    tenant_id = serializers.UUIDField(allow_null=True)
    subject = SubjectOut()
    job_id = serializers.UUIDField(allow_null=True)
    at = UtcTimeField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`data` is the serializer's own word, so the field is added under its name here."""
        return {**super().get_fields(), "data": serializers.DictField()}


class AuditTargetOut(serializers.Serializer[Any]):
    """What an accepted call was about."""

    kind = serializers.CharField()
    id = serializers.CharField()
    name = serializers.CharField()


class AuditActorOut(serializers.Serializer[Any]):
    """Who made an accepted call."""

    id = serializers.UUIDField(allow_null=True)
    name = serializers.CharField()
    token_id = serializers.UUIDField(allow_null=True)


class AuditOut(serializers.Serializer[Any]):
    """One accepted call. `seq` and `hash` are null until the row is sealed, within a second."""

    id = serializers.UUIDField()
    seq = serializers.IntegerField(allow_null=True)
    hash = serializers.CharField(allow_null=True)
    at = UtcTimeField()
    tenant_id = serializers.UUIDField(allow_null=True)
    actor = AuditActorOut()
    verb = serializers.CharField()
    target = AuditTargetOut()
    before = serializers.DictField(allow_null=True)
    after = serializers.DictField(allow_null=True)
    count = serializers.IntegerField()
    request_id = serializers.CharField()


class SubscriptionOut(serializers.Serializer[Any]):
    """A subscription. `secret` is there only in the answer that creates a webhook's: it is shown this once."""

    id = serializers.UUIDField()
    channel = serializers.CharField()
    target = serializers.CharField()
    kinds = serializers.ListField(child=serializers.CharField())
    tenant_id = serializers.UUIDField(allow_null=True)
    jobs = serializers.CharField()
    is_active = serializers.BooleanField()
    version = serializers.IntegerField()
    created_at = UtcTimeField()
    problem = serializers.ChoiceField(
        ["no_mail_server"], allow_null=True, help_text="Why nothing will arrive; null where nothing is known to be in the way."
    )
    secret = serializers.CharField(required=False)


class DeliveryOut(serializers.Serializer[Any]):
    """One message to one subscription, and how it fared."""

    id = serializers.UUIDField()
    subscription_id = serializers.UUIDField()
    kind = serializers.CharField()
    seq = serializers.IntegerField(allow_null=True)
    job_id = serializers.UUIDField(allow_null=True)
    state = serializers.ChoiceField([str(state) for state in DeliveryState])
    tries = serializers.IntegerField()
    retry_at = UtcTimeField(allow_null=True)
    last_status = serializers.IntegerField(allow_null=True)
    last_error = serializers.CharField(allow_null=True)
    delivered_at = UtcTimeField(allow_null=True)
    created_at = UtcTimeField()


class TicketOut(serializers.Serializer[Any]):
    """A one-time key for `/ws/v1/live?ticket=...`."""

    ticket = serializers.CharField()
    expires_at = UtcTimeField()


class EventPageOut(serializers.Serializer[Any]):
    """A page of events."""

    items = EventOut(many=True)
    next = serializers.CharField(allow_null=True)


class AuditPageOut(serializers.Serializer[Any]):
    """A page of the audit."""

    items = AuditOut(many=True)
    next = serializers.CharField(allow_null=True)


class SubscriptionPageOut(serializers.Serializer[Any]):
    """A page of one's own subscriptions."""

    items = SubscriptionOut(many=True)
    next = serializers.CharField(allow_null=True)


class DeliveryPageOut(serializers.Serializer[Any]):
    """A page of one's own deliveries."""

    items = DeliveryOut(many=True)
    next = serializers.CharField(allow_null=True)


def show_events(rows: Sequence[Event]) -> list[dict[str, Any]]:
    return [event_body(row) for row in rows]


def show_audit(rows: Sequence[AuditEvent]) -> list[dict[str, Any]]:
    return [
        {
            "id": str(row.id),
            "seq": row.seq,
            "hash": row.hash or None,
            "at": utc_text(row.at),
            "tenant_id": _id(row.tenant_id),
            "actor": {"id": _id(row.actor_id), "name": row.actor_name, "token_id": _id(row.token_id)},
            "verb": row.verb,
            "target": {"kind": row.target_kind, "id": row.target_id, "name": row.target_name},
            "before": row.before,
            "after": row.after,
            "count": row.count,
            "request_id": row.request_id,
        }
        for row in rows
    ]


def show_subscriptions(rows: Sequence[Subscription]) -> list[dict[str, Any]]:
    return [show_subscription(row) for row in rows]


def show_subscription(row: Subscription) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "channel": row.channel,
        "target": row.target,
        "kinds": row.kinds,
        "tenant_id": _id(row.tenant_id),
        "jobs": row.jobs,
        "is_active": row.is_active,
        "version": row.version,
        "created_at": utc_text(row.created_at),
        "problem": "no_mail_server" if row.channel == Via.MAIL and not current().mail_url else None,
    }


def show_deliveries(rows: Sequence[Delivery]) -> list[dict[str, Any]]:
    return [
        {
            "id": str(row.id),
            "subscription_id": str(row.subscription_id),
            "kind": row.kind,
            "seq": row.event_seq,
            "job_id": _id(row.job_id),
            "state": row.state,
            "tries": row.tries,
            "retry_at": utc_text(row.retry_at),
            "last_status": row.last_status,
            "last_error": row.last_error or None,
            "delivered_at": utc_text(row.delivered_at),
            "created_at": utc_text(row.created_at),
        }
        for row in rows
    ]


def _id(value: Any) -> str | None:
    return None if value is None else str(value)
