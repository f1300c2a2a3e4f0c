"""A program beside a task: the API server's websocket, bridged to descriptors by a thread.

The kubelet starts it in the task's container: as its user, within its limits, with the container's environment. It ends with the
container. A program that ignores the end of its terminal outlives a closed connection, as with `kubectl exec`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import select
import signal as signals
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Protocol
from urllib.parse import urlencode

from clusters.engines.interface import EngineUnreachable, ExecRefused, TerminalSize
from clusters.engines.kubernetes import names, wrapper
from clusters.engines.kubernetes.api import Json
from kernel.signals import SignalTarget

_STOP_SECONDS = 5.0
SILENT_SECONDS = 60.0  # After which a connection over which a program should send is taken for lost.
_SMALL_SECONDS = 120.0
_INPUT, _OUTPUT, _ERRORS, _STATUS, _SIZE = range(5)
_CHUNK_BYTES = 32 * 1024
_OPCODES = (1, 2)  # Text and binary frames of RFC 6455.
_V5 = "v5.channel.k8s.io"  # The first version in which the end of input can be told.
logger = logging.getLogger("berth.engines.kubernetes")
_ENTER = 'cd -- "$1" 2>/dev/null; shift; exec "$@"'


class Websockets(Protocol):
    """Opens a websocket of the API server. Raises EngineUnreachable."""

    def __call__(self, path: str) -> Any: ...


class ExecStops:
    """Stops from inside a task's container: see `stopping.Stops`."""

    def __init__(self, websocket: Websockets) -> None:
        self._websocket = websocket

    def tell(self, pod: Json, signal: str, target: SignalTarget, grace_seconds: float) -> bool:
        number = str(int(signals.Signals[f"SIG{signal}"]))
        hundredths = str(max(0, math.ceil(grace_seconds * 100)))
        argv = ["/bin/sh", "-c", wrapper.STOP_SCRIPT, "berth", signal, number, target.value, hundredths]
        try:
            code = run_to_end(self._websocket(exec_path(pod, argv, terminal=False, stdin=False)), _STOP_SECONDS)
        except (EngineUnreachable, OSError) as error:
            logger.warning("stop_not_told", extra={"pod": pod["metadata"]["name"], "error": str(error)})
            return False
        return code == 0


class KubernetesExecution:
    """See `Execution`. Belongs to one thread or event loop; a thread of its own moves the bytes."""

    def __init__(self, connection: Any, *, terminal: bool) -> None:
        self._connection, self._terminal = connection, terminal
        self._code: int | None = None
        self._sending = threading.Lock()
        if terminal:
            ours, theirs = socket.socketpair()
            self._input = self._output = ours.detach()
            self._read_end = self._write_end = theirs.detach()
        else:
            self._read_end, self._input = os.pipe2(os.O_CLOEXEC)
            self._output, self._write_end = os.pipe2(os.O_CLOEXEC)
        self._ended, self._tell = os.pipe2(os.O_CLOEXEC)
        for descriptor in {self._input, self._output}:
            os.set_blocking(descriptor, False)
        self._thread = threading.Thread(target=self._move, name="kubernetes-exec", daemon=True)
        self._thread.start()

    @property
    def input(self) -> int:
        return self._input

    @property
    def output(self) -> int:
        return self._output

    @property
    def ended(self) -> int:
        return self._ended

    def resize(self, size: TerminalSize) -> None:
        if self._terminal and self._output != -1:
            self._send(_SIZE, json.dumps({"Width": size.columns, "Height": size.rows}).encode())

    def end_input(self) -> None:
        """Close the pipe; at a terminal, the end of input is a character that the person types."""
        if not self._terminal and self._input != -1:
            os.close(self._input)
            self._input = -1

    def exit_code(self) -> int | None:
        return self._code

    def close(self) -> None:
        _shut(self._connection)
        self._thread.join(timeout=1.0)
        for descriptor in {self._input, self._output, self._ended} - {-1}:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._input = self._output = self._ended = -1

    # --- The thread --------------------------------------------------------------------------------------------------

    def _move(self) -> None:
        wire = self._connection.sock.sock
        wanted: list[Any] = [wire, self._read_end]
        try:
            while True:
                pending = getattr(wire, "pending", lambda: 0)()
                readable = [wire] if pending else select.select(wanted, [], [])[0]
                if self._read_end in readable:
                    data = os.read(self._read_end, _CHUNK_BYTES)
                    if data:
                        self._send(_INPUT, data)
                    else:
                        wanted.remove(self._read_end)
                        self._end_input_there()
                if wire in readable and not self._receive():
                    return
        except (OSError, ValueError):
            return  # The connection is gone, or was closed; the code is unknown then.
        except Exception as error:
            if not _is_connections(error):
                raise
        finally:
            for descriptor in {self._read_end, self._write_end, self._tell}:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

    def _receive(self) -> bool:
        """Take one message; False: it was the last."""
        opcode, data = self._connection.sock.recv_data()
        if opcode not in _OPCODES:
            return False
        if not data:
            return True
        channel, rest = data[0], data[1:]
        if channel == _STATUS:
            self._code = read_status(rest)
            return False
        if channel in (_OUTPUT, _ERRORS):
            while rest:
                rest = rest[os.write(self._write_end, rest) :]
        return True

    def _send(self, channel: int, data: bytes) -> None:
        with self._sending:
            self._connection.write_channel(channel, data)

    def _end_input_there(self) -> None:
        if getattr(self._connection, "subprotocol", None) == _V5:
            with self._sending:
                self._connection.close_channel(_INPUT)


