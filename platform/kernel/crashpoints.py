"""Named places between two side effects where a process may die. Tests kill it there, one by one, and look at what remains.

Every step with a side effect names a point; the registry is the list that the fault harness loops over. In production a
point costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

POINTS: dict[str, str] = {
    "activity.sequence.before_commit": "Events have their numbers, the transaction is not committed.",
    "activity.fan_out.before_commit": "Deliveries are written and the cursor moved, not committed.",
    "activity.deliver.after_claim": "Deliveries are claimed, nothing was sent.",
    "activity.deliver.after_send": "Messages were sent, the deliveries do not say so.",
    "clusters.maintenance.before_commit": "Machines of windows under way are out of service, not committed.",
    "jobs.submit.before_commit": "The rows are written, the transaction is not committed.",
    "jobs.submit.after_commit": "The job is stored, the client has no answer yet.",
    "jobs.priority.before_commit": "A request for a higher priority is made or decided, not committed.",
    "jobs.move.before_commit": "Jobs have their new places in the queue, not committed.",
    "tenants.quota_request.before_commit": "A request for other limits is made or decided, not committed.",
    "webapi.key.after_commit": "What a request with a key did is stored with its key, the client has no answer yet.",
    "jobs.admit.before_commit": "Reservations and attempts are written, not committed.",
    "jobs.admit.after_commit": "The attempt is admitted, nobody was told.",
    "jobs.evict.before_commit": "Attempts that make way are stopping, not committed.",
    "jobs.evict.after_commit": "They are stopping for another, and only the database knows for whom.",
    "jobs.launch.after_claim": "A worker holds the lease of admitted attempts and has done nothing yet.",
    "jobs.launch.before_ensure": "Workloads of claimed attempts are compiled, the engine was not asked.",
    "jobs.launch.after_ensure": "The engine has the workload, the database does not know.",
    "jobs.launch.after_record": "STARTING is stored, the message is not acknowledged.",
    "jobs.poll.after_observe": "The engine was read, nothing is recorded.",
    "jobs.poll.before_commit": "Observations are written, not committed.",
    "jobs.stop.after_claim": "A stop is due and claimed, the engine was not told.",
    "jobs.stop.after_engine": "The engine was told to stop, the database does not know.",
    "jobs.finish.after_logs": "All logs and outputs are stored, the attempt is not marked so.",
    "jobs.finish.after_forget": "The engine forgot the attempt, the database does not know.",
    "jobs.build.after_job": "The job of a build request exists, the request does not know it.",
    "jobs.checkpoint.after_claim": "Directories that jobs keep are due and claimed, nothing was looked at.",
    "jobs.checkpoint.before_commit": "A directory was looked through, its job does not know and waits.",
    "storage.checkpoint.after_copy": "A job's directory is filled with a copy, no row says so.",
    "storage.checkpoint.after_drop": "What was half written is removed, nothing is measured.",
    "storage.checkpoint.after_remove": "A directory past its time is removed, its row does not say so.",
    "images.build.after_seal": "A built environment is sealed, neither request nor image says so.",
    "storage.logs.before_streams": "An attempt's log is opened without its streams, not committed.",
    "storage.logs.after_write": "Output is in the store's file, no row says so.",
    "storage.outputs.after_copy": "A job's output is copied, no row says so.",
    "storage.volume.before_commit": "A volume's directory and row are made, not committed.",
    "storage.upload.after_write": "A piece of an upload is in its file, the offset has not moved.",
    "storage.upload.after_put": "An uploaded file is in its place, the upload does not say so.",
}

_actions: dict[str, Callable[[], None]] = {}


def crashpoint(name: str) -> None:
    """Die here if a test asked for it: `BERTH_CRASH_AT=<name>` kills the process, `arm` runs an action.

    `BERTH_CRASH_AT=/<path>` takes the name from that file at the moment, so that a process that runs already can be told, and
    removes the file, so that the next process lives. `freeze <name>` stops the process there instead, as SIGSTOP does: whoever
    lets it go on later has a worker that was paused with work in hand.
    """
    if name not in POINTS:
        raise AssertionError(f"crash point {name} is not registered in kernel/crashpoints.py")
    action = _actions.pop(name, None)
    if action is not None:
        action()
    asked = os.environ.get("BERTH_CRASH_AT")
    if asked is not None and (fate := signal.SIGKILL if asked == name else _stands_in(asked, name)):
        os.kill(os.getpid(), fate)


def _stands_in(path: str, name: str) -> signal.Signals | None:
    """What the file asks for at this point, if anything."""
    try:
        with open(path) as file:
            fate, _, point = file.read().rpartition(" ")
        if point != name:
            return None
        os.unlink(path)
    except OSError:  # There is no such file: nothing is asked for now, or another thread dies of it already.
        return None
    return signal.SIGSTOP if fate == "freeze" else signal.SIGKILL


def arm(name: str, action: Callable[[], None]) -> None:
    """Run `action` once when the point is reached next; a simulator raises from it."""
    if name not in POINTS:
        raise AssertionError(f"crash point {name} is not registered")
    _actions[name] = action


def disarm_all() -> None:
    _actions.clear()
