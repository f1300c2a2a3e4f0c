"""Layers of an image that mean harm: whatever they say, nothing outside the directory is made, changed or removed."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from clusters.engines.local.containers.layers import Budget, Root
from clusters.engines.local.containers.view import CannotShow, root_view
from clusters.engines.local.containers.zstd import BadZstd, ZstdFile
from clusters.registries.errors import ImageUnusable
from tests.builders.registry import Member, folder, hard_link, symlink, tar, zstd

DEVICE = tarfile.CHRTYPE


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What a layer must not reach, beside the directory of the image."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "kept").write_text("as it was")
    (place / "kept").chmod(0o640)
    return place


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "root").mkdir()
    return Root(str(tmp_path / "root"), Budget(10_000_000))


def apply(root: Root, *layers: list[Member]) -> None:
    for layer in layers:
        root.apply(io.BytesIO(tar(layer)))
    root.finish()


def untouched(outside: Path) -> bool:
    kept = outside / "kept"
    return os.listdir(outside) == ["kept"] and kept.read_text() == "as it was" and stat.S_IMODE(kept.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "layers",
    [
        [[Member("../outside/new", b"x")]],
        [[Member("a/../../outside/new", b"x")]],
        [[Member("/../outside/new", b"x")]],
        [[symlink("out", "../outside"), Member("out/new", b"x")]],
        [[symlink("out", "/proc/self/cwd/../../outside"), Member("out/new", b"x")]],
        [[symlink("out", "../outside")], [Member("out/new", b"x")]],
        [[symlink("out", "../outside")], [folder("out/new")]],
        [[symlink("out", "../outside/kept"), Member("out", b"x", 0o777)]],
        [[symlink("out", "../outside/kept")], [hard_link("in", "out"), Member("in", b"x")]],
        [[hard_link("in", "../outside/kept"), Member("in", b"x")]],
        [[symlink("out", "../outside"), hard_link("in", "out/kept"), Member("in", b"x")]],
        [[hard_link("in", "a/kept"), symlink("a", "../outside")], [Member("a/new", b"x")]],
        [[symlink("out", "../outside")], [Member("out/.wh.kept")]],
        [[symlink("out", "../outside")], [Member("out/.wh..wh..opq")]],
        [[Member(".wh...")]],
        [[folder("a/b", 0o777)], [Member(".wh.a"), symlink("a", "../outside")]],
        [[folder("a/kept", 0o777)], [symlink("a", "../outside")]],
        [[folder("a"), Member("a/x", b"1"), symlink("a", "../outside"), Member("a/kept", b"changed")]],
        [[symlink("x", "y"), symlink("y", "x"), Member("x/z", b"1")]],
        [[Member("a", b"1"), Member("a/b", b"2")]],
        [[folder("d" * 300)]],
        [[Member("/".join(["d" * 200] * 30), b"x")]],
        [[Member("nul\0name", b"x")]],
    ],
)
def test_nothing_outside_is_touched(root: Root, outside: Path, layers: list[list[Member]]) -> None:
    with contextlib.suppress(ImageUnusable):  # Refused is as well as harmless.
        apply(root, *layers)
    assert untouched(outside)
    for path in Path(root.path).rglob("*"):
        assert path.is_symlink() or path.resolve().is_relative_to(Path(root.path).resolve())


def test_devices_pipes_and_set_id_bits_are_left_out(root: Root) -> None:
    layer = [
        Member("dev/sda", kind=tarfile.BLKTYPE, device=(8, 0)),
        Member("dev/mem", kind=DEVICE, device=(1, 1)),
        Member("pipe", kind=tarfile.FIFOTYPE),
        Member("bin/su", b"x", 0o6755),
        folder("shared", 0o2777),
    ]
    apply(root, layer)
    place = Path(root.path)
    assert not (place / "dev/sda").exists()
    assert not (place / "dev/mem").exists()
    assert not (place / "pipe").exists()
    assert stat.S_IMODE((place / "bin/su").stat().st_mode) == 0o755
    assert stat.S_IMODE((place / "shared").stat().st_mode) == 0o777
    assert (place / "bin/su").stat().st_uid == os.geteuid()


def test_a_bomb_ends_at_the_bound(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    root = Root(str(tmp_path / "root"), Budget(1_000_000))
    with pytest.raises(ImageUnusable, match="larger"):
        apply(root, [Member("zeros", b"\0" * 2_000_000)])
    root = Root(str(tmp_path / "root"), Budget(10_000_000, members_left=100))
    with pytest.raises(ImageUnusable, match="files"):
        apply(root, [Member(f"file-{number}") for number in range(101)])


def test_a_bomb_by_zstd_ends_at_the_bound(tmp_path: Path, root: Root) -> None:
    (tmp_path / "layer").write_bytes(zstd(tar([Member("zeros", b"\0" * 50_000_000)])))
    assert (tmp_path / "layer").stat().st_size < 10_000
    with ZstdFile(str(tmp_path / "layer")) as layer, pytest.raises(ImageUnusable, match="larger"):
        root.apply(layer)
    assert sum(path.stat().st_size for path in Path(root.path).rglob("*")) <= 10_000_000


@pytest.mark.parametrize(
    "content",
    [b"no archive", zstd(os.urandom(2_000)), zstd(tar([Member("file", os.urandom(500_000))]))[:-3], zstd(b"")[:4]],
)
def test_what_zstd_cannot_read_is_an_unusable_image(tmp_path: Path, root: Root, content: bytes) -> None:
    (tmp_path / "layer").write_bytes(content)
    with ZstdFile(str(tmp_path / "layer")) as layer, pytest.raises(ImageUnusable, match="cannot be unpacked"):
        root.apply(layer)


def test_a_window_that_would_fill_the_memory_is_refused(tmp_path: Path, root: Root) -> None:
    content = tar([folder("a")])
    window, only_block = bytes([(31 - 10) << 3]), (1 | len(content) << 3).to_bytes(3, "little")  # RFC 8878, 3.1.1.
    (tmp_path / "layer").write_bytes(b"\x28\xb5\x2f\xfd\x00" + window + only_block + content)
    with ZstdFile(str(tmp_path / "layer")) as layer, pytest.raises(ImageUnusable, match="too much memory"):
        root.apply(layer)


def test_directories_that_are_only_taken_for_granted_count_as_members(root: Root) -> None:
    """A member of some kilobytes has more than a thousand of them, and each takes an inode and a block of the disk."""
    root.budget.members_left = 300
    deep = [Member(f"{number}/{'d/' * 99}file", b"x") for number in range(4)]
    with pytest.raises(ImageUnusable, match="files"):
        apply(root, deep)
    assert sum(len(folders) for _, folders, _ in os.walk(root.path)) <= 300


def test_what_takes_too_long_ends(root: Root) -> None:
    root.budget.ends_at = 0.0
    with pytest.raises(ImageUnusable, match="too long"):
        apply(root, [Member("file", b"x")])


def test_frames_without_content_have_a_bound(tmp_path: Path) -> None:
    """Each is nine bytes and a step: a layer of some gigabytes of them kept the process that read it busy for hours."""
    (tmp_path / "few").write_bytes(zstd(b"") * 900 + zstd(b"content") + zstd(b"") * 900)
    (tmp_path / "many").write_bytes(zstd(b"") * 2_000 + zstd(b"content"))
    with ZstdFile(str(tmp_path / "few")) as file:
        assert file.read(100) + file.read(100) == b"content"
    with ZstdFile(str(tmp_path / "many")) as file, pytest.raises(BadZstd, match="frames"):
        file.read(100)


def test_paths_that_would_fill_the_memory_are_refused(root: Root) -> None:
    root.budget.paths_bytes_left = 10_000
    with pytest.raises(ImageUnusable, match="paths"):
        apply(root, [Member(f"{number}{'n' * 200}", b"x") for number in range(60)])


def test_a_header_that_would_fill_the_memory_is_refused(root: Root) -> None:
    """The library reads an extended header whole; one of gigabytes of zeros is small as it is transferred."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("file")
        info.pax_headers = {"comment": "x" * 3_000_000}
        archive.addfile(info, io.BytesIO(b""))
    with pytest.raises(ImageUnusable, match="header"):
        root.apply(io.BytesIO(plain.getvalue()))


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08" + b"\0" * 50, os.urandom(2_000)])
def test_what_is_no_archive_is_an_unusable_image_or_an_empty_layer(root: Root, content: bytes) -> None:
    with contextlib.suppress(ImageUnusable):
        root.apply(io.BytesIO(content))
    assert os.listdir(root.path) == []


