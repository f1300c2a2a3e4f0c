"""Archives of code: what source trees hold passes, what leads outside or explodes does not (security T16, C16, C23)."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.engines.local.launching import unpack as unpacking
from clusters.engines.local.launching.unpack import unpack
from storage import bounds
from storage.archives import BadArchive, check_archive
from tests.factories.storage import an_archive


def check(data: bytes) -> object:
    return check_archive(io.BytesIO(data), size_bytes=len(data))


def member(name: str, kind: bytes = tarfile.REGTYPE, *, link: str = "", size: int = 0) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, size
    return made


def test_a_source_tree_passes():
    facts = check_archive(
        io.BytesIO(
            data := an_archive(
                {"train.py": b"x" * 100, "src/模型.py": b"y", "./.hidden": b"", "a b/c;d%2e%2e": b"z"},
                members=[
                    member("src", tarfile.DIRTYPE),
                    member("latest", tarfile.SYMTYPE, link="src/模型.py"),
                    member("src/up", tarfile.SYMTYPE, link="../train.py"),
                    member("same", tarfile.LNKTYPE, link="train.py"),
                ],
            )
        ),
        size_bytes=len(data),
    )
    assert facts.file_count == 8
    assert facts.unpacked_bytes >= 102


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "a/../../evil",
        "/etc/passwd",
        "//etc/passwd",
        "..",
        "a\\..\\evil",
        "..\\evil",
        "a/" * 80 + "b",
        "n" * 2000,
        "./../x",
    ],
)
def test_a_name_that_leads_outside_is_refused(name):
    with pytest.raises(BadArchive) as caught:
        check(an_archive({name: b"x"}))
    assert caught.value.fields


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("l", tarfile.SYMTYPE, "/etc/passwd"),
        ("l", tarfile.SYMTYPE, "../outside"),
        ("a/b/l", tarfile.SYMTYPE, "../../../outside"),
        ("a/l", tarfile.SYMTYPE, "b/../../../c"),
        ("l", tarfile.LNKTYPE, "../outside"),
        ("a/l", tarfile.LNKTYPE, "../outside"),
        ("l", tarfile.LNKTYPE, "/etc/shadow"),
        ("l", tarfile.SYMTYPE, ""),
        ("d", tarfile.CHRTYPE, ""),
        ("d", tarfile.BLKTYPE, ""),
        ("d", tarfile.FIFOTYPE, ""),
        ("d", b"Z", ""),
    ],
)
def test_links_to_outside_and_devices_are_refused(name, kind, link):
    with pytest.raises(BadArchive):
        check(an_archive({}, members=[member(name, kind, link=link)]))


def test_all_bad_members_are_named_at_once():
    with pytest.raises(BadArchive) as caught:
        check(an_archive({"../a": b"", "ok": b"", "/b": b""}))
    assert [error.path for error in caught.value.fields] == ["/archive/1", "/archive/3"]


def test_a_bomb_is_stopped_early():
    bomb = gzip.compress(b"\0" * (64 * 1024**2))
    with pytest.raises(BadArchive, match="larger than"):
        check(bomb)


def test_many_empty_files_are_stopped(monkeypatch):
    monkeypatch.setattr(bounds, "CODE_FILES_MAX", 50)
    with pytest.raises(BadArchive, match="more than 50"):
        check(an_archive({f"f{number}": b"" for number in range(60)}))


def test_an_empty_log_file_of_some_megabytes_is_no_bomb():
    assert check(an_archive({"big.log": b"\n" * 10 * 1024**2}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no archive",
        an_archive(compress=False),
        an_archive()[:-20],
        gzip.compress(b"not a tar at all" * 100),
        an_archive() + b"MZ trailing",
        gzip.compress(b"")[:5],
    ],
    ids=["empty", "text", "plain tar", "cut off", "no tar", "trailing", "half header"],
)
def test_what_is_no_gzipped_tar_is_refused(data):
    with pytest.raises(BadArchive):
        check(data)


def test_a_damaged_byte_is_noticed():
    data = bytearray(an_archive({"a.py": bytes(range(256)) * 40}))
    data[-6] ^= 0xFF  # Inside the checksum.
    with pytest.raises(BadArchive):
        check(bytes(data))


def test_a_header_of_many_megabytes_is_not_read_into_memory():
    with pytest.raises(BadArchive, match="header"):
        check(an_archive({}, members=[member("././@PaxHeader", tarfile.XHDTYPE, size=8 * 1024**2)]))
    with pytest.raises(BadArchive, match="header"):
        check(an_archive({}, members=[member("././@LongLink", tarfile.GNUTYPE_LONGNAME, size=8 * 1024**2)]))


@pytest.mark.parametrize(
    "members",
    [
        [member("n" * 300)],
        [member("模" * 86)],  # 258 bytes in 86 characters.
        [member("n" * 300, tarfile.DIRTYPE)],
        [member("l", tarfile.SYMTYPE, link="n" * 2_000)],
        [member("file"), member("file/inside")],
        [member("dir", tarfile.DIRTYPE), member("l", tarfile.SYMTYPE, link="dir"), member("l/inside")],
        [member("dir", tarfile.DIRTYPE), member("dir")],
        [member("dir/inside"), member("./dir", tarfile.SYMTYPE, link="x")],
        [member("file"), member("file", tarfile.DIRTYPE)],
        [member("hard", tarfile.LNKTYPE, link="absent")],
        [member("hard", tarfile.LNKTYPE, link="hard")],
        [member("dir", tarfile.DIRTYPE), member("hard", tarfile.LNKTYPE, link="dir")],
    ],
)
def test_what_no_machine_could_unpack_is_refused_when_it_is_uploaded(members):
    with pytest.raises(BadArchive) as caught:
        check(an_archive({}, members=members))
    assert [error.path for error in caught.value.fields] == [f"/archive/{len(members)}"]


def test_folders_that_are_only_named_count_as_entries(monkeypatch):
    monkeypatch.setattr(bounds, "CODE_FILES_MAX", 50)
    with pytest.raises(BadArchive, match="more than 50"):
        check(an_archive({"/".join(f"{row}{level}" for level in range(10)) + "/f": b"" for row in "abcdef"}))


_NAMES = st.sampled_from(["a", "a/b", "a/b/c", "./a", "b", "b/", "b/../b", "c//d", ".", "n" * 255, "n" * 256, "a/" + "n" * 256])
_LINKS = st.sampled_from(["a", "b", "../a", "a/b", "c/d", "./a", "n" * 1_024, "x" * 5_000])
_KINDS = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CONTTYPE])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.builds(lambda name, kind, link: member(name, kind, link=link), _NAMES, _KINDS, _LINKS), max_size=6))
def test_what_is_taken_can_be_unpacked_and_what_cannot_be_unpacked_is_a_bad_archive(members):
    data = an_archive({}, members=members)
    try:
        check(data)
        is_taken = True
    except BadArchive:
        is_taken = False
    with tempfile.TemporaryDirectory() as folder:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            unpack(io.BytesIO(data), descriptor)
        except unpacking.BadSnapshot:
            assert not is_taken
        finally:
            os.close(descriptor)
