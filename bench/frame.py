"""What all benchmarks share: figures with their levels, alternating runs, progress, and what comes out at the end.

A benchmark is a module with two functions, named in `bench/__main__.py`:

    def add_arguments(parser: argparse.ArgumentParser) -> None: ...
    def run(options: argparse.Namespace, bench: Bench) -> None: ...

It calls `bench.figure(...)` once per number it stands for. One line is printed for each,

    P2 dispatch 118 /s accept>=71 aim>=200 slurm-tuned=61 (112..121, 3 runs)

all of them once more at the end, and with everything else that was recorded they go into a JSON file. A level that is missed
ends the command with 1; an aim that is missed is only shown. Levels belong to figures here, never to tests: how fast this is
depends on the machine, and a test must not.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "bench"
PROGRESS_SECONDS = 10.0  # Without a terminal every word is a line for ever.


class BenchError(Exception):
    """A benchmark cannot be run here; the message says why and what to do."""


@dataclass(frozen=True)
class Spread:
    """Several runs of the same thing."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def low(self) -> float:
        return min(self.samples)

    @property
    def high(self) -> float:
        return max(self.samples)

    def __str__(self) -> str:
        if len(self.samples) == 1:
            return "1 run"
        return f"{number(self.low)}..{number(self.high)}, {len(self.samples)} runs"


def spread(samples: float | Sequence[float]) -> Spread:
    return Spread((float(samples),) if isinstance(samples, (int, float)) else tuple(map(float, samples)))


@dataclass(frozen=True)
class Figure:
    """One number that a benchmark stands for, with what it must reach and what others reach."""

    benchmark: str
    name: str
    value: Spread
    unit: str
    accept: float | None = None
    aim: float | None = None
    less_is_better: bool = False
    peers: Mapping[str, Spread] = field(default_factory=dict)
    note: str = ""
    accept_most: float | None = None  # Where more than that is as wrong as less than `accept`.

    def reaches(self, level: float | None) -> bool:
        """Whether the median is at least as good as the level; what has no level is always good enough."""
        if level is None:
            return True
        return self.value.median <= level if self.less_is_better else self.value.median >= level

    @property
    def is_accepted(self) -> bool:
        return self.reaches(self.accept) and (self.accept_most is None or self.value.median <= self.accept_most)

    def line(self) -> str:
        sign = "<=" if self.less_is_better else ">="
        words = [self.benchmark, self.name, number(self.value.median), self.unit]
        words += [
            f"{name}{sign}{number(level)}" for name, level in (("accept", self.accept), ("aim", self.aim)) if level is not None
        ]
        if self.accept_most is not None:
            words.append(f"accept<={number(self.accept_most)}")
        words += [f"{name}={number(peer.median)}" for name, peer in self.peers.items()]
        words.append(f"({self.value})")
        if not self.is_accepted:
            words.append("MISSED")
        return " ".join(words) + (f"  {self.note}" if self.note else "")


