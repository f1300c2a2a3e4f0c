"""A terminal in a running task, as people use it: through the socket, the SDK and the command line, on a real platform."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

import berth
from tests.builders.live import Json, LivePlatform, LiveUser, wait_until
from tests.builders.watch import Watch

pytestmark = [pytest.mark.engines, pytest.mark.database]
SECONDS = 60.0
REVOKED_SECONDS = 5.0  # The promise, on a machine that gives everybody their time.
SLEEPS = {"name": "sleeps", "command": "echo here; exec sleep 1000", "env": {"WORD": "heard"}}


@pytest.fixture(scope="module")
def owner(live_platform: LivePlatform) -> LiveUser:
    return live_platform.person("alice")


@pytest.fixture(scope="module")
def job(live_platform: LivePlatform, owner: LiveUser) -> Iterator[Json]:
    submitted = owner.submit(SLEEPS, wait=["running"])
    owner.wait_for_line(submitted, "here")
    yield submitted
    owner.stop(submitted, grace_seconds=0)


class Terminal:
    """A client's end, as a page has it."""

    def __init__(self, user: LiveUser, job: Json, **how: Any) -> None:
        headers = {"Authorization": f"Bearer {user.token}", **how.pop("headers", {})}
        address = user.platform.url.replace("http", "ws", 1) + "/ws/v1/exec?" + urlencode({"job": job["id"], **how})
        self.life = contextlib.ExitStack()
        self.socket: ClientConnection = self.life.enter_context(
            connect(address, additional_headers=headers, proxy=None, close_timeout=1, open_timeout=SECONDS, ping_timeout=None)
        )
        self.seen = b""
        self.messages: list[Json] = []

    def start(self, *argv: str, **more: Any) -> Json:
        self.socket.send(json.dumps({"start": {"argv": list(argv), **more}}))
        return self.hear()

    def hear(self, *kinds: str) -> Json:
        """The next text that is no heartbeat; bytes are kept."""
        while True:
            message = self.socket.recv(timeout=SECONDS)
            if isinstance(message, bytes):
                self.seen += message
                continue
            self.messages.append(json.loads(message))
            if self.messages[-1]["type"] != "heartbeat":
                return self.messages[-1]

    def read_until(self, expected: bytes) -> bytes:
        """Texts other than heartbeats, which come when they like, are a mistake."""
        while expected not in self.seen:
            message = self.socket.recv(timeout=SECONDS)
            if isinstance(message, str) and json.loads(message)["type"] == "heartbeat":
                continue
            assert isinstance(message, bytes), (message, self.seen)
            self.seen += message
        return self.seen

    def close_code(self) -> int:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                self.hear()
            except ConnectionClosed as closed:
                return closed.rcvd.code if closed.rcvd else 0
        raise AssertionError("it stays open")


@contextlib.contextmanager
def opened(user: LiveUser, job: Json, **how: Any) -> Iterator[Terminal]:
    terminal = Terminal(user, job, **how)
    try:
        yield terminal
    finally:
        terminal.life.close()


def audit_of(platform: LivePlatform, job: Json) -> list[Json]:
    return [row for row in platform.operator.items("/audit", verb="job.exec") if row["target"]["id"] == job["id"]]


@pytest.mark.capability("40", "A terminal opens in a running task, over a socket and by command line, and is audited")
def test_a_person_types_sees_resizes_and_leaves(owner: LiveUser, job: Json) -> None:
    with opened(owner, job) as terminal:
        started = terminal.start(rows=31, columns=97)
        assert (started["type"], started["role"], started["index"], started["attempt"]) == ("started", "worker", 0, 1)
        terminal.socket.send(b"stty size; echo $WORD-$((40 + 2))\n")
        terminal.read_until(b"31 97")
        terminal.read_until(b"heard-42")
        terminal.socket.send(json.dumps({"resize": {"rows": 50, "columns": 132}}))
        terminal.socket.send(b"stty size\n")
        terminal.read_until(b"50 132")
        terminal.socket.send(b"exit 7\n")
        assert terminal.hear() == {"type": "ended", "exit_code": 7, "why": "exit"}
        assert terminal.close_code() == 1000


def test_whoever_only_connects_and_types_has_a_shell(owner: LiveUser, job: Json) -> None:
    with opened(owner, job) as terminal:
        terminal.socket.send(b"echo a$((1 + 1))c\n")
        assert terminal.hear()["type"] == "started"
        terminal.read_until(b"a2c")


