"""Runs inside the tasks of a job of framework slurm, where each task is a node of Slurm's and the script runs in the first one.

    start              In the first task, before the script: serve, and wait until all other tasks do.
    serve              In the others: run what `srun` sends, until the first task has ended.
    srun ARGUMENTS...  What a script calls: start a step on the tasks that it asks for, pass its output on, end with its code.
    hostnames LIST     `scontrol show hostnames`: the names of a list, one a line.

A job of one task has no `start`: its first `srun` serves. Requests are signed as those of `mpi_agent.py`, on which this builds.
What runs for a step ends when the `srun` that asked for it has ended. Sent to the tasks and run by the python3 of their image
(3.7 or later), so it uses the standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from jobs.frameworks import mpi_agent, slurm_steps, slurm_wire, srun_client
    from jobs.frameworks.slurm_wire import EVERY, FRAME, GRACE_SECONDS
else:  # Beside this file in a task.
    import mpi_agent
    import slurm_steps
    import slurm_wire
    import srun_client
    from slurm_wire import EVERY, FRAME, GRACE_SECONDS

IDLE_SECONDS = 1.0
LINE_BYTES = 65536  # Of output, in one piece.
TASK = 'SLURM_TASK_PID=$$; export SLURM_TASK_PID; exec "$@"'


def main(arguments: list[str]) -> int:
    mode, rest = arguments[0], arguments[1:]
    if mode == "hostnames":
        sys.stdout.write("".join(f"{name}\n" for name in slurm_steps.names_of(",".join(rest))))
        return 0
    if mode == "srun":
        return srun_client.srun(rest, serve_here)
    return start() if mode == "start" else serve()


# --- The side that runs steps ----------------------------------------------------------------------------------------


def start() -> int:
    """Serve beside the script, whose process this one's parent becomes; then wait for the other tasks."""
    launch_server()
    began = noticed = time.monotonic()
    while True:
        missing = json.loads(slurm_wire.answer(slurm_wire.own_host(), {"do": "missing"}))
        now = time.monotonic()
        if not missing:
            return 0
        if now - began > mpi_agent.WAIT_SECONDS:
            say(f"gave up waiting for {', '.join(missing[:5])}")
            return 75
        if now - noticed > mpi_agent.NOTICE_SECONDS:
            noticed = now
            say(f"waiting for {len(missing)} tasks: {', '.join(missing[:5])} ...")
        time.sleep(0.05)


def serve_here() -> None:
    """In the only task of a job, at its first step."""
    try:
        slurm_wire.answer(slurm_wire.own_host(), {"do": "ping"})
    except (OSError, ValueError):
        launch_server()


def launch_server() -> None:
    """A process of its own that serves until the script has ended; returns once it answers."""
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        with contextlib.suppress(OSError):  # Another srun was faster: its server is as good.
            serve_script()
        os._exit(0)
    deadline = time.monotonic() + mpi_agent.WAIT_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            slurm_wire.answer(slurm_wire.own_host(), {"do": "ping"})
            return
        time.sleep(0.02)
    raise SystemExit("berth-slurm: the server of this task does not answer")


def serve_script() -> None:
    """Until the process of the script is gone, which the first task of the job is."""
    SlurmServer().start()
    script = int(os.environ["SLURM_TASK_PID"])
    while True:
        time.sleep(IDLE_SECONDS)
        try:
            os.kill(script, 0)
        except ProcessLookupError:
            return
        except PermissionError:
            continue


def serve() -> int:
    """In a task that the script does not run in. The first task's end closes the connection, and with it this task."""
    SlurmServer().start()
    deadline = time.monotonic() + mpi_agent.WAIT_SECONDS
    while True:
        try:
            connection = mpi_agent.ask(slurm_wire.hosts()[0], {"do": "attend", "place": int(os.environ["BERTH_RANK"])})
            break
        except (OSError, ValueError):
            if time.monotonic() > deadline:
                say("gave up waiting for the first task")
                return 75
            time.sleep(0.1)
    connection.settimeout(None)
    with connection, contextlib.suppress(OSError):
        while connection.recv(64):
            pass
    return 0


