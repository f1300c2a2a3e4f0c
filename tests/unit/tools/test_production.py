"""What an installation of many processes remembers and refuses, and how it tells its servers from others."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tools import production, servers
from tools.place import Place, RunningPlatform
from tools.production import choose_profile, make_key, prepare, remember, remembered_settings
from tools.progress import Stop
from tools.servers import PostgreSQL, Redis

GIVEN = {
    "BERTH_SERVER_PROFILE": "production",
    "BERTH_DATABASE_URL": "postgresql://berth:it's@db.example.org/berth?sslmode=require&port=1",
    "BERTH_REDIS_URL": "rediss://:secret@redis.example.org/3",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A data directory on which nothing was started yet."""
    for name in GIVEN:
        monkeypatch.delenv(name, raising=False)
    made = Place(tmp_path / "data", 8620)
    for folder in ("log", "release"):
        (made.data / folder).mkdir(parents=True)
    return made


@pytest.fixture
def as_nobody_special(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not root, whoever runs this: files keep their owner."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def make_cluster(place: Place) -> None:
    cluster = PostgreSQL(place).cluster
    cluster.mkdir(parents=True)
    (cluster / "PG_VERSION").write_text("15\n")


# --- The profile ------------------------------------------------------------------------------------------------------


def test_new_data_are_of_the_embedded_profile_unless_asked_otherwise(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_profile(place, "") == "embedded"
    assert choose_profile(place, "production") == "production"
    monkeypatch.setenv("BERTH_SERVER_PROFILE", "production")
    assert choose_profile(place, "") == "production"


def test_a_production_installation_stays_one_without_being_asked(place: Place) -> None:
    remember(place, GIVEN)
    assert choose_profile(place, "") == "production"
    with pytest.raises(Stop, match=r"is an installation of the production profile, and its data do not move to the embedded"):
        choose_profile(place, "embedded")


def test_a_first_start_that_was_cut_off_counts_by_its_database(place: Place) -> None:
    make_cluster(place)
    assert choose_profile(place, "") == "production"


def test_an_embedded_installation_is_not_started_as_production(place: Place) -> None:
    (place.data / "berth.sqlite3").touch()
    assert choose_profile(place, "") == "embedded"
    with pytest.raises(Stop, match=r"Start it as it was \(make up PROFILE=embedded\), or set BERTH_DATA_DIR to a new directory"):
        choose_profile(place, "production")


def test_an_unknown_profile_is_refused_with_those_there_are(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Stop, match=r"'huge' is no profile. Choose one of embedded, production"):
        choose_profile(place, "huge")
    monkeypatch.setenv("BERTH_SERVER_PROFILE", "huge")
    assert choose_profile(place, "") == "embedded", "the platform refuses it with all other bad settings"


def test_what_is_remembered_is_for_its_owner_alone_and_a_shell_reads_the_same(place: Place) -> None:
    remember(place, GIVEN)
    path = production.settings_path(place)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert remembered_settings(place) == GIVEN
    script = f'. {path}; printf "%s\\n" "$BERTH_SERVER_PROFILE" "$BERTH_DATABASE_URL" "$BERTH_REDIS_URL"'
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, env={}).stdout
    assert said.splitlines() == list(GIVEN.values())


# --- The servers ------------------------------------------------------------------------------------------------------


def test_given_servers_are_used_and_remembered_and_none_is_started(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "install_packages", lambda **wanted: pytest.fail("nothing is to be installed"))
    monkeypatch.setenv("BERTH_DATABASE_URL", GIVEN["BERTH_DATABASE_URL"])
    monkeypatch.setenv("BERTH_REDIS_URL", GIVEN["BERTH_REDIS_URL"])
    assert prepare(place) == GIVEN
    remember(place, GIVEN)
    monkeypatch.delenv("BERTH_DATABASE_URL")
    monkeypatch.setenv("BERTH_REDIS_URL", "redis://:other@elsewhere/1")
    assert prepare(place) == {**GIVEN, "BERTH_REDIS_URL": "redis://:other@elsewhere/1"}
    lines = production.describe_servers(place)
    assert lines == [
        "PostgreSQL db.example.org, given by BERTH_DATABASE_URL",
        "Redis      redis.example.org, given by BERTH_REDIS_URL",
    ]


def test_another_database_than_the_one_with_the_data_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cluster(place)
    monkeypatch.setenv("BERTH_DATABASE_URL", GIVEN["BERTH_DATABASE_URL"])
    with pytest.raises(Stop, match=r"names another database than the one in .*postgresql, where the data .* are"):
        prepare(place)


def test_without_root_missing_packages_are_named(as_nobody_special: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "postgresql_programs", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(Stop, match=r"needs postgresql and redis-server. Install with: apt-get install postgresql redis-server"):
        servers.install_packages(database=True, broker=True)
    with pytest.raises(Stop, match=r"needs redis-server. Install"):
        servers.install_packages(database=False, broker=True)


def test_the_newest_release_of_postgresql_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    def install(*releases: str) -> None:
        for release in releases:
            (tmp_path / release / "bin").mkdir(parents=True)
            (tmp_path / release / "bin" / "postgres").touch()

    install("9.6", "13")
    assert servers.postgresql_programs(tmp_path) is None
    install("15", "17")
    assert servers.postgresql_programs(tmp_path) == tmp_path / "17" / "bin"


def test_a_database_of_a_release_that_is_gone_names_the_package(place: Place) -> None:
    make_cluster(place)
    (PostgreSQL(place).cluster / "PG_VERSION").write_text("8\n")
    with pytest.raises(Stop, match=r"was made by PostgreSQL 8, which is not installed any more.*apt-get install postgresql-8"):
        PostgreSQL(place).command()


@pytest.mark.parametrize("name", ["x" * 120, "with space", "a?b"])
def test_a_directory_that_can_hold_no_socket_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Stop, match="cannot hold the sockets"):
        servers.check_path(Place(tmp_path / name, 1))


def test_a_database_whose_password_is_lost_gets_no_other_one(place: Place) -> None:
    make_cluster(place)
    with pytest.raises(Stop, match=r"servers\.json has no password of PostgreSQL. Restore that file"):
        servers.password_of(place, PostgreSQL(place))


def test_passwords_are_made_once_and_are_for_their_owner_alone(place: Place) -> None:
    first = servers.password_of(place, Redis(place))
    assert servers.password_of(place, Redis(place)) == first
    assert servers.password_of(place, PostgreSQL(place)) != first
    assert stat.S_IMODE(servers.passwords_path(place).stat().st_mode) == 0o600
    assert not any(first in word for server in (PostgreSQL(place), Redis(place)) for word in server.command())


def test_the_process_of_a_dead_server_is_not_taken_for_it(place: Place) -> None:
    redis = Redis(place)
    redis.home.mkdir()
    for text in (f"{os.getpid()}\n", "999999999\n", "", "nonsense"):
        redis.pidfile.write_text(text)
        assert redis.process() == 0
    program = f"import time; print(flush=True); time.sleep(60)  # {redis.home}"
    process = subprocess.Popen([sys.executable, "-c", program, str(redis.configuration)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        redis.pidfile.write_text(f"{process.pid}\n")
        assert redis.process() == process.pid
    finally:
        process.kill()
        process.communicate()
    assert redis.process() == 0


def test_no_link_in_place_of_a_folder_is_followed(place: Place, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    (place.data / "sockets").symlink_to(victim)
    with pytest.raises(OSError):  # noqa: PT011  (a loop, or no directory)
        servers.folder_of_service_user(place.data / "sockets")
    assert stat.S_IMODE(victim.stat().st_mode) == 0o755


# --- The key ----------------------------------------------------------------------------------------------------------


def test_new_data_get_a_key_and_keep_it(place: Place, as_nobody_special: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTH_SECRET_KEY", raising=False)
    make_key(place, is_new=True)
    path = place.data / "secret.key"
    key = path.read_text()
    assert len(key) > 80
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    make_key(place, is_new=True)
    assert path.read_text() == key


def test_a_lost_key_is_never_replaced(place: Place, as_nobody_special: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTH_SECRET_KEY", raising=False)
    make_key(place, is_new=False)
    make_cluster(place)
    make_key(place, is_new=True)
    assert not (place.data / "secret.key").exists()


# --- The processes ----------------------------------------------------------------------------------------------------

ALL = {"web": [1, 2], "worker": [3], "scheduler": [4], "observer": [5], "ready": [1, 2, 3, 4, 5], "supervisor": 9}


@pytest.mark.parametrize(
    ("change", "ready"),
    [({}, True), ({"ready": [1, 2, 3, 4]}, False), ({"observer": [], "ready": [1, 2, 3, 4]}, False)],
)
def test_all_are_ready_when_each_has_said_so(change: dict[str, Any], ready: bool) -> None:
    assert production.are_all_ready({**ALL, **change}) is ready


class Supervised:
    """What a supervisor would write, one document after the other."""

    def __init__(self, place: Place, *documents: dict[str, Any]) -> None:
        self.release = str(place.release)
        self.documents = [{"rolling": False, "release": self.release, **document} for document in documents]

    def find(self, place: Place) -> RunningPlatform:
        return RunningPlatform(9, "http://127.0.0.1:1", self.release)

    def read(self, place: Place, running: RunningPlatform) -> dict[str, Any]:
        return self.documents.pop(0) if len(self.documents) > 1 else self.documents[0]


@pytest.fixture
def rolled(place: Place, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The signals that would have been sent."""
    (place.data / "release" / "current").write_text("new\n")
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return sent


def follow(supervised: Supervised, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(production, "find_running", supervised.find)
    monkeypatch.setattr(production, "read_processes", supervised.read)


def test_rolling_is_over_when_none_of_the_old_processes_is_left(
    place: Place, rolled: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    new = {"web": [11, 12], "worker": [13], "scheduler": [14], "observer": [15], "ready": [11, 12, 13, 14, 15]}
    old = {**ALL, "release": "/old"}
    supervised = Supervised(place, old, old, {**ALL, "rolling": True}, {**new, "ready": [11]}, new)
    follow(supervised, monkeypatch)
    production.roll(place, supervised.find(place))
    assert [pid for pid, _ in rolled] == [9]
    assert len(supervised.documents) == 1, "it was waited for"


def test_a_release_whose_processes_do_not_come_up_is_told(
    place: Place, rolled: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    supervised = Supervised(place, {**ALL, "release": "/old"}, {**ALL, "rolling": True}, ALL)
    follow(supervised, monkeypatch)
    with pytest.raises(Stop, match=r"5 processes of the release before were not replaced and go on; the platform serves"):
        production.roll(place, supervised.find(place))
