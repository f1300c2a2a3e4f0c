"""The whole platform in one process: web, worker, scheduler and observers, each a thread; plus the launcher when root.

Everything here may be killed at any moment. What runs are the tasks of jobs, in sessions of their own; the next start reads
the database, asks the engine what is there, and goes on.
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import threading
from typing import Any

import structlog

from clusters.engines.local.config import launcher_policy, launcher_socket
from clusters.engines.local.launching import start_child
from controlplane.instance import CannotStart, check_disk, check_exposure, check_port, lay_out_data_directory, lock_data_directory
from kernel.config import Config

log = structlog.get_logger("embedded")

SERVICE_USER = "berth"


def run(config: Config, *, bootstrap: bool) -> int:
    """Start, serve until SIGTERM or SIGINT, stop. Raises CannotStart before anything was changed."""
    os.umask(0o077)
    check_exposure(config)
    check_disk(config.data_dir)
    check_port(config)
    lock = lock_data_directory(config)
    owner = _service_user() if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    lay_out_data_directory(config, uid=owner.pw_uid, gid=owner.pw_gid)
    launcher = _start_launcher(config)
    _become_service_user(config, lock)
    try:
        return _serve(config, bootstrap=bootstrap)
    finally:
        if launcher is not None:
            launcher.stdin.close()  # It ends when its parent closes the pipe, also by dying.
            launcher.wait(5)


def _start_launcher(config: Config) -> Any:
    """Root only: a small child keeps root for its fixed verbs, so that this process can give root up."""
    if os.geteuid() != 0 or not config.local_cluster:
        return None
    user = _service_user()
    return start_child(launcher_socket(config), launcher_policy(config, service_uid=user.pw_uid, service_gid=user.pw_gid))


def _service_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(SERVICE_USER)
    except KeyError:
        raise CannotStart(
            f"There is no user {SERVICE_USER}. `make up` makes it; or: useradd --system --user-group {SERVICE_USER}"
        ) from None


def _become_service_user(config: Config, lock: int) -> None:
    if os.geteuid() != 0:
        return
    user = _service_user()
    for name in ("", "platform.lock", "secret.key"):
        if (config.data_dir / name).exists():
            os.chown(config.data_dir / name, user.pw_uid, user.pw_gid)
    os.initgroups(SERVICE_USER, user.pw_gid)
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    os.environ["HOME"] = str(config.data_dir)
    log.info("became_service_user", user=SERVICE_USER, uid=user.pw_uid, lock=lock)


def _serve(config: Config, *, bootstrap: bool) -> int:
    from controlplane import bootstrap as first_start
    from controlplane.processes import observer, scheduler, web
    from controlplane.processes.worker import Worker

    first_start.migrate()
    if bootstrap:
        first_start.create_first_objects(config)
    first_start.prepare_clusters(config)

    server = web.server(config)
    worker = Worker(queues=("default",))
    loops = [*scheduler.loops(), *observer.loops()]
    holder = f"{socket.gethostname()}:{os.getpid()}"
    stopping = threading.Event()

    def ask_to_stop(number: int, frame: object) -> None:
        stopping.set()
        server.should_exit = True

    worker.start()
    for loop in loops:
        loop.start()
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # Ours also stop the loops.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    log.info("serving", url=config.url, holder=holder, version=first_start.VERSION)
    try:
        server.run()
    finally:
        for loop in loops:
            loop.stop.set()
            loop.wake.set()
        worker.finish()
        for loop in loops:
            loop.finish()
        log.info("stopped", holder=holder)
    return 0
