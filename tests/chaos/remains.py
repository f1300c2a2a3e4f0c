"""What a round leaves behind: what the payloads wrote, what the engine still knows, what the database says at the end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.builders.live import LivePlatform
from tests.histories.records import Record, read_history

ROOT = Path(__file__).resolve().parents[2]
COLLECT_SECONDS = 600.0
EVENTS = ("start", "beat", "stop", "overlap", "printed")
COUNTED = ("restored", "saving", "saved")


def read_remains(platform: LivePlatform, folder: Path) -> Iterator[Record]:
    """All records, the database's last; the platform is at rest."""
    yield from _witnesses(platform)
    yield from _engine(platform)
    yield from _database(platform, folder)


def _witnesses(platform: LivePlatform) -> Iterator[Record]:
    """Lines of the form `time uptime job attempt task event [number [half]]`, each appended in one write."""
    for path in sorted(platform.data_dir.glob("volumes/**/log")):
        for line in path.read_text().splitlines():
            t, uptime, job, number, task, event, *more = line.split()
            facts: dict[str, Any] = {"job": job, "number": int(number), "task": task, "monotonic": float(uptime)}
            if event in EVENTS:
                yield Record(float(t), "payload", event, {**facts, **({"lines": int(more[0])} if more else {})})
            elif event in COUNTED:
                yield Record(float(t), "payload", event, {**facts, "count": int(more[0]), "half": more[1:] == ["half"]})


def _engine(platform: LivePlatform) -> Iterator[Record]:
    """The gate of an attempt is made once by whoever starts it, or by a stop that came before any start."""
    rows = platform.rows("SELECT id::text, job_id::text, number FROM jobs_attempt WHERE launched_at IS NOT NULL")
    launched = {attempt: (job, number) for attempt, job, number in rows}
    for gate in sorted(platform.data_dir.glob("engine/*/gates/*")):
        if gate.name in launched:
            job, number = launched[gate.name]
            yield Record(gate.stat().st_mtime, "engine", "create", {"attempt": gate.name, "job": job, "number": number})
    for kept in sorted(platform.data_dir.glob("engine/*/attempts/*")):
        yield Record(kept.stat().st_mtime, "engine", "object", {"attempt": kept.name, "alive": _has_processes(kept.name)})


def _has_processes(word: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                return True
    return False


def _database(platform: LivePlatform, folder: Path) -> Iterator[Record]:
    """Read in a process of its own, which has the platform's settings."""
    file = folder / "database.jsonl"
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "platform"), os.environ.get("PYTHONPATH", "")]),
        "BERTH_DATA_DIR": str(platform.data_dir),
        **platform.environment,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.histories.collect", str(file)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=COLLECT_SECONDS,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"the database's side cannot be read: {done.stderr[-2000:]}")
    yield from read_history(file)
    file.unlink()
