"""What is different about an installation of many processes: the profile it remembers, its processes, and how they are replaced
one by one. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.place import Place, RunningPlatform, find_running
from tools.progress import Stop
from tools.servers import PostgreSQL, describe, give_to_service_user, start_servers, write_private

EMBEDDED, PRODUCTION = "embedded", "production"
REPEATED = ("web", "worker", "scheduler", "observer")
ALL_READY_SECONDS_MAX = 120
ROLLED_SECONDS_MAX = 600  # Each process has two minutes to be ready.
PROFILE, DATABASE, BROKER = "BERTH_SERVER_PROFILE", "BERTH_DATABASE_URL", "BERTH_REDIS_URL"


def settings_path(place: Place) -> Path:
    """Profile and servers of an installation, as a shell reads them: for `berth-server` and for the next `make up`."""
    return place.data / "release" / "production.env"


def remembered_settings(place: Place) -> dict[str, str]:
    """What the last start of the production profile left; empty where there was none."""
    try:
        lines = settings_path(place).read_text().splitlines()
    except FileNotFoundError:
        return {}
    except PermissionError:
        raise Stop(f"{settings_path(place)} belongs to somebody else. Run this as the user who ran `make up`.") from None
    return {name: "".join(shlex.split(value)) for name, _, value in (line.partition("=") for line in lines) if value}


def remember(place: Place, settings: Mapping[str, str]) -> None:
    names = (PROFILE, DATABASE, BROKER)
    write_private(settings_path(place), "".join(f"{name}={shlex.quote(settings[name])}\n" for name in names))


def choose_profile(place: Place, wanted: str) -> str:
    """The profile to start, by what is asked for and what the data were made with. Raises Stop where they disagree."""
    asked = wanted or os.environ.get(PROFILE, "")
    if wanted and wanted not in (EMBEDDED, PRODUCTION):
        raise Stop(f"{wanted!r} is no profile. Choose one of {EMBEDDED}, {PRODUCTION}: make up PROFILE={PRODUCTION}")
    known = known_profile(place)
    if asked not in (EMBEDDED, PRODUCTION):
        return known or EMBEDDED  # A bad setting is the platform's to refuse, with all others.
    if known and asked != known:
        raise Stop(
            f"{place.data} is an installation of the {known} profile, and its data do not move to the {asked} profile by "
            f"themselves. Start it as it was (make up PROFILE={known}), or set BERTH_DATA_DIR to a new directory."
        )
    return asked


def known_profile(place: Place) -> str:
    """The profile that this data directory was started with; "" before the first start."""
    if settings_path(place).exists() or PostgreSQL(place).is_there:
        return PRODUCTION
    return EMBEDDED if (place.data / "berth.sqlite3").exists() else ""


def prepare(place: Place) -> dict[str, str]:
    """Key and servers: what must be there before the platform starts. Its settings."""
    remembered = remembered_settings(place)
    given = {name: os.environ.get(name, "") for name in (DATABASE, BROKER)}
    if given[DATABASE] and PostgreSQL(place).is_there and given[DATABASE] != remembered.get(DATABASE):
        raise Stop(
            f"BERTH_DATABASE_URL names another database than the one in {PostgreSQL(place).home}, where the data of this "
            "installation are. Leave it out; or move the data by `make backup` and `make restore` into a new BERTH_DATA_DIR."
        )
    settings = {PROFILE: PRODUCTION, **{name: given[name] or external(place, remembered.get(name, "")) for name in given}}
    make_key(place, is_new=not remembered)
    own = start_servers(place, database=not settings[DATABASE], broker=not settings[BROKER])
    return {**settings, **own}


def external(place: Place, url: str) -> str:
    """A remembered address, unless it is one of our own servers, which are told by their socket."""
    return "" if str(place.data / "sockets") in url else url


def make_key(place: Place, *, is_new: bool) -> None:
    """Generate the installation's key on new data. A lost one is never replaced: what was stored under it would be, too."""
    path = place.data / "secret.key"
    has_data = (place.data / "platform.lock").exists() or PostgreSQL(place).is_there
    if os.environ.get("BERTH_SECRET_KEY") or path.exists() or has_data or not is_new:
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(64) + "\n")
    give_to_service_user(path)


