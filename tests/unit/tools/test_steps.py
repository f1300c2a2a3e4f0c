"""The single steps of `make up` and `make down`, where a whole installation would hide what is tested."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.live import wait_until
from tools import place as places
from tools import up
from tools.place import ROOT, Place, find_running
from tools.progress import Stop

# Stands for the command line: writes down what it is asked, knows the images it is told to know.
COMMAND = """#!/bin/sh
echo "$@" >> {folder}/asked
env > {folder}/environment
case "$1 $2" in
    "images list") cat {folder}/images ;;
    "submit -f") exit $(cat {folder}/exit 2>/dev/null || echo 0) ;;
esac
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An installation whose command only writes down what it is asked."""
    monkeypatch.delenv("BERTH_ENVIRONMENT", raising=False)
    made = Place(tmp_path / "data", 8620)
    for folder in ("bin", "log", "release"):
        (made.data / folder).mkdir(parents=True)
    made.command.write_text(COMMAND.format(folder=tmp_path))
    made.command.chmod(0o755)
    (tmp_path / "images").write_text('{"items": []}')
    return made


@pytest.fixture
def running(place: Place) -> Iterator[Place]:
    """Something holds the lock, as a platform does."""
    with place.lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{os.getpid()}\n{place.url}\n/release\n")
        file.flush()
        yield place


def asked(place: Place) -> list[str]:
    path = place.data.parent / "asked"
    return [line.split(" -")[0] for line in path.read_text().splitlines()] if path.exists() else []


# --- Who runs ---------------------------------------------------------------------------------------------------------


def test_what_a_dead_platform_wrote_does_not_count(place: Place) -> None:
    assert find_running(place) is None
    place.lock.write_text("1\nhttp://127.0.0.1:1\n/release\n")
    assert find_running(place) is None


def test_a_holder_that_has_not_said_who_it_is_yet_is_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "LOCK_SECONDS_MAX", 60)
    with place.lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        def say() -> None:
            file.write("4711\nhttp://127.0.0.1:8700\n/release\n")
            file.flush()

        later = threading.Timer(0.1, say)
        later.start()
        found = find_running(place)
        later.join()
    assert found is not None
    assert (found.process, found.url, found.release) == (4711, "http://127.0.0.1:8700", "/release")


def test_a_holder_that_never_says_who_it_is_is_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "LOCK_SECONDS_MAX", 0.05)
    with place.lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Stop, match=r"something holds .*platform\.lock and does not say who it is"):
            find_running(place)


def test_looking_does_not_keep_others_from_looking(place: Place) -> None:
    with place.lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert find_running(place) is None


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("10.0.0.7", "http://10.0.0.7:80"),
    ],
)
def test_the_platform_is_asked_where_it_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, url: str) -> None:
    monkeypatch.setenv("BERTH_HOST", host)
    assert Place(tmp_path, 80).url == url


def test_the_data_directory_is_roots_or_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BERTH_DATA_DIR")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for user, expected in ((0, Path("/var/lib/berth")), (1000, tmp_path / ".local/share/berth")):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert Place.find(1).data == expected
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert Place.find(1).data == Path("/data/berth")
    monkeypatch.setenv("BERTH_DATA_DIR", "~/here")
    assert Place.find(1).data == tmp_path / "here"


# --- Why it did not start ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("berth: Port 1 cannot be used.\n", "Port 1 cannot be used."),
        ("Traceback\n  somewhere\nValueError: odd\n", "ValueError: odd"),
        ("berth: The reason.\n" + '{"event": "stopped"}\n', "The reason."),
        ("\n\n", "it left no word"),
        ("", "it left no word"),
    ],
)
def test_the_reason_is_our_own_words_or_the_last_ones(place: Place, log: str, reason: str) -> None:
    place.log.write_text("berth: An older reason.\nlater words\n")
    begin = place.log.stat().st_size
    with place.log.open("a") as file:
        file.write(log)
    assert up.reason_from_log(place, begin) == reason


def test_a_platform_that_never_gets_ready_is_named_with_what_fails(running: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {"database": {"ok": True, "detail": "sqlite"}, "broker": {"ok": False, "detail": "ConnectionError"}}
    monkeypatch.setattr(up, "READY_SECONDS_MAX", 0.2)
    monkeypatch.setattr(up, "get", lambda url: (503, json.dumps({"checks": checks}).encode()))
    with pytest.raises(Stop, match=r"not ready after 0\.2 s: broker: ConnectionError\.\n.*`make down` stops it"):
        up.wait_until_ready(running, lambda: None)


def test_a_stranger_behind_the_address_is_recognised(running: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "READY_SECONDS_MAX", 0.2)
    monkeypatch.setattr(up, "get", lambda url: (404, b"<html>"))
    with pytest.raises(Stop, match="something else answers there"):
        up.wait_until_ready(running, lambda: None)


def test_a_full_disk_ends_in_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(place: Place, *, with_example: bool, profile: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/env/file")

    monkeypatch.setattr(up, "up", full)
    monkeypatch.setattr(sys, "argv", ["up.py", "up"])
    assert up.main() == 1
    assert capsys.readouterr().err == (
        "\nberth: /data/env/file: No space left on device. Mend that and run the same command again.\n"
    )


# --- The example ------------------------------------------------------------------------------------------------------


@pytest.fixture
def brought_up(running: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """What is installed stays; only what comes after it runs."""
    monkeypatch.setattr(up, "make_data_directory", lambda place: None)
    monkeypatch.setattr(up, "bring_up", lambda place, profile: None)
    return running


def test_the_example_runs_on_new_data_and_once(brought_up: Place) -> None:
    assert up.up(brought_up, with_example=True) == 0
    assert asked(brought_up) == ["images list", "images build jax-cpu", "submit"]
    assert up.up(brought_up, with_example=True) == 0
    assert len(asked(brought_up)) == 3


def test_an_image_that_is_there_is_not_built_again(brought_up: Place) -> None:
    (brought_up.data.parent / "images").write_text('{"items": [{"name": "jax-cpu"}]}')
    assert up.example(brought_up) == 0
    assert asked(brought_up) == ["images list", "submit"]


def test_whoever_declines_the_example_is_not_given_it_later(brought_up: Place) -> None:
    assert up.up(brought_up, with_example=False) == 0
    assert up.up(brought_up, with_example=True) == 0
    assert asked(brought_up) == []


def test_an_example_that_failed_is_the_exit_status(brought_up: Place) -> None:
    (brought_up.data.parent / "exit").write_text("1")
    assert up.up(brought_up, with_example=True) == 1


def test_an_example_that_could_not_be_submitted_is_tried_again(brought_up: Place) -> None:
    (brought_up.data.parent / "images").write_text("no JSON")
    with pytest.raises(ValueError):  # noqa: PT011  (whatever the reason is)
        up.up(brought_up, with_example=True)
    (brought_up.data.parent / "images").write_text("[]")
    assert up.up(brought_up, with_example=True) == 0
    assert asked(brought_up)[-1] == "submit"


def test_the_example_needs_a_platform(place: Place) -> None:
    with pytest.raises(Stop, match="the platform does not run"):
        up.example(place)


def test_what_the_user_set_for_other_servers_is_kept_away(brought_up: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BERTH_SERVER", "BERTH_TOKEN", "BERTH_TENANT", "BERTH_PROFILE"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("no_proxy", "intranet")
    up.example(brought_up)
    given = (brought_up.data.parent / "environment").read_text().splitlines()
    assert not [line for line in given if line.endswith("=elsewhere")]
    assert "no_proxy=intranet,127.0.0.1" in given


def test_leaving_the_example_is_for_the_command_to_handle(tmp_path: Path) -> None:
    """Ctrl+C reaches both; the command says what it means, and this one goes on to tell where to go next."""
    command = tmp_path / "berth"
    command.write_text(
        f"#!/bin/sh\ntrap 'kill $!; sleep 0.4; echo detached; exit 0' INT\ntouch {tmp_path}/began\nsleep 30 & wait\n"
    )
    command.chmod(0o755)
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from pathlib import Path\nfrom tools import up\n"
        f"place = up.Place(Path({str(tmp_path)!r}), 1); place.command = Path({str(command)!r})\n"
        "print('code', up.show(place, 'submit'))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(lambda: (tmp_path / "began").exists(), "the command")
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said.splitlines()[-2:] == ["detached", "code 0"]


def test_interrupting_anything_else_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(place: Place, *, with_example: bool, profile: str) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(up, "up", interrupted)
    monkeypatch.setattr(sys, "argv", ["up.py", "up"])
    assert up.main() == 130
    assert capsys.readouterr().err == "\nberth: interrupted; run the same command again to go on.\n"


# --- Down -------------------------------------------------------------------------------------------------------------


def test_a_platform_that_does_not_end_is_named(running: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "STOP_SECONDS_MAX", 0.1)
    monkeypatch.setattr(os, "kill", lambda process, number: None)
    with pytest.raises(Stop, match=f"process {os.getpid()} does not end; its log: .*platform.log"):
        up.down(running)


def test_a_platform_of_somebody_else_is_not_stopped(running: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(process: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    with pytest.raises(Stop, match=f"process {os.getpid()} belongs to somebody else"):
        up.down(running)


def test_the_servers_program_keeps_its_path_and_runs_the_present_release(place: Place) -> None:
    (place.data / "release" / "current").write_text("older\n")
    up.link_server_command(place)
    (place.data / "release" / "current").write_text("newer\n")
    up.link_server_command(place)
    text = place.server_command.read_text()
    assert "/release/newer/manage.py" in text
    assert os.access(place.server_command, os.X_OK)


@pytest.mark.parametrize(("words", "is_where_it_was_called"), [(["replay_window", "week.jsonl"], True), (["run", "web"], False)])
def test_paths_of_a_server_command_are_relative_to_where_it_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], is_where_it_was_called: bool
) -> None:
    environment = tmp_path / "environment"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").write_text("#!/bin/sh\npwd\n")
    (environment / "bin" / "python").chmod(0o755)
    monkeypatch.setenv("BERTH_ENVIRONMENT", str(environment))
    place = Place(tmp_path / "data", 8620)
    for folder in ("bin", "release"):
        (place.data / folder).mkdir(parents=True)
    (place.data / "release" / "current").write_text("newer\n")
    up.link_server_command(place)

    shown = subprocess.run([str(place.server_command), *words], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == (str(tmp_path) if is_where_it_was_called else "/")


def test_an_extra_has_an_environment_of_its_own_and_is_remembered(place: Place) -> None:
    plain = place.environment
    with_ldap = up.choose_extras(place, "ldap")

    assert [path.name for path in with_ldap.lock_files] == ["requirements.lock", "requirements-ldap.lock"]
    assert with_ldap.environment != plain
    assert Place(place.data, place.port).environment == with_ldap.environment
    assert up.choose_extras(place, "none").environment == plain


def test_an_extra_that_there_is_not_is_refused(place: Place) -> None:
    with pytest.raises(Stop, match="There is no extra ldpa"):
        up.choose_extras(place, "ldpa")
