"""What PostgreSQL and Redis must be like before a process of ours works with them: all that is wrong, at once, with the mending.

A promise that rests on a server's setting is checked here: a database that forgets what it confirmed, a broker that throws
messages away when it is full or when it restarts, a broker that another program uses, or that any user of the machine can open.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import redis
import structlog
from django.db import DatabaseError, OperationalError, connection

from controlplane.celery import TASK_SECONDS_MAX
from controlplane.instance import CannotStart
from kernel.clock import database_now
from kernel.config import Config, current
from kernel.ids import new_id
from reconciling.models import Installation

log = structlog.get_logger("servers")

PROBE = "readiness.probe"  # A lease that no process takes: the row that is written to see whether rows can be written.
WAIT_SECONDS = 20.0  # After a boot the servers come up beside us.
AWAY_SECONDS = 40.0  # How long a process waits for its database: less than systemd and our supervisor wait for the process.
PAUSE_SECONDS = (0.1, 3.0)  # The first wait before another try, and the longest.
REDIS_SECONDS = 3.0
POSTGRESQL_MIN = 150_000  # 15.0, as server_version_num says it: what the tests run on, and Debian 12 has.
REDIS_MIN = (6, 2)
# Releases with the fix of CVE-2025-49844, by branch (the advisory GHSA-4789-qfc9-5f9q); 7.0 has none but Debian's.
REDIS_FIXED = {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2}
DEBIAN_FIXED = {"7.0.15": "5:7.0.15-1~deb12u6", "8.0.2": "5:8.0.2-3+deb13u1"}
CONNECTIONS_EACH = 16  # The pool of each process, controlplane/settings.py.
CONNECTIONS_RESERVED = 8  # For backups, `manage.py` commands and administrators.

MARKER = "berth.installation"
VISIBILITY = "berth.visibility_seconds"
# What Celery and the throttles keep there. They may stand alone: a Redis that was emptied is filled with them by the
# processes that run, before one of them says again whose it is.
EXCHANGES = ("default", "cluster.", "celery.pidbox", "reply.celery.pidbox", "celeryev")
OUR_KEYS = (
    *(f"{table}.{exchange}" for table in ("_kombu.binding", "_kombu.binding_permanent") for exchange in EXCHANGES),
    "_kombu.binding_deadlines",
    PROBE,
    "unacked",
    "default",
    "cluster.",
    "berth",
)
KEYS_LOOKED_AT = 200


def refuse_wrong_servers(config: Config, *, wait: bool = False) -> None:
    """Raise CannotStart that names everything that is wrong with either server.

    A Redis that does not answer is no reason for a process not to start: it costs time only. With `wait` it is, after a while.
    The database is waited for in any case; one that stays away is no fault of the settings, and another try may help.
    """
    problems = [*_postgresql_problems(config, wait=wait), *_redis_problems(config, wait=wait)]
    if problems:
        raise CannotStart("\n".join(problems), is_final=not all(" does not answer: " in problem for problem in problems))


def claim_servers(config: Config) -> None:
    """Name the installation in its database, and say in Redis whose it is. Raises CannotStart if it is another one's."""
    installation, _ = Installation.objects.get_or_create(number=1, defaults={"id": new_id(), "created_at": database_now()})
    _check_claim(config, str(installation.id))


def check_claim(config: Config) -> None:
    """The same for a process of an installation that has its name already."""
    try:
        installation = Installation.objects.filter(number=1).first()
    except OperationalError as error:
        raise CannotStart(f"PostgreSQL does not answer: {_first_line(error)}", is_final=False) from None
    except DatabaseError:
        installation = None
    if installation is None:
        raise CannotStart("The database is not prepared for this release. Run `manage.py prepare` once before the processes.")
    _check_claim(config, str(installation.id))


def keep_claim() -> None:
    """Say again whose Redis this is: it may have been emptied. Harmless at any time."""
    installation = Installation.objects.filter(number=1).first()
    if installation is None:
        return
    try:
        with _client(current()) as client:
            client.set(MARKER, str(installation.id), nx=True)
            client.set(VISIBILITY, current().visibility_seconds, nx=True)
            owner = _text(client.get(MARKER))
    except redis.RedisError:
        return  # The processes that need it say so.
    if owner != str(installation.id):
        log.error("redis_is_shared", installation=str(installation.id), other=owner)


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


