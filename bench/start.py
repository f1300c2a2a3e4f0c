"""P13: the seconds from `make up` to a /readyz that says yes, on a machine where everything is installed.

`restart` has its data already, which is every start but the first; `new-data` makes tables, the first operator and the keys.
With --first the environment is made too, from an empty cache, by the package index that pip is set up for.
"""

from __future__ import annotations

import argparse
import http.client
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.frame import ROOT, Bench, BenchError, temporary_folder

START_SECONDS_MAX = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=3, help="starts of each kind; default 3")
    parser.add_argument("--start-profiles", default="embedded", help="which profiles to start: embedded,production")
    parser.add_argument("--first", action="store_true", help="also a first start, which installs; it takes minutes")


def run(options: argparse.Namespace, bench: Bench) -> None:
    if shutil.which("make") is None:
        raise BenchError("make is not installed: apt-get install make")
    for profile in options.start_profiles.split(","):
        new, again = [], []
        for number in range(options.runs):
            with temporary_folder("start") as place:
                new.append(_up(place, profile, environment=Path(sys.prefix)))
                _down(place, profile)
                again.append(_up(place, profile, environment=Path(sys.prefix)))
                _down(place, profile)
            bench.say(f"{profile} start {number + 1} of {options.runs}: new data {new[-1]:.1f} s, again {again[-1]:.1f} s")
        bench.figure(f"{profile}-restart", again, "s", accept=8, aim=3, less_is_better=True)
        bench.figure(f"{profile}-new-data", new, "s", less_is_better=True)
    if options.first:
        with temporary_folder("first") as place:
            bench.say("first start from an empty cache")
            seconds = _up(place, "embedded", environment=None)
            _down(place, "embedded")
            bench.figure("embedded-first", seconds, "s", accept=180, aim=60, less_is_better=True, note="installs the environment")


def _up(place: Path, profile: str, *, environment: Path | None) -> float:
    """Seconds from the command to the first good answer; the command itself goes on to print what to do next."""
    port = _port(place)
    began = time.monotonic()
    command = subprocess.Popen(
        _make("up", port, profile, "NO_EXAMPLE=1"),
        cwd=ROOT, env=_environment(place, environment), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    while not _is_ready(port):
        if command.poll() not in (None, 0) or time.monotonic() - began > START_SECONDS_MAX:
            output, _ = command.communicate()
            raise BenchError(f"make up did not start the platform: {output[-1000:]}")
        time.sleep(0.01)
    seconds = time.monotonic() - began
    output, _ = command.communicate(timeout=120)
    if command.returncode:
        raise BenchError(f"make up failed: {output[-1000:]}")
    return seconds


def _down(place: Path, profile: str) -> None:
    done = subprocess.run(
        _make("down", _port(place), profile),
        cwd=ROOT, env=_environment(place, Path(sys.prefix)), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise BenchError(f"make down failed: {(done.stdout + done.stderr)[-1000:]}")


def _make(target: str, port: int, profile: str, *more: str) -> Sequence[str]:
    chosen = [f"PROFILE={profile}"] if profile != "embedded" else []
    return ["make", "--no-print-directory", target, f"PORT={port}", *chosen, *more]


def _environment(place: Path, environment: Path | None) -> dict[str, str]:
    """Data, command and the user's own files are all in the place, and nothing of another installation is seen."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
    given = {"BERTH_ENVIRONMENT": str(environment)} if environment is not None else {}
    return {
        **kept,
        "BERTH_DATA_DIR": str(place / "data"),
        "BERTH_COMMAND_DIR": str(place / "commands"),
        "BERTH_CONFIG": str(place / "config.toml"),
        **given,
    }


def _port(place: Path) -> int:
    """The same one for all starts of a place, free when it was first asked for."""
    kept = place / "port"
    if not kept.exists():
        with socket.create_server(("127.0.0.1", 0)) as server:
            kept.write_text(str(server.getsockname()[1]))
    return int(kept.read_text())


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
