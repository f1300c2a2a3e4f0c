"""What the control plane brings to the layers below: duties, and who may see its rows."""

from __future__ import annotations

from controlplane.hooks import register_hooks
from controlplane.rules import register_rules
from kernel.duties import Duty, register_duties
from kernel.tenant_rows import USER, register_tenant_rows

SELFTEST_LOOK_SECONDS = 600.0  # How often a worker looks whether the nightly self-test is due, or was interrupted.
DUTIES = (
    Duty("reconciling.sweep", lambda config: config.sweep_seconds),
    Duty("controlplane.selftest", lambda _: SELFTEST_LOOK_SECONDS),
)

TENANT_ROWS = {"admin.LogEntry": (USER,)}  # Of the console, which is no app of ours.


def register() -> None:
    """Called once, from `AppConfig.ready`."""
    register_duties(DUTIES)
    register_tenant_rows(TENANT_ROWS)
    register_rules()
    register_hooks()