class SlurmServer(mpi_agent.Server):
    """Answers in each task; the first one's also shares the tasks out among the steps."""

    def __init__(self) -> None:
        super().__init__()
        self._own = dict(os.environ)
        self._nodes = slurm_wire.read_nodes()
        self._attending = {int(os.environ["BERTH_RANK"])}
        self._changed = threading.Condition()
        self._steps = 0

    def handle(self, connection: socket.socket, body: dict[str, Any]) -> None:
        if body["do"] == "attend":
            connection.sendall(b"ok\n")
            self._attending.add(body["place"])
            connection.recv(1)  # Until that task has ended.
        elif body["do"] == "missing":
            names = [node.name for node in self._nodes if node.place not in self._attending]
            connection.sendall(json.dumps(names).encode() + b"\n")
        elif body["do"] == "environment":
            connection.sendall(json.dumps(self._own).encode() + b"\n")
        elif body["do"] == "allot":
            self._allot(connection, body)
        elif body["do"] == "step":
            Step(connection, self._own, body).run()
        else:
            super().handle(connection, body)

    def _allot(self, connection: socket.socket, body: dict[str, Any]) -> None:
        """Give a step its share of the tasks as soon as there is room, until its srun has ended."""
        ask = slurm_steps.StepAsk._make(tuple(value) if isinstance(value, list) else value for value in body["ask"])
        try:
            step, shares = self._wait_for_room(connection, ask)
        except slurm_steps.Impossible as impossible:
            connection.sendall(json.dumps({"error": str(impossible)}).encode() + b"\n")
            return
        if not shares:
            return
        try:
            connection.sendall(json.dumps({"step": step, "shares": shares}).encode() + b"\n")
            connection.recv(1)
        finally:
            with self._changed:
                slurm_steps.hold(shares, self._nodes, ask, -1, time.time())
                self._changed.notify_all()

    def _wait_for_room(self, connection: socket.socket, ask: slurm_steps.StepAsk) -> tuple[int, list[slurm_steps.Share]]:
        """The step's number and shares, which it then holds; no shares once its srun has ended."""
        job_cpus = int(self._own.get("SLURM_CPUS_PER_TASK", "1"))
        with self._changed:
            while True:
                shares = slurm_steps.allot(ask, self._nodes, job_cpus)
                if shares is not None:
                    slurm_steps.hold(shares, self._nodes, ask)
                    self._steps += 1
                    return self._steps - 1, shares
                self._changed.wait(IDLE_SECONDS)
                if select.select([connection], [], [], 0)[0]:
                    return 0, []


