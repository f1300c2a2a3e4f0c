"""The launcher as a process of its own: `manage.py run launcher`, the only one that keeps root. No Django in here."""

from __future__ import annotations

import os
import signal
from types import FrameType

import structlog

from clusters.engines.local.config import launcher_policy, launcher_socket
from clusters.engines.local.launching import keep_serving
from controlplane.instance import CannotStart, check_data_directory, lay_out_data_directory
from controlplane.processes import signs
from controlplane.processes.service_user import owner_of_data
from kernel.config import Config

log = structlog.get_logger("launcher")


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT. A launcher that dies is replaced at once; tasks outlive all of it."""
    if os.geteuid() != 0:
        raise CannotStart("The launcher starts tasks under other users and needs root. Without it the workers start them.")
    check_data_directory(config)
    owner = owner_of_data()
    lay_out_data_directory(config, uid=owner.pw_uid, gid=owner.pw_gid)
    policy = launcher_policy(config, service_uid=owner.pw_uid, service_gid=owner.pw_gid)
    signs.end_with_supervisor()
    parent, ours = os.pipe2(os.O_CLOEXEC)

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ours
        if ours >= 0:
            os.close(ours)
            ours = -1

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)

    def ready() -> None:
        log.info("serving", role="launcher", socket=launcher_socket(config))
        signs.say_ready()

    keep_serving(launcher_socket(config), policy, parent=parent, child_closes=ours, on_ready=ready)
    log.info("stopped", role="launcher")
    return 0
