"""What reconciling brings to the layers below: whose its rows are."""

from __future__ import annotations

from kernel.tenant_rows import TENANT, register_tenant_rows

TENANT_ROWS = {
    "reconciling.Transition": (TENANT,),
}


def register() -> None:
    """Called once, from `AppConfig.ready`."""
    register_tenant_rows(TENANT_ROWS)