class Bench:
    """What one benchmark reports to."""

    def __init__(self, benchmark: str) -> None:
        self.benchmark = benchmark
        self.figures: list[Figure] = []
        self.records: dict[str, Any] = {}
        self._began = time.monotonic()
        self._said_at = -math.inf

    def figure(
        self,
        name: str,
        samples: float | Sequence[float],
        unit: str,
        *,
        accept: float | None = None,
        aim: float | None = None,
        less_is_better: bool = False,
        peers: Mapping[str, float | Sequence[float]] | None = None,
        note: str = "",
        accept_most: float | None = None,
    ) -> Figure:
        """Report one number, or the samples of several runs, of which the median counts."""
        figure = Figure(
            self.benchmark, name, spread(samples), unit, accept, aim, less_is_better,
            {peer: spread(value) for peer, value in (peers or {}).items()}, note, accept_most,
        )  # fmt: skip
        self.figures.append(figure)
        self._clear()
        print(figure.line(), flush=True)
        return figure

    def record(self, name: str, value: object) -> None:
        """Keep something beside the figures, in the JSON file."""
        self.records[name] = value

    def say(self, text: str) -> None:
        """One line of what happens, for whoever watches."""
        self._clear()
        print(f"  {self.benchmark} {self._elapsed()}  {text}", file=sys.stderr, flush=True)

    def progress(self, text: str) -> None:
        """Where a long step is: rewrites one line on a terminal, else a line now and then. May be called often."""
        now = time.monotonic()
        if sys.stderr.isatty():
            if now - self._said_at >= 0.1:
                self._said_at = now
                print(f"\r\x1b[K  {self.benchmark} {self._elapsed()}  {text}", end="", file=sys.stderr, flush=True)
        elif now - self._said_at >= PROGRESS_SECONDS:
            self._said_at = now
            print(f"  {self.benchmark} {self._elapsed()}  {text}", file=sys.stderr, flush=True)

    def _elapsed(self) -> str:
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60:2}:{seconds % 60:02}"

    def _clear(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def alternate(bench: Bench, sides: Mapping[str, Callable[[], float]], *, runs: int, unit: str = "") -> dict[str, list[float]]:
    """Measure several things in turn, A B A B, so that what else happens on the machine falls on all of them alike."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(runs):
        for name, measure in sides.items():
            bench.progress(f"run {turn + 1} of {runs}: {name}")
            value = measure()
            found[name].append(value)
            bench.say(f"run {turn + 1} of {runs}: {name} {number(value)} {unit}".rstrip())
    return found


def number(value: float) -> str:
    """Three or four digits that mean something."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.4g}"


# --- The machine ------------------------------------------------------------------------------------------------------


def environment() -> dict[str, Any]:
    """The machine and the versions that a result depends on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 1024**3, 1),
        "processor": _processor(),
        "kernel": platform.release(),
        "system": _system_name(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
        "commit": version_of("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"),
        "has_changes": bool(version_of("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")),
    }


def version_of(*command: str) -> str:
    """What a program says of itself, in one line; empty when it is not there."""
    if shutil.which(command[0]) is None:
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        return (done.stdout.strip() or done.stderr.strip()).partition("\n")[0]
    return ""


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _system_name() -> str:
    with contextlib.suppress(OSError, KeyError):
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    return platform.system()


@contextlib.contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """A folder that everybody may pass and that is gone afterwards."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix=f"berth-bench-{name}-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install_packages(packages: Mapping[str, str], *, why: str) -> None:
    """Install Debian packages (name -> a file that is there then) as root; without root name them. Raises BenchError."""
    missing = [name for name, mark in packages.items() if not Path(mark).exists()]
    if not missing:
        return
    command = f"apt-get install {' '.join(missing)}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise BenchError(f"{why} needs Debian packages. Install them and run this again: {command}")
    print(f"  {command}", file=sys.stderr, flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # No package starts a service of its own.
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    for attempt in (install, ["apt-get", "update", "-q"], install):
        done = subprocess.run(attempt, env=quiet, capture_output=True, text=True, check=False)
        if attempt is install and done.returncode == 0:
            return
    raise BenchError(f"{why}: `{command}` failed: {done.stderr.strip()[-500:]}")


# --- What comes out ---------------------------------------------------------------------------------------------------


def write_result(folder: Path, bench: Bench, *, arguments: Sequence[str], machine: Mapping[str, Any]) -> Path:
    """The JSON file of one benchmark; returns where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    at = datetime.now(UTC)
    path = folder / f"{bench.benchmark}-{at:%Y%m%dT%H%M%SZ}.json"
    document = {
        "benchmark": bench.benchmark,
        "at": at.isoformat(timespec="seconds"),
        "arguments": list(arguments),
        "machine": {**machine, "load_after": os.getloadavg()[0]},
        "figures": [
            {**asdict(figure), "median": figure.value.median, "line": figure.line(), "accepted": figure.is_accepted}
            for figure in bench.figures
        ],
        "records": bench.records,
    }
    path.write_text(json.dumps(document, indent=1, default=str) + "\n")
    return path
