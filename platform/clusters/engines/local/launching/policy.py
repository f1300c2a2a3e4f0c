"""Which paths and which users a launcher serves. Checked where the rights are, not where the request is made."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

from clusters.engines.local.launching.verbs import CHECKPOINTS, LauncherRefused, Owner

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
        real = os.path.realpath(root)
        if any(real == allowed or real.startswith(allowed + "/") for allowed in map(_real, self.roots)):
            return real
        raise LauncherRefused(f"{root} is not beneath a directory that the launcher serves")

    def check_checkpoint(self, path: str) -> tuple[str, str]:
        """Give the root and the path below it of a directory that a job keeps, or refuse it. It need not be there yet."""
        for root in self.roots:
            for base in (root, _real(root)):
                relative = os.path.relpath(path, base)
                parts = relative.split("/")
                if os.path.isabs(path) and len(parts) == 3 and parts[0] == CHECKPOINTS and ".." not in parts:
                    return _real(root), relative
        raise LauncherRefused(f"{path} is no directory of a checkpoint")

    def check_tenant(self, owner: Owner) -> Owner:
        """Refuse to act as any user but a tenant, in any group but a tenant's or a volume's. Never as the service user."""
        if self.drop_rights:
            if not self._is_tenant(owner.uid):
                raise LauncherRefused(f"uid {owner.uid} is not a tenant's")
            for gid in (owner.gid, *owner.groups):
                if not self._is_tenant(gid) and not self._is_volume(gid):
                    raise LauncherRefused(f"gid {gid} is neither a tenant's nor a volume's")
        return owner

    def check_receiver(self, owner: Owner) -> Owner:
        """Refuse to give a directory to any user but a tenant or the service user."""
        if self.drop_rights and owner.uid != self.service_uid and not self._is_tenant(owner.uid):
            raise LauncherRefused(f"uid {owner.uid} is neither a tenant's nor the service user's")
        self.check_gid(owner.gid)
        return owner

    def check_gid(self, gid: int) -> int:
        if not self.drop_rights or gid == self.service_gid or self._is_tenant(gid) or self._is_volume(gid):
            return gid
        raise LauncherRefused(f"gid {gid} is neither a tenant's, a volume's nor the service user's")

    def _is_tenant(self, number: int) -> bool:
        return number != 0 and self.uid_base <= number < self.uid_base + NUMBERS_MAX

    def _is_volume(self, gid: int) -> bool:
        return gid != 0 and self.gid_base <= gid < self.gid_base + NUMBERS_MAX


@functools.cache
def _real(root: str) -> str:
    """The configured roots stay where they were when we first looked."""
    return os.path.realpath(root)
