"""Trees that a job makes on purpose, so deep or so long that looking at them would keep everybody else from the launcher."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from clusters.engines.local.launching import beneath, wire
from clusters.engines.local.launching.beneath import copy_tree, list_directory, remove


def dig(folder: Path, name: str, levels: int) -> None:
    """Directories in each other, however long their path."""
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def listed(folder: Path, *, limit: int = 1_000_000) -> beneath.Listing:
    return list_directory(str(folder.parent), folder.name, recursive=True, limit=limit)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


def test_of_a_bottomless_directory_the_first_levels_are_listed_and_that_there_is_more(tree: Path) -> None:
    dig(tree, "d", 3_000)
    (tree / "file").touch()
    found = listed(tree)
    assert found.truncated
    assert len(found.entries) == beneath._LISTED_DEPTH_MAX + 2
    assert {entry.path for entry in found.entries} >= {"file", "d/d/d"}
    remove(str(tree.parent), "tree")
    assert not tree.exists()


def test_an_answer_is_never_longer_than_a_message_whatever_the_names_are(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dig(tree, os.fsdecode(b"\xff" * 200), 40)
    monkeypatch.setattr(beneath, "_LISTED_BYTES_MAX", 200_000)
    found = listed(tree)
    assert found.truncated
    assert sum(beneath._answer_bytes(entry) for entry in found.entries) < 300_000
    assert beneath._LISTED_BYTES_MAX < wire.MESSAGE_BYTES_MAX
    remove(str(tree.parent), "tree")


def test_a_listing_that_takes_too_long_ends_with_what_it_has(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        (tree / str(number)).mkdir()
    monkeypatch.setattr(beneath, "_LISTED_SECONDS_MAX", -1.0)
    assert listed(tree).truncated


def test_names_are_sorted_and_cut_at_the_limit(tree: Path) -> None:
    for number in (3, 1, 2):
        (tree / str(number)).touch()
    assert [entry.path for entry in listed(tree).entries] == ["1", "2", "3"]
    assert not listed(tree, limit=3).truncated
    cut = listed(tree, limit=2)
    assert ([entry.path for entry in cut.entries], cut.truncated) == (["1", "2"], True)


def test_a_folder_is_read_page_by_page_and_each_name_is_there_once(tree: Path) -> None:
    names = sorted([*(f"file-{number:03}" for number in range(50)), os.fsdecode(b"\xff\n"), "深"])
    for name in names:
        (tree / name).touch()
    memory, seen, start = beneath.Names(), [], ""
    while True:
        page = list_directory(str(tree.parent), tree.name, limit=7, start=start, memory=memory)
        seen += [entry.path for entry in page.entries]
        if page.next is None:
            break
        (tree / "aaa").touch()  # What comes behind us is in no later page.
        start = page.next
    assert seen == names
    assert not page.truncated


def test_the_names_of_a_folder_are_read_again_when_they_change_and_not_else(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    read = beneath._names
    monkeypatch.setattr(beneath, "_names", lambda *given: reads.append(1) or read(*given))
    memory = beneath.Names()

    def names() -> list[str]:
        return [entry.path for entry in list_directory(str(tree.parent), tree.name, limit=7, memory=memory).entries]

    (tree / "a").touch()
    os.utime(tree, ns=(0, 1))  # Long ago: no other change has the same time.
    assert (names(), names(), len(reads)) == (["a"], ["a"], 1)
    (tree / "b").touch()
    os.utime(tree, ns=(0, time.time_ns() + 3_600 * 10**9))  # Just now, however long the test stands still.
    assert (names(), names(), len(reads)) == (["a", "b"], ["a", "b"], 3)  # It may change again within one tick.


def test_what_is_measured_is_what_a_listing_says(tree: Path) -> None:
    for path, size in {"old/a": 3, "old/sub/b": 4, "new/c": 5, "half.tmp/d": 6, "single": 7}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(b"x" * size)
    (tree / "empty").mkdir()
    for number, name in enumerate(("single", "old", "new", "half.tmp", "empty")):
        os.utime(tree / name, (number, number))
    found = beneath.measure_tree(str(tree.parent), tree.name, depth=1, half_written=(".tmp",), limit=1_000)
    assert (found.file_count, found.length_bytes, found.half_written, found.truncated) == (5, 25, ("half.tmp",), False)
    assert [entry.path for entry in found.newest] == ["new"]  # Neither what is half written nor what is empty.
    below = beneath.measure_tree(str(tree.parent), tree.name, depth=2, half_written=(".tmp",), limit=1_000)
    assert {entry.path for entry in below.newest} == {"old/a", "new/c", "half.tmp/d"}
    assert beneath.measure_tree(str(tree.parent), tree.name, depth=0, half_written=(), limit=3).truncated


def test_what_is_too_deep_to_be_copied_is_refused_and_not_tried_for_ever(tree: Path) -> None:
    dig(tree, "d", 100)
    (tree.parent / "copy").mkdir()
    with pytest.raises(OSError, match="64 deep") as told:
        copy_tree(str(tree.parent), "tree", "copy", seconds=60)
    assert told.value.errno == errno.ENAMETOOLONG


def test_a_hole_counts_by_what_it_holds_and_is_passed_over_at_once(tree: Path) -> None:
    with (tree / "hole").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 39)
        file.write(b"middle")
    [entry] = listed(tree).entries
    (tree.parent / "copy").mkdir()
    assert (entry.size_bytes, entry.held_bytes <= 1 << 20) == (1 << 40, True)
    assert copy_tree(str(tree.parent), "tree", "copy", seconds=60)
    copied = (tree.parent / "copy" / "hole").stat()
    assert (copied.st_size, copied.st_blocks * 512 <= 1 << 22) == (1 << 40, True)


def test_a_copy_keeps_holes_and_takes_nothing_for_a_beginning_of_its_own(tree: Path) -> None:
    with (tree / "model").open("wb") as file:
        file.truncate(64 * 1024 * 1024)
        file.seek(0, os.SEEK_END)
        file.write(b"end")
    (tree / f"{beneath.COPY_PART}0123").write_bytes(b"EVIL")
    os.utime(tree / f"{beneath.COPY_PART}0123", (1, 1))
    copy = tree.parent / "copy"
    copy.mkdir()
    assert copy_tree(str(tree.parent), "tree", "copy", seconds=60)
    assert os.listdir(copy) == ["model"]
    assert (copy / "model").stat().st_size == (tree / "model").stat().st_size
    assert (copy / "model").stat().st_blocks * 512 < 8 * 1024 * 1024
    assert (copy / "model").read_bytes()[-3:] == b"end"


def test_a_tree_that_its_owner_closed_is_removed(tree: Path) -> None:
    (tree / "inner").mkdir()
    (tree / "inner" / "file").touch()
    (tree / "inner").chmod(0o555)
    tree.chmod(0)
    remove(str(tree.parent), "tree")
    assert not tree.exists()


def test_nothing_that_its_maker_put_in_the_way_keeps_a_deep_tree(tree: Path) -> None:
    """What lies too deep is moved up: names there that could be guessed were taken by the maker, and the tree stayed for ever."""
    for number in range(20):
        dig(tree, f"deep{number}", beneath._DEPTH_MAX + 2)
        (tree / f".lifted-{os.getpid()}-{number + 1}" / "inside").mkdir(parents=True)
    remove(str(tree.parent), "tree")
    assert not tree.exists()


def test_a_long_directory_is_removed_piece_by_piece(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beneath, "_ENTRIES_AT_ONCE", 7)
    for number in range(300):
        (tree / f"{number}{'n' * 100}").touch()
    for number in range(5):
        dig(tree, f"deep{number}", 3 * beneath._DEPTH_MAX)
    remove(str(tree.parent), "tree")
    assert not tree.exists()


def test_a_removal_that_takes_too_long_goes_on_when_it_is_asked_for_again(tree: Path) -> None:
    for number in range(50):
        dig(tree, f"deep{number}", beneath._DEPTH_MAX + 2)
    assert not remove(str(tree.parent), "tree", seconds=-1.0)
    assert len(list(tree.iterdir())) == 50
    tries = 0
    while not remove(str(tree.parent), "tree", seconds=0.002):
        tries += 1
    assert tries
    assert not tree.exists()
    assert remove(str(tree.parent), "tree", seconds=-1.0), "absent is done"
