"""A job goes for the platform itself: the servers' sockets, the port, the launcher, the processes. All of it is refused."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from tests.builders.files import paths_below
from tests.builders.live import LivePlatform, LiveUser
from tests.security.live.looking import as_user, directory_of_sockets
from tests.security.matrix.expectations import PUBLIC

pytestmark = [pytest.mark.engines, pytest.mark.database]

# Reads its targets as JSON from argv, tries everything, and prints what succeeded.
ATTACK = r"""
import ctypes, json, os, signal, socket, struct, sys, urllib.error, urllib.request
targets = json.loads(sys.argv[1])
opened, answers, uid = [], {}, os.getuid()
def attempt(what, action):
    try:
        opened.append([what, repr(action())[:200]])
    except Exception:
        pass
def talk(path, word):
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(5)
        link.connect(path)
        link.sendall(word)
        return link.recv(200)
STARTUP = struct.pack("!ii", 8, 80877103)
for path in targets["sockets"]:
    for word in (b"PING\r\n", STARTUP, b"\0\0\0\x10{\"verb\":\"reap\"}"):
        attempt("socket " + path, lambda: talk(path, word))
    attempt("remove " + path, lambda: os.unlink(path))
    attempt("replace " + path, lambda: os.rename(path, path + ".old"))
for folder in targets["folders"]:
    attempt("list " + folder, lambda: os.listdir(folder))
    attempt("plant in " + folder, lambda: open(folder + "/planted", "w").close())
libc = ctypes.CDLL(None, use_errno=True)
def trace(pid):
    if libc.ptrace(16, pid, 0, 0) != 0:
        raise OSError(ctypes.get_errno())
    libc.ptrace(17, pid, 0, 0)
    return "attached"
