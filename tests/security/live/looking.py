"""Everywhere that a running platform could have left a word: files, rows, messages, command lines, answers, logs."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import redis

from tests.builders.files import content, paths_below
from tests.builders.live import LivePlatform

# Where a credential belongs: shown once at the first start and removed by whoever reads it, and the key itself.
BELONGS = ("first-credentials.json", "secret.key")


def where_found(platform: LivePlatform, words: Mapping[str, str], *, backup: Path | None = None) -> list[str]:
    """Each place with a word of `words` (what it is -> the text) in it."""
    found = [*in_files(platform, words), *in_rows(platform, words), *in_redis(platform, words), *in_processes(words)]
    found += in_answers(platform, words)
    if backup is not None:
        found += in_tar(backup, words)
    return sorted(set(found))


def in_files(platform: LivePlatform, words: Mapping[str, str]) -> list[str]:
    texts = {what: text.encode() for what, text in words.items()}
    found = []
    for path in [*paths_below(platform.data_dir), *platform.place.glob("*.log")]:
        if not path.is_symlink() and path.name not in BELONGS and path.suffix != ".tar":
            kept = content(path)
            found += [f"{what} in the file {path.name}" for what, text in texts.items() if text in kept]
    return found


def in_rows(platform: LivePlatform, words: Mapping[str, str]) -> list[str]:
    return [f"{what} in the table {name}" for what, text in words.items() for name in platform.tables_with(text)]


def in_redis(platform: LivePlatform, words: Mapping[str, str]) -> list[str]:
    """Queues, channels and counts, as they are stored."""
    url = platform.environment.get("BERTH_REDIS_URL", "")
    if not url:
        return []
    with redis.Redis.from_url(url) as client:
        kept = b"".join(key + b"\0" + (client.dump(key) or b"") for key in client.scan_iter(count=1000))
    return [f"{what} in Redis" for what, text in words.items() if text.encode() in kept]


def in_processes(words: Mapping[str, str]) -> list[str]:
    """Command lines, which everybody on the machine reads; environments of tasks are their tenants' own."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        found += [f"{what} in the command line {line[:60]!r}" for what, text in words.items() if text.encode() in line]
    return found


def in_answers(platform: LivePlatform, words: Mapping[str, str]) -> list[str]:
    """What the API says to an operator, who sees the most, of everything that lists or tells."""
    description = platform.api("GET", "/openapi.json")
    lists = [path.removeprefix("/api/v1") for path, entry in description["paths"].items() if "get" in entry and "{" not in path]
    found = []
    for path in lists:
        if path.startswith("/metrics") or path.endswith("/stream"):
            continue
        text = platform.operator.request("GET", path if not path.startswith(("/livez", "/readyz")) else f"/{path}").text
        found += [f"{what} in the answer of {path}" for what, word in words.items() if word in text]
    return found


def in_tar(backup: Path, words: Mapping[str, str]) -> list[str]:
    """A backup holds the keys, is marked so, and holds what they protect only encrypted."""
    found = []
    with tarfile.open(backup) as archive:
        for member in archive:
            reader = archive.extractfile(member) if member.isfile() and Path(member.name).name not in BELONGS else None
            kept = reader.read() if reader is not None else b""
            found += [f"{what} in {member.name} of the backup" for what, text in words.items() if text.encode() in kept]
    return found


def directory_of_sockets(platform: LivePlatform) -> list[Path]:
    """The sockets of PostgreSQL and Redis that the platform uses; none with SQLite."""
    places = []
    database, broker = platform.environment.get("BERTH_DATABASE_URL", ""), platform.environment.get("BERTH_REDIS_URL", "")
    if database:
        host = parse_qs(urlsplit(database).query).get("host", [""])[0]
        places += [path for path in Path(host).glob(".s.PGSQL.*") if path.is_socket()]
    if broker.startswith("unix:"):
        places.append(Path(urlsplit(broker).path))
    return places


def as_user(uid: int, code: str, *arguments: str) -> dict[str, object]:
    """What a program prints as JSON that runs with a tenant's user and no sandbox."""
    identity = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]
    done = subprocess.run(
        ["setpriv", *identity, "/usr/bin/python3", "-c", code, *arguments],
        cwd="/tmp", env={"PATH": os.defpath}, capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    said: dict[str, object] = json.loads(done.stdout)
    return said
