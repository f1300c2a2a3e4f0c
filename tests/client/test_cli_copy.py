"""`berth cp`: where files land, what breaks off and goes on, and what is refused before anything is written."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import CutOff, a_job, problem

from berth import limits
from berth.cli.transfer import Progressing

DATA = os.urandom(3000)


@pytest.fixture
def work(own_home: Path) -> Path:
    return own_home / "work"


@pytest.fixture
def stored(stub: Any) -> Any:
    """A job with outputs and a volume with files, of different names."""
    stub.jobs = [a_job("train", "succeeded")]
    stub.artifacts = {"model/weights.bin": DATA, "model/深/notes.txt": "好".encode(), "log.txt": b"x"}
    stub.volumes = {"digits": {"raw/a.csv": b"1,2\n", "raw/sub/b.csv": b"3\n", "top.txt": b"top"}}
    return stub


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_name_of_any_bytes_is_copied_as_it_is_and_shown_as_text(stored: Any, run: Any, work: Path) -> None:
    stored.volumes["digits"] = {r"odd/two\x0alines \xff": b"1"}
    done = run("cp", "digits:odd", "./")
    assert done.exit_code == 0
    assert os.listdir(os.fsencode(work / "odd")) == [b"two\nlines \xff"]
    assert r"two\x0alines \xff" in done.output
    sent = run("cp", "./odd", "digits:back")
    assert (sent.exit_code, stored.volumes["digits"][r"back/two\x0alines \xff"]) == (0, b"1")


# --- From the server --------------------------------------------------------------------------------------------------

MODEL = {"model/weights.bin": DATA, "model/深/notes.txt": "好".encode()}


@pytest.mark.parametrize(
    ("source", "dest", "found"),
    [
        ("train:", "./", {**MODEL, "log.txt": b"x"}),
        ("train:", "all/", {**{f"all/{path}": data for path, data in MODEL.items()}, "all/log.txt": b"x"}),
        ("train:model", ".", MODEL),
        ("train:model/", ".", MODEL),
        ("train:model", "kept", {"kept/weights.bin": DATA, "kept/深/notes.txt": "好".encode()}),
        ("train:model", "kept/", {f"kept/{path}": data for path, data in MODEL.items()}),
        ("train:model/深", ".", {"深/notes.txt": "好".encode()}),
        ("train:log.txt", ".", {"log.txt": b"x"}),
        ("train:log.txt", "other.txt", {"other.txt": b"x"}),
        ("train:./log.txt", "new/", {"new/log.txt": b"x"}),
        ("train:model/weights.bin", "w", {"w": DATA}),
        ("digits:", "./", {"raw/a.csv": b"1,2\n", "raw/sub/b.csv": b"3\n", "top.txt": b"top"}),
        ("digits:raw", ".", {"raw/a.csv": b"1,2\n", "raw/sub/b.csv": b"3\n"}),
        ("digits:raw", "new", {"new/a.csv": b"1,2\n", "new/sub/b.csv": b"3\n"}),
        ("digits:raw/sub", "./", {"sub/b.csv": b"3\n"}),
        ("digits:/raw/a.csv", "one.csv", {"one.csv": b"1,2\n"}),
        ("digits:top.txt", "in/", {"in/top.txt": b"top"}),
    ],
)
def test_what_is_fetched_lies_where_cp_would_put_it(
    run: Any, stored: Any, work: Path, source: str, dest: str, found: dict[str, bytes]
) -> None:
    done = run("cp", source, dest)
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert tree(work) == found

    again = json.loads(run("cp", source, dest, "--json").stdout)
    assert again["size_bytes"] == sum(map(len, found.values()))
    assert again["not_copied"] == []
    if not (source.endswith(("model", "raw")) and dest in ("kept", "new")):  # The folder is there now, and holds the second copy.
        assert sorted(again["files"]) == sorted(found)


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (("train:absent", "."), 4),
        (("train:mod", "."), 4),
        (("digits:absent", "."), 4),
        (("absent:x", "."), 4),
        (("train:model", "absent.txt/../../out"), 0),
        (("./a", "./b"), 2),
        (("train:a", "digits:b"), 2),
        (("absent.txt", "digits:"), 1),
        (("a.txt", "absent:"), 4),
        (("train:x", ".", "--from", "volume"), 4),
    ],
)
def test_a_copy_that_cannot_be_ends_with_its_code(run: Any, stored: Any, work: Path, words: tuple[str, ...], ends: int) -> None:
    (work / "a.txt").write_text("a")
    done = run("cp", *words)
    assert done.exit_code == ends, done.output
    if ends:
        assert done.stdout == ""
        assert stored.uploads == {}
        assert tree(work) == {"a.txt": b"a"}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("train:", ["log.txt", "model/weights.bin", "model/深/notes.txt"]),
        ("train:model", ["model/weights.bin", "model/深/notes.txt"]),
        ("train:absent", []),
        ("digits:", ["raw", "top.txt"]),
        ("digits:raw", ["raw/a.csv", "raw/sub"]),
    ],
)
def test_a_listing_names_what_is_there_and_fetches_nothing(
    run: Any, stored: Any, work: Path, source: str, names: list[str]
) -> None:
    rows = json.loads(run("cp", source, "--list", "--json").stdout)
    assert sorted(row["path"] for row in rows) == names
    shown = run("cp", source, "--list")
    assert shown.exit_code == 0
    assert len(shown.stdout.splitlines()) == (len(names) + 1 if names else 0)
    assert tree(work) == {}
    assert not stored.sent(r"GET /.*/(content|artifacts/.+)")


def test_a_download_that_breaks_off_goes_on_with_the_next_command(
    run: Any, stored: Any, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TRANSFER_TRIES", 1)
    line = r"GET /jobs/.*/weights\.bin"
    stored.fail(line, httpx2.Response(200, headers={"ETag": '"v"'}, stream=CutOff(DATA[:1000])))
    broken = run("cp", "train:model/weights.bin", "w")
    assert (broken.exit_code, tree(work)) == (1, {"w.part": DATA[:1000]})
    assert "berth.test does not answer" in broken.stderr

    assert run("cp", "train:model/weights.bin", "w").exit_code == 0
    assert tree(work) == {"w": DATA}
    assert stored.sent(line)[-1].headers["Range"] == "bytes=1000-"


def test_what_arrives_with_another_digest_is_not_put_in_place(run: Any, stored: Any, work: Path) -> None:
    stored.fail(r"GET /jobs/.*/weights\.bin", httpx2.Response(200, content=bytes(len(DATA))))
    (work / "w").write_bytes(b"before")
    told = run("cp", "train:model/weights.bin", "w", "--json")
    assert (told.exit_code, json.loads(told.stderr)["code"]) == (1, "checksum_mismatch")
    assert tree(work) == {"w": b"before"}


def test_ctrl_c_in_the_middle_keeps_what_is_whole(run: Any, stored: Any, work: Path) -> None:
    def press(_request: httpx2.Request) -> httpx2.Response:
        raise KeyboardInterrupt

    stored.fail(r"GET /jobs/.*/notes\.txt", press)
    stopped = run("cp", "train:model", "kept")
    assert stopped.exit_code in (1, 130)
    assert {path: data for path, data in tree(work).items() if not path.endswith(".part")} == {"kept/weights.bin": DATA}
    assert run("cp", "train:model", "kept").exit_code == 0


# --- To a volume ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "dest", "placed"),
    [
        ("data", "digits:", {"a.txt": b"a", "深/b.txt": b""}),
        ("data", "digits:new", {"new/a.txt": b"a", "new/深/b.txt": b""}),
        ("data/", "digits:/new/", {"new/a.txt": b"a", "new/深/b.txt": b""}),
        ("data/a.txt", "digits:", {"a.txt": b"a"}),
        ("data/a.txt", "digits:new/", {"new/a.txt": b"a"}),
        ("data/a.txt", "digits:new/b.txt", {"new/b.txt": b"a"}),
        ("empty", "digits:", {}),
    ],
)
def test_what_is_sent_lies_where_cp_would_put_it(
    run: Any, stored: Any, work: Path, source: str, dest: str, placed: dict[str, bytes]
) -> None:
    for path, data in (("data/a.txt", b"a"), ("data/深/b.txt", b"")):
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_bytes(data)
    (work / "empty").mkdir()
    stored.volumes["digits"] = {}
    done = run("cp", source, dest, "--json")
    assert done.exit_code == 0, done.output
    assert stored.volumes["digits"] == placed
    assert json.loads(done.stdout) == {"volume": "digits", "files": sorted(placed), "size_bytes": sum(map(len, placed.values()))}


def test_an_upload_that_breaks_off_goes_on_where_the_server_is(run: Any, stored: Any, work: Path) -> None:
    (work / "w.bin").write_bytes(DATA)
    stored.chunk_bytes = 1000
    stored.fail("PATCH /uploads/.+", None, httpx2.ReadError("the line broke"), None, problem(503, "unavailable", "Restarting."))
    assert run("cp", "w.bin", "digits:").exit_code == 0

    assert stored.volumes["digits"]["w.bin"] == DATA
    offsets = [int(request.headers["Upload-Offset"]) for request in stored.sent("PATCH /uploads/.+")]
    assert offsets == [0, 1000, 1000, 2000, 2000]
    assert len(stored.sent("POST /uploads")) == 1


def test_an_upload_that_was_given_up_is_taken_up_by_the_same_command(
    run: Any, stored: Any, work: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "w.bin").write_bytes(DATA)
    stored.chunk_bytes = 1000
    monkeypatch.setattr(limits, "TRANSFER_TRIES", 1)
    stored.fail("PATCH /uploads/.+", None, httpx2.ReadError("the line broke"))
    broken = run("cp", "w.bin", "digits:")
    assert broken.exit_code == 1
    [remembered] = (own_home / "cache/berth/uploads").iterdir()
    assert json.loads(remembered.read_text())["id"] in stored.uploads

    assert run("cp", "w.bin", "digits:").exit_code == 0
    assert [int(request.headers["Upload-Offset"]) for request in stored.sent("PATCH /uploads/.+")] == [0, 1000, 1000, 2000]
    assert len(stored.sent("POST /uploads")) == 1
    assert list((own_home / "cache/berth/uploads").iterdir()) == []


@pytest.mark.parametrize(("status", "code", "ends"), [(403, "forbidden", 3), (413, "too_large", 1), (507, "storage_full", 5)])
def test_an_upload_that_is_refused_for_good_is_not_tried_again(
    run: Any, stored: Any, work: Path, own_home: Path, status: int, code: str, ends: int
) -> None:
    (work / "w.bin").write_bytes(DATA)
    stored.fail("PATCH /uploads/.+", problem(status, code, "No."))
    assert run("cp", "w.bin", "digits:").exit_code == ends
    assert len(stored.sent("PATCH /uploads/.+")) == 1
    assert list((own_home / "cache/berth/uploads").iterdir()) == [], "the next try begins anew"


def test_an_upload_says_what_it_is_before_it_sends_a_byte(run: Any, stored: Any, work: Path) -> None:
    (work / "w.bin").write_bytes(DATA)
    run("cp", "w.bin", "digits:深/w.bin", "-t", "lab")
    body = json.loads(stored.sent("POST /uploads")[0].content)
    volume = json.loads(run("volumes", "--json").stdout)[0]["id"]
    digest = hashlib.sha256(DATA).hexdigest()
    assert body == {"tenant": "lab", "target": {"volume": volume, "path": "深/w.bin"}, "size_bytes": len(DATA), "sha256": digest}


def test_no_bar_is_drawn_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progressing("To digits", total=10) as progress:
        progress(3)
        progress.from_(3)(7)
    assert capsys.readouterr() == ("", "")