# --- What layers mean, where they mean well ----------------------------------------------------------------------------


def test_later_layers_change_hide_and_replace_what_earlier_ones_made(root: Root) -> None:
    apply(
        root,
        [
            folder("etc", 0o755), Member("etc/one", b"1"), Member("etc/two", b"2"),
            folder("opt", 0o700), Member("opt/old", b"x"), folder("opt/tree"), Member("opt/tree/leaf", b"x"),
            Member("bin/tool", b"tool", 0o755), hard_link("bin/alias", "bin/tool"), symlink("lib", "usr/lib"),
        ],
        [
            Member("etc/.wh.one"), Member("etc/two", b"second"), Member("opt/new", b"y"), Member("opt/.wh..wh..opq"),
            hard_link("bin/third", "bin/tool"), Member("lib/inside", b"z"),
        ],
    )  # fmt: skip
    place = Path(root.path)
    assert sorted(os.listdir(place / "etc")) == ["two"]
    assert (place / "etc/two").read_bytes() == b"second"
    assert os.listdir(place / "opt") == ["new"], "what the same layer made stays, wherever its mark stands"
    assert (place / "bin/tool").stat().st_nlink == 3
    assert (place / "usr/lib/inside").read_bytes() == b"z", "a link on the way is followed as a program inside would"
    assert stat.S_IMODE((place / "opt").stat().st_mode) == 0o700