def _postgresql_problems(config: Config, *, wait: bool) -> list[str]:
    try:
        facts = _patiently("PostgreSQL", _ask_postgresql, OperationalError, seconds=WAIT_SECONDS if wait else AWAY_SECONDS)
    except OperationalError as error:
        return [f"PostgreSQL does not answer: {_first_line(error)} Start it, or correct BERTH_DATABASE_URL."]
    problems = []
    if facts["server_version_num"] < POSTGRESQL_MIN:
        problems.append(
            f"PostgreSQL {facts['server_version']} is too old: 15 or newer is needed. Debian 12: apt-get install postgresql"
        )
    for name, why in (
        ("fsync", "a power cut would damage the database"),
        ("full_page_writes", "a power cut would damage the database"),
        ("synchronous_commit", "a job that was acknowledged could be forgotten"),
    ):
        if facts[name] == "off":
            problems.append(
                f"PostgreSQL has {name}={facts[name]}: {why}. Set: ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf();"
            )
    if not _is_protected(config.database_url):
        problems.append(
            "BERTH_DATABASE_URL has no password and is no unix socket that only Berth may open: a job on this machine could "
            "connect as well. Give the role a password, with scram-sha-256 in pg_hba.conf."
        )
    wanted = _processes(config) * CONNECTIONS_EACH + CONNECTIONS_RESERVED
    if facts["max_connections"] < wanted:
        log.warning("few_connections", max_connections=facts["max_connections"], processes_may_open=wanted)
    return problems


def _ask_postgresql() -> dict[str, Any]:
    names = ("server_version", "server_version_num", "fsync", "full_page_writes", "synchronous_commit", "max_connections")
    connection.ensure_connection()
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(names)])
        facts: dict[str, Any] = dict(cursor.fetchall())
    for name in ("server_version_num", "max_connections"):
        facts[name] = int(facts[name])
    return facts


def _processes(config: Config) -> int:
    return config.web_processes + config.worker_processes + config.scheduler_processes + config.observer_processes


# --- Redis -----------------------------------------------------------------------------------------------------------


def _redis_problems(config: Config, *, wait: bool) -> list[str]:
    try:
        with _client(config) as client:
            info = _patiently("Redis", lambda: dict(client.info()), redis.ConnectionError, seconds=WAIT_SECONDS if wait else 0.0)
            settings = _redis_settings(client)
    except (redis.AuthenticationError, redis.ResponseError) as error:
        return [f"Redis refuses us: {_first_line(error)} Correct the user and password in BERTH_REDIS_URL."]
    except redis.RedisError as error:
        if wait:
            return [f"Redis does not answer: {_first_line(error)} Start it, or correct BERTH_REDIS_URL."]
        log.warning("redis_not_checked", error=_first_line(error))
        return []
    problems = [*_setting_problems(settings), *_version_problems(config, info)]
    if not _is_protected(config.redis_url):
        problems.append(
            "Redis takes everybody on this machine for Berth, jobs included. Set requirepass (or an ACL user) and put the "
            "password into BERTH_REDIS_URL, or use a unix socket in a directory of mode 0700."
        )
    if config.visibility_seconds < 2 * TASK_SECONDS_MAX:
        problems.append(
            f"BERTH_VISIBILITY_SECONDS={config.visibility_seconds:g} would deliver messages again while their tasks still run. "
            f"Choose {2 * TASK_SECONDS_MAX} or more."
        )
    return problems


def _redis_settings(client: redis.Redis) -> dict[str, str] | None:
    """What it is set to; None where it may not be asked, as with some providers."""
    try:
        found = client.config_get("maxmemory-policy", "appendonly", "save")
    except redis.ResponseError as error:
        log.warning("redis_settings_not_checked", error=_first_line(error))
        return None
    return {_text(name): _text(value) for name, value in found.items()}


def _setting_problems(settings: dict[str, str] | None) -> list[str]:
    if settings is None:
        return []
    problems = []
    policy = settings.get("maxmemory-policy", "")
    if policy != "noeviction":
        problems.append(
            f"Redis has maxmemory-policy {policy}: it throws messages away when it is full. "
            "Set in redis.conf: maxmemory-policy noeviction"
        )
    if settings.get("appendonly") != "yes" and not settings.get("save"):
        problems.append("Redis keeps nothing when it restarts. Set in redis.conf: appendonly yes")
    return problems


def _version_problems(config: Config, info: dict[str, Any]) -> list[str]:
    version = str(info.get("redis_version", ""))
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if numbers < REDIS_MIN:
        return [f"Redis {version} is too old: 6.2 or newer is needed. Debian 12: apt-get install redis-server"]
    packaged = _debian_revision(config, str(info.get("executable", "")))
    floor = DEBIAN_FIXED.get(version)
    if packaged and floor:
        if _is_older(packaged, floor):
            return [
                f"Redis is Debian's {packaged}, in which whoever may send commands can run code (CVE-2025-49844). "
                f"Install {floor} or newer: apt-get update && apt-get install --only-upgrade redis-server, and restart it"
            ]
        return []
    fixed = REDIS_FIXED.get((numbers[0], numbers[1]))
    if (fixed is None and numbers < max(REDIS_FIXED)) or (fixed is not None and numbers[2:] < (fixed,)):
        log.warning("redis_may_be_vulnerable", version=version, advisory="CVE-2025-49844")
    return []


