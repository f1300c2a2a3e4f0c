"""The highest priority that a role may use by itself, tenant by tenant.

A tenant without a line of its own has that of the nearest tenant above it that has one, and else the installation's.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernel.actor import TenantRole

GRANTED_ROLES = (TenantRole.MEMBER, TenantRole.MANAGER)  # Viewers submit nothing.


@dataclass(frozen=True, slots=True)
class PriorityGrants:
    """All lines. `paths`: every tenant with itself and all above it, nearest first."""

    lines: Mapping[tuple[uuid.UUID, TenantRole], int]
    paths: Mapping[uuid.UUID, Sequence[uuid.UUID]]

    def highest(self, tenant_id: uuid.UUID, role: TenantRole, default: int) -> int:
        """What the role may use in the tenant."""
        return self.source(tenant_id, role, default)[0]

    def source(self, tenant_id: uuid.UUID, role: TenantRole, default: int) -> tuple[int, uuid.UUID | None]:
        """The same, and the tenant whose line says so; None for the installation's."""
        for above in self.paths.get(tenant_id, (tenant_id,)):
            line = self.lines.get((above, role))
            if line is not None:
                return line, above
        return default, None
