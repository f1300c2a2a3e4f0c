"""Runs in the tasks of a queue that work: takes shards from the dispatcher and runs the role's command once for each.

    -- COMMAND...   With BERTH_SHARD, its index and the number of them, and which try it is, in the environment.

Several quick shards are taken at a time; leases are renewed while the command runs. A command that ends badly loses its shard a
try, as does the end of this program; a stopped task gives back what it has. The task ends well when the queue is empty.

This file is sent to the tasks and run by whatever python3 their image has (3.7 or later), so it uses the standard library only
and imports nothing of Berth."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from jobs.frameworks.task_http import Client, RequestRefused
else:  # Beside this file in a task.
    from task_http import Client, RequestRefused

NO_DISPATCHER = 75  # EX_TEMPFAIL.
WRONG_SETTING = 64  # EX_USAGE.
UNREACHABLE_SECONDS = 120.0
AGAIN_SECONDS = 0.5
REPORT_SECONDS = 0.2  # So long a result may wait for the next.
BATCH_SECONDS = 0.5  # Of work, taken at a time.
BATCH_MAX = 64


class Worker:
    """The main thread works; another says in time that it still does."""

    def __init__(self, argv: list[str], client: Client, shard_seconds: float) -> None:
        self._argv, self._client, self._shard_seconds = argv, client, shard_seconds
        self._name = f"{os.environ['BERTH_ROLE']}-{os.environ['BERTH_INDEX']}"
        self._session = secrets.token_hex(8)
        self._lock = threading.Lock()  # Around the connection and the lists.
        self._held: list[str] = []
        self._done: list[str] = []
        self._failed: list[str] = []
        self._dropped: set[str] = set()
        self._token = ""  # Of the shard that the command is at.
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline = 0.0
        self._is_late = self._is_over = False
        self._reported = time.monotonic()
        self._beat = 1.0
        self._mean = BATCH_SECONDS
        self._stopped = threading.Event()

    def to_its_end(self) -> int:
        """The code with which the task ends."""
        signal.signal(signal.SIGTERM, self._stop)
        threading.Thread(target=self._renew, daemon=True).start()
        while not self._stopped.is_set():
            if self._is_over:
                return 0
            answer = self._ask(max(1, min(BATCH_MAX, int(BATCH_SECONDS / max(self._mean, 1e-3)))))
            for shard in answer["shards"]:
                self._work(shard, answer["total"])
            if not answer["shards"] and not self._is_over:
                self._stopped.wait(answer["wait"])
        with contextlib.suppress(OSError, RequestRefused):
            self._send({"back": self._held, "count": 0, "leaves": True})
        return 128 + signal.SIGTERM

    def _work(self, shard: dict[str, Any], total: int) -> None:
        token = shard["token"]
        if token not in self._dropped and not self._stopped.is_set():
            began = time.monotonic()
            code = self._run(shard, total)
            self._mean = 0.7 * self._mean + 0.3 * (time.monotonic() - began)
            if code == 0:
                self._done.append(token)
            elif token not in self._dropped and not self._stopped.is_set():
                end = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
                late = f" after {self._shard_seconds:g} s, which are all it has" if self._is_late else ""
                say(f"shard {shard['index']} (try {shard['try']}): the command {end}{late}")
                self._failed.append(token)
        if self._stopped.is_set() and token not in self._done:
            return  # It is given back.
        with self._lock:
            self._held.remove(token)
            self._dropped.discard(token)
        if time.monotonic() - self._reported > REPORT_SECONDS:
            self._ask(0)

    def _run(self, shard: dict[str, Any], total: int) -> int:
        own = {
            "BERTH_SHARD": shard["line"],
            "BERTH_SHARD_INDEX": str(shard["index"]),
            "BERTH_SHARD_COUNT": str(total),
            "BERTH_SHARD_TRY": str(shard["try"]),
        }
        process = subprocess.Popen(self._argv, env={**os.environ, **own}, stdin=subprocess.DEVNULL, start_new_session=True)
        self._is_late, self._deadline = False, time.monotonic() + self._shard_seconds
        self._token, self._process = shard["token"], process
        if self._token in self._dropped or self._stopped.is_set():
            self._end_command(signal.SIGKILL if self._token in self._dropped else signal.SIGTERM)
        code = process.wait()
        self._process, self._token = None, ""
        return code

    def _end_command(self, number: int) -> None:
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)

    def _stop(self, number: int, _: object) -> None:
        self._stopped.set()
        self._end_command(number)

    def _renew(self) -> None:
        """Say every now and then what is held, so that no lease runs out while the command works."""
        while True:
            time.sleep(min(self._beat, 1.0))
            if self._shard_seconds and self._process is not None and time.monotonic() > self._deadline:
                self._is_late = True
                self._end_command(signal.SIGKILL)
            if self._held and time.monotonic() - self._reported > self._beat and not self._stopped.is_set():
                with contextlib.suppress(OSError, RequestRefused):
                    self._send({"count": 0})

    # --- With the dispatcher -----------------------------------------------------------------------------------------

    def _ask(self, count: int) -> dict[str, Any]:
        """Report, and take up to so many shards. Ends the task where the dispatcher is gone."""
        began = time.monotonic()
        while True:
            try:
                return self._send({"count": count})
            except OSError as error:
                if self._stopped.is_set():
                    return {"shards": [], "wait": 0.0, "total": 0}
                if time.monotonic() - began > UNREACHABLE_SECONDS:
                    say(f"the dispatcher does not answer: {error}")
                    sys.exit(NO_DISPATCHER)
            except RequestRefused as error:
                say(f"the dispatcher refuses: {error}")
                sys.exit(1)
            self._stopped.wait(AGAIN_SECONDS)

    def _send(self, body: dict[str, Any]) -> dict[str, Any]:
        """One request. What it reports is reported again by the next where no answer came."""
        with self._lock:
            done, failed = list(self._done), list(self._failed)
            reported = {*done, *failed, *body.get("back", ())}
            held = [token for token in self._held if token not in reported]
            common = {"worker": self._name, "session": self._session, "done": done, "failed": failed, "held": held}
            answer = self._client.post("/shards", {**common, **body})
            del self._done[: len(done)], self._failed[: len(failed)]
            self._held += [shard["token"] for shard in answer["shards"]]
            self._dropped.update(answer["drop"])
            self._is_over = answer["end"]
            self._reported, self._beat = time.monotonic(), answer["beat"]
            if self._token in self._dropped:
                self._end_command(signal.SIGKILL)
            return answer


def main(arguments: list[str]) -> int:
    address, _, port = os.environ["BERTH_QUEUE_URL"].partition("//")[2].rpartition(":")
    text = os.environ.get("QUEUE_SHARD_SECONDS") or "0"
    if not text.replace(".", "", 1).isdigit():
        say(f"QUEUE_SHARD_SECONDS must be a number of seconds, not {text!r}")
        return WRONG_SETTING
    return Worker(arguments[arguments.index("--") + 1 :], Client(address.strip("[]"), int(port)), float(text)).to_its_end()


def say(text: str) -> None:
    sys.stderr.write(f"berth: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
