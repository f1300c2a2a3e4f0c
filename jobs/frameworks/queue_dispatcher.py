"""Runs in the dispatcher's task of a queue: hands the shards of the job out to its workers, and counts each result once.

    [deal] -- COMMAND...   Run COMMAND, which prints one shard a line; `deal` gives each worker its own part first.

A worker takes shards on a lease and renews it while it works. A shard whose lease ran out, or whose worker started again, goes to
another worker. When nothing waits any more, shards that a slow worker has not begun move to idle ones, and one that it is at is
run once more beside it: the first result counts. The protocol is in docs/frameworks/queue.md.

This file is sent to the task and run by whatever python3 its image has (3.7 or later), so it uses the standard library only and
imports nothing of Berth. Tasks of other tenants may be able to reach the port: each request bears a key that only this attempt's
tasks have."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from jobs.frameworks.queue_shards import Shards
    from jobs.frameworks.task_http import TaskHandler, finish_answers, listen
else:  # Beside this file in a task.
    from queue_shards import Shards
    from task_http import TaskHandler, finish_answers, listen

WRONG_SETTING = 64  # EX_USAGE.
ALL_SILENT = 75  # EX_TEMPFAIL.
QUIET_SECONDS = 900.0  # No worker asked for so long: none is left.
TICK_SECONDS = 0.25
PROGRESS_SECONDS = 1.0
FAREWELL_SECONDS = 3.0  # For idle workers to hear that all is done.
WORKERS_A_SECOND = 200  # That are asked to speak up.
SHARDS_MAX = 1_000_000
LINE_BYTES_MAX = 65_536  # Linux refuses one variable above 128 KiB.
SHOWN_MAX = 20
JOURNAL = "berth-queue-done"


class Journal:
    """The shards that are done, in a file that outlives the attempt: by their text, for their order may change."""

    def __init__(self, path: str, lines: Sequence[str]) -> None:
        self._keys = keys_of(lines)
        written: set[str] = set()
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                written = {line.strip() for line in file}
        self.done = [index for index, key in enumerate(self._keys) if key in written]
        self._path = path
        self._new: list[int] = []

    def note(self, indexes: Sequence[int]) -> None:
        self._new += indexes

    def write(self) -> None:
        """To the disk, all at once."""
        new, self._new = self._new, []
        if new:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write("".join(f"\n{self._keys[index]}" for index in new) + "\n")  # What is there may end in half a line.
                file.flush()
                os.fsync(file.fileno())


def keys_of(lines: Sequence[str]) -> list[str]:
    """A name for each shard: its text's, with a number where a text stands there more than once."""
    seen: dict[str, int] = {}
    keys = []
    for line in lines:
        digest = hashlib.sha256(os.fsencode(line)).hexdigest()[:32]
        seen[digest] = seen.get(digest, 0) + 1
        keys.append(f"{digest}:{seen[digest]}")
    return keys


# --- The task --------------------------------------------------------------------------------------------------------


