"""Files that change while they are sent, places where nothing can be written, and names that a server should not give."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import TOKEN, CutOff, a_job, problem

import berth
from berth.errors import ConfigurationInvalid, FileRefused
from berth.snapshots import list_code, pack_code
from berth.transfers import inside, upload_memory

NOWHERE = "/proc/berth"  # Where not even root may make a file.


@pytest.fixture
def volume(stub: Any) -> Any:
    stub.volumes["digits"] = {}
    stub.chunk_bytes = 1_000
    return stub


@pytest.fixture
def ended(stub: Any) -> Any:
    stub.jobs = [a_job("train", "succeeded")]
    return stub


# --- Up ---------------------------------------------------------------------------------------------------------------


def test_a_file_that_becomes_shorter_meanwhile_ends_the_upload(volume: Any, client: Any, tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(b"x" * 300_000)
    volume.chunk_bytes = 100_000
    volume.fail(r"PATCH /uploads/.*", lambda request: os.truncate(data, 50_000))

    with pytest.raises(FileRefused, match=r"data\.bin became shorter") as caught:
        client.volumes.upload("digits", data, "data.bin")
    assert "Send it again" in caught.value.hint
    assert len(volume.sent(r"PATCH /uploads/.*")) <= 2, "it ends where the file does"
    assert volume.volumes["digits"] == {}


def test_a_file_that_grows_meanwhile_is_sent_as_it_was(volume: Any, client: Any, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(b"x" * 1_500)

    def append(request: httpx2.Request) -> None:
        with log.open("ab") as file:
            file.write(b"y" * 1_500)

    volume.fail(r"PATCH /uploads/.*", append)
    client.volumes.upload("digits", log, "run.log")

    assert volume.volumes["digits"] == {"run.log": b"x" * 1_500}


def test_a_file_that_changed_between_two_runs_begins_anew(volume: Any, client: Any, tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(b"x" * 2_000)
    volume.fail(r"PATCH /uploads/.*", None, *[httpx2.ConnectError("down")] * 20)
    with pytest.raises(berth.ServerUnreachable):
        client.volumes.upload("digits", data, "data.bin")
    volume.faults.clear()
    data.write_bytes(b"z" * 2_000)

    client.volumes.upload("digits", data, "data.bin")

    assert volume.volumes["digits"] == {"data.bin": b"z" * 2_000}
    assert len(volume.sent("POST /uploads")) == 2


def test_an_upload_that_the_server_has_forgotten_begins_anew(volume: Any, client: Any, tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(b"x" * 2_000)
    volume.fail(r"PATCH /uploads/.*", None, *[httpx2.ConnectError("down")] * 20)
    with pytest.raises(berth.ServerUnreachable):
        client.volumes.upload("digits", data, "data.bin")
    volume.faults.clear()
    volume.uploads.clear()

    client.volumes.upload("digits", data, "data.bin")

    assert volume.volumes["digits"] == {"data.bin": b"x" * 2_000}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\x00"])
def test_a_garbled_memory_of_an_upload_is_no_reason_to_fail(
    volume: Any, client: Any, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = upload_memory().folder
    assert folder is not None
    monkeypatch.setattr("berth.transfers._memory_key", lambda *parts: "key")
    folder.mkdir(parents=True)
    (folder / "key").write_text(text)
    (tmp_path / "data.bin").write_bytes(b"x")

    client.volumes.upload("digits", tmp_path / "data.bin", "data.bin")

    assert volume.volumes["digits"] == {"data.bin": b"x"}
    assert not (folder / "key").exists()


def test_a_cache_that_cannot_be_written_does_not_hinder_an_upload(
    volume: Any, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", NOWHERE)
    (tmp_path / "data.bin").write_bytes(b"x" * 2_000)

    client.volumes.upload("digits", tmp_path / "data.bin", "data.bin")

    assert volume.volumes["digits"] == {"data.bin": b"x" * 2_000}


def test_a_full_volume_ends_an_upload_without_another_try(run: Any, volume: Any) -> None:
    Path("data.bin").write_bytes(b"x")
    volume.fail(r"PATCH /uploads/.*", problem(507, "storage_full", "Volume digits is full.", hint="Delete files."))

    done = run("cp", "data.bin", "digits:")

    assert (done.exit_code, len(volume.sent(r"PATCH /uploads/.*"))) == (5, 1)
    assert "Error: Volume digits is full.\nHint: Delete files." in done.stderr


def test_a_file_removed_after_it_was_sent_is_no_fault(run: Any, volume: Any) -> None:
    Path("data.bin").write_bytes(b"x")

    def take(request: httpx2.Request) -> None:
        Path("data.bin").unlink()

    volume.fail(r"PATCH /uploads/.*", take)
    done = run("cp", "data.bin", "digits:")

    assert done.exit_code == 0, done.stderr
    assert "1 file, 1 B" in done.stderr


def test_links_and_pipes_are_refused_by_name_before_anything_is_sent(run: Any, volume: Any) -> None:
    Path("data").mkdir()
    Path("data/a").write_text("1")
    Path("data/b").symlink_to("a")
    refused = run("cp", "data", "digits:raw")
    assert (refused.exit_code, "data/b is a link" in refused.stderr) == (1, True)

    Path("data/b").unlink()
    os.mkfifo("data/b")
    assert "data/b is a link or a special file" in run("cp", "data", "digits:raw").stderr
    assert not volume.sent("POST /uploads")


@pytest.mark.parametrize(
    ("target", "place"),
    [("digits:", "a.txt"), ("digits:raw/", "raw/a.txt"), ("digits:/raw/b.txt", "raw/b.txt"), ("digits:b.txt", "b.txt")],
)
def test_a_file_goes_where_cp_would_put_it(run: Any, volume: Any, target: str, place: str) -> None:
    Path("a.txt").write_text("1")

    assert run("cp", "a.txt", target).exit_code == 0
    assert list(volume.volumes["digits"]) == [place]


@pytest.mark.parametrize(("source", "dest"), [("a:x", "b:y"), ("./a", "./b"), ("a/b:c", "d")])
def test_a_copy_has_one_side_here_and_one_there(run: Any, stub: Any, source: str, dest: str) -> None:
    done = run("cp", source, dest)

    assert done.exit_code == 2
    assert "Hint:" in done.stderr
    assert stub.requests == []


# --- Down -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".", "./", "", "..", "a/../../b", "/etc/passwd", "a\\b"])
def test_an_artifact_whose_name_is_no_place_below_the_folder_is_refused(run: Any, ended: Any, name: str) -> None:
    ended.artifacts = {name: b"evil", "good.txt": b"good"}

    done = run("cp", "train:", "./home")

    assert done.exit_code == 1
    assert "Error:" in done.stderr
    assert not Path("home").exists(), "all names are judged before the first file is fetched"


def test_a_place_below_the_folder_may_have_dots_and_blanks(tmp_path: Path) -> None:
    names = ("a b/c", "...", "..a", "a/./b", "中文/权重.bin", "-rf")
    assert [inside(tmp_path, name).relative_to(tmp_path).as_posix() for name in names] == [
        *("a b/c", "...", "..a", "a/b", "中文/权重.bin", "-rf")
    ]


def test_a_folder_in_the_place_of_a_file_stays(run: Any, ended: Any) -> None:
    ended.artifacts = {"model": b"x"}
    Path("model").mkdir()
    Path("model/mine").write_text("kept")

    done = run("cp", "train:", ".")

    assert done.exit_code == 1
    assert "model is a folder" in done.stderr
    assert Path("model/mine").read_text() == "kept"
    assert not ended.sent(r"GET /jobs/.*/artifacts/model"), "nothing is fetched in vain"


def test_a_name_too_long_for_its_part_is_told(run: Any, ended: Any) -> None:
    ended.artifacts = {"a" * 253: b"x"}

    done = run("cp", "train:", ".")

    assert done.exit_code == 1
    assert "File name too long" in done.stderr


@pytest.mark.parametrize("target", [f"{NOWHERE}/", f"{NOWHERE}/file"])
def test_a_target_that_cannot_be_made_is_named(run: Any, ended: Any, target: str) -> None:
    ended.artifacts = {"log.txt": b"x"}

    done = run("cp", "train:log.txt", target)

    assert done.exit_code == 1
    assert f"{NOWHERE}" in done.stderr
    assert "cannot be written" in done.stderr


def test_a_file_in_the_place_of_a_folder_is_told(run: Any, ended: Any) -> None:
    ended.artifacts = {"model/a": b"1"}
    Path("model").write_text("a file")

    done = run("cp", "train:", ".")

    assert (done.exit_code, "cannot be written" in done.stderr) == (1, True)
    assert Path("model").read_text() == "a file"


@pytest.mark.parametrize("served", [b"", b"abcdef", b"abx"])
def test_what_is_not_what_the_manifest_says_is_thrown_away(run: Any, ended: Any, served: bytes) -> None:
    ended.artifacts = {"log.txt": b"abc"}
    ended.fail(r"GET /jobs/.*/artifacts/log\.txt", *[lambda request: httpx2.Response(200, content=served)] * 20)
    Path("log.txt").write_bytes(b"of yesterday")

    done = run("cp", "train:log.txt", "log.txt")

    assert done.exit_code == 1
    assert "Hint: Try again." in done.stderr
    assert len(ended.sent(r"GET /jobs/.*/artifacts/log\.txt")) == 1
    assert Path("log.txt").read_bytes() == b"of yesterday"


def test_a_file_that_changed_on_the_volume_between_two_pieces_is_fetched_anew(volume: Any, client: Any, tmp_path: Path) -> None:
    old, new = b"a" * 2_000, b"b" * 2_000
    volume.volumes["digits"] = {"w.bin": new}
    volume.fail(r"GET /volumes/.*/content", httpx2.Response(200, headers={"ETag": '"old"'}, stream=CutOff(old[:700])))

    def changed(request: httpx2.Request) -> httpx2.Response:
        assert request.headers["If-Range"] == '"old"'
        return httpx2.Response(200, headers={"ETag": '"new"'}, content=new)

    volume.fail(r"GET /volumes/.*/content", changed)

    place = client.volumes.download("digits", "w.bin", tmp_path / "w.bin", size_bytes=2_000)

    assert place.read_bytes() == new


def test_a_part_that_is_longer_than_the_file_is_thrown_away(ended: Any, client: Any, tmp_path: Path) -> None:
    ended.artifacts = {"log.txt": b"abc"}
    (tmp_path / "log.txt.part").write_bytes(b"of another file")

    client.jobs.download("train", "log.txt", tmp_path)

    assert (tmp_path / "log.txt").read_bytes() == b"abc"
    [request] = ended.sent(r"GET /jobs/.*/artifacts/log\.txt")
    assert "Range" not in request.headers


def test_a_part_that_is_a_link_is_not_written_through(ended: Any, client: Any, tmp_path: Path) -> None:
    ended.artifacts = {"log.txt": b"abc"}
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "log.txt.part").symlink_to(tmp_path / "victim")

    with pytest.raises(FileRefused, match="is a link"):
        client.jobs.download("train", "log.txt", tmp_path)
    assert (tmp_path / "victim").read_text() == "mine"


def test_a_link_on_a_volume_is_named_and_not_copied(run: Any, volume: Any) -> None:
    rows = [
        {"path": "a", "kind": "file", "size_bytes": 1, "modified_at": None},
        {"path": "b", "kind": "link", "size_bytes": 0, "modified_at": None},
        {"path": "c", "kind": "special", "size_bytes": 0, "modified_at": None},
    ]
    volume.volumes["digits"] = {"a": b"1"}
    volume.fail(r"GET /volumes/[^/]+/files", httpx2.Response(200, json={"items": rows, "next": None}))

    done = run("cp", "digits:", "./home/", "--json")

    assert done.exit_code == 1
    assert json.loads(done.stdout) == {"files": ["home/a"], "size_bytes": 1, "not_copied": ["b", "c"]}
    assert "Not copied: b (a link)" in done.stderr
    assert "Not copied: c (a special file)" in done.stderr


# --- Code -------------------------------------------------------------------------------------------------------------


def test_a_folder_of_code_that_is_a_file_or_missing_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    for folder in (tmp_path / "train.py", tmp_path / "missing"):
        with pytest.raises(FileRefused, match="is not a folder") as caught:
            list_code(folder)
        assert "code.path" in caught.value.hint


def test_a_pipe_in_the_code_is_refused_unless_it_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileRefused, match="pipe is a socket"):
        list_code(tmp_path)

    (tmp_path / ".berthignore").write_text("pipe\n")
    assert [entry.path for entry in list_code(tmp_path)] == [".berthignore", "a.py"]


def test_an_ignore_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / ".berthignore").write_bytes(b"\xff\xfe")
    with pytest.raises(FileRefused, match=r"\.berthignore cannot be read"):
        list_code(tmp_path)


def test_too_many_files_are_refused_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.limits.CODE_FILES", 2)
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.raises(FileRefused, match="more than 2 files") as caught:
        list_code(tmp_path)
    assert ".berthignore" in caught.value.hint


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "sub/../../outside"])
def test_a_link_that_leads_out_of_the_code_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(FileRefused, match="link is a link out of the folder"):
        pack_code(tmp_path)


# --- The configuration file -------------------------------------------------------------------------------------------

UNSET: dict[str, str | None] = {"BERTH_SERVER": None, "BERTH_TOKEN": None}


def keep(own_home: Path, text: str | bytes) -> Path:
    path = own_home / "config/berth/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    "text",
    [
        *("current = [", b"\xff\xfe\x00", "profiles = 5", "profiles.default = 'x'", "[profiles.default]\nserver = 'ftp://x'"),
        "[profiles.default]\nserver = 'http://a b'",
    ],
)
def test_a_garbled_file_is_told_and_its_end_is_2(run: Any, stub: Any, own_home: Path, text: str | bytes) -> None:
    keep(own_home, text)

    done = run("ps", env=UNSET)

    assert done.exit_code == 2
    assert done.stderr.startswith("Error: ")
    assert stub.requests == []


def test_a_kept_address_that_is_none_does_not_hinder_another(run: Any, stub: Any, own_home: Path) -> None:
    path = keep(own_home, "[profiles.default]\nserver = 'ftp://x'\ntoken = 'kept'\ntenant = 'old'\n")

    assert run("ps").exit_code == 0
    assert "tenant" not in stub.sent("GET /jobs")[0].url.params, "the token and the tenant of another address stay behind"
    done = run("login", "--server", "http://127.0.0.1:8400", input=f"{TOKEN}\n", env=UNSET)
    assert done.exit_code == 0, done.stderr
    assert "ftp://" not in path.read_text()


def test_a_place_where_the_token_cannot_be_kept_is_named(run: Any, stub: Any) -> None:
    done = run(
        "login", "--server", "http://127.0.0.1:8400", input=f"{TOKEN}\n", env={**UNSET, "BERTH_CONFIG": f"{NOWHERE}/c.toml"}
    )

    assert done.exit_code == 2
    assert f"{NOWHERE}/c.toml cannot be written" in done.stderr
    assert "BERTH_CONFIG" in done.stderr
    assert TOKEN not in done.output


def test_a_folder_in_the_place_of_the_file_is_named(run: Any, own_home: Path) -> None:
    (own_home / "config/berth/config.toml").mkdir(parents=True)

    done = run("ps", env=UNSET)

    assert (done.exit_code, "config.toml" in done.stderr) == (2, True)


def test_signing_out_goes_on_with_the_other_profile(run: Any, own_home: Path) -> None:
    path = keep(
        own_home,
        f"current = 'work'\n[profiles.work]\nserver = 'http://127.0.0.1:1'\ntoken = 'w'\n"
        f"[profiles.home]\nserver = 'http://127.0.0.1:2'\ntoken = '{TOKEN}'\n",
    )

    assert "Signed out of http://127.0.0.1:1." in run("logout", env=UNSET).stderr
    assert "There is no profile work." in run("logout", "--profile", "work", env=UNSET).stderr
    assert "http://127.0.0.1:2" in run("whoami", env=UNSET).stdout
    assert "'w'" not in path.read_text()


def test_a_replacement_that_fails_leaves_the_file_as_it_was(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from berth.config import ConfigFile, Profile, read_config, write_config

    path = keep(own_home, "[profiles.default]\nserver = 'http://127.0.0.1:1'\n")
    monkeypatch.setattr("berth.config.os.fsync", _full)

    with pytest.raises(ConfigurationInvalid, match="No space left"):
        write_config(path, ConfigFile("a", {"a": Profile("http://127.0.0.1:2")}))
    assert read_config(path).profiles["default"].server == "http://127.0.0.1:1"
    assert [found.name for found in path.parent.iterdir()] == ["config.toml"]


def _full(descriptor: int) -> None:
    raise OSError(28, "No space left on device")