for pid in targets["processes"]:
    for name in ("environ", "mem", "maps", "stack"):
        attempt("/proc/%d/%s" % (pid, name), lambda: open("/proc/%d/%s" % (pid, name), "rb").read(10))
    attempt("fd of %d" % pid, lambda: os.listdir("/proc/%d/fd" % pid))
    attempt("ptrace %d" % pid, lambda: trace(pid))
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        attempt("signal %d to %d" % (number, pid), lambda: os.kill(pid, number))
    attempt("priority of %d" % pid, lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
for name in ("setuid", "setgid"):
    attempt(name, lambda: getattr(os, name)(0))
attempt("setgroups", lambda: os.setgroups([0]))
attempt("mount", lambda: 1 / (libc.mount(b"none", b"/mnt", b"tmpfs", 0, None) == 0))
attempt("chroot", lambda: os.chroot("/"))
for number in targets["ports"]:
    def listen():
        with socket.socket() as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            link.bind(("127.0.0.1", number))
            link.listen()
            return "listening"
    attempt("share port %d" % number, listen)
for method, url in targets["requests"]:
    request = urllib.request.Request(url, method=method, data=b"{}" if method != "GET" else None)
    request.add_header("Content-Type", "application/json")
    try:
        answers[method + " " + url] = urllib.request.urlopen(request, timeout=60).status
    except urllib.error.HTTPError as error:
        answers[method + " " + url] = error.code
print(json.dumps({"uid": uid, "opened": opened, "answers": answers}))
"""


@pytest.fixture(scope="module")
def carol(live_platform: LivePlatform) -> LiveUser:
    if os.geteuid() != 0:
        pytest.skip("without root the local cluster takes jobs of one tenant only")
    return live_platform.person("carol-attacker", tenant="Attackers & Co")


@pytest.fixture(scope="module")
def targets(live_platform: LivePlatform) -> dict[str, Any]:
    """What there is to attack: everything that the platform opened on this machine."""
    platform = live_platform
    launcher = [path for path in (platform.data_dir / "run").glob("*.sock") if path.is_socket()]
    sockets = [*directory_of_sockets(platform), *launcher]
    assert launcher
    if platform.is_on_servers:
        assert len(sockets) >= 3
    description = platform.api("GET", "/openapi.json")
    known = [
        [method.upper(), path]
        for path, entry in description["paths"].items()
        for method in entry
        if method in {"get", "post", "put", "patch", "delete"} and f"{method.upper()} {path}" not in PUBLIC
    ]
    unknown = "0198a000-0000-7000-8000-000000000000"
    requests = [[method, platform.url + _filled(path, unknown)] for method, path in known]
    folders = [
        platform.data_dir,
        *(platform.data_dir / name for name in ("run", "logs", "artifacts", "code", "uploads", "tools")),
    ]
    return {
        "sockets": [str(path) for path in sockets],
        "folders": [str(path) for path in {*folders, *(path.parent for path in sockets)} if path.is_dir()],
        "processes": platform_pids(platform),
        "ports": [platform.port],
        "requests": requests,
    }


def _filled(path: str, unknown: str) -> str:
    known = {"{number}": "1", "{index}": "0"}
    return "/".join(known.get(part, unknown if part.startswith("{") else part) for part in path.split("/"))


def platform_pids(platform: LivePlatform) -> list[int]:
    """The platform's process and all below it that are not tasks."""
    assert platform.process is not None
    found, waiting = [], [platform.process.pid]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # A thread that has ended since.
                waiting += [child for child in map(int, path.read_text().split()) if _is_of_the_platform(child)]
    return found


def _is_of_the_platform(pid: int) -> bool:
    """Whether a process lives and is no task's: tasks have users of their own."""
    with contextlib.suppress(FileNotFoundError):
        return os.stat(f"/proc/{pid}").st_uid < 200_000
    return False


def expect_nothing(platform: LivePlatform, said: dict[str, Any]) -> None:
    assert said["opened"] == [], "\n".join(map(str, said["opened"]))
    assert set(said["answers"].values()) == {401}, {name: status for name, status in said["answers"].items() if status != 401}
    assert platform.anonymous.request("GET", "//readyz").status_code == 200
    assert not [path for path in paths_below(platform.data_dir) if path.name == "planted"]


@pytest.mark.capability("26", "A job that attacks the platform's servers, port, launcher and processes is refused")
def test_a_job_is_refused_everything(live_platform: LivePlatform, carol: LiveUser, targets: dict[str, Any]) -> None:
    spec = {"name": "attack", "command": ["/usr/bin/python3", "-c", ATTACK, json.dumps(targets)]}
    job = carol.submit(spec, wait=True)
    text = carol.logs(job)
    assert job["state"] == "succeeded", text
    said = json.loads(text)

    assert said["uid"] >= 200_000
    expect_nothing(live_platform, said)


@pytest.mark.capability("26", "A job that attacks the platform's servers, port, launcher and processes is refused")
def test_so_is_its_user_outside_the_sandbox(live_platform: LivePlatform, carol: LiveUser, targets: dict[str, Any]) -> None:
    """The kernel alone refuses what the sandbox would hide."""
    uid = int(carol.logs(carol.submit({"name": "who", "command": "id -u"}, wait=True)))

    expect_nothing(live_platform, as_user(uid, ATTACK, json.dumps(targets)))


def test_whoever_gets_to_the_sockets_still_needs_the_passwords(live_platform: LivePlatform) -> None:
    if not live_platform.is_on_servers:
        pytest.skip("SQLite and memory have no sockets")
    for path in directory_of_sockets(live_platform):
        if path.name.startswith(".s.PGSQL"):
            for password in ("", "berth", "postgres"):
                with pytest.raises(psycopg.OperationalError):
                    psycopg.connect(f"postgresql://berth:{password}@/postgres?host={path.parent}").close()
        else:
            for password in (None, "", "berth"):
                with (
                    pytest.raises(redis.RedisError),
                    redis.Redis(unix_socket_path=str(path), password=password) as client,
                ):
                    client.ping()


def test_the_servers_listen_nowhere_but_on_their_sockets(live_platform: LivePlatform) -> None:
    if not live_platform.is_on_servers:
        pytest.skip("SQLite and memory have no sockets")
    owners = {path.parent for path in directory_of_sockets(live_platform)}
    theirs = [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _is_at(pid, owners)]
    listening = _listening_inodes()

    assert theirs
    assert not [pid for pid in theirs if _sockets_of(pid) & listening]


def _is_at(pid: int, places: set[Path]) -> bool:
    try:
        here = Path(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return False
    return any(here == place or place in here.parents for place in places)


def _sockets_of(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(FileNotFoundError):  # It has ended since.
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(path))
    return {name.removeprefix("socket:[").rstrip("]") for name in found if name.startswith("socket:[")}


def _listening_inodes() -> set[str]:
    """Inodes of TCP sockets that listen (state 0A), by the kernel's tables."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[3] == "0A"}