@pytest.mark.parametrize("piece", [1, 70_000, 1 << 20])
def test_frames_of_zstd_are_one_file_and_some_are_skipped(tmp_path: Path, piece: int) -> None:
    """As zstd:chunked layers are made."""
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    content = os.urandom(2_000) + b"a" * 300_000
    (tmp_path / "layer").write_bytes(skipped + zstd(content) + skipped + zstd(b"") + zstd(b"end") + skipped)
    with ZstdFile(str(tmp_path / "layer")) as layer:
        assert b"".join(iter(lambda: layer.read(piece), b"")) == content + b"end"


def test_the_time_of_a_file_is_kept(root: Root) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        info = tarfile.TarInfo("module.py")
        info.mtime = 1_700_000_000
        archive.addfile(info, io.BytesIO(b""))
    root.apply(io.BytesIO(plain.getvalue()))
    assert (Path(root.path) / "module.py").stat().st_mtime == 1_700_000_000


# --- Where a job's mounts are seen ------------------------------------------------------------------------------------


def test_a_mount_never_goes_through_a_link_of_the_image(root: Root, outside: Path) -> None:
    """bubblewrap follows links with the host in reach: it is given places without any."""
    apply(root, [folder("srv"), symlink("data", "/oldroot/etc"), symlink("srv/out", "../../../outside"), folder("mnt/there")])
    shown = root_view(root.path, ["/data/new", "/srv/out/new", "/mnt/there"])
    assert [place.path for place in shown.places] == ["/oldroot/etc/new", "/outside/new", "/mnt/there"]
    assert shown.made == ("/",), "what is missing is made in a directory of memory"
    assert shown.line[shown.line.index("--symlink") :][:3] == ("--symlink", "/oldroot/etc", "/data")


def test_a_mount_below_a_file_or_in_circles_has_no_place(root: Root) -> None:
    apply(root, [Member("file", b"x"), symlink("a", "b"), symlink("b", "a")])
    for target in ("/file/new", "/a/new"):
        with pytest.raises(CannotShow):
            root_view(root.path, [target])
