"""The whole platform in one process: web, worker, scheduler and observers, each a thread; plus the launcher when root.

Everything here may be killed at any moment. What runs are the tasks of jobs, in sessions of their own; the next start reads
the database, asks the engine what is there, and goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog
from django.db import DatabaseError, connection

from clusters.engines.local.config import launcher_policy, launcher_socket
from clusters.engines.local.launching import start_child
from controlplane.instance import (
    check_data_directory,
    check_disk,
    check_exposure,
    check_port,
    lay_out_data_directory,
    lock_data_directory,
)
from controlplane.management.leaving import end_overdue
from controlplane.processes.leader import keep_leases
from controlplane.processes.loops import Loop
from controlplane.processes.service_user import become_service_user, owner_of_data, service_user
from kernel.config import Config

if TYPE_CHECKING:
    from controlplane.processes.worker import Worker

log = structlog.get_logger("embedded")

THREADS_SECONDS = 2.1  # As the web server, beside which they end; with the launcher's one the whole ends within five.
LAUNCHER_SECONDS = 1.0
OVERDUE_SECONDS = 10.0  # After the drain: nothing of a stop waits for so long, unless it waits for ever.
SWITCH_SECONDS = 0.001  # A request that comes back from the disk waits no longer for a loop that computes; Python's own is 5 ms.
WRITE_BACK_MILLISECONDS = 500  # No thread writes any more; a remaining thread may still read.


def run(config: Config, *, bootstrap: bool) -> int:
    """Start, serve until SIGTERM or SIGINT, stop. Raises CannotStart before anything was changed."""
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_SECONDS)
    check_exposure(config)
    check_data_directory(config)
    check_disk(config.data_dir)
    lock_data_directory(config)  # Before the port: who has the lock also has the port, and is the better reason.
    check_port(config)
    owner = owner_of_data()
    lay_out_data_directory(config, uid=owner.pw_uid, gid=owner.pw_gid)
    launcher = _start_launcher(config)
    become_service_user(config)
    try:
        return _serve(config, bootstrap=bootstrap)
    finally:
        if launcher is not None:
            _end_launcher(launcher)


def _start_launcher(config: Config) -> subprocess.Popen[bytes] | None:
    """Root only: a small child keeps root for its fixed verbs, so that this process can give root up."""
    if os.geteuid() != 0 or not config.local_cluster:
        return None
    user = service_user()
    policy = launcher_policy(config, service_uid=user.pw_uid, service_gid=user.pw_gid)
    return start_child(launcher_socket(config), policy, keep=True)


def _end_launcher(launcher: subprocess.Popen[bytes]) -> None:
    """It ends when its parent closes the pipe, also by dying; we have no right to kill it any more."""
    assert launcher.stdin is not None
    launcher.stdin.close()
    try:
        launcher.wait(LAUNCHER_SECONDS)
    except subprocess.TimeoutExpired:
        log.warning("launcher_still_works", pid=launcher.pid)


def _serve(config: Config, *, bootstrap: bool) -> int:
    from controlplane import bootstrap as first_start
    from controlplane.processes import observer, scheduler, web
    from controlplane.processes.worker import Worker

    first_start.migrate()
    if bootstrap:
        first_start.create_first_objects(config)
    first_start.prepare_clusters(config)

    server = web.server(config)
    worker = Worker()
    loops = [Loop("leases", keep_leases), *scheduler.loops(), *observer.loops()]
    holder = f"{socket.gethostname()}:{os.getpid()}"
    left: list[str] = []

    def end_beside_the_server() -> None:
        server.asked_to_stop.wait()
        left.extend(_finish(worker, loops))

    ender = threading.Thread(target=end_beside_the_server, name="ender", daemon=True)
    end_overdue(server.asked_to_stop, seconds=config.web_drain_seconds + OVERDUE_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)  # Also for the moments before the server runs.
    try:
        worker.start()
        for loop in loops:
            loop.start()
        ender.start()
        log.info("serving", url=config.url, holder=holder, version=first_start.VERSION)
        server.run()
    finally:
        server.asked_to_stop.set()
        if ender.ident is not None:
            ender.join(2 * THREADS_SECONDS)
        _write_back()
        log.info("stopped", holder=holder, left=left)
    return 0


def _write_back() -> None:
    """Bring what SQLite has in its log into its file: what is stopped is one file, also where a thread is left."""
    if connection.vendor == "sqlite":
        with contextlib.suppress(DatabaseError), connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {WRITE_BACK_MILLISECONDS}")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _finish(worker: Worker, loops: Sequence[Loop]) -> list[str]:
    """Let every thread end what it has in hand; the names of those that need longer, which are left to die with us."""
    deadline = time.monotonic() + THREADS_SECONDS
    for loop in loops:
        loop.ask_to_end()
    left = [] if worker.finish(seconds=THREADS_SECONDS) else ["worker"]
    return left + [loop.name for loop in loops if not loop.finish(seconds=max(0.0, deadline - time.monotonic()))]
