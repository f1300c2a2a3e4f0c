"""The launcher as a process: keeps root, serves the fixed verbs on a unix socket that only the platform's user can reach.

It keeps no state beyond its open connections: kill it and start it again at any moment. Where it is kept, another one
takes its place at once. It ends when the process that started it as a child ends. Tasks and their wrappers outlive it.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clusters.engines.local.launching import shells, walks, wire
from clusters.engines.local.launching.direct import DirectLauncher
from clusters.engines.local.launching.keeper import keep
from clusters.engines.local.launching.policy import Policy
from clusters.engines.local.launching.verbs import LauncherRefused, LauncherUnavailable

_CONNECTIONS_MAX = 128 + shells.SHELLS_MAX  # One per thread of each platform process and per open shell; more is a leak.
_REAP_SECONDS = 1.0
_START_SECONDS = 20.0

logger = logging.getLogger("berth.launcher")


def serve(socket_path: str, policy: Policy, *, parent: int | None = None) -> None:
    """Serve until the process is ended, or until `parent` (the reading end of a pipe) closes."""
    _serve(_listen(socket_path, policy), policy, parent)


def _serve(listener: socket.socket, policy: Policy, parent: int | None) -> None:
    launcher = DirectLauncher(policy)
    allowed = {policy.service_uid, os.geteuid()}
    slots = threading.BoundedSemaphore(_CONNECTIONS_MAX)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    if parent is not None:
        selector.register(parent, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select(_REAP_SECONDS):
            if key.fileobj is not listener:
                if not os.read(key.fd, 1):
                    return
                continue
            connection, _ = listener.accept()
            if _peer_uid(connection) not in allowed or not slots.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=_converse, args=(connection, launcher, slots), daemon=True).start()
        launcher.reap()


def keep_serving(
    socket_path: str, policy: Policy, *, parent: int, child_closes: int, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Serve in a child process, and in another one whenever that ends, until `parent` (the reading end of a pipe) closes.

    `child_closes` is the pipe's other end: the child must not hold it open itself. Call it from a process of one thread.
    """
    before = os.umask(0o022)  # The platform reads control groups and records that we make.
    listener = _listen(socket_path, policy)
    on_ready()

    def work() -> None:
        os.close(child_closes)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Of a terminal: the keeper says when to end.
        _serve(listener, policy, parent)

    try:
        keep(work, parent=parent)
    finally:
        os.umask(before)
        listener.close()