def _debian_revision(config: Config, executable: str) -> str:
    """The revision of Debian's package that the server runs from, or "" where that cannot be told."""
    is_here = urlsplit(config.redis_url).scheme == "unix" or urlsplit(config.redis_url).hostname in (
        "localhost",
        "127.0.0.1",
        "::1",
    )
    if not is_here or not executable.startswith("/usr/bin/") or shutil.which("dpkg-query") is None:
        return ""
    for package in ("redis-server", "redis-tools"):
        command = ["dpkg-query", "--show", "--showformat=${Version}", package]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout:
            return done.stdout
    return ""


def _is_older(version: str, floor: str) -> bool:
    return subprocess.run(["dpkg", "--compare-versions", version, "lt", floor], check=False).returncode == 0


def _check_claim(config: Config, installation: str) -> None:
    """Raise CannotStart unless this number of Redis is ours alone, with the same visibility timeout everywhere."""
    try:
        with _client(config) as client:
            problems = _claim_problems(client, config, installation)
    except redis.RedisError as error:
        log.warning("redis_not_claimed", error=_first_line(error))
        return
    if problems:
        raise CannotStart("\n".join(problems))


def _claim_problems(client: redis.Redis, config: Config, installation: str) -> list[str]:
    number = client.connection_pool.connection_kwargs.get("db", 0) or 0
    owner = _text(client.get(MARKER))
    if not owner:
        foreign = _foreign_keys(client)
        if foreign:
            return [
                f"Database {number} of Redis has keys of something else ({', '.join(foreign)}). Give Berth one of its own: "
                "another number after db= in BERTH_REDIS_URL, or empty this one with FLUSHDB if nobody needs it."
            ]
        client.set(MARKER, installation, nx=True)
        owner = _text(client.get(MARKER))
    if owner != installation:
        return [
            f"Database {number} of Redis belongs to another installation of Berth ({owner}; this one is {installation}). Choose "
            f"another number after db= in BERTH_REDIS_URL. If that one is gone for good: redis-cli -n {number} FLUSHDB"
        ]
    stored = _text(client.get(VISIBILITY))
    ours = config.visibility_seconds
    if stored and ours < float(stored):
        return [
            f"BERTH_VISIBILITY_SECONDS={ours:g} is less than the {float(stored):g} of the processes that use this Redis: the "
            f"lowest counts for all messages. Set {float(stored):g} here; or stop all processes first and then: "
            f"redis-cli -n {number} DEL {VISIBILITY}"
        ]
    client.set(VISIBILITY, ours)
    return []


def _foreign_keys(client: redis.Redis) -> list[str]:
    """Up to three keys that no release of ours writes."""
    found: list[str] = []
    for looked, key in enumerate(client.scan_iter(count=KEYS_LOOKED_AT)):
        if not _text(key).startswith(OUR_KEYS):
            found.append(_text(key)[:60])
        if len(found) == 3 or looked >= KEYS_LOOKED_AT:
            break
    return found


# --- Both ------------------------------------------------------------------------------------------------------------


def _client(config: Config) -> redis.Redis:
    return redis.Redis.from_url(config.redis_url, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS)


def _is_protected(url: str) -> bool:
    """Whether a job on this machine, which may open every socket that it finds, is kept out."""
    parts = urlsplit(url)
    if parts.password:
        return True
    query = parse_qs(parts.query)
    path = parts.path if parts.scheme == "unix" else query.get("host", [""])[-1]
    return path.startswith("/") and _is_closed(Path(unquote(path)))


def _is_closed(path: Path) -> bool:
    """Whether others cannot pass to it: PostgreSQL's is a directory, Redis's a file."""
    folders = [path, *path.parents] if path.is_dir() else list(path.parents)
    try:
        return any(not folder.stat().st_mode & 0o001 for folder in folders)
    except OSError:
        return True  # Not even we can look.


def _patiently(name: str, ask: Callable[[], dict[str, Any]], error: type[Exception], *, seconds: float) -> dict[str, Any]:
    """Ask until there is an answer, for so many seconds, with growing pauses; says once that it waits."""
    deadline = time.monotonic() + seconds
    pause, said = PAUSE_SECONDS[0], False
    while True:
        try:
            return ask()
        except error as reason:
            if time.monotonic() >= deadline:
                raise
            if not said:
                log.warning("waiting_for_server", server=name, error=_first_line(reason), seconds_at_most=seconds)
                said = True
            connection.close()
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(PAUSE_SECONDS[1], pause * 2)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def _first_line(error: Exception) -> str:
    """What the driver says, without what follows; it never holds the password."""
    text = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
    return f"{text}."
