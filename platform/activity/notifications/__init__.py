"""Telling users how their jobs end: subscriptions, fan-out of events to deliveries, and sending by channels."""

from activity.notifications.fanout import fan_out
from activity.notifications.send import deliver
from activity.notifications.subscriptions import rotate_secrets

__all__ = ["deliver", "fan_out", "rotate_secrets"]