def test_it_is_in_the_tasks_sandbox_as_the_tasks_user(live_platform: LivePlatform, owner: LiveUser, job: Json) -> None:
    with opened(owner, job) as terminal:
        terminal.start(
            "/bin/sh",
            "-c",
            f"id -u; ls /proc | grep -c '^[0-9]'; ls {live_platform.data_dir}; grep NoNewPrivs /proc/self/status",
            terminal=False,
        )
        assert terminal.hear()["type"] == "ended"
    lines = terminal.seen.decode().splitlines()
    assert "NoNewPrivs:\t1" in lines
    if os.geteuid() == 0:
        assert int(lines[0]) >= 200_000
        assert int(lines[1]) < 15, lines
        assert "secret.key" not in terminal.seen.decode()


def test_the_end_of_the_task_is_the_end_of_the_terminal(owner: LiveUser) -> None:
    short = owner.submit({**SLEEPS, "name": "ends"}, wait=["running"])
    with opened(owner, short) as terminal:
        terminal.start()
        terminal.socket.send(b"trap '' TERM HUP; echo re''ady\n")
        terminal.read_until(b"ready")
        owner.stop(short, grace_seconds=0.2)
        assert terminal.hear()["type"] == "ended"
        assert terminal.close_code() == 1000
    owner.wait(short)
    with opened(owner, short) as late:
        assert late.hear()["code"] == "exec_not_running"
        assert late.close_code() == 4409


def test_a_revoked_token_ends_it_within_five_seconds(live_platform: LivePlatform, owner: LiveUser, job: Json) -> None:
    made = owner.api("POST", "/tokens", {"name": "short", "scopes": ["jobs", "account"]})
    brief = LiveUser(live_platform, made["token"])
    with opened(brief, job) as terminal, Watch() as watch:
        terminal.start()
        owner.api("DELETE", f"/tokens/{made['id']}")
        began = watch.seconds
        assert terminal.close_code() == 4401
        assert watch.seconds - began < REVOKED_SECONDS
    # The newest row may be of the terminal before it, whose end was written later.
    wait_until(lambda: "signed_out" in [row["after"].get("why") for row in audit_of(live_platform, job)], "the end in the audit")
    brief.close()


def test_a_lost_role_ends_it_within_five_seconds(live_platform: LivePlatform, job: Json) -> None:
    manager = live_platform.person("mona", role="manager")
    me = manager.api("GET", "/whoami")["user"]["id"]
    with opened(manager, job) as terminal, Watch() as watch:
        terminal.start()
        live_platform.operator.api("PATCH", f"/tenants/default/members/{me}", {"role": "viewer"})
        began = watch.seconds
        assert terminal.close_code() in (4403, 4401)
        assert watch.seconds - began < REVOKED_SECONDS


def test_others_are_refused_with_a_reason(live_platform: LivePlatform, job: Json) -> None:
    for name, tenant, role, code, closed in (
        ("victor", "default", "viewer", "forbidden", 4403),
        ("bob", "default", "member", "forbidden", 4403),
        ("carol", "elsewhere", "manager", "not_found", 4404),
    ):
        with opened(live_platform.person(name, tenant=tenant, role=role), job) as terminal:
            refusal = terminal.hear()
            assert refusal["code"] == code, (name, refusal)
            assert refusal["detail"]
            assert terminal.close_code() == closed


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Authorization": "Bearer nonsense"}])
def test_a_foreign_page_and_a_stranger_never_get_a_connection(owner: LiveUser, job: Json, headers: dict[str, str]) -> None:
    with pytest.raises(InvalidStatus), opened(owner, job, headers=headers):
        pass


def test_a_ticket_opens_it_from_the_servers_own_page(live_platform: LivePlatform, owner: LiveUser, job: Json) -> None:
    ticket = owner.api("POST", "/tickets")["ticket"]
    nobody = LiveUser(live_platform, "")
    address = live_platform.url.replace("http", "ws", 1) + "/ws/v1/exec?" + urlencode({"job": job["id"], "ticket": ticket})
    with connect(address, origin=live_platform.url, proxy=None, open_timeout=SECONDS) as socket:  # type: ignore[arg-type]
        socket.send(json.dumps({"start": {"argv": ["true"]}}))
        assert json.loads(socket.recv(timeout=SECONDS))["type"] == "started"
    with (
        pytest.raises(InvalidStatus),
        connect(address, origin=live_platform.url, proxy=None, open_timeout=SECONDS),  # type: ignore[arg-type]
    ):
        pass
    nobody.close()