def start_child(socket_path: str, policy: Policy, *, keep: bool = False) -> subprocess.Popen[bytes]:
    """Start a launcher as a child of this process, which still has root, and wait until it answers.

    Call this before dropping to the service user. The child ends with this process. `keep` makes it a small process that
    replaces the launcher whenever that ends: for callers that give root up.
    """
    platform_folder = str(Path(__file__).parents[4])
    command = [sys.executable, "-P", "-m", "clusters.engines.local.launching", "--socket", socket_path]
    for name in ("uid_base", "gid_base", "service_uid", "service_gid"):
        command += [f"--{name.replace('_', '-')}", str(getattr(policy, name))]
    for root in policy.roots:
        command += ["--root", root]
    command += ["--keep"] if keep else []
    environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": platform_folder, "LANG": "C.UTF-8"}
    with contextlib.suppress(FileNotFoundError):
        os.unlink(socket_path)  # An earlier launcher's; it would answer in place of the new one.
    child = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, cwd="/", start_new_session=True)
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(socket_path)
            return child
        time.sleep(0.02)
    child.kill()
    child.wait()
    raise RuntimeError(f"The launcher did not start: its socket {socket_path} does not answer")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a launcher from the command line; `start_child` and a service unit of its own do."""
    parser = argparse.ArgumentParser(prog="berth-launcher", description="Starts Berth's tasks under their tenants' users.")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--root", action="append", required=True, help="directory below which all served paths lie")
    for name in ("--uid-base", "--gid-base", "--service-uid", "--service-gid"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--alone", action="store_true", help="do not end with the process at standard input")
    parser.add_argument("--keep", action="store_true", help="replace the launcher whenever it ends")
    options = parser.parse_args(arguments)
    policy = Policy(
        roots=tuple(options.root),
        uid_base=options.uid_base,
        gid_base=options.gid_base,
        service_uid=options.service_uid,
        service_gid=options.service_gid,
        drop_rights=os.geteuid() == 0,
    )
    os.umask(0o022)  # Ours to give, not our parent's: the platform reads control groups and records that we make.
    logging.basicConfig(format="%(asctime)s launcher %(levelname)s %(message)s")
    if options.keep:
        listener = _listen(options.socket, policy)
        keep(lambda: _serve(listener, policy, 0), parent=0)
    else:
        serve(options.socket, policy, parent=None if options.alone else 0)
    return 0


def _listen(path: str, policy: Policy) -> socket.socket:
    """Listen first and take the name then: a client that sees the socket is answered."""
    preparing = f"{path}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(preparing)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(preparing)
    finally:
        os.umask(before)
    if os.geteuid() == 0:
        os.chown(preparing, policy.service_uid, policy.service_gid, follow_symlinks=False)
    listener.listen(_CONNECTIONS_MAX)
    os.rename(preparing, path)
    return listener


def _peer_uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", credentials)[1]
    return uid


def _converse(connection: socket.socket, launcher: DirectLauncher, slots: threading.BoundedSemaphore) -> None:
    try:
        with connection, contextlib.suppress(wire.Broken, ConnectionError):
            while True:
                message, sent = wire.receive(connection)
                for descriptor in sent:
                    os.close(descriptor)  # No verb takes one.
                if message["verb"] == "open_shell":
                    _keep_shell(connection, launcher, message["arguments"])
                    return  # From now on the connection was the shell's lifeline.
                _answer(connection, launcher, message)
    except Exception:
        logger.exception("A connection ended by an error of the launcher")
    finally:
        slots.release()


def _answer(connection: socket.socket, launcher: DirectLauncher, message: dict[str, Any]) -> None:
    descriptor: int | None = None
    try:
        try:
            if message["verb"] in walks.VERBS:
                wire.send_packed(
                    connection, launcher.walk(message["verb"], message["arguments"], patient=bool(message.get("patient")))
                )
                return
            result = _carry_out(launcher, message["verb"], message["arguments"])
            if message["verb"] == "open_file":
                descriptor, result = result, None
            answer: dict[str, Any] = {"result": result}
        except (LauncherRefused, LauncherUnavailable, OSError) as error:
            answer = wire.encode_error(error)
        wire.send(connection, answer, () if descriptor is None else (descriptor,))
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _keep_shell(connection: socket.socket, launcher: DirectLauncher, arguments: dict[str, Any]) -> None:
    try:
        shell = launcher.start_shell(wire.decode_shell(arguments))
    except (LauncherRefused, OSError) as error:
        wire.send(connection, wire.encode_error(error))
        return
    shell.keep(connection)


def _carry_out(launcher: DirectLauncher, verb: str, arguments: dict[str, Any]) -> Any:
    """Do one verb of the closed list; anything else is refused."""
    if verb == "start":
        return [asdict(item) for item in launcher.start([wire.decode_start(each) for each in arguments["attempts"]])]
    if verb == "signal":
        return launcher.signal([wire.decode_signal(each) for each in arguments["signals"]])
    if verb == "look":
        found = launcher.look([wire.decode_signal(each) for each in arguments["asks"]])
        return [[asdict(process) for process in each] for each in found]
    if verb == "pin":
        return launcher.pin([wire.decode_pin(each) for each in arguments["pins"]])
    if verb == "remove_attempts":
        return launcher.remove_attempts(arguments["root"], arguments["attempts"])
    if verb in {"open_file", "make_directory", "rename", "remove_tree", "copy_tree", "give"}:
        arguments["owner"] = wire.find_owner(arguments["owner"])
        return getattr(launcher, verb)(**arguments)
    if verb == "seal":
        return launcher.seal(**arguments)
    raise LauncherRefused(f"{verb!r} is not a verb of the launcher")
