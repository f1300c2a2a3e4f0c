"""A snapshot unpacks below its directory, whatever it claims."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from clusters.engines.local.launching import unpack as unpacking
from clusters.engines.local.launching.unpack import BadSnapshot, unpack


def member(
    name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", link: str = "", mode: int = 0o644
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname, info.mode = kind, len(content), link, mode
    return info, content


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        for info, content in members:
            file.addfile(info, io.BytesIO(content))
    buffer.seek(0)
    return buffer


@pytest.fixture
def extract(tmp_path: Path) -> Callable[..., Path]:
    target = tmp_path / "outer" / "target"
    target.mkdir(parents=True)

    def run(*members: tuple[tarfile.TarInfo, bytes]) -> Path:
        descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
        try:
            unpack(archive(*members), descriptor)
        finally:
            os.close(descriptor)
        return target

    return run


def test_files_directories_and_inner_links_come_out_as_they_were(extract: Callable[..., Path]) -> None:
    target = extract(
        member("./"),
        member("./a", tarfile.DIRTYPE, mode=0o755),
        member("a/run.sh", content=b"#!/bin/sh\n", mode=0o755),
        member("deep/er/file", content=b"x"),
        member("link", tarfile.SYMTYPE, link="a/run.sh"),
        member("hard", tarfile.LNKTYPE, link="a/run.sh"),
        member("a/up", tarfile.SYMTYPE, link="../deep"),
    )
    assert (target / "link").read_bytes() == (target / "hard").read_bytes() == b"#!/bin/sh\n"
    assert (target / "a" / "up" / "er" / "file").read_bytes() == b"x"
    assert (target / "a" / "run.sh").stat().st_mode & 0o7777 == 0o755


def test_a_later_member_replaces_an_earlier_one(extract: Callable[..., Path]) -> None:
    assert (extract(member("x", content=b"old"), member("x", content=b"new")) / "x").read_bytes() == b"new"


def test_set_id_bits_and_devices_are_dropped(extract: Callable[..., Path]) -> None:
    target = extract(member("su", content=b"x", mode=0o6755), member("null", tarfile.CHRTYPE), member("pipe", tarfile.FIFOTYPE))
    assert (target / "su").stat().st_mode & 0o7777 == 0o755
    assert sorted(os.listdir(target)) == ["su"]


@pytest.mark.parametrize(
    "members",
    [
        [member("../escaped", content=b"x")],
        [member("a/../../escaped", content=b"x")],
        [member("/escaped", content=b"x")],
        [member("link", tarfile.SYMTYPE, link="/etc/passwd")],
        [member("link", tarfile.SYMTYPE, link="../../escaped")],
        [member("hard", tarfile.LNKTYPE, link="/etc/passwd")],
        [member("hard", tarfile.LNKTYPE, link="../escaped")],
        [member("hard", tarfile.LNKTYPE, link="nothing")],
        [member("file", content=b"x"), member("file/inside", content=b"x")],
        [member("dir", tarfile.DIRTYPE), member("link", tarfile.SYMTYPE, link="dir"), member("link/x", content=b"x")],
        [member("dir", tarfile.DIRTYPE), member("dir", content=b"x")],
        [member("dir", tarfile.DIRTYPE), member("dir", tarfile.SYMTYPE, link="x")],
        [member("n" * 300, content=b"x")],
        [member("n" * 300 + "/x", content=b"x")],
        [member("link", tarfile.SYMTYPE, link="n" * 5_000)],
    ],
)
def test_what_points_outside_or_goes_through_a_link_is_refused(
    extract: Callable[..., Path], tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    with pytest.raises(BadSnapshot):
        extract(*members)
    assert not list(tmp_path.rglob("escaped"))


def test_a_bomb_ends_at_the_bound(extract: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "UNPACKED_BYTES_MAX", 1_000)
    with pytest.raises(BadSnapshot, match="more than"):
        extract(*(member(str(index), content=b"0" * 300) for index in range(4)))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_header_that_would_fill_the_memory_is_refused(extract: Callable[..., Path], kind: bytes) -> None:
    with pytest.raises(BadSnapshot, match="header"):
        extract(member("././@Header", kind, b"\0" * 2_000_000), member("file"))


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for content in (b"", b"no archive", archive(member("x", content=b"y" * 5_000)).getvalue()[:-40]):
            with pytest.raises(BadSnapshot):
                unpack(io.BytesIO(content), descriptor)
    finally:
        os.close(descriptor)
