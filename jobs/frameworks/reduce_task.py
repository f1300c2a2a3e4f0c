"""Runs in the reduce tasks of a MapReduce job: collects its part of each map, then runs the command on their lines, sorted.

    MAPS TOLERATED INDEX PORT COMMAND...

It keeps the parts in BERTH_SHUFFLE_DIR until each of MAPS maps has sent its own, or has said that it failed for good, of which
TOLERATED may. A part counts when all of it is there, once for each map. What the command prints is in the file part-00000 (by
INDEX) of the folder MAPREDUCE_OUTPUT, or else where it starts, when it has ended well.

This file is sent to the tasks and run by whatever python3 their image has (3.7 or later), so it uses the standard library only
and imports nothing of Berth."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from jobs.frameworks.sorted_lines import merged
    from jobs.frameworks.task_http import TaskHandler, finish_answers, listen
else:  # Beside this file in a task.
    from sorted_lines import merged
    from task_http import TaskHandler, finish_answers, listen

TOO_MANY_FAILED = 1
NOTICE_SECONDS = 15.0
PIECE_BYTES = 1 << 20


class MapParts:
    """What has come, in a folder that a next try of this task finds again."""

    def __init__(self, folder: str, maps: int) -> None:
        self.folder, self._maps = folder, maps
        self._lock = threading.Lock()
        self._is_closed = False
        self.news = threading.Event()
        names = os.listdir(folder)
        self.there = {int(name.partition("-")[2]) for name in names if name.startswith("part-")}
        self.failed = {int(name.partition("-")[2]) for name in names if name.startswith("failed-")} - self.there

    def take(self, index: int, source: Any, length: int) -> None:
        """A map's part, all of it or none. One that comes again takes the place of the first until the reduce begins."""
        self._check(index)
        path = os.path.join(self.folder, f"coming-{index}-{secrets.token_hex(8)}")
        with open(path, "wb") as file:
            while length:
                piece = source.read(min(length, PIECE_BYTES))
                if not piece:
                    os.unlink(path)
                    raise ConnectionError("the map ended in the middle of its part")
                file.write(piece)
                length -= len(piece)
        with self._lock:
            if self._is_closed:
                os.unlink(path)
                return
            os.replace(path, self._path(index))
            self.there.add(index)
            self.failed.discard(index)
        self.news.set()

    def note_failed(self, index: int) -> None:
        self._check(index)
        with self._lock:
            if index not in self.there and not self._is_closed:
                with open(os.path.join(self.folder, f"failed-{index}"), "wb"):
                    self.failed.add(index)
        self.news.set()

    def close(self) -> list[str]:
        """Take no more; the files, in order of the maps."""
        with self._lock:
            self._is_closed = True
            return [self._path(index) for index in sorted(self.there)]

    def _check(self, index: int) -> None:
        if not 0 <= index < self._maps:
            raise ValueError(f"there is no map {index}")

    def _path(self, index: int) -> str:
        return os.path.join(self.folder, f"part-{index}")


def handler_of(parts: MapParts) -> type[TaskHandler]:
    class Handler(TaskHandler):
        def take(self) -> dict[str, Any] | None:
            kind, _, index = self.path[1:].partition("/")
            if kind == "part":
                parts.take(int(index), self.rfile, self.length)
            elif kind == "failed":
                parts.note_failed(int(index))
            else:
                return None
            return {}

    return Handler


def wait_for_maps(parts: MapParts, maps: int, tolerated: int) -> bool:
    """Until all have sent their part or failed; False where too many failed. Says every now and then how many it waits for."""
    began = noticed = time.monotonic()
    say(f"waits for {maps} maps")
    while len(parts.there) + len(parts.failed) < maps and len(parts.failed) <= tolerated:
        parts.news.wait(1.0)
        parts.news.clear()
        now = time.monotonic()
        if now - noticed > NOTICE_SECONDS:
            noticed = now
            say(f"has the parts of {len(parts.there)} of {maps} maps after {now - began:.0f} s")
    if parts.failed:
        names = ", ".join(f"map-{index}" for index in sorted(parts.failed)[:20])
        say(f"{len(parts.failed)} of {maps} maps failed, {tolerated} may: {names}")
    return len(parts.failed) <= tolerated


def run_reduce(argv: list[str], paths: list[str], output: str) -> int:
    """Feed the command; its output gets its name when it has ended well."""
    with open(output + ".tmp", "wb") as file:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=file)
        signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
        assert process.stdin is not None
        try:
            process.stdin.writelines(merged(paths))
            process.stdin.close()
        except BrokenPipeError:
            pass  # It has read what it needs.
        code = process.wait()
    if code == 0:
        os.replace(output + ".tmp", output)
    return 128 - code if code < 0 else code


def main(arguments: list[str]) -> int:
    maps, tolerated, index, port = map(int, arguments[:4])
    parts = MapParts(os.environ["BERTH_SHUFFLE_DIR"], maps)
    listen(handler_of(parts), port)
    is_well = wait_for_maps(parts, maps, tolerated)
    folder = os.environ.get("MAPREDUCE_OUTPUT") or "."
    os.makedirs(folder, exist_ok=True)
    output = os.path.join(folder, f"part-{index:05d}")
    code = run_reduce(arguments[4:], parts.close(), output) if is_well else TOO_MANY_FAILED
    finish_answers()
    return code


def say(text: str) -> None:
    sys.stderr.write(f"berth: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
