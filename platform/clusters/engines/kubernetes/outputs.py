"""What the tasks of an attempt left in their working directories, read from their pods after the end.

A container's files go with it. So the pods of an attempt whose outputs are wanted have a second container, the *keeper*: it has
the same image and the same directories, does nothing, and ends with the pod, or when nobody has come for the files for long
enough. Through it the files are listed and read by `exec`, as the task's own user.

The tasks of an attempt have a directory each here. A file that several of them left is given once as the first left it, and as
`<role>-<index>/<path>` of the others.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from clusters.engines.interface import AttemptId, EngineUnreachable, OutputFile, OutputsLost, TaskName
from clusters.engines.kubernetes import names, states, wrapper
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.execution import SILENT_SECONDS, Websockets, exec_path, read_output, stream_output
from clusters.engines.output_paths import FILES_MAX, matcher
from kernel.file_names import text_of

_TOGETHER_BYTES, _TOGETHER_FILES, _TOGETHER_NAMES = 8 << 20, 200, 16 << 10  # Of small files that are read by one exec.
_LISTING_BYTES_MAX = 64 << 20
_BYTES_PER_SECOND = 256 << 10  # What comes more slowly is given up, until the next try.
_SIZE, _MODE = re.compile(rb"[0-9]{1,15}"), re.compile(rb"[0-7]{1,5}")
_NO_TOOL = 127
_UNSAFE = re.compile(rb"[^A-Za-z0-9._/-]")

_LIST = r"""
cd -- "$1" || exit 1
command -v find >/dev/null && command -v stat >/dev/null || exit 127
find . -type f -exec /bin/sh -c 'printf "%s\n" "$#"; stat -c "%s %a" -- "$@"; printf "%s\0" "$@"' berth {} +
"""
_READ = r"""
cd -- "$1" || exit 1
shift
for name; do
  name=$(printf '%b.' "$name")
  cat -- "./${name%.}" || exit 1
