"""Bodies that this app reads, and rows as it shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rest_framework import serializers

from activity.feed import event_body
from activity.models import AuditEvent, Delivery, Event, Subscription
from activity.notifications import subscriptions
from activity.notifications.channel import KIND_LENGTH_MAX, VALUE_LENGTH_MAX, Channel
from activity.notifications.channels import CHANNELS, is_offered
from activity.notifications.keeping import shown_of, values_of
from activity.notifications.kinds import DeliveryState, kind_names
from activity.selectors import last_failures
from kernel.clock import utc_text
from kernel.config import current
from kernel.errors import FieldError
from kernel.words import Text, as_text
from webapi.fields import UtcTimeField
from webapi.refusals import detail, refusal
from webapi.serializers import StrictSerializer

KINDS = kind_names()
KINDS_DEFAULT = kind_names(only_default=True)
WHOSE = ["mine", "all"]
SETTINGS_MAX, SETTING_NAME_MAX = 20, 40  # More than any channel has.


class SettingsField(serializers.DictField):
    """The fields of a channel, by name."""

    child = serializers.CharField(max_length=VALUE_LENGTH_MAX, allow_blank=True)

    def to_internal_value(self, data: Any) -> dict[str, str]:
        if isinstance(data, Mapping) and (len(data) > SETTINGS_MAX or any(len(str(name)) > SETTING_NAME_MAX for name in data)):
            message = Text(
                f"There are at most {SETTINGS_MAX} settings, with names of at most {SETTING_NAME_MAX} characters.",
                f"最多 {SETTINGS_MAX} 项设置，名称最多 {SETTING_NAME_MAX} 个字符。",
            )
            raise refusal(message, code="too_long")
        return dict(super().to_internal_value(data))


class _ChannelSerializer(StrictSerializer):
    """A body with a channel's fields: what is wrong with them is told together with everything else."""

    def to_internal_value(self, data: Any) -> Any:
        value, problems = None, dict[str, Any]()
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            problems = dict(error.detail) if isinstance(error.detail, Mapping) else {"non_field_errors": error.detail}
        for wrong in self._wrong_with_channel(data):
            place, _, name = wrong.path.strip("/").partition("/")
            message, hint = as_text(wrong.message), as_text(wrong.hint)
            words = [detail(Text(f"{message.en} {hint.en}".strip(), f"{message.zh}{hint.zh}"), code=wrong.code)]
            if not name:
                problems.setdefault(place, words)
            elif isinstance(problems.setdefault(place, {}), dict):
                problems[place].setdefault(name, words)
        if problems:
            raise serializers.ValidationError(problems)
        return value

    def _wrong_with_channel(self, data: Any) -> list[FieldError]:
        target, settings = self._given(data, "target"), self._given(data, "settings")
        subscription = self.context.get("subscription")
        if subscription is None:
            kind = self._given(data, "channel")
            return subscriptions.wrong(kind, target=target, settings=settings) if kind else []
        if target is None and settings is None:
            return []
        return subscriptions.wrong(subscription.channel, before=values_of(subscription), target=target, settings=settings)

    def _given(self, data: Any, name: str) -> Any:
        """One field's value as it will be, None where it was not given or is told to be wrong already."""
        if not isinstance(data, Mapping) or name not in data or name not in self.fields:
            return None
        try:
            return self.fields[name].run_validation(data[name])
        except serializers.ValidationError:
            return None


class SubscriptionIn(_ChannelSerializer):
    """A new subscription. `tenant` null: all tenants that you can see; `jobs`: your own jobs, or the jobs of all users."""

    channel = serializers.CharField(max_length=KIND_LENGTH_MAX, help_text="A `kind` of `GET /notification-channels`.")
    target = serializers.CharField(
        max_length=VALUE_LENGTH_MAX, allow_blank=True, default="", help_text="The channel's field `target`, where it has one."
    )
    settings = SettingsField(default=dict, help_text="The channel's other fields, by name.")
    kinds = serializers.ListField(
        child=serializers.ChoiceField(KINDS), allow_empty=False, max_length=len(KINDS), default=KINDS_DEFAULT
    )
    tenant = serializers.CharField(max_length=255, allow_null=True, default=None)
    jobs = serializers.ChoiceField(WHOSE, default="mine")


class SubscriptionChange(_ChannelSerializer):
    """Fields of a subscription that may change."""

    target = serializers.CharField(max_length=VALUE_LENGTH_MAX, allow_blank=True, required=False)
    settings = SettingsField(required=False, help_text="Changed fields. Omitted fields are unchanged; an empty field is removed.")
    kinds = serializers.ListField(child=serializers.ChoiceField(KINDS), allow_empty=False, max_length=len(KINDS), required=False)
    jobs = serializers.ChoiceField(WHOSE, required=False)
    is_active = serializers.BooleanField(required=False)


class SubjectOut(serializers.Serializer[Any]):
    """Object of an event."""

    kind = serializers.CharField()
    id = serializers.UUIDField()


class EventOut(serializers.Serializer[Any]):
    """A numbered event."""

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
    """Object of an accepted call."""

    kind = serializers.CharField()
    id = serializers.CharField()
    name = serializers.CharField()


