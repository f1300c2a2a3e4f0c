"""`make up` as a newcomer meets it: real commands on an empty home, an installation that lives through all of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.builders.live import free_port, wait_until
from tests.unit.tools.newcomer import Newcomer, a_newcomer
from tools.keep import find_keeper

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def installed() -> Iterator[tuple[Newcomer, str]]:
    """An installation that was made a moment ago, and what the newcomer read while it was."""
    with a_newcomer() as newcomer:
        yield newcomer, newcomer.up()


@pytest.fixture
def home(installed: tuple[Newcomer, str]) -> Newcomer:
    """The installation with its platform running on its own port."""
    newcomer, _ = installed
    running = newcomer.running()
    if running is not None and running.url != newcomer.place.url:
        newcomer.run("down")
    if newcomer.running() is None:
        newcomer.up()
    return newcomer


@pytest.fixture
def stopped(installed: tuple[Newcomer, str]) -> Newcomer:
    """The installation with nothing running on it."""
    newcomer, _ = installed
    if newcomer.running() is not None:
        newcomer.run("down")
    return newcomer


def test_the_first_start_shows_its_credentials_once_and_signs_the_user_in(installed: tuple[Newcomer, str]) -> None:
    newcomer, said = installed
    shown = {line.split()[0]: line.split()[1] for line in said.splitlines() if line.startswith(("  Token", "  Password"))}
    token, password = shown["Token"], shown["Password"]
    assert token.startswith("berth_")
    assert not (newcomer.data / "first-credentials.json").exists()
    assert stat.S_IMODE(newcomer.config.stat().st_mode) == 0o600
    assert stat.S_IMODE((newcomer.data / "secret.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((newcomer.data / "berth.sqlite3").stat().st_mode) == 0o600
    assert token in newcomer.config.read_text()
    kept = newcomer.config.parent / "first-sign-in.txt"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert password in kept.read_text()
    again = newcomer.up()
    for secret in (token, password):
        assert secret not in newcomer.log()
        assert secret not in again


def test_the_shown_password_opens_the_console(installed: tuple[Newcomer, str], home: Newcomer) -> None:
    password = next(line.split()[1] for line in installed[1].splitlines() if line.startswith("  Password"))
    door = f"{home.place.url}/admin/login/"
    with httpx2.Client(follow_redirects=True, headers={"Referer": door}) as client:
        client.get(door)
        form = {
            "username": "operator",
            "password": password,
            "next": "/admin/",
            "csrfmiddlewaretoken": client.cookies["berth-csrf"],
        }
        inside = client.post(door, data=form)
        assert (inside.status_code, inside.url.path) == (200, "/admin/")


def test_the_command_is_where_shells_look(home: Newcomer) -> None:
    done = home.berth("whoami", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["user"]["is_operator"] is True


def test_up_twice_is_harmless(home: Newcomer) -> None:
    before = home.process()
    said = home.up()
    assert f"runs already as process {before} on {home.place.url}" in said
    assert home.process() == before
    assert "Token" not in said


def test_up_for_another_port_names_the_one_that_is_used(home: Newcomer) -> None:
    other = free_port()
    said = home.up("--port", str(other))
    assert f"on {home.place.url}" in said
    assert f"Port {other} was asked for; it keeps its own until `make down` and `make up PORT={other}`." in said
    assert f"Berth runs on {home.place.url}." in said


def test_status_names_process_address_data_and_log(home: Newcomer) -> None:
    done = home.run("status", "--port", str(free_port()))
    assert done.returncode == 0
    assert f"process {home.process()} on {home.place.url}, ready" in done.stdout
    assert str(home.data) in done.stdout
    assert str(home.place.log) in done.stdout


def test_a_second_platform_on_the_same_data_is_refused_and_told_who_has_it(home: Newcomer) -> None:
    first = home.process()
    for port in (home.port, free_port()):
        done = home.manage("serve", BERTH_PORT=str(port))
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == (
            f"berth: Another platform (process {first}) runs on {home.data}. "
            "Stop it with `make down`, or choose another BERTH_DATA_DIR."
        )
    assert home.process() == first


def test_up_after_a_kill_starts_anew(home: Newcomer) -> None:
    killed = home.process()
    home.kill()
    assert home.run("status").returncode == 1
    assert str(killed) in home.place.lock.read_text(), "the dead one's words stay, and do not count"
    said = home.up()
    assert home.process() != killed
    assert "Token" not in said
    assert home.berth("whoami").returncode == 0


def test_a_platform_that_is_killed_comes_back_without_a_hand_until_make_down(home: Newcomer) -> None:
    home.up()
    killed = home.process()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: (now := home.running()) is not None and now.process != killed, "another platform", timeout=120)
    wait_until(lambda: home.run("status").returncode == 0, "that it is ready", timeout=120)
    assert home.berth("whoami").returncode == 0
    keeper = find_keeper(home.place)
    assert f"keeper     {keeper}" in home.run("status").stdout
    assert home.run("down").returncode == 0
    assert (home.running(), find_keeper(home.place), home.processes()) == (None, 0, [])
    home.up()


def test_down_twice_is_harmless(home: Newcomer) -> None:
    first = home.run("down")
    assert (first.returncode, first.stderr) == (0, "")
    assert "stopped; its jobs run on" in first.stdout
    assert home.processes() == []
    again = home.run("down")
    assert (again.returncode, again.stdout) == (0, f"No platform runs on {home.data}.\n")
    status = home.run("status")
    assert (status.returncode, status.stdout) == (1, f"not running on {home.data}\n")


def test_the_command_line_follows_to_another_port(stopped: Newcomer) -> None:
    other = free_port()
    stopped.up("--port", str(other))
    assert f'server = "http://127.0.0.1:{other}"' in stopped.config.read_text()
    assert stopped.berth("whoami").returncode == 0


def test_a_reason_comes_from_this_start_alone(stopped: Newcomer) -> None:
    message = stopped.refused(BERTH_LEASE_SECONDS="soon", BERTH_SERVER_PROFILE="huge")
    assert "BERTH_LEASE_SECONDS='soon' is not a valid seconds" in message
    assert "BERTH_SERVER_PROFILE='huge' must be one of embedded, production" in message
    assert str(stopped.place.log) in message
    key = stopped.data / "secret.key"
    hidden = key.rename(key.with_suffix(".hidden"))
    try:
        message = stopped.refused()
    finally:
        hidden.rename(key)
    assert f"{key} cannot be read: No such file or directory. Restore it from a backup, or set BERTH_SECRET_KEY." in message
    assert "BERTH_LEASE_SECONDS" not in message
    assert "berth: berth:" not in message


def test_listening_beyond_the_machine_without_tls_is_refused(stopped: Newcomer) -> None:
    message = stopped.refused(BERTH_HOST="0.0.0.0")
    assert "BERTH_HOST=0.0.0.0 listens beyond this machine" in message
    assert "BERTH_PUBLIC_URL=https://" in message


def test_a_busy_port_is_named_with_another_one_that_works(stopped: Newcomer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        message = stopped.refused("--port", str(port))
    assert f"port {port} cannot be used: Address already in use." in message
    proposed = message.rpartition("make up PORT=")[2].strip()
    stopped.up("--port", proposed)


def test_a_half_copied_server_is_copied_anew(stopped: Newcomer) -> None:
    release = stopped.place.release
    (release / "manage.py").unlink()
    release.rename(release.with_suffix(".building"))
    assert "copied where the platform's user can read it" in stopped.up()
    assert (release / "manage.py").exists()
    assert not release.with_suffix(".building").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's platform becomes another user")
def test_the_service_user_cannot_replace_what_root_runs(home: Newcomer) -> None:
    from tests.unit.tools.as_service_user import attempts

    assert stat.S_IMODE(home.data.stat().st_mode) == 0o1771
    for name in ("env", "release", "bin", "log"):
        facts = (home.data / name).stat()
        assert (facts.st_uid, facts.st_mode & 0o022) == (0, 0), name
    results = attempts(
        {
            "replace the server": f"mv {home.data}/release {home.data}/mine",
            "edit the server": f"echo >> {home.place.release}/manage.py",
            "edit the command": f"echo >> {home.data}/bin/berth",
            "move the log": f"ln -sf /etc/passwd {home.place.log}",
            "add a file": f"touch {home.data}/harmless && rm {home.data}/harmless",
        }
    )
    assert [name for name, worked in results.items() if worked] == ["add a file"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's platform becomes another user")
def test_a_command_of_root_leaves_nothing_that_the_platform_cannot_use(stopped: Newcomer) -> None:
    for left in stopped.data.glob("berth.sqlite3-*"):
        left.unlink()
    done = stopped.manage("rotate_secrets")
    assert done.returncode == 0, done.stderr
    owner = (stopped.data / "berth.sqlite3").stat().st_uid
    assert owner != 0
    assert {path.stat().st_uid for path in stopped.data.glob("berth.sqlite3*")} == {owner}
    stopped.up()


def test_a_symbolic_link_in_place_of_the_lock_is_not_followed(stopped: Newcomer) -> None:
    victim = stopped.home / "victim"
    victim.write_text("precious")
    stopped.place.lock.unlink()
    stopped.place.lock.symlink_to(victim)
    try:
        assert stopped.run("up", "--no-example").returncode == 1
        assert victim.read_text() == "precious"
    finally:
        stopped.place.lock.unlink()


def test_a_program_of_the_same_name_is_left_alone(home: Newcomer, tmp_path: Path) -> None:
    other = tmp_path / "berth"
    other.write_text("#!/bin/sh\necho another\n")
    other.chmod(0o755)
    said = home.up(BERTH_COMMAND_DIR=str(tmp_path), PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert other.read_text() == "#!/bin/sh\necho another\n"
    assert f"{home.place.command} ps" in said
