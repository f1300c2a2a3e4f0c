"""Which paths and which users a launcher serves. Checked where the rights are, not where the request is made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clusters.engines.local.launching.verbs import LauncherRefused, Owner

NUMBERS_MAX = 100_000_000  # Tenants and volumes; base + number stays far below the 32-bit end of uids.


@dataclass(frozen=True, slots=True)
class Policy:
    """`drop_rights` False: everything runs as the present user, and owners are accepted but not applied.

    `service_uid` and `service_gid` is the platform's own user, who may read an engine's control files.
    """

    roots: tuple[str, ...]
    uid_base: int
    gid_base: int
    service_uid: int
    service_gid: int
    drop_rights: bool

    def check_root(self, root: str) -> str:
        """Give the root without links, or refuse it."""
        real = str(Path(root).resolve())
        if any(real == allowed or real.startswith(allowed + "/") for allowed in self._real_roots()):
            return real
        raise LauncherRefused(f"{root} is not beneath a directory that the launcher serves")

    def check_owner(self, owner: Owner) -> Owner:
        """Refuse every user but tenants and the service user, and every group but tenants', volumes' and the service's."""
        if not self.drop_rights:
            return owner
        if owner.uid != self.service_uid and not self.is_tenant(owner.uid):
            raise LauncherRefused(f"uid {owner.uid} is neither a tenant's nor the service user's")
        for gid in (owner.gid, *owner.groups):
            self.check_gid(gid)
        return owner

    def check_tenant(self, owner: Owner) -> Owner:
        """As `check_owner`, and not the service user: tasks never run as that one while rights are dropped."""
        if self.drop_rights and not self.is_tenant(owner.uid):
            raise LauncherRefused(f"uid {owner.uid} is not a tenant's")
        return self.check_owner(owner)

    def check_gid(self, gid: int) -> int:
        if not self.drop_rights or gid == self.service_gid or self.is_tenant(gid):
            return gid
        if self.gid_base <= gid < self.gid_base + NUMBERS_MAX:
            return gid
        raise LauncherRefused(f"gid {gid} is neither a tenant's, a volume's nor the service user's")

    def is_tenant(self, uid: int) -> bool:
        return self.uid_base <= uid < self.uid_base + NUMBERS_MAX and uid != 0

    def _real_roots(self) -> tuple[str, ...]:
        return tuple(str(Path(root).resolve()) for root in self.roots)
