"""The platform's own user: a process that starts as root becomes it, but for the launcher and the supervisor of processes."""

from __future__ import annotations

import contextlib
import os
import pwd

import structlog

from controlplane.instance import CannotStart
from kernel.config import Config

log = structlog.get_logger("service_user")

SERVICE_USER = "berth"


def service_user() -> pwd.struct_passwd:
    """The user that the platform works as when root starts it. Raises CannotStart."""
    try:
        return pwd.getpwnam(SERVICE_USER)
    except KeyError:
        raise CannotStart(
            f"There is no user {SERVICE_USER}. `make up` makes it; or: useradd --system --user-group {SERVICE_USER}"
        ) from None


def owner_of_data() -> pwd.struct_passwd:
    """Whose the platform's files are: the service user's when root starts it, else our own."""
    return service_user() if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


def become_service_user(config: Config) -> None:
    """Give root up for good, and hand over what root may have made in the data directory. Does nothing without root."""
    if os.geteuid() != 0:
        return
    user = service_user()
    for name in ("platform.lock", "secret.key"):
        with contextlib.suppress(FileNotFoundError):  # The key may be a setting instead.
            os.chown(config.data_dir / name, user.pw_uid, user.pw_gid, follow_symlinks=False)
    os.initgroups(SERVICE_USER, user.pw_gid)
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    os.environ["HOME"] = str(config.data_dir)
    log.info("became_service_user", user=SERVICE_USER, uid=user.pw_uid)