class Dispatcher:
    """Answers workers, in threads; the main one looks after leases, and prints how far all is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shards: Shards | None = None
        self._journal: Journal | None = None
        self._tolerated = setting("QUEUE_TOLERATED", 0.0, 0.0, 1.0)
        self._tries = int(setting("QUEUE_TRIES", 3, 1, 1000))
        self._lease_seconds = setting("QUEUE_LEASE_SECONDS", 60.0, 1.0, 86_400.0)
        self._copies = bool(setting("QUEUE_COPIES", 1, 0, 1))
        self._heard = time.monotonic()
        self._began = self._seconds = 0.0
        self._is_over = False
        self._turned = threading.Event()  # It is.
        self._said: tuple[int, float] = (-1, 0.0)
        self._named: set[str] = set()  # Stragglers.

    def open(self, lines: Sequence[str], workers: Sequence[str]) -> None:
        """Begin to hand out."""
        folder = os.environ.get("BERTH_CHECKPOINT_DIR")
        if folder:
            os.makedirs(folder, exist_ok=True)
            self._journal = Journal(os.path.join(folder, JOURNAL), lines)
            if self._journal.done:
                say(f"{len(self._journal.done)} of {len(lines)} shards were done before")
        with self._lock:
            self._shards = Shards(
                lines,
                time.monotonic,
                lease_seconds=self._lease_seconds,
                tries=self._tries,
                copies=self._copies,
                done=self._journal.done if self._journal else (),
                deal=workers,
            )

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """One request of a worker: what it has done, what it holds, how many more it takes."""
        with self._lock:
            self._heard = time.monotonic()
            shards = self._shards
            if shards is None:
                return {"shards": [], "drop": [], "late": [], "end": False, "wait": 0.2, "beat": 1.0, "total": 0}
            if not body.get("worker"):
                raise ValueError("worker, the name of who asks, is missing")
            self._began = self._began or time.monotonic()
            holder = shards.hello(str(body["worker"]), str(body.get("session", "")))
            counted, late = shards.finish([str(token) for token in body.get("done", ())])
            if self._journal:
                self._journal.note(counted)
            shards.fail([str(token) for token in body.get("failed", ())])
            drop = shards.renew([str(token) for token in body.get("held", ())])
            shards.give_back([str(token) for token in body.get("back", ())])
            if body.get("session"):
                shards.keep(holder, body.get("held", ()))
            self._judge(shards)
            taken = [] if self._is_over else shards.take(holder, int(body.get("count", 0)))
            if self._is_over or body.get("leaves"):
                shards.leave(holder)
            pause = max(0.1, min(10.0, len(shards.holders) / WORKERS_A_SECOND))
            return {
                "shards": [
                    {
                        "token": lease.token,
                        "index": lease.index,
                        "line": shards.lines[lease.index],
                        "try": shards.tries_of(lease.index),
                    }
                    for lease in taken
                ],
                "drop": drop,
                "late": late,
                "end": self._is_over,
                "wait": pause,
                "beat": min(max(1.0, pause), shards.lease_seconds / 3),
                "lease": shards.lease_seconds,
                "total": shards.total,
            }

    def progress(self) -> dict[str, int]:
        with self._lock:
            shards = self._shards
            if shards is None:
                return {"done": 0, "failed": 0, "leased": 0, "total": 0}
            return {"done": shards.done, "failed": shards.failed, "leased": shards.leased, "total": shards.total}

    def _judge(self, shards: Shards) -> None:
        """Whether all is done, or so much failed that the rest is of no use."""
        if not self._is_over and (shards.is_over or shards.failed > self._allowed(shards)):
            self._is_over = True
            self._seconds = time.monotonic() - (self._began or time.monotonic())
            self._turned.set()

    def _allowed(self, shards: Shards) -> int:
        return int(self._tolerated * shards.total)

    def to_its_end(self) -> int:
        """Until the end of the work; the code with which the job ends."""
        assert self._shards is not None
        shards = self._shards
        try:
            while not self._is_over:
                with self._lock:
                    shards.expire()
                    self._judge(shards)
                    stragglers = shards.stragglers()
                self._tell(shards, stragglers)
                if time.monotonic() - self._heard > max(QUIET_SECONDS, 2 * self._lease_seconds):
                    say(f"no worker has asked for {time.monotonic() - self._heard:.0f} s: none is left")
                    return ALL_SILENT
                self._turned.wait(TICK_SECONDS)
            self.write()
            self._see_off(shards)
            return self._end(shards)
        finally:
            self.write()

    def _end(self, shards: Shards) -> int:
        """Say how it went."""
        say(f"{shards.done - shards.done_before} shards done in {self._seconds:.2f} s")
        say(f"progress {shards.done}/{shards.total}")
        allowed, failures = self._allowed(shards), shards.failures()
        if failures:
            tolerated = f"{allowed or 'none'} {'is' if allowed < 2 else 'are'} tolerated"
            say(f"{len(failures)} of {shards.total} shards failed, {tolerated}: {listed(shards, failures)}")
        return 0 if len(failures) <= allowed else 1

    def write(self) -> None:
        """What was done so far, to the disk."""
        with self._lock:
            if self._journal:
                self._journal.write()

    def _tell(self, shards: Shards, stragglers: dict[str, tuple[int, int, int, int]]) -> None:
        """Print what is new, and keep it, at most once a second."""
        done, at = self._said
        now = time.monotonic()
        if shards.done != done and now - at >= PROGRESS_SECONDS:
            self.write()
            self._said = (shards.done, now)
            say(f"progress {shards.done}/{shards.total}")
        for name in sorted(set(stragglers) - self._named):
            self._named.add(name)
            say("straggler {} at {}/{}, median {}/{}".format(name, *stragglers[name]))

    def _see_off(self, shards: Shards) -> None:
        """Let workers hear that all is done, so that they end by themselves."""
        deadline = time.monotonic() + FAREWELL_SECONDS
        while shards.holders and time.monotonic() < deadline:
            time.sleep(0.02)
        finish_answers()


def listed(shards: Shards, indexes: Sequence[int]) -> str:
    shown = [f"{index} ({shards.lines[index][:100]!r})" for index in indexes[:SHOWN_MAX]]
    return ", ".join(shown) + (", ..." if len(indexes) > SHOWN_MAX else "")


def handler_of(dispatcher: Dispatcher) -> type[TaskHandler]:
    class Handler(TaskHandler):
        def answer(self, body: dict[str, Any] | None) -> dict[str, Any] | None:
            if self.path == "/shards" and body is not None:
                return dispatcher.answer(body)
            return dispatcher.progress() if self.path == "/progress" else None

    return Handler


def read_shards(command: Sequence[str]) -> list[str]:
    """The lines that the command prints; the task ends where it fails."""
    listing = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    if listing.returncode:
        say(f"the command that prints the shards ended with {listing.returncode}")
        sys.exit(listing.returncode if listing.returncode > 0 else 128 - listing.returncode)
    lines = [line for line in listing.stdout.split(b"\n") if line.strip()]
    if len(lines) > SHARDS_MAX or any(len(line) > LINE_BYTES_MAX or b"\0" in line for line in lines):
        say(f"shards are at most {SHARDS_MAX} lines of at most {LINE_BYTES_MAX} bytes of text")
        sys.exit(WRONG_SETTING)
    return [os.fsdecode(line.rstrip(b"\r")) for line in lines]


def setting(name: str, default: float, least: float, most: float) -> float:
    text = os.environ.get(name, "")
    with contextlib.suppress(ValueError):
        value = float(text or default)
        if least <= value <= most:
            return value
    say(f"{name} must be a number from {least:g} to {most:g}, not {text!r}")
    sys.exit(WRONG_SETTING)


def workers_of(path: str) -> list[str]:
    """All tasks but this one's role, in order of rank."""
    with open(path, encoding="utf-8") as lines:
        entries = [line.split() for line in lines if line.strip()]
    return [f"{role}-{index}" for _, role, index, _ in entries if role != os.environ["BERTH_ROLE"]]


def main(arguments: Sequence[str]) -> int:
    split = arguments.index("--")
    dispatcher = Dispatcher()
    listen(handler_of(dispatcher), int(os.environ["BERTH_QUEUE_URL"].rpartition(":")[2]))
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    lines = read_shards(arguments[split + 1 :])
    dispatcher.open(lines, workers_of(os.environ["BERTH_HOSTS_FILE"]) if "deal" in arguments[:split] else ())
    return dispatcher.to_its_end()


def say(text: str) -> None:
    sys.stderr.write(f"berth: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
