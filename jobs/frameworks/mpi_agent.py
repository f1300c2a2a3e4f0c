"""Runs inside the tasks of an MPI job, in place of ssh: so that mpirun starts its daemons in the tasks that were given to it.

    serve  -- COMMAND...   In a task that takes ranks: run COMMAND (a preparation), then start what the launcher asks for.
    launch -- COMMAND...   In the launcher: wait until all others serve, run COMMAND (mpirun ...), then let the others end.
    both   -- COMMAND...   Both at once, for a job of one role, in its first task.
    agent HOST COMMAND...  Called by mpirun as if it were ssh.

This file is sent to the tasks and run by whatever python3 their image has (3.7 or later), so it uses the standard library only
and imports nothing of Berth. Tasks of other tenants may be able to reach the ports: every request answers a fresh challenge
with a key that only this attempt's tasks have. What is started in a task ends when the connection that asked for it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, Tuple  # noqa: UP035 - python3.7 evaluates the alias below.

KEY = os.environ.get("BERTH_ATTEMPT_KEY", "").encode()
WAIT_SECONDS = 600.0  # The same as the default start timeout: all tasks start together, so this is ample.
NOTICE_SECONDS = 15.0
CONNECT_SECONDS = 5.0
REQUEST_BYTES_MAX = 1 << 20
CHUNK_BYTES = 65536
THREADS = 32
SCRATCH = ("/tmp", "/dev/shm")  # noqa: S108 - mkdtemp makes private folders there; a longer path breaks unix sockets.
FIXED = {
    "OMPI_MCA_plm": "rsh",
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",  # Only the launcher is known to all.
    "OMPI_MCA_hwloc_base_binding_policy": "none",  # Daemons that share a machine would bind to the same cores.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",  # Containers mostly do; the isolation is around them.
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_plm": "ssh",
    "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}

Host = Tuple[int, str, int]  # noqa: UP006 - slots, address, port.


def main(arguments: list[str]) -> int:
    mode, rest = arguments[0], arguments[1:]
    if mode == "agent":
        return run_agent(rest)
    command = rest[1:]  # After the --.
    if mode == "serve":
        return serve_task(command)
    if mode == "both":
        Server().start()
    return launch(command)


def read_hosts() -> dict[str, Host]:
    """Name, slots, address and port of every task that takes ranks, from the file that the engine filled in."""
    with open(os.environ["BERTH_MPI_HOSTS"], encoding="utf-8") as lines:
        entries = [line.split() for line in lines if line.strip()]
    return {name: (int(slots), address, int(port)) for name, slots, address, port, *_ in entries}


# --- The side that takes ranks ---------------------------------------------------------------------------------------


def serve_task(command: list[str]) -> int:
    prepared = subprocess.call(command)
    if prepared != 0:
        say(f"the command of this role ended with {prepared}, so it takes no ranks")
        return prepared if prepared > 0 else 128 - prepared
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))
    server = Server()
    server.start()
    server.ended.wait()
    server.wait_for_runs()
    return 0


class Server:
    """Answers requests from the launcher, each in a thread of its own."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._environment = {**os.environ, **own_places()}
        self._runs: set[int] = set()
        port = int(os.environ["BERTH_MPI_PORT"])
        try:
            self._listener = listen(os.environ.get("BERTH_HOST", ""), port)
        except OSError:
            self._listener = listen("", port)  # The address is one that others see, not one of this machine's own.

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_for_runs(self) -> None:
        """Let what still runs say its last word: the launcher's end and a daemon's cross each other."""
        deadline = time.monotonic() + CONNECT_SECONDS
        while self._runs and time.monotonic() < deadline:
            time.sleep(0.02)

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        """One request: check it, and do it. A stranger gets no word of explanation."""
        with connection, contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            connection.settimeout(CONNECT_SECONDS)
            nonce = secrets.token_hex(32)
            connection.sendall(nonce.encode() + b"\n")
            request = json.loads(read_line(connection))
            if not hmac.compare_digest(request["mac"], sign(nonce, request["body"])):
                return
            body = json.loads(request["body"])
            connection.settimeout(None)
            self.handle(connection, body)

    def handle(self, connection: socket.socket, body: dict[str, Any]) -> None:
        """Do what one request asks for."""
        if body["do"] == "run":
            self._run(connection, body["command"])
            return
        connection.sendall(b"ok\n")
        if body["do"] == "end":
            self.ended.set()

    def _run(self, connection: socket.socket, command: str) -> None:
        """Run a command for the client, passing on its output, until either side ends."""
        argv = ["/bin/sh", "-c", command]  # What ssh does with the same text.
        process = subprocess.Popen(
            argv,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._runs.add(process.pid)
        try:
            if pass_on(process, connection):
                connection.sendall(b"X" + struct.pack("!i", process.wait()))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._runs.discard(process.pid)


def pass_on(process: subprocess.Popen[bytes], connection: socket.socket) -> bool:
    """Send output as it comes; False once the other side is gone."""
    assert process.stdout is not None
    output = process.stdout.fileno()
    while True:
        ready, _, _ = select.select([output, connection.fileno()], [], [])
        if connection.fileno() in ready and not connection.recv(CHUNK_BYTES):
            return False
        if output in ready:
            data = os.read(output, CHUNK_BYTES)
            if not data:
                return True
            connection.sendall(b"O" + struct.pack("!I", len(data)) + data)


def own_places() -> dict[str, str]:
    """Private folders for the sockets and the shared memory of what is started here.

    Several tasks may run on one machine under one host name; Open MPI would take them for one node and mix up their files.
    """
    folders = [tempfile.mkdtemp(prefix="berth-mpi-", dir=folder) for folder in SCRATCH if os.access(folder, os.W_OK)]
    for folder in folders:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if not folders:
        return {}
    return {"TMPDIR": folders[0], **{f"OMPI_MCA_btl_{kind}_backing_directory": folders[-1] for kind in ("vader", "sm")}}


def listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    server.listen(128)
    return server


# --- The side that asks ----------------------------------------------------------------------------------------------


def launch(command: list[str]) -> int:
    hosts = read_hosts()
    wait_for(hosts)
    os.environ.update(launcher_environment(hosts))
    process = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda caught, _: process.send_signal(caught))
    code = process.wait()
    each(hosts, lambda host: request(host, {"do": "end"}))
    return code if code >= 0 else 128 - code