def exec_path(
    pod: Json,
    argv: Sequence[str],
    *,
    terminal: bool,
    stdin: bool = True,
    stderr: bool = True,
    container: str = names.CONTAINER,
) -> str:
    """The address at which the API server starts a program."""
    metadata = pod["metadata"]
    words = [("container", container), ("stdout", "true"), ("stdin", str(stdin).lower()), ("tty", str(terminal).lower())]
    if stderr and not terminal:
        words.append(("stderr", "true"))
    query = urlencode([*words, *(("command", word) for word in argv)])
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/exec?{query}"


def in_workdir(argv: Sequence[str], *, framed: bool) -> list[str]:
    """The program in the task's working directory; a shell where none is named."""
    words = list(argv) or ["/bin/sh"]
    return ["/bin/sh", "-c", _ENTER, "berth", wrapper.WORK, *words] if framed else words


def run_to_end(connection: Any, seconds: float) -> int | None:
    """Wait for a small program; its exit code, or None where it was not told in time."""
    execution = KubernetesExecution(connection, terminal=False)
    try:
        execution.end_input()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if select.select([execution.ended], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return execution.exit_code()
        return None
    finally:
        execution.close()


def read_output(connection: Any, bytes_max: int) -> tuple[int | None, bytes]:
    """What a small program without input prints, at most `bytes_max` of it, and its exit code: None where the connection, or the
    time for it, ended before."""
    found = bytearray()
    code = None
    try:
        for channel, data in _messages(connection, _SMALL_SECONDS):
            if channel == _STATUS:
                code = read_status(data)
                break
            found += data
            if len(found) > bytes_max:
                break
    finally:
        _shut(connection)
    return code, bytes(found[:bytes_max])


def stream_output(connection: Any, seconds: float) -> int:
    """A descriptor to read what a program without input prints; its end is that of the program, of the connection, or of the
    time."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)

    def move() -> None:
        try:
            for channel, data in _messages(connection, seconds):
                if channel == _STATUS:
                    return
                while data:
                    data = data[os.write(write_end, data) :]
        except OSError:  # Nobody reads any more.
            return
        finally:
            os.close(write_end)
            _shut(connection)

    threading.Thread(target=move, name="kubernetes-output", daemon=True).start()
    return read_end


def write_input(connection: Any, file: BinaryIO) -> int | None:
    """Give a program that knows how much it is to read what the file holds; its exit code, None where the connection ended first.
    A program that ends before is not written to for longer than the connection takes."""
    connection.sock.settimeout(SILENT_SECONDS)
    try:
        while piece := file.read(_CHUNK_BYTES):
            connection.write_channel(_INPUT, piece)
    except Exception as error:
        if not _is_connections(error):
            raise
    return read_output(connection, _CHUNK_BYTES)[0]


def _messages(connection: Any, seconds: float) -> Iterator[tuple[int, bytes]]:
    """Channel and bytes of each message of an exec, to its status, or to the end of the connection or of the time."""
    deadline = time.monotonic() + seconds
    connection.sock.settimeout(SILENT_SECONDS)
    try:
        while time.monotonic() < deadline:
            opcode, data = connection.sock.recv_data()
            if opcode not in _OPCODES:
                return
            if data and data[0] in (_OUTPUT, _STATUS):
                yield data[0], data[1:]
    except Exception as error:
        if not _is_connections(error):
            raise


def _is_connections(error: Exception) -> bool:
    """Whether it tells of the connection; the library of websockets is known by name alone, since it is loaded late."""
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] == "websocket"


def _shut(connection: Any) -> None:
    with contextlib.suppress(Exception):
        connection.sock.shutdown()


def read_status(data: bytes) -> int | None:
    """The exit code in the Status object that ends an exec; None where it tells of something else."""
    try:
        status = json.loads(data)
        if status.get("status") == "Success":
            return 0
        causes = (status.get("details") or {}).get("causes") or []
        return next((int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"), None)
    except (ValueError, AttributeError, KeyError, TypeError):
        return None


def refused(error: Exception) -> ExecRefused:
    """What a person is told when the API server does not start it."""
    return ExecRefused(f"The cluster did not start it: {error}"[:300])