class Step:
    """The processes of one step in this task, and the connection to its srun."""

    def __init__(self, connection: socket.socket, own: dict[str, str], body: dict[str, Any]) -> None:
        self._connection, self._body = connection, body
        self._environment = environment_of(own, body)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._selector = selectors.DefaultSelector()
        self._input: queue.Queue[tuple[int, bytes | None]] = queue.Queue()
        self._sending = threading.Lock()

    def run(self) -> None:
        for place, rank in enumerate(self._body["ranks"]):
            self._start(place, rank)
        threading.Thread(target=self._feed, daemon=True).start()
        self._selector.register(self._connection, selectors.EVENT_READ, None)
        try:
            while self._processes:
                # The end of a process last: what it said before may be among the same events.
                keys = [key for key, _ in self._selector.select()]
                for key in sorted(keys, key=lambda key: key.data is not None and key.data[0] == b"X"):
                    if key.data is None:
                        self._obey(slurm_wire.read_frame(self._connection))
                    elif key.data[0] == b"X":
                        self._end(key.data[1], key.fileobj)
                    else:
                        self._pass_on(key.fileobj, *key.data)
            self._connection.shutdown(socket.SHUT_WR)  # Closed with input unread, what was sent last would be lost.
            while self._connection.recv(LINE_BYTES):
                pass
        except (OSError, ValueError):
            pass  # Its srun is gone.
        finally:
            self._input.put((EVERY, None))
            self._end_all()

    def _start(self, place: int, rank: int) -> None:
        command = self._body["command"]
        environment = {**self._environment, **variables_of(self._environment, self._body, place, rank)}
        cwd = self._body["cwd"]
        if not os.path.isdir(cwd):
            self._send(b"E", rank, f"srun: {cwd} is not in this task: the step runs in {os.getcwd()}\n".encode())
            cwd = os.getcwd()
        # A shell that tells the process its number would lose functions that bash has exported.
        argv = command if any("%" in name for name in environment) else ["/bin/sh", "-c", TASK, "sh", *command]
        try:
            process = subprocess.Popen(
                argv,
                env=environment,
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            self._send(b"E", rank, f"srun: {command[0]}: {error.strerror}\n".encode())
            self._send(b"X", rank, struct.pack("!i", 127))
            return
        self._processes[rank] = process
        self._selector.register(process.stdout, selectors.EVENT_READ, (b"O", rank))  # type: ignore[arg-type]
        self._selector.register(process.stderr, selectors.EVENT_READ, (b"E", rank))  # type: ignore[arg-type]
        ended, told = os.pipe()
        self._selector.register(ended, selectors.EVENT_READ, (b"X", rank))
        threading.Thread(target=wait_for_end, args=(process, told), daemon=True).start()

    def _pass_on(self, stream: Any, kind: bytes, rank: int) -> bool:
        data = os.read(stream.fileno(), LINE_BYTES)
        if data:
            self._send(kind, rank, data)
        else:
            self._selector.unregister(stream)
        return bool(data)

    def _end(self, rank: int, ended: Any) -> None:
        """Pass on what a process said last, and its code. What it left behind ends with it."""
        self._selector.unregister(ended)
        os.close(ended)
        process = self._processes.pop(rank)
        kill(process, signal.SIGKILL)
        for kind, stream in ((b"O", process.stdout), (b"E", process.stderr)):
            assert stream is not None
            if stream in self._selector.get_map():
                while select.select([stream], [], [], 0)[0] and self._pass_on(stream, kind, rank):
                    pass
            if stream in self._selector.get_map():
                self._selector.unregister(stream)
            stream.close()
        self._send(b"X", rank, struct.pack("!i", process.returncode))

    def _obey(self, frame: tuple[bytes, int, bytes]) -> None:
        kind, rank, data = frame
        if kind == b"S":
            for own in self._of(rank):
                kill(self._processes[own], data[0])
        else:
            self._input.put((rank, data if kind == b"I" else b""))

    def _feed(self) -> None:
        """Input goes its own way: a process that does not read it shall not keep others from being heard."""
        while True:
            rank, data = self._input.get()
            if data is None:
                return
            for own in self._of(rank):
                process = self._processes.get(own)
                if process is not None and process.stdin is not None:
                    with contextlib.suppress(OSError, ValueError):
                        process.stdin.write(data) if data else process.stdin.close()

    def _of(self, rank: int) -> list[int]:
        return list(self._processes) if rank == EVERY else [rank] if rank in self._processes else []

    def _send(self, kind: bytes, rank: int, data: bytes) -> None:
        with self._sending:
            self._connection.sendall(FRAME.pack(kind, rank, len(data)) + data)

    def _end_all(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._processes.values():
                kill(process, number)
            deadline = time.monotonic() + GRACE_SECONDS
            while number == signal.SIGTERM and time.monotonic() < deadline:
                if all(process.poll() is not None for process in self._processes.values()):
                    break
                time.sleep(0.05)


def wait_for_end(process: subprocess.Popen[bytes], told: int) -> None:
    process.wait()
    os.write(told, b".")
    os.close(told)


def kill(process: subprocess.Popen[bytes], number: int) -> None:
    """Signal a process and those that it started. It leads a session of its own, whose number outlives it while they live."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def environment_of(own: dict[str, str], body: dict[str, Any]) -> dict[str, str]:
    """The step's variables in this task: what the script changed is as it left it, all else as this task has it."""
    base = {} if body["only"] else {name: value for name, value in own.items() if name not in body["unset"]}
    return {**base, **body["set"]}


def variables_of(environment: dict[str, str], body: dict[str, Any], place: int, rank: int) -> dict[str, str]:
    """What each process of a step has for itself."""
    own = {
        **body["shared"],
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(place),
        "SLURM_NODEID": str(body["node"]),
        "SLURM_GTIDS": ",".join(map(str, body["ranks"])),
    }
    if environment.get("OMP_NUM_THREADS", "") == environment.get("BERTH_CPUS"):  # The platform's, for the whole task.
        own["OMP_NUM_THREADS"] = str(body["cpus"])
    if body["gpus"] is not None:
        count = int(environment.get("SLURM_GPUS_ON_NODE", "0"))
        devices = environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if environment.get("CUDA_VISIBLE_DEVICES") else []
        devices = devices or [str(number) for number in range(count)]
        of_step = [devices[number] for number in body["gpus"] if number < len(devices)]
        each = body["gpus_per_task"]
        seen = of_step if each is None else of_step[place * each : (place + 1) * each]
        own.update(
            {
                "CUDA_VISIBLE_DEVICES": ",".join(seen),
                "SLURM_STEP_GPUS": ",".join(of_step),
                "SLURM_GPUS_ON_NODE": str(len(of_step)),
            }
        )
    return own


def say(text: str) -> None:
    sys.stderr.write(f"berth-slurm: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