def launcher_environment(hosts: dict[str, Host]) -> dict[str, str]:
    """What makes mpirun use the tasks of this job. Variables that the user set stay as they are."""
    agent = f"{sys.executable} {os.path.abspath(__file__)} agent"
    wanted = {
        **FIXED,
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_orte_default_hostfile": os.environ["BERTH_MPI_HOSTFILE"],
        "PRTE_MCA_plm_ssh_agent": agent,
        "PRTE_MCA_prte_default_hostfile": os.environ["BERTH_MPI_HOSTFILE"],
    }
    if all(is_loopback(address) for _, address, _ in hosts.values()):
        for name in ("OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl_tcp_if_include"):
            wanted[name] = "lo"
    return {name: value for name, value in wanted.items() if name not in os.environ}


def is_loopback(address: str) -> bool:
    return address == "localhost" or address == "::1" or address.startswith("127.")


def wait_for(hosts: dict[str, Host]) -> None:
    """Until every task serves; says every now and then which do not yet."""
    start = time.monotonic()
    noticed = start
    missing = dict(hosts)
    while missing:
        found = each(missing, lambda host: request(host, {"do": "ping"}))
        missing = {name: host for name, host in missing.items() if not found[name]}
        now = time.monotonic()
        if missing and now - start > WAIT_SECONDS:
            say(f"gave up waiting for {', '.join(sorted(missing))}")
            sys.exit(75)
        if missing and now - noticed > NOTICE_SECONDS:
            noticed = now
            say(f"waiting for {len(missing)} of {len(hosts)} tasks: {', '.join(sorted(missing)[:5])} ...")
        if missing:
            time.sleep(0.2)


def each(hosts: dict[str, Host], action: Callable[[Host], bool]) -> dict[str, bool]:
    """Do something with every host, a few at a time; False where it failed."""
    results: dict[str, bool] = {}
    names = list(hosts)

    def work() -> None:
        while True:
            try:
                name = names.pop()
            except IndexError:
                return
            try:
                results[name] = bool(action(hosts[name]))
            except (OSError, ValueError):
                results[name] = False

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(THREADS, len(names)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def request(host: Host, body: dict[str, Any]) -> bool:
    with ask(host, body) as connection:
        return read_line(connection) == b"ok"


def ask(host: Host, body: dict[str, Any]) -> socket.socket:
    """Open a connection and put a signed request on it."""
    _, address, port = host
    connection = socket.create_connection((address, port), timeout=CONNECT_SECONDS)
    nonce = read_line(connection).decode()
    text = json.dumps(body)
    connection.sendall(json.dumps({"body": text, "mac": sign(nonce, text)}).encode() + b"\n")
    return connection


def run_agent(arguments: list[str]) -> int:
    """What mpirun calls instead of `ssh HOST COMMAND`: pass the output on, end with the command's own code."""
    name, command = arguments[0], " ".join(arguments[1:])
    connection = ask(read_hosts()[name], {"do": "run", "command": command})
    connection.settimeout(None)
    with connection:
        while True:
            kind = connection.recv(1)
            if kind == b"O":
                (length,) = struct.unpack("!I", read_exactly(connection, 4))
                os.write(1, read_exactly(connection, length))
            elif kind == b"X":
                code = int(struct.unpack("!i", read_exactly(connection, 4))[0])
                return code if code >= 0 else 128 - code
            else:
                say(f"lost the connection to {name}")
                return 255


# --- On the wire -----------------------------------------------------------------------------------------------------


def sign(nonce: str, body: str) -> str:
    return hmac.new(KEY, (nonce + "\n" + body).encode(), hashlib.sha256).hexdigest()


def read_line(connection: socket.socket) -> bytes:
    """One line, and nothing of what comes behind it."""
    data = b""
    while not data.endswith(b"\n"):
        seen = connection.recv(4096, socket.MSG_PEEK)
        piece = connection.recv(seen.find(b"\n") + 1 or len(seen)) if seen else b""
        if not piece or len(data) > REQUEST_BYTES_MAX:
            raise ValueError("the other side ended in the middle of a line")
        data += piece
    return data[:-1]


def read_exactly(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = connection.recv(length - len(data))
        if not piece:
            raise OSError("the other side ended in the middle of a message")
        data += piece
    return data


def say(text: str) -> None:
    sys.stderr.write(f"berth-mpi: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