class AuditActorOut(serializers.Serializer[Any]):
    """User who made an accepted call."""

    id = serializers.UUIDField(allow_null=True)
    name = serializers.CharField()
    token_id = serializers.UUIDField(allow_null=True)


class AuditOut(serializers.Serializer[Any]):
    """An accepted call. `seq` and `hash` are null until the row is sealed, within a second."""

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


class FailureOut(serializers.Serializer[Any]):
    """A message that could not be delivered."""

    at = UtcTimeField(help_text="Creation time of the message.")
    error = serializers.CharField()


class WordsOut(serializers.Serializer[Any]):
    """A text in both languages."""

    en = serializers.CharField()
    zh = serializers.CharField()


class ChannelProblemOut(serializers.Serializer[Any]):
    """Reason why a channel delivers nothing."""

    code = serializers.CharField()
    words = WordsOut()


class ChannelFieldOut(serializers.Serializer[Any]):
    """A field of a channel's form. The field `target` is given at the top of a subscription, all others in its `settings`."""

    name = serializers.CharField()
    words = WordsOut()
    hint = WordsOut()
    example = serializers.CharField()
    is_secret = serializers.BooleanField(help_text="The value is stored encrypted and never shown again.")
    is_required = serializers.BooleanField()


class ChannelOut(serializers.Serializer[Any]):
    """A notification channel."""

    kind = serializers.CharField()
    words = WordsOut()
    inputs = ChannelFieldOut(many=True)
    signs = serializers.BooleanField(help_text="A signing secret is created with the subscription and shown only once.")
    problem = ChannelProblemOut(allow_null=True)


class ChannelsOut(serializers.Serializer[Any]):
    """Channels that the operator offers."""

    items = ChannelOut(many=True)


class SubscriptionOut(serializers.Serializer[Any]):
    """A subscription. `secret` is only in the answer that creates a webhook, and is shown only once."""

    id = serializers.UUIDField()
    channel = serializers.CharField()
    target = serializers.CharField()
    settings = serializers.DictField(
        child=serializers.CharField(allow_null=True),
        help_text="The channel's other fields that are set; null for a secret field.",
    )
    kinds = serializers.ListField(child=serializers.CharField())
    tenant_id = serializers.UUIDField(allow_null=True)
    jobs = serializers.CharField()
    is_active = serializers.BooleanField()
    version = serializers.IntegerField()
    created_at = UtcTimeField()
    problem = serializers.CharField(
        allow_null=True,
        help_text="Code of the reason why the subscription delivers nothing: `not_offered`, or a code of the channel, "
        "described by `GET /notification-channels`; null if no problem is known.",
    )
    last_failure = FailureOut(
        allow_null=True, help_text="The newest finished message, if it could not be delivered; otherwise null."
    )
    secret = serializers.CharField(required=False)


class DeliveryOut(serializers.Serializer[Any]):
    """A message to a subscription, and its delivery."""

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
    """A page of the audit log."""

    items = AuditOut(many=True)
    next = serializers.CharField(allow_null=True)


class SubscriptionPageOut(serializers.Serializer[Any]):
    """A page of your subscriptions."""

    items = SubscriptionOut(many=True)
    next = serializers.CharField(allow_null=True)


class DeliveryPageOut(serializers.Serializer[Any]):
    """A page of your deliveries."""

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


def show_channel(channel: Channel) -> dict[str, Any]:
    problem = channel.problem(current())
    return {
        "kind": channel.kind,
        "words": _words(channel.label),
        "inputs": [
            {
                "name": field.name,
                "words": _words(field.label),
                "hint": _words(field.hint),
                "example": field.example,
                "is_secret": field.is_secret,
                "is_required": field.is_required,
            }
            for field in channel.fields
        ],
        "signs": channel.signs,
        "problem": None if problem is None else {"code": problem.code, "words": _words(problem.words)},
    }


def _words(words: Text[str]) -> dict[str, str]:
    return {"en": words.en, "zh": words.zh}


def show_subscription(row: Subscription) -> dict[str, Any]:
    return show_subscriptions([row])[0]


def show_subscriptions(rows: Sequence[Subscription]) -> list[dict[str, Any]]:
    failures = last_failures([row.id for row in rows])
    return [_show_subscription(row, failures.get(row.id)) for row in rows]


def _show_subscription(row: Subscription, failure: Delivery | None) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "channel": row.channel,
        "target": row.target,
        "settings": shown_of(row),
        "kinds": row.kinds,
        "tenant_id": _id(row.tenant_id),
        "jobs": row.jobs,
        "is_active": row.is_active,
        "version": row.version,
        "created_at": utc_text(row.created_at),
        "problem": _problem(row.channel),
        "last_failure": None if failure is None else {"at": utc_text(failure.created_at), "error": failure.last_error},
    }


def _problem(kind: str) -> str | None:
    config = current()
    if not is_offered(kind, config):
        return "not_offered"
    problem = CHANNELS[kind].problem(config)
    return None if problem is None else problem.code


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
