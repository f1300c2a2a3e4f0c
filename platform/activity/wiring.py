"""What activity brings to the layers below: an error, crash points and the duty that sends."""

from __future__ import annotations

from activity.hints import DELIVERIES
from activity.hooks import register_hooks
from kernel.crashpoints import register_crash_points
from kernel.duties import Duty, register_duties
from kernel.tenant_rows import TENANT, USER, register_tenant_rows
from webapi.reference import register_errors

ERRORS: dict[str, str] = {}

CRASH_POINTS = {
    "activity.sequence.before_commit": "Events have their numbers, the transaction is not committed.",
    "activity.fan_out.before_commit": "Deliveries are written and the cursor moved, not committed.",
    "activity.deliver.after_claim": "Deliveries are claimed, nothing was sent.",
    "activity.deliver.after_send": "Messages were sent, the deliveries do not say so.",
}

DUTIES = (Duty("activity.deliver", lambda config: config.poll_seconds * 5, hint=DELIVERIES),)

TENANT_ROWS = {
    "activity.Subscription": (TENANT, USER),
    "activity.Delivery": (TENANT, USER),
    "activity.Ticket": (USER,),
}


def register() -> None:
    """Called once, from `AppConfig.ready`."""
    register_errors(ERRORS)
    register_crash_points(CRASH_POINTS)
    register_duties(DUTIES)
    register_tenant_rows(TENANT_ROWS)
    register_hooks()
