"""A payload that testifies: what really ran, and when, told by itself and not by the platform.

`witness_command("/witness", seconds=3)` gives the argv of a task that appends lines to `/witness/payload.jsonl`, a file that all
payloads share (O_APPEND, one write a line): `start`, a `beat` five times a second, and `stop`. Who is killed writes no `stop`;
the last beat then tells how long it lived at least. Beside that each task holds a kernel lock on a file of its job's task for
as long as it lives: another attempt that finds it held writes `overlap`, which proves what clocks could not.

It needs only Python's standard library and a directory that the task may write to: a volume's mount.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.histories.records import Record, read_history

FILE = "payload.jsonl"

PROGRAM = """
import fcntl, json, os, subprocess, sys, time

folder, seconds, lines, code, argv = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]
job, number = os.environ["BERTH_JOB_ID"], int(os.environ["BERTH_ATTEMPT"])
task = os.environ["BERTH_ROLE"] + "-" + os.environ["BERTH_INDEX"]
witness = os.open(os.path.join(folder, "payload.jsonl"), os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o666)

def tell(event, **more):
    record = {"t": time.time(), "source": "payload", "event": event, "job": job, "number": number, "task": task, **more}
    os.write(witness, (json.dumps(record) + "\\n").encode())

lock = os.open(os.path.join(folder, "lock-" + job + "-" + task), os.O_CREAT | os.O_RDWR, 0o666)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    tell("overlap")
tell("start")
child = subprocess.Popen(argv) if argv else None
ends_at = time.monotonic() + seconds
printed = 0
while True:
    for _ in range(100):
        if printed < lines:
            print("line", printed, flush=True)
            printed += 1
    left = ends_at - time.monotonic()
    if child is not None:
        try:
            code = child.wait(0.2)
            break
        except subprocess.TimeoutExpired:
            pass
    elif left <= 0 and printed >= lines:
        break
    else:
        time.sleep(0 if printed < lines else min(0.2, max(0.0, left)))
    tell("beat")
if lines:
    tell("printed", lines=printed)
tell("stop")
sys.exit(code if code >= 0 else 128 - code)
"""


def witness_command(
    folder: str,
    *,
    seconds: float = 0.0,
    lines: int = 0,
    code: int = 0,
    argv: Sequence[str] = (),
    python: str = "/usr/bin/python3",
) -> list[str]:
    """The argv of a task that testifies in `folder` (as the task sees it) for `seconds`, or for as long as `argv` runs.

    It prints `lines` numbered lines and leaves with `code`, or with what `argv` left.
    """
    return [python, "-c", PROGRAM, folder, str(seconds), str(lines), str(code), *argv]


def payload_records(folder: Path) -> list[Record]:
    """What the payloads testified in a directory; empty when none ran."""
    path = folder / FILE
    return list(read_history(path)) if path.exists() else []
