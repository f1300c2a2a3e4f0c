"""How a subscription keeps the fields of its channel: what is shown in `target`, everything else sealed in `secret_sealed`.

A channel that signs seals its signing secret alone, and has no other field than `target`. Others seal all their fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from cryptography.fernet import InvalidToken

from activity.models import Subscription
from activity.notifications.channel import TARGET, Channel
from activity.notifications.channels import CHANNELS
from activity.notifications.sealing import seal, unseal


def columns(channel: Channel, values: Mapping[str, str]) -> dict[str, str]:
    """The columns that keep checked values; a signing secret is kept by what makes it."""
    shown = {"target": channel.target(values)}
    return shown if channel.signs or not channel.fields else {**shown, "secret_sealed": seal(json.dumps(dict(values)))}


def values_of(subscription: Subscription) -> dict[str, str]:
    """The values of the fields that the channel has by now; empty where the key that sealed them is lost."""
    channel = CHANNELS.get(subscription.channel)
    if channel is None or not channel.fields:
        return {}
    if channel.signs:
        return {TARGET: subscription.target}
    try:
        values = json.loads(unseal(subscription.secret_sealed))
    except InvalidToken:
        return {}
    return {field.name: values[field.name] for field in channel.fields if field.name in values}


def secret_of(subscription: Subscription) -> str:
    """The signing secret of a channel that signs; "" of others."""
    channel = CHANNELS.get(subscription.channel)
    return unseal(subscription.secret_sealed) if channel is not None and channel.signs else ""


def shown_of(subscription: Subscription) -> dict[str, str | None]:
    """The values that may be shown, and None for each secret that there is. Without `target`, which is shown by itself."""
    channel, values = CHANNELS.get(subscription.channel), values_of(subscription)
    if channel is None:
        return {}
    return {
        field.name: None if field.is_secret else values[field.name]
        for field in channel.fields
        if field.name in values and field.name != TARGET
    }
