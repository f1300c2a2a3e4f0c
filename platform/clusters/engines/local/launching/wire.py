"""How verbs travel over the launcher's socket: a length, JSON, and few file descriptors with an answer."""

from __future__ import annotations

import array
import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from clusters.engines.local.launching.verbs import (
    Entry,
    LauncherBusy,
    LauncherRefused,
    LauncherUnavailable,
    Listing,
    MeasuredTree,
    OpenShell,
    Owner,
    PinAttempt,
    SignalAttempt,
    StartAttempt,
    StartCheckpoint,
    Started,
    StartMount,
    StartOutcome,
    StartTask,
)

MESSAGE_BYTES_MAX = 256 * 1024 * 1024  # A batch of 1,000 attempts, each with the largest environment allowed, and room.
DESCRIPTORS_MAX = 2  # A shell without a terminal has one for what it reads and one for what it prints.
_HEADER = struct.Struct("!I")


class Broken(Exception):
    """The other side closed or sent something that is no message."""


def send(connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    send_packed(connection, json.dumps(message, separators=(",", ":")).encode(), descriptors)


def send_packed(connection: socket.socket, body: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send a message that is JSON already."""
    header = _HEADER.pack(len(body))
    if not descriptors:
        connection.sendall(header + body)
        return
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    connection.sendmsg([header], rights)
    connection.sendall(body)


def receive(connection: socket.socket) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Receive one message, with the descriptors that came along (the caller closes them)."""
    room = socket.CMSG_SPACE(array.array("i").itemsize * DESCRIPTORS_MAX)
    first, ancillary, _, _ = connection.recvmsg(_HEADER.size, room, socket.MSG_CMSG_CLOEXEC)
    numbers = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    header = first + _exactly(connection, _HEADER.size - len(first)) if first else b""
    if not header:
        raise Broken("closed")
    (length,) = _HEADER.unpack(header)
    if length > MESSAGE_BYTES_MAX:
        raise Broken(f"a message of {length} bytes")
    message: dict[str, Any] = json.loads(_exactly(connection, length))
    return message, tuple(numbers)


def receive_packed(connection: socket.socket) -> bytes:
    """Receive one message without descriptors as the JSON that it is."""
    (length,) = _HEADER.unpack(_exactly(connection, _HEADER.size))
    return _exactly(connection, length)


def _exactly(connection: socket.socket, count: int) -> bytes:
    buffer = bytearray(count)
    view = memoryview(buffer)
    while view:
        received = connection.recv_into(view)
        if not received:
            raise Broken("closed in the middle of a message")
        view = view[received:]
    return bytes(buffer)


def encode_start(attempt: StartAttempt) -> dict[str, Any]:
    return asdict(attempt)


def decode_start(document: dict[str, Any]) -> StartAttempt:
    tasks = tuple(
        StartTask(
            **{**task, "argv": tuple(task["argv"]), "devices": tuple(task["devices"]), "cores": tuple(task.get("cores", ()))}
        )
        for task in document["tasks"]
    )
    mounts = tuple(StartMount(**mount) for mount in document["mounts"])
    kept = document.get("checkpoint")
    checkpoint = None if kept is None else StartCheckpoint(**kept)
    owner = decode_owner(document["owner"])
    return StartAttempt(**{**document, "owner": owner, "tasks": tasks, "mounts": mounts, "checkpoint": checkpoint})


def encode_owner(owner: Owner | None) -> dict[str, Any] | None:
    return None if owner is None else asdict(owner)


def decode_owner(document: dict[str, Any]) -> Owner:
    return Owner(document["uid"], document["gid"], tuple(document["groups"]))


def find_owner(document: dict[str, Any] | None) -> Owner | None:
    return None if document is None else decode_owner(document)


def decode_started(document: dict[str, Any]) -> Started:
    return Started(StartOutcome(document["outcome"]), document["code"], document["detail"])


def decode_signal(document: dict[str, Any]) -> SignalAttempt:
    only = document.get("only")
    pids = None if only is None else tuple((int(pid), int(start)) for pid, start in only)
    return SignalAttempt(document["root"], document["attempt_id"], document["number"], tuple(document["tasks"]), pids)


def decode_pin(document: dict[str, Any]) -> PinAttempt:
    return PinAttempt(document["root"], document["attempt_id"], tuple(document["tasks"]), tuple(document["cores"]))


def decode_shell(document: dict[str, Any]) -> OpenShell:
    return OpenShell(**{**document, "argv": tuple(document["argv"])})


def encode_error(error: LauncherRefused | LauncherUnavailable | OSError) -> dict[str, Any]:
    if isinstance(error, OSError):
        return {"error": {"kind": "os", "number": error.errno or 0, "detail": error.strerror or str(error)}}
    kinds = {LauncherRefused: "refused", LauncherBusy: "busy"}
    return {"error": {"kind": kinds.get(type(error), "unavailable"), "detail": str(error)}}


def result_of(answer: dict[str, Any]) -> Any:
    """What an answer gives; raises the error that it tells."""
    error = answer.get("error")
    if error is None:
        return answer.get("result")
    if error["kind"] == "os":
        raise OSError(error["number"], error["detail"])
    kinds: dict[str, type[Exception]] = {"busy": LauncherBusy, "unavailable": LauncherUnavailable}
    raise kinds.get(error["kind"], LauncherRefused)(error["detail"])


def encode_listing(listing: Listing) -> dict[str, Any]:
    entries = [
        {
            "path": entry.path,
            "kind": entry.kind,
            "size_bytes": entry.size_bytes,
            "mode": entry.mode,
            "modified_at": entry.modified_at,
            "disk_bytes": entry.disk_bytes,
        }
        for entry in listing.entries
    ]  # Four times as fast as `asdict`, which copies each value.
    return {"entries": entries, "truncated": listing.truncated, "next": listing.next}


def decode_listing(document: dict[str, Any]) -> Listing:
    return Listing(tuple(Entry(**entry) for entry in document["entries"]), document["truncated"], document.get("next"))


def decode_measured(document: dict[str, Any]) -> MeasuredTree:
    newest = tuple(Entry(**entry) for entry in document["newest"])
    return MeasuredTree(**{**document, "newest": newest, "half_written": tuple(document["half_written"])})