# --- The processes ---------------------------------------------------------------------------------------------------


def read_processes(place: Place, running: RunningPlatform) -> dict[str, Any]:
    """What the supervisor says of its children; empty for a platform that is one process."""
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads((place.data / "run" / "processes.json").read_text())
        if found.get("supervisor") == running.process:
            return found
    return {}


def pids(document: Mapping[str, Any]) -> dict[str, list[int]]:
    """The processes by role, in the supervisor's order."""
    return {
        role: found for role, found in document.items()
        if isinstance(found, list) and found and role != "ready"
    }  # fmt: skip


def are_all_ready(document: Mapping[str, Any]) -> bool:
    found = pids(document)
    whole = all(len(found.get(role, [])) >= wanted_number(role) for role in REPEATED)
    return whole and sorted(pid for each in found.values() for pid in each) == document.get("ready")


def wanted_number(role: str) -> int:
    number = os.environ.get(f"BERTH_{role.upper()}_PROCESSES", "")
    return int(number) if number.isdigit() else 1


def wait_for_all(place: Place, process: int) -> None:
    """Wait until every process has said that it is ready; `/readyz` needs one of each only."""
    deadline = time.monotonic() + ALL_READY_SECONDS_MAX
    while time.monotonic() < deadline:
        running = find_running(place)
        if running is None:
            raise Stop(f"process {process} ended while it was waited for; its log: {place.log}")
        if are_all_ready(read_processes(place, running)):
            return
        time.sleep(0.05)
    raise Stop(f"not every process is ready after {ALL_READY_SECONDS_MAX} s; `make status` shows them, their log: {place.log}")


def roll(place: Place, running: RunningPlatform) -> None:
    """Have the supervisor replace its processes by those of the present release, and wait until it has."""
    before = {pid for found in pids(read_processes(place, running)).values() for pid in found}
    os.kill(running.process, signal.SIGHUP)
    deadline = time.monotonic() + ROLLED_SECONDS_MAX
    while time.monotonic() < deadline:
        now = find_running(place)
        if now is None:
            raise Stop(f"process {running.process} ended while its processes were replaced; its log: {place.log}")
        document = read_processes(place, now)
        if now.release == str(place.release) and document.get("release") == now.release and not document["rolling"]:
            left = {pid for found in pids(document).values() for pid in found} & before
            if not left and are_all_ready(document):
                return
            if left:
                raise Stop(
                    f"{len(left)} processes of the release before were not replaced and go on; the platform serves. "
                    f"Why: the last `rolling_restart_given_up` in {place.log}. Mend that and run the same command again."
                )
        time.sleep(0.1)
    raise Stop(f"the processes are not replaced after {ROLLED_SECONDS_MAX} s; `make status` shows them, their log: {place.log}")


def describe_processes(place: Place, running: RunningPlatform) -> list[str]:
    """Lines for people: roles with their process ids, then the servers."""
    document = read_processes(place, running)
    ready = set(document.get("ready", []))
    lines = [
        f"{role:<10} " + ", ".join(f"{pid}" if pid in ready else f"{pid} (starting)" for pid in found)
        for role, found in pids(document).items()
    ]
    return [*lines, *describe_servers(place)]


def describe_servers(place: Place) -> list[str]:
    """Where PostgreSQL and Redis are, without passwords."""
    settings, own = remembered_settings(place), describe(place)
    for name, setting in (("PostgreSQL", DATABASE), ("Redis", BROKER)):
        url = external(place, settings.get(setting, ""))
        if url:
            parts = urlsplit(url)
            own.append(f"{name:<10} {parts.hostname or parts.path or 'a socket'}, given by {setting}")
    return own
