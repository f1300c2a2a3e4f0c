"""`manage.py run ROLE`: one process in the foreground, as systemd, Compose and our supervisor run it.

Ends with SIGTERM or SIGINT: a web process answers what it has in hand and ends its streams, loops end after their step,
leaders resign so that a standby goes on at once.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

import structlog

from controlplane.instance import CannotStart, check_data_directory, check_exposure, listen, local_url
from controlplane.processes import observer, scheduler, signs, web
from controlplane.processes.heartbeat import Heartbeat
from controlplane.processes.leader import keep_leases
from controlplane.processes.loops import Loop
from controlplane.processes.worker import Worker
from controlplane.servers import check_claim, keep_claim, refuse_wrong_servers
from kernel.config import Config

log = structlog.get_logger("process")

ROLES = ("web", "worker", "scheduler", "observer")  # And the launcher, which knows nothing of Django.
FINISH_SECONDS = 8.0  # For the steps and tasks in hand; what is left is found again by others.
LOOK_SECONDS = 1.0
CLAIM_SECONDS = 60.0


def run(config: Config, role: str) -> int:
    """Do what the role does until told to end; the exit code. Raises CannotStart."""
    check_exposure(config)
    check_data_directory(config)
    if not config.is_production:
        raise CannotStart(
            "`manage.py run` is for the production profile: set BERTH_SERVER_PROFILE=production with BERTH_DATABASE_URL and "
            "BERTH_REDIS_URL. The embedded profile is one process: `manage.py serve`."
        )
    signs.end_with_supervisor()
    refuse_wrong_servers(config)
    check_claim(config)
    heartbeat = Heartbeat(role, url=local_url(config) if role == "web" else "")
    loops = [Loop("leases", keep_leases), Loop("heartbeat", heartbeat.beat, finally_=heartbeat.end)]
    if role == "web":
        return _run_web(config, loops)
    if role == "worker":
        return _run_worker([*loops, Loop("claim", _claim)])
    return _run_loops(role, scheduler.loops() if role == "scheduler" else observer.loops(), loops)


def _claim(stop: threading.Event) -> float:
    keep_claim()
    return CLAIM_SECONDS


def _run_web(config: Config, loops: list[Loop]) -> int:
    listener = signs.given_listener() or listen(config, shared=True)
    server = web.server(config)
    server.on_ready = signs.say_ready
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    for loop in loops:
        loop.start()
    log.info("serving", role="web", url=config.url)
    try:
        server.run(sockets=[listener])
    finally:
        signs.say_stopping()
        _finish("web", loops)
    return 0


def _run_worker(loops: list[Loop]) -> int:
    stop = _stop_signal()
    worker = Worker()
    worker.start()
    for loop in loops:
        loop.start()
    said = False
    while not stop.wait(0.05 if not said else LOOK_SECONDS) and worker.is_alive:
        if not said and worker.is_ready:
            said = True
            log.info("serving", role="worker")
            signs.say_ready()
    asked = stop.is_set()
    if not asked:
        log.error("worker_ended_by_itself")
    signs.say_stopping()
    left = [] if worker.finish(seconds=FINISH_SECONDS) else ["worker"]
    _finish("worker", loops, left)
    return 0 if asked else 1


def _run_loops(role: str, work: list[Loop], loops: list[Loop]) -> int:
    stop = _stop_signal()
    for loop in (*work, *loops):
        loop.start()
    while not stop.is_set() and not all(loop.has_run for loop in work):  # One step: it leads, or knows that another one does.
        stop.wait(0.02)
    if not stop.is_set():
        log.info("serving", role=role)
        signs.say_ready()
    stop.wait()
    signs.say_stopping()
    _finish(role, [*work, *loops])
    return 0


def _stop_signal() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    return stop


def _finish(role: str, loops: list[Loop], left: list[str] | None = None) -> None:
    """Let every loop end its step; the names of those that need longer are left to die with us."""
    deadline = time.monotonic() + FINISH_SECONDS
    for loop in loops:
        loop.ask_to_end()
    late = [loop.name for loop in loops if not loop.finish(seconds=max(0.0, deadline - time.monotonic()))]
    log.info("stopped", role=role, left=[*(left or []), *late])