def test_a_client_that_vanishes_takes_its_program_along(live_platform: LivePlatform, owner: LiveUser, job: Json) -> None:
    word = uuid.uuid4().hex
    with opened(owner, job) as terminal:
        terminal.start("/bin/sh", "-c", f"trap '' HUP; while :; do sleep 0.1; done; : {word}")
        wait_until(lambda: is_running(word), "the program")
    wait_until(lambda: not is_running(word), "the end of the program")


@pytest.mark.capability("40", "A terminal opens in a running task, over a socket and by command line, and is audited")
def test_the_audit_says_who_where_and_how_long_and_not_what(live_platform: LivePlatform, owner: LiveUser) -> None:
    word = f"word-{uuid.uuid4().hex}"
    watched = owner.submit({**SLEEPS, "name": "watched"}, wait=["running"])
    with opened(owner, watched) as terminal:
        terminal.start("/bin/sh", "-c", f"read line; echo got $line {word}; exit 3")
        terminal.socket.send(f"typed-{word}\n".encode())
        terminal.read_until(f"got typed-{word}".encode())
        assert terminal.hear()["exit_code"] == 3
    wait_until(lambda: len(audit_of(live_platform, watched)) == 2, "both rows")
    end, start = audit_of(live_platform, watched)
    assert start["actor"]["name"] == end["actor"]["name"] == "alice"
    assert start["after"] == {"phase": "start", "task": "worker-0", "attempt": 1, "terminal": True, "from": "127.0.0.1"}
    assert end["after"] == {**start["after"], "phase": "end", "exit_code": 3, "why": "exit", "seconds": end["after"]["seconds"]}
    assert live_platform.tables_with(word) == []
    assert word not in live_platform.log.read_text()
    owner.stop(watched, grace_seconds=0)


def test_the_sdk_runs_a_command_and_gives_what_it_printed(live_platform: LivePlatform, owner: LiveUser, job: Json) -> None:
    with berth.Client(live_platform.url, owner.token, tenant=owner.tenant) as client:
        found = client.jobs.get(job["id"])
        text = b"x" * 200_000 + b"\n"
        result = found.exec(["/bin/sh", "-c", "wc -c; echo $WORD >&2; exit 4"], stdin=text)
        assert (result.exit_code, result.text.split()) == (4, ["200001", "heard"])
        with pytest.raises(berth.NotFound):
            found.exec(["true"], role="nobody")
        big = found.exec(["head", "-c", "5000000", "/dev/zero"])
        assert len(big.output) == 5_000_000


@pytest.mark.capability("40", "A terminal opens in a running task, over a socket and by command line, and is audited")
def test_the_command_line_in_a_pipe_and_at_a_terminal(live_platform: LivePlatform, owner: LiveUser, job: Json) -> None:
    line = [sys.executable, "-m", "berth", "exec", "--server", live_platform.url, job["id"], "--"]
    environment = {**os.environ, "BERTH_TOKEN": owner.token, "BERTH_LANG": "en", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*line, "/bin/sh", "-c", "tr a-z A-Z; exit 5"], input=b"some\x00text\n", capture_output=True, env=environment, timeout=120
    )
    assert (done.returncode, done.stdout) == (5, b"SOME\x00TEXT\n"), done.stderr
    master, slave = pty.openpty()
    child = subprocess.Popen(line, stdin=slave, stdout=slave, stderr=subprocess.PIPE, env=environment, start_new_session=True)
    os.close(slave)
    seen = b""
    os.write(master, b"echo a$((1 + 1))c; exit 6\n")
    while select.select([master], [], [], SECONDS)[0]:
        try:
            data = os.read(master, 65_536)
        except OSError:
            break
        if not data:
            break
        seen += data
    assert child.wait(SECONDS) == 6, child.stderr.read() if child.stderr else ""
    assert b"a2c" in seen
    os.close(master)
    assert child.stderr is not None
    child.stderr.close()


def test_a_slow_reader_slows_the_program_and_costs_no_memory(live_platform: LivePlatform, owner: LiveUser, job: Json) -> None:
    with opened(owner, job) as terminal:
        terminal.start("/bin/sh", "-c", "head -c 300000000 /dev/zero >&1; echo done", terminal=False)
        web = live_platform.processes().get("web") or [live_platform.process.pid]  # type: ignore[union-attr]
        before = max(resident(pid) for pid in web)
        time.sleep(2)
        assert max(resident(pid) for pid in web) - before < 64 * 1024**2


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def is_running(word: str) -> bool:
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and word.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                return True
    return False
