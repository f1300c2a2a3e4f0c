"""Headers of archives stay small, and files with holes are taken or refused as the reader wants it."""

from __future__ import annotations

import io
import tarfile

import pytest

from kernel.tar_members import GLOBAL_BYTES_MAX, HEADER_TYPES, HEADERS_IN_A_ROW_MAX, HeaderTooLarge, SparseRefused, bounded


def names(content: bytes, kind: type[tarfile.TarInfo]) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r|", tarinfo=kind) as archive:
        return [member.name for member in archive]


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as file:
        for info, content in members:
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def of_kind(kind: bytes, name: str = "header") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    return info


@pytest.mark.parametrize("kind", sorted(HEADER_TYPES))
def test_a_header_above_the_bound_is_refused_and_one_below_is_read(kind: bytes) -> None:
    with pytest.raises(HeaderTooLarge):
        names(archive((of_kind(kind), b"\0" * 3_000)), bounded(2_999))
    long = tarfile.TarInfo("n" * 300)
    assert names(archive((long, b"")), bounded(3_000)) == ["n" * 300]


def test_global_headers_of_an_archive_have_a_bound_together() -> None:
    """They count for each member that follows: a few megabytes of them would be kept, and looked through a million times."""
    comment = (of_kind(tarfile.XGLTYPE), b"%d comment=%s\n" % (1012, b"a" * 998))
    file = (tarfile.TarInfo("file"), b"content")
    few = [comment, file] * (GLOBAL_BYTES_MAX // 1012)
    assert names(archive(*few), bounded(3_000)) == ["file"] * 4
    with pytest.raises(HeaderTooLarge):
        names(archive(*few, comment, file), bounded(3_000))


@pytest.mark.parametrize("kind", sorted(HEADER_TYPES - {tarfile.XGLTYPE}))
def test_headers_of_a_member_have_a_bound(kind: bytes) -> None:
    """Each is read within the one before."""
    header = (of_kind(kind), b"")
    assert len(names(archive(*[header] * HEADERS_IN_A_ROW_MAX, (tarfile.TarInfo("file"), b"")), bounded(3_000))) == 1
    with pytest.raises(HeaderTooLarge):
        names(archive(*[header] * 2_000, (tarfile.TarInfo("file"), b"")), bounded(3_000))


def test_files_with_holes_are_taken_unless_they_are_refused() -> None:
    old = archive((of_kind(tarfile.GNUTYPE_SPARSE, "holes"), b""))
    told = tarfile.TarInfo("holes")
    told.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.map": "0,0", "GNU.sparse.size": "10"}
    for content in (old, archive((told, b""))):
        assert names(content, bounded(3_000)) == ["holes"]
        with pytest.raises(SparseRefused):
            names(content, bounded(3_000, sparse=False))