done
"""


@dataclass(frozen=True, slots=True)
class _Found:
    """A file in one task's pod; `path` is the operating system's, below the working directory."""

    pod: Json = field(repr=False)
    path: str
    size_bytes: int
    mode: int


class PodOutputs:
    """Lists and reads. Threads share it; each remembers the attempt that it listed last."""

    def __init__(self, websocket: Websockets, parallel: int, patience_seconds: float) -> None:
        self._websocket, self._parallel, self._patience = websocket, parallel, timedelta(seconds=patience_seconds)
        self._own = threading.local()

    def list_files(
        self, attempt_id: AttemptId, pods: Sequence[tuple[TaskName, Json | None]], paths: Sequence[str]
    ) -> list[OutputFile]:
        """Give the regular files that the paths mean. Raises OutputsLost, EngineUnreachable."""
        latest = datetime.now(UTC) - self._patience  # Also of a keeper that its own task keeps from ending.
        there = [(name, pod) for name, pod in pods if pod is not None and states.is_kept(pod) and not _has_ended(pod, latest)]
        if any(states.is_out_of_contact(pod) for _, pod in there):
            raise EngineUnreachable("A node with outputs is out of contact.")
        with ThreadPoolExecutor(min(self._parallel, max(1, len(there))), thread_name_prefix="kubernetes-outputs") as pool:
            listings = list(pool.map(lambda item: self._list(item[1]), there))
        is_wanted = matcher(paths)
        found: dict[str, _Found] = {}
        for (name, _), listing in zip(there, listings, strict=True):
            for file in listing or []:
                if is_wanted(file.path):
                    found.setdefault(file.path if file.path not in found else f"{name}/{file.path}", file)
        self._forget()
        self._own.attempt_id, self._own.found = attempt_id, {text_of(path): file for path, file in found.items()}
        files = [OutputFile(path, file.size_bytes, file.mode) for path, file in self._own.found.items()]
        lost = [name for name, pod in pods if (name, pod) not in there]
        if lost:
            raise OutputsLost(f"the files of {_some(lost)} went with the pod", files)
        if mute := [name for (name, _), listing in zip(there, listings, strict=True) if listing is None]:
            raise OutputsLost(f"the image of {_some(mute)} has no find and stat to list its files", files)
        return files

    def open_file(self, attempt_id: AttemptId, path: str) -> int:
        """Open one of those that were listed last in this thread. Raises FileNotFoundError, EngineUnreachable."""
        found: dict[str, _Found] = getattr(self._own, "found", {}) if getattr(self._own, "attempt_id", None) == attempt_id else {}
        file = found.get(path)
        if file is None:
            raise FileNotFoundError(path)
        ready: dict[str, int] = self._own.ready
        if path in ready:
            return ready.pop(path)
        batch = _take_together(path, found)
        if len(batch) < 2 and file.size_bytes > _TOGETHER_BYTES:
            seconds = SILENT_SECONDS + file.size_bytes / _BYTES_PER_SECOND
            return stream_output(self._websocket(self._path(file.pod, _READ, _escaped(file.path))), seconds)
        self._drop_ready()
        words = [_escaped(found[name].path) for name in batch]
        size = sum(found[name].size_bytes for name in batch)
        code, data = read_output(self._websocket(self._path(file.pod, _READ, *words)), size + 1)
        if code != 0 or len(data) != size:
            raise EngineUnreachable(f"The cluster gave {len(data)} of {size} bytes of the outputs.")
        at = 0
        for name in batch:
            ready[name] = _in_memory(data[at : at + found[name].size_bytes])
            at += found[name].size_bytes
        return ready.pop(path)

    def _list(self, pod: Json) -> list[_Found] | None:
        """None: the image lacks what lists files."""
        code, data = read_output(self._websocket(self._path(pod, _LIST)), _LISTING_BYTES_MAX)
        if code == _NO_TOOL:
            return None
        if code is None:
            raise EngineUnreachable("The cluster did not list the outputs to their end.")
        return [_Found(pod, path, size, mode) for path, size, mode in read_listing(data)]

    def _path(self, pod: Json, script: str, *words: str) -> str:
        argv = ["/bin/sh", "-c", script, "berth", wrapper.WORK, *words]
        return exec_path(pod, argv, terminal=False, stdin=False, container=names.KEEPER, stderr=False)

    def _forget(self) -> None:
        self._drop_ready()
        self._own.found, self._own.attempt_id = {}, None

    def _drop_ready(self) -> None:
        for descriptor in getattr(self._own, "ready", {}).values():
            os.close(descriptor)
        self._own.ready = {}


def read_listing(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Path, size and mode of each file that `_LIST` told of, at most FILES_MAX. Pure. A batch is the number of files, a line of
    size and mode for each, then their names."""
    given = 0
    while data and given < FILES_MAX:
        head, _, rest = data.partition(b"\n")
        if not _SIZE.fullmatch(head):
            return
        count = int(head)
        *lines, rest = rest.split(b"\n", count)
        *paths, data = rest.split(b"\0", count)
        if len(lines) != count or len(paths) != count:
            return
        for line, path in zip(lines, paths, strict=True):
            size, _, mode = line.partition(b" ")
            if given < FILES_MAX and _SIZE.fullmatch(size) and _MODE.fullmatch(mode):
                given += 1
                yield os.fsdecode(path.removeprefix(b"./")), int(size), int(mode, 8)


def _take_together(path: str, found: dict[str, _Found]) -> list[str]:
    """The file, and those of the same pod that follow it, as far as they are read by one exec."""
    pod, batch, size, letters = found[path].pod, [path], found[path].size_bytes, 0
    later = sorted(name for name in found if name > path)
    for name in later:
        size += found[name].size_bytes
        letters += len(_escaped(found[name].path))
        if found[name].pod is not pod or size > _TOGETHER_BYTES or letters > _TOGETHER_NAMES or len(batch) >= _TOGETHER_FILES:
            break
        batch.append(name)
    return batch


def _has_ended(pod: Json, before: datetime) -> bool:
    ended = states.read_time(((states.container_status(pod).get("state") or {}).get("terminated") or {}).get("finishedAt"))
    return ended is not None and ended < before


def _escaped(path: str) -> str:
    """A path for `printf %b`: an exec's words are text, and a name may be any bytes."""
    return _UNSAFE.sub(lambda found: b"\\0%03o" % found.group()[0], os.fsencode(path)).decode()


def _in_memory(data: bytes) -> int:
    descriptor = os.memfd_create("output", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _some(tasks: Sequence[TaskName]) -> str:
    more = f" and {len(tasks) - 3} more" if len(tasks) > 3 else ""
    return ", ".join(map(str, tasks[:3])) + more
